// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const decidedCode = "ASK_DECIDED"

// Filter selects asks; a zero field selects all.
type Filter struct {
	VM    string // id or name
	State vm.AskState
	Kind  vm.AskKind
}

// sees reports whether an actor may see an ask: the account's keys see all of the account,
// an administrator all, an identity its own, and a VM its own proposals.
func sees(who vm.Actor, ask vm.Ask) bool {
	switch {
	case who.VM != "":
		return ask.VM == who.VM && ask.Account == who.Account && ask.Kind == vm.AskNetwork
	case who.Identity != "":
		return ask.Identity == who.Identity && ask.Account == who.Account
	}
	return who.Admin || ask.Account == who.Account
}

func missing(id string) error {
	return vm.Errorf(vm.NotFound, vm.Clip(id, 64), "there is no such ask").WithCode("ASK_NOT_FOUND").WithHint("list them: `warren ask ls --all`")
}

// find returns an ask that the caller may see, as it is now.
func (a *Asks) find(ctx context.Context, c *vm.Call, id string) (vm.Ask, error) {
	ask, ok := a.table.Get(id)
	if !ok || !sees(c.Actor, ask) {
		return vm.Ask{}, missing(id)
	}
	ask = a.current(ctx, ask)
	if v, ok := a.vms.VMOf(ask.VM); ok && ask.State == vm.AskPending && ask.Rule != nil {
		ask.Widens = a.widens(v, *ask.Rule) // by the policy of this moment
	}
	return ask, nil
}

// Get returns an ask. Kind NotFound, code ASK_NOT_FOUND, also for one that the caller may
// not see.
func (a *Asks) Get(ctx context.Context, c *vm.Call, id string) (vm.Ask, error) {
	ask, err := a.find(ctx, c, id)
	return ask, vm.WithOp(vm.OpGet, id, err)
}

// List returns the asks that the caller may see, the newest first.
func (a *Asks) List(ctx context.Context, c *vm.Call, f Filter) (out []vm.Ask, err error) {
	id := vm.ID("")
	if f.VM != "" {
		v, err := a.vms.Find(c.Actor, f.VM)
		if err != nil {
			return nil, vm.WithOp(vm.OpList, f.VM, err)
		}
		id = v.ID
	}
	list := a.table.By(byAccount, string(c.Actor.Account))
	if c.Actor.Admin && c.Actor.Identity == "" {
		list = a.table.All()
	}
	for _, ask := range list {
		if !sees(c.Actor, ask) || f.Kind != "" && ask.Kind != f.Kind || id != "" && ask.VM != id {
			continue
		}
		if ask = a.current(ctx, ask); f.State == "" || ask.State == f.State {
			out = append(out, ask)
		}
	}
	slices.SortFunc(out, func(x, y vm.Ask) int { return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), strings.Compare(x.ID, y.ID)) })
	return out, nil
}

// decidable finds an ask that the caller may decide: only a key of its account, or of an
// administrator, may.
func (a *Asks) decidable(ctx context.Context, c *vm.Call, id string) (vm.Ask, error) {
	if c.Actor.Identity != "" || c.Actor.VM != "" {
		return vm.Ask{}, vm.Errorf(vm.Denied, vm.Clip(id, 64), "only an API key of the account decides").WithCode("FORBIDDEN").WithHint("use an API key of the account")
	}
	ask, err := a.find(ctx, c, id)
	if err != nil {
		return ask, err
	}
	return ask, settled(ask)
}

// settled is the error for an ask that waits no longer.
func settled(ask vm.Ask) error {
	switch ask.State {
	case vm.AskPending:
		return nil
	case vm.AskExpired:
		return vm.Errorf(vm.WrongState, ask.ID, "its deadline has passed at %s, which counts as no", ask.Deadline.Format(time.RFC3339)).
			WithCode("ASK_EXPIRED", "ask", ask.ID).WithHint("ask again; a call can wait longer with --ask-timeout")
	case vm.AskEnded:
		return vm.Errorf(vm.WrongState, ask.ID, "nobody waits for it any more%s", because(ask.Note)).WithCode("ASK_ENDED", "ask", ask.ID).WithHint("ask again")
	}
	return vm.Errorf(vm.WrongState, ask.ID, "it was %s at %s", ask.State, ask.DecidedAt.Format(time.RFC3339)).
		WithCode(decidedCode, "ask", ask.ID, "state", string(ask.State)).WithHint("look at it: `warren ask show %s`", ask.ID)
}

func because(note string) string {
	if note == "" {
		return ""
	}
	return ": " + note
}

