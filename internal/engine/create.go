// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Create makes a VM and starts it on its image's warm generation, on a snapshot or on a
// layer of its spec, and carries out the outermost layer. It returns when the VM is
// usable. If it fails, or ctx ends first, nothing of the VM is left. Layers below the
// outermost are kept for later requests.
func (e *Engine) Create(ctx context.Context, c *vm.Call, r CreateRequest) (v vm.VM, err error) {
	defer func() { err = fail(vm.OpCreate, r.Name, err) }()
	if r.Layers, err = planLayers(r); err != nil {
		return vm.VM{}, err
	}
	if len(r.Layers) == 0 {
		return e.createOn(ctx, c, r, nil)
	}
	return e.createBuilt(ctx, c, r)
}

// createOn is Create once the lower layers exist. It reports progress to b, unless that
// is nil.
func (e *Engine) createOn(ctx context.Context, c *vm.Call, r CreateRequest, b *building) (v vm.VM, err error) {
	p, err := e.planCreate(ctx, c, r)
	if err != nil {
		return vm.VM{}, err
	}
	defer e.dropPlan(p)
	p.rec.Build = b.id()
	if p.from == nil {
		if p.member = e.pool.take(ctx, p.image, p.rec.Size); p.member != nil {
			p.rec.ID = p.member.id
			e.rename(p.claim, p.rec.ID)
		}
	}
	defer func() {
		if p.member != nil { // the create failed before it used the member
			e.pool.giveBack(ctx, p.member)
		}
	}()
	op, err := e.beginCreate(p.rec, r.UniqueName)
	if err != nil {
		return vm.VM{}, err
	}
	op.cancelWith(ctx)
	defer func() { err = e.finish(op, err) }()
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: r.Name, Detail: p.detail()}); err != nil {
		return vm.VM{}, err
	}
	m, st, err := e.buildMachine(op, p)
	if err != nil {
		return vm.VM{}, err
	}
	if err := e.step(op.ctx, "create:setup"); err != nil {
		return vm.VM{}, err
	}
	b.phase(phaseSetup)
	if err := e.setUp(op.ctx, m, p); err != nil {
		return vm.VM{}, cause(op.ctx, err)
	}
	if v, err = e.commitCreate(op.ctx, op, p, m, st); err != nil {
		return vm.VM{}, err
	}
	return e.markSetUp(op, p, c.Actor)
}

// markSetUp marks the first turn of a VM that its spec has set up, so that a review shows
// what happened since then and not what the set-up did. The turn has no memory. The VM
// is whole without it: if it fails, the server's log says so.
func (e *Engine) markSetUp(op *operation, p *createPlan, by vm.Actor) (vm.VM, error) {
	if p.layer.Empty() || p.rec.Layer != "" || p.rec.OneShot {
		return e.recordOf(op.slot), nil
	}
	op.before = e.recordOf(op.slot)
	_, err := e.takeSoon(op, captureOptions{why: vm.WhyTurn, note: setUpNote, diskOnly: true, ran: true, turn: 1, actor: actorName(by)})
	if died(err) {
		return vm.VM{}, err
	}
	if err != nil {
		e.log.Warn("a new VM has no turn of its set-up: a review compares it with its image", "vm", op.slot.id, "err", err)
	}
	return e.recordOf(op.slot), nil
}

// setUpNote is the note of a VM's first turn if its spec has set it up.
const setUpNote = "set up"

// dropPlan releases a plan's claim and pin.
func (e *Engine) dropPlan(p *createPlan) {
	e.releaseClaims(p.claim)
	if p.from != nil {
		e.unpin(p.from.ID)
	}
}

// beginCreate makes a slot that nobody can see yet. With unique it reserves the name.
func (e *Engine) beginCreate(rec vm.VM, unique bool) (*operation, error) {
	s := e.newSlot(rec)
	e.mu.Lock()
	defer e.mu.Unlock()
	if unique {
		if err := e.nameFreeLocked(rec); err != nil {
			return nil, err
		}
	}
	op, err := e.attachLocked(vm.OpCreate, s)
	if err != nil {
		return nil, err
	}
	op.next = vm.Next{During: vm.Starting, After: vm.Running}
	if rec.Name != "" {
		e.creating[op] = true
	}
	return op, nil
}

