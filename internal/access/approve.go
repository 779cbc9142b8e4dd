// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// Act is what a call would do, for the one who decides about it.
type Act struct {
	Verb vm.Op
	User string // Linux user that it acts as; "" = the verb acts as none
	What string // the command, the path, the name
	// Details are further facts that matter for the decision.
	Details map[string]string
	// All is everything that the call would do, for its digest; nil = What and Details.
	All any
}

// Approve lets a call continue. If the permission of the calling identity makes the right of
// the verb depend on approval, Approve waits for the decision, and sets the approval in c.
// Other callers continue at once. A verb with an audit record calls it before anything happens;
// see Cleared. It blocks until the decision, its deadline, or the end of ctx or of the
// caller's right. Kinds: Denied, WrongState, Limit; see asks.Call.
func (a *Access) Approve(ctx context.Context, c *vm.Call, v vm.VM, act Act) error {
	if c.Actor.Identity == "" || !a.mustAsk(c.Actor, v.ID, vm.AskRightOf(act.Verb)) {
		return nil
	}
	return a.waitFor(ctx, c, v, act)
}

// ApproveAsOwner is Approve for a verb that only the owner of an account may use: an
// identity may after an approval, and is refused unless its permission says that it asks.
func (a *Access) ApproveAsOwner(ctx context.Context, c *vm.Call, v vm.VM, act Act) error {
	if c.Actor.Identity == "" || !a.mustAsk(c.Actor, v.ID, vm.AskRightOf(act.Verb)) {
		return c.Actor.OwnerOnly(string(v.ID))
	}
	err := a.waitFor(ctx, c, v, act)
	c.Actor.AsOwner = err == nil
	return err
}

// Asks reports whether an identity's permission for a VM makes the right of a verb depend on
// approval.
func (a *Access) Asks(who vm.Actor, id vm.ID, verb vm.Op) bool {
	return who.Identity != "" && a.mustAsk(who, id, vm.AskRightOf(verb))
}

func (a *Access) mustAsk(who vm.Actor, id vm.ID, right vm.AskRight) bool {
	p, ok := a.permission(who.Identity, id)
	return ok && right != "" && slices.Contains(p.Ask, right)
}

func (a *Access) waitFor(ctx context.Context, c *vm.Call, v vm.VM, act Act) error {
	c.Actor.Ask, c.Actor.AskedFor, c.Actor.AsOwner = "", "", false
	if err := a.May(c.Actor, v.ID, act.Verb, act.User); err != nil {
		return err
	}
	if a.rooms.Ask == nil {
		return vm.WithOp(act.Verb, string(v.ID), vm.Errorf(vm.Denied, string(v.ID), "nobody can approve it on this server").WithCode("ASK_DENIED"))
	}
	ask, err := askOf(c, v, act)
	if err != nil {
		return err
	}
	ctx, stop := a.Session(ctx, c, string(v.ID), AsUser(act.Verb, act.User))
	defer stop()
	ask, err = a.rooms.Ask(ctx, c, ask)
	if err != nil {
		return vm.WithOp(act.Verb, string(v.ID), err)
	}
	c.Actor.Ask, c.Actor.AskedFor = ask.ID, vm.AskRightOf(act.Verb)
	return nil
}

// cut marks where a text was cut.
const cut = " [cut: the rest is not stored; the digest is of all]"

// askOf describes an act. What is too long to be stored is cut, and says so.
func askOf(c *vm.Call, v vm.VM, act Act) (vm.Ask, error) {
	all := act.All
	if all == nil {
		all = map[string]any{"what": act.What, "details": act.Details}
	}
	data, err := json.Marshal(map[string]any{"verb": act.Verb, "vm": v.ID, "user": act.User, "do": all})
	if err != nil {
		return vm.Ask{}, vm.Errorf(vm.Internal, string(act.Verb), "the call cannot be described: %w", err)
	}
	sum := sha256.Sum256(data)
	ask := vm.Ask{
		Account: v.Account, VM: v.ID, Identity: c.Actor.Identity, Verb: act.Verb, What: stored(act.What),
		Digest: hex.EncodeToString(sum[:]), Size: len(act.What), Details: map[string]string{},
	}
	for name, text := range act.Details {
		if text != "" {
			ask.Details[name] = stored(text)
		}
	}
	if user := AsUser(act.Verb, act.User); user != "" {
		ask.Details["user"] = user
	}
	return ask, nil
}

func stored(s string) string {
	if len(s) <= vm.MaxAskText {
		return s
	}
	return vm.Clip(s, vm.MaxAskText-len(cut)-len("…")) + cut
}

// Cleared fails for a call that needs an approval and has none: the room that carries out
// the verb has not asked. Kind Denied, code APPROVAL_REQUIRED. Nothing is done without it:
// it is called where the audit record of a verb is written.
func (a *Access) Cleared(who vm.Actor, id vm.ID, verb vm.Op) error {
	right := vm.AskRightOf(verb)
	if who.Identity == "" || !a.mustAsk(who, id, right) || who.Ask != "" && who.AskedFor == right {
		return nil
	}
	return vm.Errorf(vm.Denied, string(id), "the identity may do this only with an approval, and this way does not ask for one").
		WithCode("APPROVAL_REQUIRED", "vmId", string(id), "right", string(right))
}
