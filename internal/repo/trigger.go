// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

const (
	maxTriggers        = 20  // of one repository
	maxPending         = 100 // deliveries of one trigger that wait
	maxDeliveries      = 50  // deliveries of one trigger that are kept when they have ended
	maxTriggerPatterns = 50
	globTime           = 5 * time.Second // to find the files that a push changed
)

const (
	byRepo    = "repo" // indexes
	byTrigger = "trigger"
	byState   = "state"
)

// TriggerKind is the table of triggers.
var TriggerKind = ledger.Kind[string, vm.Trigger]{
	Name: "repo-triggers",
	Key:  func(t *vm.Trigger) string { return t.ID },
	Host: func(t *vm.Trigger) *string { return &t.Host },
	Index: map[string]func(*vm.Trigger) []string{
		byRepo: func(t *vm.Trigger) []string { return []string{t.Repo} },
	},
	Limit: ledger.Limit[vm.Trigger]{
		Most: 1000, Owner: func(t *vm.Trigger) string { return string(t.Account) },
		What: "triggers of repositories", Then: "remove one (`warren repo trigger rm`)",
	},
}

// DeliveryKind is the table of deliveries.
var DeliveryKind = ledger.Kind[string, vm.Delivery]{
	Name: "repo-deliveries",
	Key:  func(d *vm.Delivery) string { return d.ID },
	Host: func(d *vm.Delivery) *string { return &d.Host },
	Index: map[string]func(*vm.Delivery) []string{
		byTrigger: func(d *vm.Delivery) []string { return []string{d.Trigger} },
		byState:   func(d *vm.Delivery) []string { return []string{d.State} },
	},
}

// TriggerRequest describes a trigger.
type TriggerRequest struct {
	On     vm.TriggerOn
	Does   vm.TriggerDoes
	Secret string // signs the deliveries; "" = a new one
}

// check returns the webhook's URL.
func (t *TriggerRequest) check() error {
	bad := func(subject, format string, args ...any) *vm.Error {
		return vm.Errorf(vm.Invalid, subject, format, args...).WithCode("GIT_INVALID_REQUEST")
	}
	t.On.Event, t.Does.Action = cmp.Or(t.On.Event, vm.EventPush), cmp.Or(t.Does.Action, vm.ActionWebhook)
	switch {
	case t.On.Event != vm.EventPush:
		return bad(t.On.Event, "not an event").WithHint("the only event is push")
	case t.Does.Action != vm.ActionWebhook:
		return bad(t.Does.Action, "not an action").WithHint("the only action is webhook")
	case len(t.On.Branches) > maxTriggerPatterns || len(t.On.Globs) > maxTriggerPatterns:
		return bad("trigger", "more than %d patterns", maxTriggerPatterns)
	case t.Secret != "" && (len(t.Secret) < 16 || len(t.Secret) > 256):
		return bad("secret", "a secret has 16 to 256 characters").WithHint("leave it out, and the server makes one")
	}
	for _, p := range t.On.Branches {
		if p == "" || len(p) > 255 {
			return bad("branches", "a pattern of branches has 1 to 255 characters")
		}
	}
	for _, g := range t.On.Globs {
		if _, err := globExpression(g, true); err != nil || g == "" {
			return bad(g, "not a pattern of files").WithHint("a pattern looks like src/**/*.ts")
		}
	}
	return nil
}

