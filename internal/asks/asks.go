// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package asks keeps what waits for a decision: rules of network policies that programs in
// VMs propose, and calls of identities that need approval. Only an API key of the account
// decides. Without a decision the answer is no.
package asks

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

const (
	maxPending  = 100  // of one VM's programs, or of one identity
	maxAccount  = 1000 // pending of one account
	maxDecided  = 1000 // of one account
	keepDecided = 7 * 24 * time.Hour

	// RuleWait is how long a proposal of a rule waits, and CallWait how long a call waits
	// unless its caller says otherwise. MaxCallWait bounds what a caller may say.
	RuleWait    = 24 * time.Hour
	CallWait    = 5 * time.Minute
	MaxCallWait = time.Hour

	maxWhy = 1 << 10 // bytes of a reason or a note
)

// Policies changes network policies.
type Policies interface {
	// Allow adds rules to a VM's policy, before all others where they came from an ask.
	Allow(ctx context.Context, c *vm.Call, ref string, rules []vm.NetRule) (vm.VM, error)
}

// VMs are the VMs of this server.
type VMs interface {
	// Find returns the VM that ref names among those that the actor may see. Kinds
	// NotFound, Invalid and Denied.
	Find(a vm.Actor, ref string) (vm.VM, error)
	// VMOf returns the VM with an id, of any account.
	VMOf(id vm.ID) (vm.VM, bool)
}

// Clock is the source of time.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed, unless stop is called
	// first.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// Config holds the dependencies of the room.
type Config struct {
	Journal *journal.Journal
	Clock   Clock
	Log     *slog.Logger
	Webhook Webhook
	// Args says which arguments of commands audit records and events have; "" = vm.ArgsFull. The
	// ask itself has all of them, and so has what the webhook gets.
	Args string
}

// Asks is the room. Its methods may be called concurrently.
type Asks struct {
	cfg      Config
	vms      VMs      // set by Open, like policies
	policies Policies // changes network policies
	table    *ledger.Table[string, vm.Ask]
	owns     func(host string) bool // reports whether a record's host is this one

	cancel context.CancelFunc
	tasks  sync.WaitGroup
	send   chan delivery // to the webhook
	wake   chan struct{} // the pending asks have changed

	write sync.Mutex // held from the check of the limits until an ask is stored

	mu sync.Mutex
	// guarded by mu
	watched  map[string]*watch
	settling map[string]bool // approved asks whose rule is not in force yet
}

// watch tells callers that wait for the decision of one ask.
type watch struct {
	users   int
	changed chan struct{} // closed at the next change
}

// The indexes of the table.
const (
	byAccount  = "account"
	byVM       = "vm"       // proposals of a VM's programs that are pending
	byIdentity = "identity" // asks of an identity that are pending
	byState    = "state"    // pending asks only
	byPending  = "pending"  // pending asks, by account
)

// Kind is the table of asks.
var Kind = ledger.Kind[string, vm.Ask]{
	Name: "asks",
	Key:  func(a *vm.Ask) string { return a.ID },
	Host: func(a *vm.Ask) *string { return &a.Host },
	Index: map[string]func(*vm.Ask) []string{
		byAccount:  func(a *vm.Ask) []string { return []string{string(a.Account)} },
		byVM:       ifPending(func(a *vm.Ask) string { return string(a.VM) }),
		byIdentity: ifPending(func(a *vm.Ask) string { return string(a.Identity) }),
		byState:    ifPending(func(*vm.Ask) string { return string(vm.AskPending) }),
		byPending:  ifPending(func(a *vm.Ask) string { return string(a.Account) }),
	},
}

func ifPending(value func(*vm.Ask) string) func(*vm.Ask) []string {
	return func(a *vm.Ask) []string {
		if v := value(a); a.State == vm.AskPending && v != "" {
			return []string{v}
		}
		return nil
	}
}

// New returns the room with its table in the ledger. Load the ledger next, then call Open.
func New(l *ledger.Ledger, cfg Config) *Asks {
	return &Asks{
		cfg: cfg, table: ledger.Add(l, Kind), owns: l.Owns, cancel: func() {},
		send: make(chan delivery, maxDeliveries), wake: make(chan struct{}, 1), watched: map[string]*watch{}, settling: map[string]bool{},
	}
}

// Open ends the asks of calls that an earlier server left, and starts the tasks that end
// asks at their deadlines and call the webhook. Call Close once.
func (a *Asks) Open(ctx context.Context, v VMs, p Policies) error {
	a.vms, a.policies = v, p
	for _, ask := range a.table.By(byState, string(vm.AskPending)) {
		if ask.Kind == vm.AskAction && a.owns(ask.Host) {
			if _, err := a.settle(ctx, ask, vm.AskEnded, vm.Actor{System: "recovery"}, "the server ended"); err != nil {
				return vm.WithOp(vm.OpServe, ask.ID, err)
			}
		}
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.tasks.Go(func() { a.expire(life) })   // ends with Close
	a.tasks.Go(func() { a.announce(life) }) // ends with Close
	return nil
}

// Close ends the room's tasks and waits for them until ctx ends.
func (a *Asks) Close(ctx context.Context) error {
	a.cancel()
	done := make(chan struct{})
	go func() { // ends with the tasks
		a.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return vm.WithOp(vm.OpServe, "", vm.Errorf(vm.Timeout, "", "the tasks of asks did not end: %w", context.Cause(ctx)))
	}
}

func (a *Asks) now() time.Time { return a.cfg.Clock.Now().UTC() }

// Forget removes the asks of an account that is gone.
func (a *Asks) Forget(ctx context.Context, account vm.AccountID) error {
	for _, ask := range a.table.By(byAccount, string(account)) {
		if err := a.table.Drop(ctx, ask.ID); err != nil {
			return err
		}
	}
	return nil
}

func (a *Asks) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// expireEvery bounds the pause between two looks for asks whose deadline has passed.
const expireEvery = time.Minute

// expire ends asks at their deadlines, and those of VMs that are gone.
func (a *Asks) expire(ctx context.Context) {
	for {
		wait := expireEvery
		for _, ask := range a.table.By(byState, string(vm.AskPending)) {
			if !a.owns(ask.Host) {
				continue
			}
			now := a.current(ctx, ask)
			if now.State == vm.AskPending {
				wait = min(wait, max(now.Deadline.Sub(a.now()), time.Millisecond))
			}
		}
		after, stop := a.cfg.Clock.After(wait)
		select {
		case <-after:
		case <-a.wake:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// current returns an ask as it is: at its deadline it expires, and with its VM it ends.
func (a *Asks) current(ctx context.Context, ask vm.Ask) vm.Ask {
	if ask.State != vm.AskPending {
		return ask
	}
	state, note := vm.AskPending, ""
	if ask.VM != "" {
		if v, ok := a.vms.VMOf(ask.VM); !ok || v.Account != ask.Account {
			state, note = vm.AskEnded, "the VM is gone"
		}
	}
	if state == vm.AskPending && !a.now().Before(ask.Deadline) {
		state = vm.AskExpired
	}
	if state == vm.AskPending {
		return ask
	}
	now, err := a.settle(context.WithoutCancel(ctx), ask, state, vm.Actor{Account: ask.Account, System: "asks"}, note)
	if err != nil && vm.AsError(err).Code != decidedCode && vm.KindOf(err) != vm.NotFound {
		a.cfg.Log.Warn("the end of an ask was not recorded", "ask", ask.ID, "err", err)
	}
	if got, ok := a.table.Get(ask.ID); ok {
		return got
	}
	return now
}
