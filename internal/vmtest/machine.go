// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Machines returns the simulator of machines.
func (w *World) Machines() engine.Machines { return machines{w} }

type machines struct{ w *World }

// Launch checks that the spec is complete, and starts a machine.
func (ms machines) Launch(ctx context.Context, spec vm.MachineSpec) (engine.Machine, vm.MachineStatus, error) {
	none := vm.MachineStatus{}
	if err := ms.w.step(ctx, "launch"); err != nil {
		return nil, none, err
	}
	if ctx.Err() != nil {
		return nil, none, context.Cause(ctx)
	}
	if _, err := os.Stat(spec.Disk); err != nil {
		return nil, none, vm.Errorf(vm.Internal, spec.Disk, "no disk: %w", err)
	}
	if err := checkSpec(spec); err != nil {
		return nil, none, err
	}
	ms.w.mu.Lock()
	defer ms.w.mu.Unlock()
	if old := ms.w.machines[spec.RunDir]; old != nil && old.alive() {
		return nil, none, vm.Errorf(vm.Internal, string(spec.ID), "a machine runs already")
	}
	if err := os.MkdirAll(spec.RunDir, 0o700); err != nil {
		return nil, none, vm.Errorf(vm.Internal, spec.RunDir, "no run directory: %w", err)
	}
	for _, socket := range []string{layout.RunVM(spec.RunDir).Monitor(), layout.RunVM(spec.RunDir).QMP()} {
		if err := os.WriteFile(socket, nil, 0o600); err != nil {
			return nil, none, vm.Errorf(vm.Internal, socket, "no socket: %w", err)
		}
	}
	if err := os.WriteFile(layout.VMDir(spec.Dir).ConsoleLog(), []byte("Linux version\nlogin:\n"), 0o600); err != nil {
		return nil, none, vm.Errorf(vm.Internal, spec.Dir, "no console log: %w", err)
	}
	if err := layout.WriteJSON(layout.VMDir(spec.Dir).Machine(), spec, 0o600); err != nil {
		return nil, none, err
	}
	d := ms.w.disks[spec.Disk]
	if d == nil {
		return nil, none, vm.Errorf(vm.Corrupt, spec.Disk, "not a disk")
	}
	for i, v := range spec.Plugged.Volumes {
		if err := ms.w.Volumes.plug(v, spec.VolumeKeys[v.ID]); err != nil {
			for _, v := range spec.Plugged.Volumes[:i] {
				ms.w.Volumes.unplug(v)
			}
			return nil, none, err
		}
	}
	ms.w.launches++
	m := newMachine(ms.w, spec, d)
	m.keys = [][]byte{spec.Reset.LinkKey, spec.GuestKey}
	if spec.Generation != nil {
		if mem := ms.w.memories[spec.Generation.RAM]; mem != nil {
			used := mem.accepts(append([][]byte{spec.GuestKey}, spec.OtherKeys...))
			if used == nil {
				return nil, none, errors.Join(vm.Errorf(vm.GuestFault, string(spec.ID), "the agent in the guest refuses the key"), os.RemoveAll(spec.RunDir))
			}
			m.keys[1] = used
			if err := m.guest.recall(mem); err != nil {
				return nil, none, err
			}
		}
	}
	ms.w.machines[spec.RunDir] = m
	return m.handle(), m.status(), nil
}

func checkSpec(s vm.MachineSpec) error {
	switch {
	case s.Generation == nil && s.Boot.Kernel == "":
		return vm.Errorf(vm.Internal, string(s.ID), "neither a generation nor a kernel")
	case len(s.GuestKey) == 0 || len(s.Reset.LinkKey) == 0:
		return vm.Errorf(vm.Internal, string(s.ID), "no link key")
	case s.Reset.Hostname == "" || len(s.Reset.MachineID) != 32 || s.Reset.BootID == "":
		return vm.Errorf(vm.Internal, string(s.ID), "the reset lacks an identity")
	case s.Generation == nil && len(s.Plugged.Modules) > 0 || s.Generation != nil && len(s.Generation.Modules) != len(s.Plugged.Modules):
		return vm.Errorf(vm.Internal, string(s.ID), "memory modules without their files")
	case s.Size.MemoryMiB == 0 || s.QEMU == "" || s.Machine == "" || s.AgentDigest == "":
		return vm.Errorf(vm.Internal, string(s.ID), "the spec is not complete")
	}
	return nil
}

func (ms machines) Attach(ctx context.Context, runDir string) (engine.Machine, vm.MachineStatus, error) {
	for _, step := range []string{"attach", "attach:" + filepath.Base(runDir)} {
		if err := ms.w.step(ctx, step); err != nil {
			return nil, vm.MachineStatus{}, err
		}
	}
	ms.w.mu.Lock()
	m := ms.w.machines[runDir]
	ms.w.mu.Unlock()
	if m == nil || !m.alive() {
		return nil, vm.MachineStatus{}, vm.Errorf(vm.NotFound, runDir, "no machine")
	}
	return m.handle(), m.status(), nil
}