// CreateTrigger makes a trigger. Only keys of the account may. Kinds Invalid, Limit, and
// Denied for an address that the server does not call.
func (r *Repo) CreateTrigger(ctx context.Context, c *vm.Call, ref string, req TriggerRequest) (t vm.Trigger, err error) {
	defer func() { err = vm.WithOp(vm.OpTrigger, ref, err) }()
	rec, _, err := r.find(c, ref, Own)
	if err != nil {
		return t, err
	}
	if err := req.check(); err != nil {
		return t, err
	}
	u, err := outside.CheckURL(req.Does.Endpoint)
	if err == nil {
		err = r.cfg.Net.CheckHost(ctx, u)
	}
	if err != nil {
		e := vm.AsError(err)
		if e.Kind == vm.Invalid {
			e = e.WithCode("GIT_INVALID_REQUEST")
		}
		return t, e
	}
	if have := len(r.triggers.By(byRepo, rec.ID)); have >= maxTriggers {
		return t, vm.Errorf(vm.Limit, ref, "the repository has %d triggers, and may have no more", have).
			WithCode("LIMIT_EXCEEDED", "limit", maxTriggers, "current", have).WithHint("remove one: `warren repo trigger rm`")
	}
	end, err := r.cfg.Journal.Record(ctx, c, vm.AuditEntry{Op: vm.OpTrigger, Subject: rec.ID, Detail: map[string]any{"create": u.Redacted()}})
	if err != nil {
		return t, err
	}
	defer func() { end(err, map[string]any{"trigger": t.ID}) }()
	t = vm.Trigger{
		ID: vm.NewUUID(), Repo: rec.ID, Account: rec.Account, On: req.On, Does: req.Does,
		Secret: cmp.Or(req.Secret, "whs_"+rand.Text()), CreatedAt: r.cfg.Now(),
	}
	return t, r.triggers.Create(ctx, t)
}

