// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// States of a VM's disk that have no generation's id or name.
const (
	StateNow    = "now"    // its disk now; "" means it, too
	StateImage  = "image"  // the image's part of its disk
	StateParent = "parent" // the state in which a fork left its parent
	StateOrigin = "origin" // what it was made from: a fork's generation, a snapshot, else its image
)

// Frozen is a state of a VM's disk to which nobody writes.
type Frozen struct {
	Side    vm.DiffSide
	Workdir string   // of the VM that was asked for
	Layers  []string // absolute files, the top first
	// Synced says that the disk has all that programs had written; false = what was
	// written shortly before may be only in the memory.
	Synced bool
	// State is what ran at the capture; nil = it was not recorded.
	State *vm.GuestState
}

// OwnedBy fails for an identity if the state is another VM's: its right, and what it must ask
// for, are those for rec. Kind Denied.
func (f Frozen) OwnedBy(who vm.Actor, rec vm.VM) error {
	if who.Identity == "" || f.Side.VM == "" || f.Side.VM == rec.ID {
		return nil
	}
	return vm.Errorf(vm.Denied, string(f.Side.Generation), "it is a state of another VM").WithCode("FORBIDDEN").
		WithHint("name the VM that it was captured from; `warren tree` shows the generations of each")
}

// FrozenDisk finds a state of a VM's disk: a State above, or a generation or snapshot by
// id or name. For the present disk of a running or stopped VM it captures one, without
// memory; file systems are synced and frozen for that moment. The files stay until release
// is called. The caller needs the right to read every file of the VM, and of the VM that
// the generation was captured from. Kinds: NotFound, Denied, WrongState, Corrupt, and
// those of a capture.
func (e *Engine) FrozenDisk(ctx context.Context, c *vm.Call, ref, state string) (f Frozen, release func(), err error) {
	defer func() { err = fail(vm.OpDiff, ref, err) }()
	s, err := e.readable(c, ref)
	if err != nil {
		return f, nil, err
	}
	rec := e.recordOf(s)
	switch state {
	case "", StateNow:
		f, release, err = e.frozenNow(ctx, c, s)
	case StateImage:
		f, release, err = e.frozenImage(s)
	default:
		f, release, err = e.frozenThen(c, rec, state)
	}
	f.Workdir = rec.Workdir
	return f, release, err
}

// readable finds a VM of which the caller may read every file.
func (e *Engine) readable(c *vm.Call, ref string) (*slot, error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return nil, err
	}
	return s, e.cfg.Access.May(c.Actor, s.id, vm.OpDiff, "")
}

// frozenThen returns a state that was captured before.
func (e *Engine) frozenThen(c *vm.Call, rec vm.VM, state string) (Frozen, func(), error) {
	switch state {
	case StateOrigin, StateParent:
		g, ok := e.originOf(rec)
		if !ok && state == StateParent || ok && state == StateParent && g.VM != rec.Parent {
			return Frozen{}, nil, vm.Errorf(vm.NotFound, label(rec), "the VM was not forked, or the record of its fork is gone").
				WithHint("compare it with its image: `warren diff %s --from image`", label(rec))
		}
		if !ok {
			s, err := e.lookup(c, string(rec.ID))
			if err != nil {
				return Frozen{}, nil, err
			}
			return e.frozenImage(s)
		}
		return e.frozenGeneration(g.ID)
	}
	g, err := e.findGeneration(rec.Account, state)
	if err != nil {
		return Frozen{}, nil, err
	}
	if c.Actor.Identity != "" && g.VM != rec.ID {
		if err := e.cfg.Access.May(c.Actor, g.VM, vm.OpDiff, ""); err != nil {
			return Frozen{}, nil, err
		}
	}
	return e.frozenGeneration(g.ID)
}

// originOf returns the generation of another VM that a VM was made from.
func (e *Engine) originOf(rec vm.VM) (vm.Generation, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := 0
	for id := cmp.Or(rec.Head, rec.Generation); id != "" && seen < maxChain; seen++ {
		g := e.gens[id]
		if g == nil {
			break
		}
		if g.info.VM != rec.ID {
			return g.info, true
		}
		id = g.info.Parent
	}
	return vm.Generation{}, false
}

// frozenGeneration returns the disk of a generation, pinned.
func (e *Engine) frozenGeneration(id vm.GenerationID) (f Frozen, release func(), err error) {
	if !e.pin(id) {
		return f, nil, noGeneration(string(id))
	}
	release = sync.OnceFunc(func() {
		e.unpin(id)
		e.collectLater()
	})
	defer func() {
		if err != nil {
			release()
			release = nil
		}
	}()
	g, _ := e.generationInfo(id)
	switch {
	case g.State == vm.GenBuilding:
		return f, release, vm.Errorf(vm.Unavailable, string(id), "it is still being captured").WithHint("try again")
	case g.State != vm.GenReady || g.Gone:
		return f, release, vm.Errorf(vm.NotFound, string(id), "its files are no longer kept").
			WithHint("`warren tree` shows the generations that can be compared")
	}
	if err := e.ownLayers(g.Account, id); err != nil {
		return f, release, err
	}
	f.Layers, err = e.cfg.Generations.Layers(id)
	if err != nil {
		return f, release, err
	}
	f.Side = vm.DiffSide{VM: g.VM, VMName: g.VMName, Generation: g.ID, Image: g.Image, Why: g.Why, Note: g.Note, At: g.CreatedAt}
	f.Synced, f.State = g.Synced, e.ran(id)
	return f, release, nil
}

