// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// slot is the engine's entry for one VM.
type slot struct {
	id      vm.ID
	account vm.AccountID
	holding sync.Mutex       // held while a hold is made or removed; before Engine.mu
	holds   func() []vm.Hold // the first to end first

	// guarded by Engine.mu
	rec         vm.VM                   // as the table has it; LastActive may be newer
	unreadable  bool                    // its record cannot be decoded: rec holds all that is known
	op          *operation              // in progress; nil = none
	run         *run                    // its machine; nil when none is attached
	attached    int                     // guest calls and streams that are open
	byTraffic   int                     // streams that count by their traffic only
	waiting     int                     // callers waiting to enter
	waking      *waking                 // the start that they wait for; nil = none
	calls       map[vm.ActivityKind]int // attached, by kind
	traffic     int64                   // bytes of those streams since trafficFrom
	trafficFrom time.Time
	changed     chan struct{} // closed and replaced when rec or run changes
	gone        bool          // deleted
	scrubbed    bool          // free memory was scrubbed since a volume was mounted
	private     int64         // bytes of private memory of its machine at its last capture
	weighed     time.Time     // when that capture was
	doubt       error         // why the state of its machine is unknown; nil = it is known; see doubt.go
	doubted     int           // how often it was in doubt
	recovering  bool          // a task recovers it
	maybePaused bool          // a capture may have left its machine paused
}

// run is one machine of a VM, from its start or adoption to its end.
type run struct {
	machine Machine
	ctx     context.Context // ends with the machine; its cause is the machine's end
	cancel  context.CancelCauseFunc
	gone    chan struct{}  // closed after the machine's end
	exit    vm.MachineExit // set before gone is closed
	lost    bool           // its connection was lost; guarded by Engine.mu
}

func (e *Engine) newSlot(rec vm.VM) *slot {
	holds := func() []vm.Hold { return e.holdsOf(rec.ID) }
	return &slot{id: rec.ID, account: rec.Account, rec: rec, holds: holds, changed: make(chan struct{})}
}

// touchLocked wakes those who wait for a change of the slot.
func (s *slot) touchLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// recordOf returns a copy of the current record.
func (e *Engine) recordOf(s *slot) vm.VM {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.rec
}

// lookupLocked finds the VM that ref names among those that the actor may use: by id, or
// by a name that is unique there.
func (e *Engine) lookupLocked(a vm.Actor, ref string) (*slot, error) {
	if vm.IsID(ref) {
		if s := e.vms[vm.ID(ref)]; s != nil && s.account == a.Account && e.cfg.Access.Reaches(a, s.id) {
			return s, nil
		}
	}
	if vm.CheckName(ref) != nil {
		if vm.IsID(ref) {
			return nil, unreached(a, ref)
		}
		_, err := vm.ParseID(ref)
		return nil, err
	}
	var found []*slot
	for _, s := range e.namedLocked(a.Account, ref) {
		if e.cfg.Access.Reaches(a, s.id) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, unreached(a, ref)
	case 1:
		return found[0], nil
	default:
		return nil, ambiguous(ref, found)
	}
}

// namedLocked returns the VMs with that name: those of one account, or, for the
// account "", those of all.
func (e *Engine) namedLocked(account vm.AccountID, name string) (list []*slot) {
	for _, rec := range e.tables.vms.By(byName, nameKey(account, name)) {
		if s := e.vms[rec.ID]; s != nil {
			list = append(list, s)
		}
	}
	for _, s := range e.found.unreadable {
		if !s.gone && (account == "" || s.account == account) && s.rec.Name == name {
			list = append(list, s)
		}
	}
	return list
}

// unreached returns the error for a VM that does not exist or, for an identity, was not
// granted.
func unreached(a vm.Actor, ref string) error {
	if a.Identity != "" {
		return access.NotGranted(ref)
	}
	return notFound(ref)
}

// lookup is lookupLocked for callers without the lock.
func (e *Engine) lookup(c *vm.Call, ref string) (*slot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lookupLocked(c.Actor, ref)
}

