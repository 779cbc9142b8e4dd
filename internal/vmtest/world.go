// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/vm"
)

// World is one simulated host. It outlives engines, as real machines do.
type World struct {
	mu sync.Mutex
	// guarded by mu
	machines map[string]*machine // by run directory
	disks    map[string]*disk    // by overlay path
	memories map[string]*memory  // by the path of the memory file
	images   []vm.Image
	faults   map[string]error
	holds    map[string]chan struct{}
	reached  map[string]chan struct{}
	bootID   string
	agent    string // digest
	qemu     string // version
	rewarmed int
	free     int64
	diskFree int64
	waiting  float64
	stalled  float64
	pss      atomic.Int64 // not guarded
	older    atomic.Bool  // not guarded
	private  int64        // pages
	warmed   map[string]int
	launches int
	serving  map[string]bool // TCP addresses of this host that are guests', too

	Volumes *Volumes // of every engine on it
}

// NewWorld returns a host with one image, "base", and 64 GiB of free memory.
func NewWorld() *World {
	w := &World{
		machines: map[string]*machine{}, disks: map[string]*disk{}, memories: map[string]*memory{},
		Volumes: NewVolumes(),
		faults:  map[string]error{}, holds: map[string]chan struct{}{}, reached: map[string]chan struct{}{},
		bootID: vm.NewUUID(), agent: "d00d", qemu: "7.2.0", free: 64 << 30, diskFree: 1 << 40, warmed: map[string]int{}, serving: map[string]bool{},
		images: []vm.Image{baseImage()},
	}
	w.pss.Store(80 << 20)
	return w
}

// Serve adds a TCP address of this host's loopback to every guest: what listens there
// listens in the guests.
func (w *World) Serve(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serving[address] = true
}

func (w *World) serves(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.serving[address]
}

// Fail makes the step fail with err from now on; nil ends that. Steps: seal, launch,
// attach, attach:ID (of one VM), sweep, stop, kill, wait, network, status, run-state
// (QEMU does not answer), capacity, pause, adopt, overlay, warm, boot, find, capture,
// captured (all but its note is written), folder, foldered (all but the answer),
// unfolder, resume, disk-name, disk-on, begin, advance, disk, publish, guest (every verb
// of a guest), guest.exec.
func (w *World) Fail(step string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.faults, step)
		return
	}
	w.faults[step] = err
}

// Hold makes the step block until release is called or its context ends. reached is
// closed when the first caller blocks.
func (w *World) Hold(step string) (reached <-chan struct{}, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gate, seen := make(chan struct{}), make(chan struct{})
	w.holds[step], w.reached[step] = gate, seen
	return seen, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.holds[step] == gate {
			delete(w.holds, step)
			close(gate)
		}
	}
}

// step is called at each step of a simulator.
func (w *World) step(ctx context.Context, name string) error {
	w.mu.Lock()
	err, gate := w.faults[name], w.holds[name]
	if gate != nil && w.reached[name] != nil {
		close(w.reached[name])
		delete(w.reached, name)
	}
	w.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// fault is step without Hold.
func (w *World) fault(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[name]
}

// Running lists the VMs whose machine runs, sorted.
func (w *World) Running() []vm.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []vm.ID
	for _, m := range w.machines {
		if m.alive() {
			ids = append(ids, m.spec.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Launches counts the machines that were started.
func (w *World) Launches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.launches
}

// End ends a VM's machine with a reason: "guest-poweroff", "guest-reboot" or
// "qemu-crash". It reports whether there was one.
func (w *World) End(id vm.ID, reason string) bool {
	m := w.find(id)
	if m == nil {
		return false
	}
	m.end(reason)
	return true
}

// Spent holds the counters of a machine.
type Spent struct {
	CPU                time.Duration
	FromGuest, ToGuest int64
}

// Spend sets the counters of a VM's machine. A new machine starts at 0.
func (w *World) Spend(id vm.ID, s Spent) {
	if m := w.find(id); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.spent = s
	}
}

// Hang makes a VM's guest stop answering.
func (w *World) Hang(id vm.ID) {
	if m := w.find(id); m != nil {
		m.guest.hang()
	}
}

// Lose cuts every connection to a VM's monitor; the machine keeps running.
func (w *World) Lose(id vm.ID) {
	if m := w.find(id); m != nil {
		m.cut()
	}
}

// Spec returns what a VM's running machine was started with.
func (w *World) Spec(id vm.ID) (vm.MachineSpec, bool) {
	m := w.find(id)
	if m == nil {
		return vm.MachineSpec{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spec, true
}

// Policy returns the network policy that a VM's machine enforces.
func (w *World) Policy(id vm.ID) vm.NetworkPolicy {
	m := w.find(id)
	if m == nil {
		return vm.NetworkPolicy{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy
}

// Connect opens a connection of a VM's guest, which a change to mode closed cuts.
func (w *World) Connect(id vm.ID, c vm.Connection) {
	if m := w.find(id); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.opened = append(m.opened, c)
	}
}

// Reboot simulates a restart of the host: every machine ends at once.
func (w *World) Reboot() {
	w.mu.Lock()
	machines := w.machines
	w.machines = map[string]*machine{}
	w.bootID = vm.NewUUID()
	w.mu.Unlock()
	for _, m := range machines {
		m.vanish()
	}
}

// SetFree sets the available memory and disk, in bytes.
func (w *World) SetFree(memory, disk int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free, w.diskFree = memory, disk
}

// SetPrivate sets how many changed pages a capture reports.
func (w *World) SetPrivate(pages int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.private = pages
}

// SetWaiting sets the percentage of the time in which programs wait for a CPU.
func (w *World) SetWaiting(percent float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = percent
}

// SetPSS sets the host memory that each machine reports; 80 MiB at first.
func (w *World) SetPSS(bytes int64) { w.pss.Store(bytes) }

// SetStalled sets the percentage of the time in which all programs wait for memory.
func (w *World) SetStalled(percent float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled = percent
}

// Upgrade changes the host's agent digest and QEMU version.
func (w *World) Upgrade(agent, qemu string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agent, w.qemu = agent, qemu
}

// Rewarm changes the warm generations from now on.
func (w *World) Rewarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rewarmed++
}

func (w *World) find(id vm.ID) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines {
		if m.spec.ID == id && m.alive() {
			return m
		}
	}
	return nil
}