// Approve lets an ask happen: the waiting call runs, or the rule is in force when Approve
// returns, for a time (0 = until it is removed). It first claims the ask, so that a denial or
// the deadline in between cannot leave a rule behind. Kinds: NotFound; Denied for identities,
// VMs and other accounts; WrongState (codes ASK_DECIDED, ASK_EXPIRED, ASK_ENDED); those of
// Policies.Allow, after which the ask is pending again.
func (a *Asks) Approve(ctx context.Context, c *vm.Call, id string, length time.Duration, note string) (ask vm.Ask, err error) {
	defer func() { err = vm.WithOp(vm.OpApprove, id, err) }()
	if ask, err = a.decidable(ctx, c, id); err != nil {
		return ask, err
	}
	if note, err = text("note", note); err != nil {
		return ask, err
	}
	switch {
	case length < 0:
		return ask, vm.Errorf(vm.Invalid, "for", "the time is negative").WithCode("INVALID_REQUEST")
	case length > 0 && ask.Kind != vm.AskNetwork:
		return ask, vm.Errorf(vm.Invalid, ask.ID, "an approval of a call is for that call only").WithCode("INVALID_REQUEST").WithHint("leave out --for")
	case ask.Rule != nil && egress.NeedsAdmin(*ask.Rule) && !c.Actor.Admin:
		return ask, vm.Errorf(vm.Denied, ask.Rule.To, "only an administrator may open an address that is not public").WithCode("FORBIDDEN")
	}
	detail := a.facts(ask)
	detail["note"] = note
	if length > 0 {
		detail["for"] = length.String()
	}
	end, err := a.cfg.Journal.Record(ctx, c, vm.AuditEntry{Op: vm.OpApprove, VM: ask.VM, Subject: ask.ID, Detail: detail})
	if err != nil {
		return ask, err
	}
	defer func() { end(err, nil) }()
	ctx = context.WithoutCancel(ctx) // what is claimed is carried out
	a.hold(id, true)
	defer a.changed(id)
	defer a.hold(id, false)
	if ask, err = a.claim(ctx, ask, vm.AskApproved, c.Actor, note); err != nil {
		return ask, err
	}
	if ask.Rule != nil {
		if err = a.enforce(ctx, c, ask, length); err != nil {
			a.giveBack(ctx, ask)
			return ask, err
		}
	}
	a.tell("ask.approved", ask)
	return ask, nil
}

// enforce adds the rule of a claimed ask to the policy of its VM.
func (a *Asks) enforce(ctx context.Context, c *vm.Call, ask vm.Ask, length time.Duration) error {
	rule := *ask.Rule
	rule.From = ask.ID
	if length > 0 {
		rule.Until = a.now().Add(length)
	}
	// The account's VM, also where an administrator of another account decides.
	call := &vm.Call{Actor: c.Actor, Request: c.Request}
	call.Actor.Account = ask.Account
	_, err := a.policies.Allow(ctx, call, string(ask.VM), []vm.NetRule{rule})
	return err
}

// giveBack makes a claimed ask pending again, because its rule could not be put in force.
func (a *Asks) giveBack(ctx context.Context, ask vm.Ask) {
	_, err := a.table.Change(ctx, ask.ID, func(now *vm.Ask) error {
		if now.State == vm.AskApproved && now.DecidedAt.Equal(ask.DecidedAt) {
			now.State, now.DecidedAt, now.DecidedBy, now.Note = vm.AskPending, time.Time{}, "", ""
		}
		return nil
	})
	if err != nil {
		a.cfg.Log.Warn("an ask stays approved though its rule is not in force", "ask", ask.ID, "err", err)
	}
	a.poke()
}

// claim decides a pending ask, durably. Only one decision of an ask succeeds.
func (a *Asks) claim(ctx context.Context, ask vm.Ask, state vm.AskState, who vm.Actor, note string) (vm.Ask, error) {
	now := a.now()
	return a.table.Change(ctx, ask.ID, func(rec *vm.Ask) error {
		if err := settled(*rec); err != nil {
			return err
		}
		if late := !now.Before(rec.Deadline); late && (state == vm.AskApproved || state == vm.AskDenied) {
			expired := *rec
			expired.State = vm.AskExpired
			return settled(expired)
		}
		rec.State, rec.DecidedAt, rec.DecidedBy, rec.Note = state, now, name(who), note
		return nil
	})
}

// name says who decided.
func name(who vm.Actor) string {
	if who.System != "" {
		return who.System
	}
	return string(who.Account)
}

// Deny refuses an ask. Kinds as of Approve.
func (a *Asks) Deny(ctx context.Context, c *vm.Call, id, note string) (ask vm.Ask, err error) {
	defer func() { err = vm.WithOp(vm.OpDeny, id, err) }()
	if ask, err = a.decidable(ctx, c, id); err != nil {
		return ask, err
	}
	if note, err = text("note", note); err != nil {
		return ask, err
	}
	return a.settleAs(ctx, c, ask, vm.AskDenied, note)
}

// settle ends an ask without an approval, by Warren itself.
func (a *Asks) settle(ctx context.Context, ask vm.Ask, state vm.AskState, who vm.Actor, note string) (vm.Ask, error) {
	if who.Account == "" {
		who.Account = ask.Account
	}
	return a.settleAs(ctx, &vm.Call{Actor: who}, ask, state, note)
}

// settleAs ends an ask without an approval, with its audit record and event.
func (a *Asks) settleAs(ctx context.Context, c *vm.Call, ask vm.Ask, state vm.AskState, note string) (out vm.Ask, err error) {
	detail := a.facts(ask)
	detail["state"], detail["note"] = string(state), note
	end, err := a.cfg.Journal.Record(ctx, c, vm.AuditEntry{Op: vm.OpDeny, VM: ask.VM, Subject: ask.ID, Detail: detail})
	if err != nil {
		return ask, err
	}
	defer func() { end(err, nil) }()
	defer a.changed(ask.ID)
	if out, err = a.claim(ctx, ask, state, c.Actor, note); err != nil {
		return ask, err
	}
	a.tell("ask."+string(state), out)
	return out, nil
}
