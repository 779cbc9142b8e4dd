// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy decides what each VM's network policy says. It turns words and rules into
// policies, changes the policies of VMs, and keeps the named policies of accounts. A VM that
// uses a named policy has a copy of its rules: when the named policy changes, the room
// changes the copies, at once where the VM is free and else soon. Package egress judges
// requests under a policy; the engine stores policies and applies them.
package policy

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Engine is what the room needs of the engine.
type Engine interface {
	// Find returns the VM that ref names among those that the actor may see. Kinds
	// NotFound, Invalid and Denied.
	Find(a vm.Actor, ref string) (vm.VM, error)
	// VMOf returns the VM with an id, of any account.
	VMOf(id vm.ID) (vm.VM, bool)
	// VMsWhere returns the VMs of all accounts that pass; pass must not call the engine.
	VMsWhere(pass func(*vm.VM) bool) []vm.VM
	ChangeNetwork(ctx context.Context, c *vm.Call, ref string, n engine.NetworkEdit) (vm.NetworkChanged, error)
}

// Config holds the dependencies of the room.
type Config struct {
	Journal *journal.Journal
	Clock   engine.Clock
	Log     *slog.Logger
}

// Policy is the room. Its methods may be called concurrently.
type Policy struct {
	cfg    Config
	engine Engine // set by Open

	named *ledger.Table[string, vm.NamedPolicy]

	write sync.Mutex // held from the check of a named policy until its record is stored

	wake chan struct{} // a named policy changed
	end  context.CancelFunc
	done chan struct{} // closed when the task has ended; nil before Open
}

const byAccount = "account"

// Kind is the table of named policies. They belong to all servers that share the store.
var Kind = ledger.Kind[string, vm.NamedPolicy]{
	Name: "policies",
	Key:  func(p *vm.NamedPolicy) string { return key(p.Account, p.Name) },
	Index: map[string]func(*vm.NamedPolicy) []string{
		byAccount: func(p *vm.NamedPolicy) []string { return []string{string(p.Account)} },
	},
}

func key(a vm.AccountID, name string) string { return string(a) + "." + name }

// New returns the room with its table in the ledger. Load the ledger next, then call Open.
func New(l *ledger.Ledger, cfg Config) *Policy {
	p := &Policy{cfg: cfg, wake: make(chan struct{}, 1)}
	kind := Kind
	kind.Changed = func(_, _ *vm.NamedPolicy) { p.nudge() }
	p.named = ledger.Add(l, kind)
	return p
}

// followEvery is how often the room compares VMs with the named policies that they use.
const followEvery = 5 * time.Second

// Open starts the task that keeps VMs at the present text of the named policies they use.
// Close ends it.
func (p *Policy) Open(ctx context.Context, e Engine) {
	p.engine = e
	ctx, p.end = context.WithCancel(context.WithoutCancel(ctx))
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			p.follow(ctx)
			after, stop := p.cfg.Clock.After(followEvery)
			select {
			case <-after:
			case <-p.wake:
			case <-ctx.Done():
			}
			stop()
		}
	}()
}

// Close ends the task and waits for it until ctx ends.
func (p *Policy) Close(ctx context.Context) error {
	if p.done == nil {
		return nil
	}
	p.end()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Policy) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// follow changes the VMs of this server whose rules are not those of the named policies
// that they use. A VM that is busy is tried again later.
func (p *Policy) follow(ctx context.Context) {
	for _, v := range p.engine.VMsWhere(func(v *vm.VM) bool { return len(v.Network.Named) > 0 }) {
		if _, changed := p.recompiled(v.Account, v.Network); !changed || ctx.Err() != nil {
			continue
		}
		c := &vm.Call{Actor: vm.Actor{Account: v.Account, System: "policy"}}
		if _, err := p.refresh(ctx, c, v); err != nil && vm.KindOf(err) != vm.Busy && vm.KindOf(err) != vm.NotFound {
			p.cfg.Log.Warn("a VM has not the present rules of its named policies", "vm", v.ID, "err", err)
		}
	}
}

// refresh gives a VM the present rules of the named policies that it uses.
func (p *Policy) refresh(ctx context.Context, c *vm.Call, v vm.VM) (vm.NetworkChanged, error) {
	return p.engine.ChangeNetwork(ctx, c, string(v.ID), engine.NetworkEdit{Edit: func(rec vm.VM, n *vm.NetworkPolicy) error {
		*n, _ = p.recompiled(rec.Account, *n)
		return bounded(*n)
	}})
}

// find returns a policy by its name: one of the account's, or a shipped one.
func (p *Policy) find(a vm.AccountID, name string) (vm.NamedPolicy, error) {
	if s, ok := shippedNamed(name); ok {
		return s, nil
	}
	if n, ok := p.named.Get(key(a, name)); ok {
		return n, nil
	}
	return vm.NamedPolicy{}, vm.Errorf(vm.NotFound, name, "the account has no network policy of this name").WithCode("POLICY_NOT_FOUND", "policy", name).
		WithHint("`warren policy ls` lists them")
}

func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most]
	}
	return strings.ToLower(s)
}