// frozenImage returns the part of a VM's disk that is its image's: nobody writes to it.
func (e *Engine) frozenImage(s *slot) (f Frozen, release func(), err error) {
	rec := e.recordOf(s)
	layers, err := e.cfg.Generations.LayersOf(s.id)
	if err != nil {
		return f, nil, err
	}
	own := []string{e.cfg.Dir.Overlay(s.id), e.cfg.Dir.Generations() + "/"}
	for i, dir := range own {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			own[i] = real + strings.Repeat("/", i)
		}
	}
	f.Layers = slices.DeleteFunc(layers, func(path string) bool { return path == own[0] || strings.HasPrefix(path, own[1]) })
	if len(f.Layers) == 0 {
		return f, nil, vm.Errorf(vm.NotFound, label(rec), "its disk has no part of an image any more")
	}
	f.Side = vm.DiffSide{Image: rec.Image, Note: rec.ImageName}
	f.Synced = true
	return f, func() {}, nil
}

// frozenNow captures the present disk of a VM, or finds the generation that has it.
func (e *Engine) frozenNow(ctx context.Context, c *vm.Call, s *slot) (f Frozen, release func(), err error) {
	op, err := e.beginAs(ctx, c, s, vm.OpDiff)
	if err != nil {
		return f, nil, err
	}
	op.cancelWith(ctx)
	defer func() {
		if err = e.finish(op, err); err != nil && release != nil {
			release()
			release = nil
		}
	}()
	if g, ok := e.unchanged(op.before); ok {
		return e.frozenGeneration(g)
	}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Detail: map[string]any{"why": string(vm.WhyReview)}}); err != nil {
		return f, nil, err
	}
	g, err := e.capture(op.ctx, op, captureOptions{why: vm.WhyReview, diskOnly: true, ran: true})
	if err != nil {
		return f, nil, err
	}
	f, release, err = e.frozenGeneration(g.ID)
	e.publishLater(g.ID) // unpins it once
	return f, release, err
}

// beginAs reserves a VM that was found for the caller.
func (e *Engine) beginAs(ctx context.Context, c *vm.Call, s *slot, verb vm.Op) (*operation, error) {
	return e.beginWith(ctx, verb, false, func() (*slot, error) {
		if s.gone || !e.cfg.Access.Reaches(c.Actor, s.id) {
			return nil, unreached(c.Actor, string(s.id))
		}
		return s, nil
	})
}

// unchanged returns the generation that has a VM's present disk, if there is one: the
// generation that it is suspended on, or one that was captured since it was stopped.
func (e *Engine) unchanged(rec vm.VM) (vm.GenerationID, bool) {
	id := rec.DiskOn
	switch rec.State {
	case vm.Suspended:
		id = rec.Generation
	case vm.Stopped:
	default:
		return "", false
	}
	g, ok := e.generationInfo(id)
	ok = ok && g.VM == rec.ID && g.State == vm.GenReady && !g.Gone
	if rec.State == vm.Stopped {
		ok = ok && g.Why == vm.WhyReview && !g.Memory && g.CreatedAt.After(rec.StartedAt) && g.CreatedAt.After(rec.Exit.Time)
	}
	return id, ok
}

// Limits of the record of what ran at a capture.
const (
	ranLimit = 1 << 20
	ranWait  = 3 * time.Second
)

// noteRan records what runs in a VM that is about to be captured, beside the
// generation's files. A comparison shows it; a capture does not fail without it.
func (e *Engine) noteRan(ctx context.Context, s *slot, id vm.GenerationID) {
	r := e.runOf(s)
	if r == nil {
		return
	}
	bounded, stop := context.WithTimeout(ctx, ranWait)
	defer stop()
	state, err := r.machine.Guest().State(bounded)
	if err != nil {
		e.log.Debug("what runs in a VM is not known for its review", "vm", s.id, "err", err)
		return
	}
	if err := layout.WriteJSON(layout.GenerationDir(e.cfg.Dir.Generation(id)).Ran(), state, 0o600); err != nil {
		e.log.Warn("what ran at a capture could not be recorded", "generation", id, "err", err)
	}
}

// ran returns what ran when a generation was captured; nil = it was not recorded.
func (e *Engine) ran(id vm.GenerationID) *vm.GuestState {
	path := layout.GenerationDir(e.cfg.Dir.Generation(id)).Ran()
	if st, err := os.Stat(path); err != nil || st.Size() > ranLimit {
		return nil
	}
	var state vm.GuestState
	if layout.ReadJSON(path, &state) != nil {
		return nil
	}
	return &state
}