// nameFreeLocked refuses a name that a VM of the account has or is about to get.
func (e *Engine) nameFreeLocked(rec vm.VM) error {
	for _, s := range e.namedLocked(rec.Account, rec.Name) {
		return vm.Errorf(vm.Exists, rec.Name, "a VM with this name exists: %s", s.id).
			WithHint("choose another name, or free this one: `warren rename %s OTHER`", rec.Name)
	}
	for op := range e.creating {
		if op.slot.account == rec.Account && op.slot.rec.Name == rec.Name {
			return vm.Errorf(vm.Exists, rec.Name, "a VM with this name is being created").
				WithHint("choose another name")
		}
	}
	for op, names := range e.promised {
		if op.slot.account == rec.Account && slices.Contains(names, rec.Name) {
			return vm.Errorf(vm.Exists, rec.Name, "a VM is about to get this name: %s", op.slot.id).
				WithHint("choose another name")
		}
	}
	return nil
}

// buildMachine carries out a plan until the machine is ready, within the plan's deadline.
func (e *Engine) buildMachine(op *operation, p *createPlan) (Machine, vm.MachineStatus, error) {
	outer, _ := e.patience(p.deadline)
	ctx, stop := context.WithTimeoutCause(op.ctx, outer, startTimeout(p.rec.ID, outer))
	defer stop()
	m, st, err := e.buildWithin(ctx, op, p)
	return m, st, cause(ctx, err)
}

func (e *Engine) buildWithin(ctx context.Context, op *operation, p *createPlan) (Machine, vm.MachineStatus, error) {
	s, u, none := op.slot, &op.undo, vm.MachineStatus{}
	if err := e.step(ctx, "create:record"); err != nil {
		return nil, none, err
	}
	if err := e.enter(ctx, op); err != nil {
		return nil, none, err
	}
	if p.from != nil {
		return e.buildFrom(ctx, op, p, *p.from)
	}
	if p.member != nil {
		m, st, err := e.adopt(ctx, op, p)
		if err != nil {
			return nil, none, err
		}
		if m != nil {
			return m, st, nil
		}
	}
	if err := e.step(ctx, "create:warm"); err != nil {
		return nil, none, err
	}
	gen, err := e.cfg.Images.Warm(ctx, p.image, p.rec.Size)
	if err != nil {
		return nil, none, err
	}
	if err := e.step(ctx, "create:dir"); err != nil {
		return nil, none, err
	}
	if err := e.makeDir(ctx, s.id, u); err != nil {
		return nil, none, err
	}
	if err := e.step(ctx, "create:overlay"); err != nil {
		return nil, none, err
	}
	if err := e.makeOverlay(p, gen); err != nil {
		return nil, none, err
	}
	spec, err := e.warmSpec(ctx, p, gen)
	if err != nil {
		return nil, none, err
	}
	if err := e.step(ctx, "create:launch"); err != nil {
		return nil, none, err
	}
	return e.launch(ctx, spec, u)
}

// enter writes the VM's first record and makes the VM visible.
func (e *Engine) enter(ctx context.Context, op *operation) error {
	s := op.slot
	err := e.tables.vms.Create(ctx, s.rec)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.vms[s.id] = s
	delete(e.creating, op)
	e.mu.Unlock()
	err = op.undo.add(ctx, "record", func(ctx context.Context) error {
		e.cfg.Journal.EmitVM(e.recordOf(s), "vm.deleted", map[string]any{"reason": "create-failed"})
		return e.forget(ctx, s)
	})
	if err != nil {
		return err
	}
	e.cfg.Journal.EmitVM(s.rec, "vm.starting", nil)
	return nil
}

func (e *Engine) makeDir(ctx context.Context, id vm.ID, u *undo) error {
	dir := e.cfg.Dir.VM(id)
	if err := u.add(ctx, "directory", func(context.Context) error { return e.removeDir(id) }); err != nil {
		return err
	}
	for _, d := range []string{dir, e.cfg.Dir.Logs(id)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return diskError(d, err)
		}
	}
	return nil
}