func (ms machines) Strays() ([]vm.ID, error) { return ms.w.Running(), nil }

func (ms machines) Sweep(ctx context.Context, runDir string) error {
	if err := ms.w.step(ctx, "sweep"); err != nil {
		return err
	}
	ms.w.mu.Lock()
	m := ms.w.machines[runDir]
	delete(ms.w.machines, runDir)
	ms.w.mu.Unlock()
	if m != nil {
		m.end("kill")
	}
	return os.RemoveAll(runDir)
}

// machine is one simulated QEMU with its monitor.
type machine struct {
	w       *World
	spec    vm.MachineSpec
	guest   *guest
	started time.Time
	gone    chan struct{} // closed when it has ended

	mu sync.Mutex
	// guarded by mu
	exit   vm.MachineExit
	policy vm.NetworkPolicy
	opened []vm.Connection
	lost   chan struct{} // closed when connections to the monitor are cut
	active string        // the file to which it writes
	held   bool          // it is paused after a capture
	keys   [][]byte      // that its agent accepts: the current one, and the previous until the current one is used
	spent  Spent
}

func newMachine(w *World, spec vm.MachineSpec, d *disk) *machine {
	m := &machine{w: w, spec: spec, started: time.Now(), gone: make(chan struct{}), lost: make(chan struct{}), policy: spec.Network, active: spec.Disk}
	m.guest = newGuest(m, d)
	return m
}

func (m *machine) alive() bool {
	select {
	case <-m.gone:
		return false
	default:
		return true
	}
}

// end ends the machine and writes the exit note, as a monitor does.
func (m *machine) end(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.alive() {
		return
	}
	m.exit = vm.MachineExit{Reason: reason, Time: time.Now().UTC()}
	if _, err := os.Stat(m.spec.RunDir); err == nil {
		_ = layout.WriteJSON(layout.RunVM(m.spec.RunDir).Exit(), m.exit, 0o600) // a sweep may have removed the directory
	}
	close(m.gone)
	m.dropVolumes()
}

// vanish ends the machine without a trace, like a power cut.
func (m *machine) vanish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alive() {
		m.exit = vm.MachineExit{Reason: "host-restart"}
		close(m.gone)
		m.dropVolumes()
	}
}

func (m *machine) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.lost)
	m.lost = make(chan struct{})
}

func (m *machine) status() vm.MachineStatus {
	resets := vm.ResetReport{}
	for _, r := range vm.Resets {
		resets[r] = "ok"
	}
	m.mu.Lock()
	state := "running"
	if m.held {
		state = "paused"
	}
	m.mu.Unlock()
	m.mu.Lock()
	size, spent, plugged := m.spec.Size, m.spent, m.spec.Plugged
	m.mu.Unlock()
	return vm.MachineStatus{
		Size: size, Plugged: plugged,
		ID: m.spec.ID, Protocol: 1, MonitorPID: os.Getpid(), QEMUPID: os.Getpid(), Ready: m.alive(), RunState: state,
		Folders: folderPaths(m.spec.Folders), Agent: m.guest.greeting(), StartedAt: m.started, Resets: resets,
		Timings: map[string]time.Duration{"ready": time.Millisecond}, PSS: m.w.pss.Load(), RSS: 90 << 20,
		CPU: spent.CPU, RxBytes: spent.FromGuest, TxBytes: spent.ToGuest,
	}
}

// handle is one engine's connection to a machine.
type handle struct {
	*machine
	closed chan struct{}
	cut    <-chan struct{}
	once   sync.Once
}

func (m *machine) handle() *handle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &handle{machine: m, closed: make(chan struct{}), cut: m.lost}
}

var errCut = errors.New("connection to the monitor was cut")

func (h *handle) Wait(ctx context.Context) (vm.MachineExit, error) {
	if err := h.w.step(ctx, "wait"); err != nil {
		return vm.MachineExit{}, err
	}
	select {
	case <-h.gone:
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.exit, nil
	case <-h.cut:
		return vm.MachineExit{}, errCut
	case <-h.closed:
		return vm.MachineExit{}, net.ErrClosed
	case <-ctx.Done():
		return vm.MachineExit{}, context.Cause(ctx)
	}
}

func (h *handle) Stop(ctx context.Context, _ time.Duration) error {
	if err := h.w.step(ctx, "stop"); err != nil {
		return err
	}
	h.end("stop")
	return nil
}

func (h *handle) Kill(ctx context.Context) error {
	if err := h.w.step(ctx, "kill"); err != nil {
		return err
	}
	h.end("kill")
	return nil
}

