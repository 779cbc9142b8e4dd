// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// leaveTime bounds the record of an ask whose caller has left.
const leaveTime = 30 * time.Second

// Call asks for the approval of one call of an identity and waits for the decision: nil =
// approved, for this call alone. ask says who wants what; Call sets the rest. The call waits
// as long as c says. If ctx ends, the ask ends. It blocks. Kinds: Denied (code ASK_DENIED),
// WrongState (ASK_EXPIRED, ASK_ENDED), Limit, and the cause of ctx.
func (a *Asks) Call(ctx context.Context, c *vm.Call, ask vm.Ask) (vm.Ask, error) {
	length := c.AskFor
	if length <= 0 {
		length = CallWait
	}
	now := a.now()
	ask.ID, ask.Kind, ask.State, ask.CreatedAt = vm.NewAskID(), vm.AskAction, vm.AskPending, now
	ask.Deadline = now.Add(min(length, MaxCallWait))
	if err := a.file(ctx, c, ask); err != nil {
		return ask, vm.WithOp(vm.OpAsk, string(ask.Verb), err)
	}
	err := a.Wait(ctx, c, ask)
	if ctx.Err() != nil {
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer stop()
		if now, ok := a.table.Get(ask.ID); ok && now.State == vm.AskPending {
			_, _ = a.settle(bounded, now, vm.AskEnded, vm.Actor{System: "asks"}, "the caller has left") // it may have been decided
		}
		err = context.Cause(ctx) // it was not told of the decision, so nothing runs
	}
	return ask, err
}

func (a *Asks) file(ctx context.Context, c *vm.Call, ask vm.Ask) error {
	a.write.Lock()
	defer a.write.Unlock()
	return a.create(ctx, c, ask)
}

// latest returns an ask as it is, whoever asks for it.
func (a *Asks) latest(ctx context.Context, id string) (vm.Ask, error) {
	ask, ok := a.table.Get(id)
	if !ok {
		return ask, missing(id)
	}
	return a.current(ctx, ask), nil
}

// Wait returns when an ask that its caller may see is decided: nil = approved, and the rule of a proposal is in
// force. It blocks until then, or until ctx ends. Kinds: NotFound; Denied (code ASK_DENIED);
// WrongState (codes ASK_EXPIRED, ASK_ENDED); the cause of ctx.
func (a *Asks) Wait(ctx context.Context, _ *vm.Call, ask vm.Ask) error {
	for {
		changed, leave := a.watch(ask.ID)
		now, err := a.latest(ctx, ask.ID)
		if err == nil && now.State == vm.AskPending || a.held(ask.ID) {
			select {
			case <-changed:
				leave()
				continue
			case <-ctx.Done():
				leave()
				return context.Cause(ctx)
			}
		}
		leave()
		switch {
		case err != nil:
			return err
		case now.State == vm.AskApproved:
			return nil
		case now.State == vm.AskDenied:
			return vm.Errorf(vm.Denied, now.ID, "the account's owner has denied it%s", because(now.Note)).WithCode("ASK_DENIED", "ask", now.ID)
		}
		return settled(now)
	}
}

// watch returns a channel that is closed at the next change of an ask. Call leave.
func (a *Asks) watch(id string) (changed <-chan struct{}, leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.watched[id]
	if w == nil {
		w = &watch{changed: make(chan struct{})}
		a.watched[id] = w
	}
	w.users++
	return w.changed, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if w.users--; w.users == 0 && a.watched[id] == w {
			delete(a.watched, id)
		}
	}
}

// changed wakes those who wait for an ask.
func (a *Asks) changed(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.watched[id]; w != nil {
		close(w.changed)
		delete(a.watched, id)
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// hold says whether an approval is being carried out.
func (a *Asks) hold(id string, on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if on {
		a.settling[id] = true
	} else {
		delete(a.settling, id)
	}
}

func (a *Asks) held(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settling[id]
}