// Triggers lists the triggers of a repository, the oldest first, without their secrets.
func (r *Repo) Triggers(_ context.Context, c *vm.Call, ref string) ([]vm.Trigger, error) {
	rec, _, err := r.find(c, ref, Own)
	if err != nil {
		return nil, vm.WithOp(vm.OpTrigger, ref, err)
	}
	list := r.triggers.By(byRepo, rec.ID)
	slices.SortFunc(list, func(a, b vm.Trigger) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	for i := range list {
		list[i].Secret = ""
	}
	return list, nil
}

// trigger finds one trigger of a repository.
func (r *Repo) trigger(c *vm.Call, ref, id string) (vm.Trigger, error) {
	rec, _, err := r.find(c, ref, Own)
	if err != nil {
		return vm.Trigger{}, err
	}
	t, ok := r.triggers.Get(id)
	if !ok || t.Repo != rec.ID {
		return t, vm.Errorf(vm.NotFound, id, "no such trigger").WithHint("`warren repo trigger ls %s` lists triggers", ref)
	}
	return t, nil
}

// RemoveTrigger removes a trigger with its deliveries. Calls that wait are not made.
func (r *Repo) RemoveTrigger(ctx context.Context, c *vm.Call, ref, id string) (err error) {
	defer func() { err = vm.WithOp(vm.OpTrigger, ref, err) }()
	t, err := r.trigger(c, ref, id)
	if err != nil {
		return err
	}
	end, err := r.cfg.Journal.Record(ctx, c, vm.AuditEntry{Op: vm.OpTrigger, Subject: t.Repo, Detail: map[string]any{"remove": t.ID}})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	return r.dropTrigger(ctx, t)
}

func (r *Repo) dropTrigger(ctx context.Context, t vm.Trigger) error {
	if err := r.triggers.Drop(ctx, t.ID); err != nil {
		return err
	}
	for _, d := range r.deliveries.By(byTrigger, t.ID) {
		if err := r.deliveries.Drop(ctx, d.ID); err != nil {
			return err
		}
	}
	return nil
}

// dropTriggers removes the triggers of a repository that is removed.
func (r *Repo) dropTriggers(ctx context.Context, id string) error {
	for _, t := range r.triggers.By(byRepo, id) {
		if err := r.dropTrigger(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// Deliveries lists the calls of a trigger, the newest first.
func (r *Repo) Deliveries(_ context.Context, c *vm.Call, ref, id string) ([]vm.Delivery, error) {
	t, err := r.trigger(c, ref, id)
	if err != nil {
		return nil, vm.WithOp(vm.OpTrigger, ref, err)
	}
	return r.deliveriesOf(t.ID), nil
}

func (r *Repo) deliveriesOf(trigger string) []vm.Delivery {
	list := r.deliveries.By(byTrigger, trigger)
	slices.SortFunc(list, func(a, b vm.Delivery) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	return list
}

// pushed records the calls that changes of refs lead to. The refs have changed already,
// so a failure is only logged.
func (r *Repo) pushed(ctx context.Context, rec vm.Repository, who vm.Actor, changes []refChange) {
	triggers := r.triggers.By(byRepo, rec.ID)
	if len(triggers) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for _, one := range changes {
		ch := vm.RefChange{Ref: one.name, Before: realID(one.was), After: realID(one.now)}
		branch, is := strings.CutPrefix(ch.Ref, "refs/heads/")
		if !is {
			continue
		}
		var changed []string // files; found when a trigger asks
		known := false
		for _, t := range triggers {
			if len(t.On.Branches) > 0 && !vm.MatchBranch(t.On.Branches, branch) {
				continue
			}
			if len(t.On.Globs) > 0 && !known {
				changed, known = r.changedFiles(ctx, rec.ID, ch), true
			}
			if !touches(t.On.Globs, changed) {
				continue
			}
			if err := r.enqueue(ctx, t, who, ch); err != nil {
				r.cfg.Log.Warn("a webhook will not be called", "repository", rec.ID, "trigger", t.ID, "err", err)
			}
		}
	}
	r.hooks.poke()
}

// realID is "" for the id that stands for none.
func realID(id string) string {
	if id == zeroID {
		return ""
	}
	return id
}

// touches reports whether a glob matches a changed file; no globs match any.
func touches(globs, files []string) bool {
	for _, g := range globs {
		if re, err := globExpression(g, true); err == nil && slices.ContainsFunc(files, re.MatchString) {
			return true
		}
	}
	return len(globs) == 0
}

// changedFiles lists the files that differ between the two ends of a change.
func (r *Repo) changedFiles(ctx context.Context, id string, ch vm.RefChange) []string {
	ctx, stop := context.WithTimeout(ctx, globTime)
	defer stop()
	args := []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", ch.Before, ch.After}
	switch {
	case ch.After == "":
		return nil
	case ch.Before == "":
		args = []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", ch.After}
	}
	out, err := r.output(ctx, id, args...)
	if err != nil {
		r.cfg.Log.Warn("the files of a push are not known, so no pattern matches", "repository", id, "err", err)
		return nil
	}
	var list []string
	for name := range bytes.SplitSeq(out, []byte{0}) {
		if len(name) > 0 {
			list = append(list, string(name))
		}
	}
	return list
}

// enqueue records one call.
func (r *Repo) enqueue(ctx context.Context, t vm.Trigger, who vm.Actor, ch vm.RefChange) error {
	now := r.cfg.Now()
	d := vm.Delivery{
		ID: vm.NewUUID(), Trigger: t.ID, Repo: t.Repo, Change: ch, Pusher: pusher(who), CreatedAt: now, State: vm.DeliveryPending, NextAt: now,
	}
	old := r.deliveriesOf(t.ID)
	waiting, ended := 0, 0
	for _, o := range old {
		if o.State == vm.DeliveryPending {
			waiting++
		} else if ended++; ended >= maxDeliveries {
			if err := r.deliveries.Drop(ctx, o.ID); err != nil && vm.KindOf(err) != vm.NotFound {
				return err
			}
		}
	}
	if waiting >= maxPending {
		d.State, d.NextAt, d.Problem = vm.DeliveryFailed, time.Time{}, "too many calls of this trigger wait already"
	}
	return r.deliveries.Create(ctx, d)
}

// pusher names who changed a ref.
func pusher(who vm.Actor) string {
	switch {
	case who.VM != "":
		return "vm:" + string(who.VM)
	case who.Identity != "":
		return "identity:" + string(who.Identity)
	}
	return "account:" + string(who.Account)
}