func (h *handle) Status(ctx context.Context) (vm.MachineStatus, error) {
	if err := h.w.step(ctx, "status"); err != nil {
		return vm.MachineStatus{}, err
	}
	st := h.status()
	if h.w.fault("run-state") != nil {
		st.RunState = "" // QEMU does not answer
	}
	return st, nil
}

func (h *handle) SetNetwork(ctx context.Context, p vm.NetworkPolicy) error {
	if err := h.w.step(ctx, "network"); err != nil {
		return err
	}
	h.mu.Lock()
	h.policy = p
	h.mu.Unlock()
	return h.w.step(ctx, "network taken")
}

// SetPaths notes path rules.
func (h *handle) SetPaths(ctx context.Context, list []vm.PathRule) error {
	if err := h.w.step(ctx, "paths"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spec.Paths = list
	return nil
}

// CutBy says that a closed network would cut the one connection that Open made.
func (h *handle) CutBy(_ context.Context, p vm.NetworkPolicy) ([]vm.Connection, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Mode != vm.NetClosed {
		return nil, nil
	}
	return slices.Clone(h.opened), nil
}

// Pause pauses the machine. Pausing it again succeeds.
func (h *handle) Pause(ctx context.Context) error {
	if err := h.w.step(ctx, "pause"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.alive() {
		return vm.Errorf(vm.Unavailable, string(h.spec.ID), "no machine")
	}
	h.held = true
	return nil
}

// Adopt resumes a paused machine of the pool as another VM.
func (h *handle) Adopt(ctx context.Context, a vm.Adoption) (vm.MachineStatus, error) {
	if err := h.w.step(ctx, "adopt"); err != nil {
		return vm.MachineStatus{}, err
	}
	h.mu.Lock()
	spec := h.spec
	spec.Reset, spec.Network, spec.Paths, spec.Pooled = a.Reset, a.Network, a.Paths, false
	err := checkSpec(spec)
	if err == nil && !(h.held && h.spec.Pooled && h.alive()) {
		err = vm.Errorf(vm.Internal, string(h.spec.ID), "not a paused machine of the pool")
	}
	if err == nil {
		h.policy, h.held = a.Network, false
		h.guest.become(a.Reset)
		h.keys[0] = a.Reset.LinkKey // the session was opened with the oldest key
		if !h.w.older.Load() {
			h.spec.Reset = a.Reset
		}
		h.spec.Pooled = false
		err = layout.WriteJSON(layout.VMDir(spec.Dir).Machine(), spec, 0o600)
	}
	h.mu.Unlock()
	if err != nil {
		return vm.MachineStatus{}, err
	}
	return h.status(), nil
}

// Resize follows the rules of a real machine: CPUs up to eight and down again, memory and
// disk only up.
func (h *handle) Resize(ctx context.Context, want vm.Size) (map[string]string, error) {
	if err := h.w.step(ctx, "resize"); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now, how := h.spec.Size, map[string]string{}
	for part, d := range map[string]struct{ now, want, least, most int }{
		vm.PartCPU:    {now.VCPU, want.VCPU, 1, 8},
		vm.PartMemory: {now.MemoryMiB, want.MemoryMiB, now.MemoryMiB, 256 << 10},
		vm.PartDisk:   {now.DiskMiB, want.DiskMiB, now.DiskMiB, vm.MaxDiskMiB},
	} {
		switch {
		case d.now == d.want:
		case d.want < d.least || d.want > d.most:
			how[part] = "not while it runs"
		default:
			how[part] = vm.Live
		}
	}
	for _, h := range how {
		if h != vm.Live {
			return how, nil
		}
	}
	if more := want.MemoryMiB - now.MemoryMiB; more > 0 {
		p := &h.spec.Plugged
		boot := p.Boot(now)
		p.BootVCPU, p.BootMemoryMiB = boot.VCPU, boot.MemoryMiB
		p.Modules = append(slices.Clone(p.Modules), vm.MemoryModule{ID: fmt.Sprintf("dimm%d", len(p.Modules)), MiB: more})
	}
	h.spec.Size = want
	return how, nil
}

func (h *handle) Connections(context.Context) ([]vm.Connection, error) {
	return []vm.Connection{{Proto: "dns", Dest: "example.com", Name: "example.com", Reason: "the policy is closed"}}, nil
}

// DialPort connects only to an echo service on port 7.
func (h *handle) DialPort(_ context.Context, port uint16) (net.Conn, error) {
	if port != 7 {
		return nil, vm.Errorf(vm.Unavailable, string(h.spec.ID), "connection refused")
	}
	return echo(), nil
}

func (h *handle) Guest() engine.Guest { return h.guest }

func (h *handle) Close() { h.once.Do(func() { close(h.closed) }) }

// mode is the network mode that the machine enforces.
func (m *machine) mode() vm.NetworkMode {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy.Mode
}