// update changes the record of s. Records of existing VMs change only through update and
// updateAll. It may call change more than once.
func (e *Engine) update(ctx context.Context, s *slot, change func(*vm.VM)) (vm.VM, error) {
	if e.dead.Load() {
		return vm.VM{}, ErrDied
	}
	if s.unreadable { // the stored record must not change
		e.mu.Lock()
		defer e.mu.Unlock()
		change(&s.rec)
		s.touchLocked()
		return s.rec, nil
	}
	_, err := e.tables.vms.Change(ctx, s.id, func(rec *vm.VM) error {
		e.keepUse(s, rec)
		change(rec)
		return nil
	})
	if err != nil {
		return vm.VM{}, err
	}
	return e.updated(s), nil
}

// updateAll is update for several VMs: all or none.
func (e *Engine) updateAll(ctx context.Context, slots []*slot, change func(i int, rec *vm.VM)) ([]vm.VM, error) {
	if e.dead.Load() {
		return nil, ErrDied
	}
	ids := make([]vm.ID, 0, len(slots))
	for _, s := range slots {
		ids = append(ids, s.id)
	}
	_, err := e.tables.vms.ChangeAll(ctx, ids, func(i int, rec *vm.VM) error {
		e.keepUse(slots[i], rec)
		change(i, rec)
		return nil
	})
	if err != nil {
		return nil, err
	}
	recs := make([]vm.VM, 0, len(slots))
	for _, s := range slots {
		recs = append(recs, e.updated(s))
	}
	return recs, nil
}

// keepUse records the last use of s.
func (e *Engine) keepUse(s *slot, rec *vm.VM) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.usedLocked(rec)
}

func (s *slot) usedLocked(rec *vm.VM) {
	if s.rec.LastActive.After(rec.LastActive) {
		rec.LastActive, rec.LastKind = s.rec.LastActive, s.rec.LastKind
	}
}

// updated copies the table's record into the slot and returns it.
func (e *Engine) updated(s *slot) vm.VM {
	e.mu.Lock()
	before := s.rec
	rec, ok := e.tables.vms.Get(s.id)
	if !ok { // it was deleted meanwhile
		e.mu.Unlock()
		return before
	}
	s.usedLocked(&rec)
	s.rec = rec
	s.touchLocked()
	e.cfg.Meter.Changed(before, rec)
	e.mu.Unlock()
	e.poke()
	return rec
}

// vmChanged takes over a record that changed without update: by a write whose answer was
// lost, or by another server.
func (e *Engine) vmChanged(_, now *vm.VM) {
	if now == nil {
		return
	}
	e.mu.Lock()
	s := e.vms[now.ID]
	e.mu.Unlock()
	if s != nil && !s.unreadable {
		e.updated(s)
	}
}

// forget removes the record of s durably, then the slot.
func (e *Engine) forget(ctx context.Context, s *slot) error {
	if e.dead.Load() {
		return ErrDied
	}
	s.holding.Lock()
	defer s.holding.Unlock()
	if err := e.dropHolds(ctx, s); err != nil {
		return err
	}
	e.cfg.Meter.Gone(ctx, e.recordOf(s))
	if err := e.tables.vms.Drop(ctx, s.id); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.vms, s.id)
	s.gone = true
	s.touchLocked()
	e.mu.Unlock()
	e.cfg.Vault.EndMounts(context.WithoutCancel(ctx), s.id)
	if err := e.cfg.Access.DropGrantsOf(ctx, s.id); err != nil {
		e.log.Warn("the permissions for a deleted VM could not be removed; the next start of the server removes them", "vm", s.id, "err", err)
	}
	if e.cfg.Objects != nil {
		if err := e.cfg.Objects.DropVM(ctx, s.id); err != nil {
			e.log.Warn("the grants of a deleted VM remain, without effect", "vm", s.id, "err", err)
		}
	}
	return nil
}

// poke wakes the reaper.
func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *Engine) now() time.Time { return e.cfg.Clock.Now().UTC() }