// makeOverlay makes the VM's disk above the generation's. The backing name is relative,
// so that the data directory can be moved.
func (e *Engine) makeOverlay(p *createPlan, gen vm.Manifest) error {
	path := e.cfg.Dir.Overlay(p.rec.ID)
	backing, err := filepath.Rel(filepath.Dir(path), layout.GenerationDir(e.cfg.Dir.Warm(p.image.ID, gen.Key)).Disk())
	if err != nil {
		return vm.Errorf(vm.Internal, path, "no relative path to the VM's image: %w", err)
	}
	if err := e.cfg.Images.Overlay(path, backing, p.rec.Size.DiskMiB); err != nil {
		return diskError(path, err)
	}
	return nil
}

// launch starts a machine and puts its end on the undo list.
func (e *Engine) launch(ctx context.Context, spec vm.MachineSpec, u *undo) (Machine, vm.MachineStatus, error) {
	if err := u.add(ctx, "machine", func(ctx context.Context) error { return e.sweep(ctx, spec.ID) }); err != nil {
		return nil, vm.MachineStatus{}, err
	}
	m, st, err := e.cfg.Machines.Launch(ctx, spec)
	for _, key := range spec.VolumeKeys {
		clear(key)
	}
	if err != nil {
		return nil, vm.MachineStatus{}, err
	}
	err = u.add(ctx, "connection", func(context.Context) error { m.Close(); return nil })
	return m, st, err
}

// commitCreate durably records the VM as running and watches its machine.
func (e *Engine) commitCreate(ctx context.Context, op *operation, p *createPlan, m Machine, st vm.MachineStatus) (vm.VM, error) {
	if err := e.step(ctx, "create:commit"); err != nil {
		return vm.VM{}, err
	}
	rec, err := e.nowRunning(ctx, op.slot, st, func(rec *vm.VM) { p.started(e, rec) })
	if err != nil {
		return vm.VM{}, err
	}
	// From here on the VM runs, even if the request or the server ends.
	if err := e.step(context.WithoutCancel(ctx), "create:done"); err != nil {
		return vm.VM{}, err
	}
	e.watch(op.slot, m)
	e.cfg.Journal.EmitVM(rec, "vm.created", map[string]any{"pooled": p.pooled})
	e.cfg.Journal.EmitVM(rec, "vm.running", timings(st))
	return rec, nil
}

// nowRunning records that the machine described by st runs, and applies change.
func (e *Engine) nowRunning(ctx context.Context, s *slot, st vm.MachineStatus, change func(*vm.VM)) (vm.VM, error) {
	p, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		return vm.VM{}, err
	}
	now := e.now()
	return e.update(ctx, s, func(rec *vm.VM) {
		setRunning(rec, st, p, now)
		change(rec)
	})
}

// setRunning sets the fields of a running VM from the machine's status st.
func setRunning(rec *vm.VM, st vm.MachineStatus, p Platform, now time.Time) {
	rec.State, rec.Op, rec.Reason = vm.Running, "", ""
	rec.StartedAt, rec.LastActive, rec.LastKind = now, now, vm.ActivityStart
	rec.Exit = vm.MachineExit{}
	rec.Accel = p.Accel
	rec.Sandbox = startedSandbox(rec.Sandbox, now)
	rec.Machine = vm.MachineRef{MonitorPID: st.MonitorPID, BootID: p.BootID, Protocol: st.Protocol}
}

func startTimeout(id vm.ID, d time.Duration) error {
	return vm.Errorf(vm.Timeout, string(id), "not ready within %v", d).
		WithCode("VM_START_TIMEOUT", "vmId", string(id)).
		WithHint("look at the console: `warren logs NAME`, or set a longer deadline")
}

func timings(st vm.MachineStatus) map[string]any {
	ms := make(map[string]any, len(st.Timings))
	for k, d := range st.Timings {
		ms[k] = float64(d.Microseconds()) / 1000
	}
	return map[string]any{"timingsMs": ms}
}
