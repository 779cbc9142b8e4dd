// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// Propose files a rule that a program in a VM wants in the VM's network policy, with the
// program's reason, and returns the ask. A proposal that is pending already is returned as
// it is. Kinds: those of egress.CheckRule; Denied for addresses that only an administrator
// may open; Exists (code ASK_NEEDLESS) when the policy allows it; Limit.
func (a *Asks) Propose(ctx context.Context, c *vm.Call, v vm.VM, rule vm.NetRule, why string) (ask vm.Ask, err error) {
	defer func() { err = vm.WithOp(vm.OpAsk, rule.To, err) }()
	if why, err = text("why", why); err != nil {
		return ask, err
	}
	rule.ID, rule.From, rule.Until, rule.Limit = "", "", time.Time{}, vm.NetLimit{}
	rule.Action = cmp.Or(rule.Action, vm.NetAllow)
	if rule.Action != vm.NetAllow {
		return ask, vm.Errorf(vm.Invalid, string(rule.Action), "only a rule that allows can be proposed").WithCode("INVALID_REQUEST")
	}
	rule = egress.Canonical(rule)
	if err := egress.CheckRule(rule); err != nil {
		return ask, err
	}
	if egress.NeedsAdmin(rule) {
		return ask, vm.Errorf(vm.Denied, rule.To, "only an administrator may open an address that is not public").WithCode("FORBIDDEN").
			WithHint("ask the server's administrator to allow it: `warren net allow`")
	}
	if now, ok := a.vms.VMOf(v.ID); ok {
		v = now
	}
	widens := a.widens(v, rule)
	if len(widens) == 0 {
		return ask, vm.Errorf(vm.Exists, rule.To, "the network policy allows this already").WithCode("ASK_NEEDLESS").
			WithHint("try the request again")
	}
	a.write.Lock()
	defer a.write.Unlock()
	for _, old := range a.table.By(byVM, string(v.ID)) {
		if old.Kind == vm.AskNetwork && old.Rule != nil && reflect.DeepEqual(*old.Rule, rule) {
			if old = a.current(ctx, old); old.State == vm.AskPending {
				return old, nil
			}
		}
	}
	now := a.now()
	data, err := json.Marshal(rule)
	if err != nil {
		return ask, vm.Errorf(vm.Internal, rule.To, "the rule cannot be encoded: %w", err)
	}
	sum := sha256.Sum256(data)
	ask = vm.Ask{
		ID: vm.NewAskID(), Kind: vm.AskNetwork, Account: v.Account, VM: v.ID, Verb: vm.OpNetwork, What: string(rule.Action) + " " + rule.Text(), Digest: hex.EncodeToString(sum[:]), Size: len(data),
		Rule: &rule, Widens: widens, Why: why, State: vm.AskPending, CreatedAt: now, Deadline: now.Add(RuleWait),
	}
	return ask, a.create(ctx, c, ask)
}

// widens says what a rule would newly allow a VM.
func (a *Asks) widens(v vm.VM, rule vm.NetRule) []string {
	wider := v.Network
	wider.Rules = append([]vm.NetRule{rule}, wider.Rules...)
	list := egress.Widens(v.Network, wider)
	const most = 20
	if len(list) > most {
		list = append(list[:most:most], strconv.Itoa(len(list)-most)+" more")
	}
	return list
}

// text checks a text that somebody gives for people to read.
func text(what, s string) (string, error) {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxWhy {
		return "", vm.Errorf(vm.Invalid, what, "%d bytes are more than %d", len(s), maxWhy).WithCode("INVALID_REQUEST").WithHint("say it shorter")
	}
	return s, nil
}

// create stores a new ask, with its audit record and event. The caller holds write.
func (a *Asks) create(ctx context.Context, c *vm.Call, ask vm.Ask) (err error) {
	if err := a.room(ctx, ask); err != nil {
		return err
	}
	end, err := a.cfg.Journal.Record(ctx, &vm.Call{Actor: c.Actor, Request: c.Request}, vm.AuditEntry{Op: vm.OpAsk, VM: ask.VM, Subject: ask.ID, Detail: a.facts(ask)})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	if err = a.table.Create(ctx, ask); err != nil {
		return err
	}
	a.tell("ask.created", ask)
	a.poke()
	return nil
}

// room refuses a further ask beyond the limits.
func (a *Asks) room(ctx context.Context, ask vm.Ask) error {
	full := func(have, most int) error {
		return vm.Errorf(vm.Limit, string(ask.VM), "%d asks wait for a decision already", have).
			WithCode("LIMIT_EXCEEDED", "limit", most, "current", have).WithHint("decide some: `warren ask ls`")
	}
	mine := a.table.By(byIdentity, string(ask.Identity))
	if ask.Identity == "" {
		mine = slices.DeleteFunc(a.table.By(byVM, string(ask.VM)), func(o vm.Ask) bool { return o.Identity != "" })
	}
	if len(mine) >= maxPending {
		return full(len(mine), maxPending)
	}
	if all := a.table.By(byPending, string(ask.Account)); len(all) >= maxAccount {
		return full(len(all), maxAccount)
	}
	return a.prune(ctx, ask.Account)
}

// prune removes the account's decided asks that are old or too many.
func (a *Asks) prune(ctx context.Context, account vm.AccountID) error {
	var decided []vm.Ask
	for _, ask := range a.table.By(byAccount, string(account)) {
		if ask.State != vm.AskPending {
			decided = append(decided, ask)
		}
	}
	slices.SortFunc(decided, func(x, y vm.Ask) int { return y.DecidedAt.Compare(x.DecidedAt) })
	for i, ask := range decided {
		if i < maxDecided && a.now().Sub(ask.DecidedAt) < keepDecided {
			continue
		}
		if err := a.table.Drop(ctx, ask.ID); err != nil {
			return err
		}
	}
	return nil
}

// commands are what records say of an ask for a command, if they have no arguments of commands.
var commands = map[vm.Op]string{vm.OpExec: "a command", vm.OpTerminal: "a terminal", vm.OpService: "a service"}

// facts is what audit records and events say about an ask.
func (a *Asks) facts(ask vm.Ask) map[string]any {
	d := map[string]any{"ask": ask.ID, "kind": string(ask.Kind), "verb": string(ask.Verb), "what": vm.Clip(ask.What, 512), "deadline": ask.Deadline}
	if ask.Digest != "" {
		d["sha256"], d["size"] = ask.Digest, ask.Size
	}
	if text := commands[ask.Verb]; text != "" && (a.cfg.Args == vm.ArgsDigest || a.cfg.Args == vm.ArgsNone) {
		d["what"] = text
		if a.cfg.Args == vm.ArgsNone {
			delete(d, "sha256") // of a short command it tells the command
			delete(d, "size")
		}
	}
	if ask.Identity != "" {
		d["identity"] = string(ask.Identity)
	}
	if ask.Rule != nil {
		d["rule"], d["widens"] = *ask.Rule, ask.Widens
	}
	return d
}

// tell stores an event about an ask, and has the webhook called.
func (a *Asks) tell(kind string, ask vm.Ask) {
	d := a.facts(ask)
	d["state"] = string(ask.State)
	if ask.DecidedBy != "" {
		d["by"] = ask.DecidedBy
	}
	a.cfg.Journal.Emit(vm.Event{Type: kind, VM: ask.VM, Account: ask.Account, Data: d})
	a.deliver(kind, ask)
}
