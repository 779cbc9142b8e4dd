// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qmp"
	"github.com/warren-vm/warren/vm"
)

// Process is one QEMU, started or adopted. Its owner calls Kill, waits for Exited,
// or calls Abandon.
type Process struct {
	Ident Ident
	Spec  vm.MachineSpec // without the link keys and the reset
	QMP   *qmp.Client

	events *qmp.Events   // events from the start on, for Reason
	status string        // e.g. "signal: killed"; set before exited is closed; "" for an adopted process
	exited chan struct{} // closed when the process is gone
	handle *Handle       // of an adopted process; nil otherwise
	output *output       // nil of an adopted process that prints to a file

	fault func(step string) error // nil outside tests

	mu  sync.Mutex      // guards now
	now *vm.MachineSpec // size and modules, if they differ from Spec's
}

// Spawn starts QEMU for spec and returns when it answers on QMP; AwaitRunning then
// loads a generation. The sockets in spec.RunDir exist and accept connections
// before QEMU runs. The process has its own process group and outlives its parent;
// it reaches only the files of spec and those lent to it. On an error nothing is
// left of it.
func Spawn(ctx context.Context, spec vm.MachineSpec) (_ *Process, err error) {
	if g := spec.Generation; g != nil && len(g.Modules) != len(spec.Plugged.Modules) {
		return nil, vm.Errorf(vm.Internal, string(spec.ID), "%d files for %d memory modules", len(g.Modules), len(spec.Plugged.Modules))
	}
	if err := unlocked(spec); err != nil {
		return nil, err
	}
	cmd := exec.Command(spec.QEMU, Args(spec)...)
	cmd.Dir = "/"
	cmd.Env = environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	files, err := inherited(spec)
	defer func() {
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			RemoveSockets(spec)
			removeColdRAM(spec)
		}
	}()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = files
	out, w, err := newOutput(spec)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := makeColdRAM(spec); err != nil {
		w.Close()
		out.close()
		return nil, err
	}
	offer, end := context.WithCancel(ctx)
	defer end()
	gate, err := startConfined(offer, cmd, spec)
	w.Close()
	if err != nil {
		out.finish()
		return nil, startError(spec, err)
	}
	defer gate.Close()
	p := &Process{Spec: withoutKeys(spec), exited: make(chan struct{}), output: out}
	Bound(spec.ID, cmd.Process.Pid, spec.Size)
	go func() {
		if err := cmd.Wait(); err != nil {
			p.status = err.Error()
		}
		out.finish()
		confine.Hierarchy{}.Leave(string(spec.ID))
		close(p.exited)
	}()
	if err := p.greet(ctx, cmd.Process.Pid, gate); err != nil {
		_ = cmd.Process.Kill() // fails only when it is gone already
		<-p.exited
		return nil, p.failure(err)
	}
	removeColdRAM(spec) // QEMU has it open and frees its space at the end
	return p, nil
}

// withoutKeys is the part of a spec that a Process keeps. The guest's identity
// changes while QEMU runs (a machine of the pool becomes a VM). The owner of the
// Process keeps that; a copy would become stale.
func withoutKeys(spec vm.MachineSpec) vm.MachineSpec {
	spec.GuestKey, spec.OtherKeys, spec.Reset = nil, nil, vm.Reset{}
	return spec
}

// overhead is the memory that QEMU may have in addition to the guest's RAM: stacks,
// caches, translated code. It bounds a leak that a guest provokes.
const overhead = 2 << 30

func dataLimit(memoryMiB int) uint64 { return uint64(memoryMiB)<<20 + overhead }

// limits bound what the process may use of the host, whatever its guest does. Its
// disk is bounded by its virtual size.
func limits(spec vm.MachineSpec) []confine.Limit {
	data := dataLimit(spec.Size.MemoryMiB)
	return []confine.Limit{
		{What: unix.RLIMIT_DATA, Cur: data, Max: max(data, dataLimit(maxMemoryMiB))}, // raised when memory is plugged in
		{What: unix.RLIMIT_NOFILE, Cur: 1024, Max: 1024},
		{What: unix.RLIMIT_CORE}, // a core file would contain a guest's memory
	}
}

// load makes QEMU read the generation's device state, without waiting for the end. It
// first sets the netdev's link down. QEMU starts to listen on net.sock asynchronously
// and marks the link as down only then. The card announces itself after every load; an
// earlier packet would go to a connection that does not exist yet and crash QEMU. The
// guest notices nothing: the card's own link state comes from the generation, and a
// connection sets the netdev's link up.
func (p *Process) load(ctx context.Context) error {
	if p.Spec.Generation == nil {
		return nil
	}
	if err := p.QMP.Execute(ctx, "set_link", map[string]any{"name": "net0", "up": false}, nil); err != nil {
		return err
	}
	return p.QMP.Execute(ctx, "migrate-incoming", map[string]any{"uri": "fd:" + strconv.Itoa(fdDevice)}, nil)
}

// greet records the identity of the process, lets QEMU run in it, and negotiates QMP. So no
// QEMU runs whose identity is not on disk, wherever its parent is killed. The connection ends
// with the process.
func (p *Process) greet(ctx context.Context, pid int, gate *confine.Gate) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-p.exited:
			cancel(errors.New("qemu ended at once"))
		case <-stop:
		}
	}()
	if p.Ident, err = Identify(pid); err != nil {
		return fmt.Errorf("identify qemu: %w", err)
	}
	if err := p.Ident.save(layout.RunVM(p.Spec.RunDir).QEMUPID()); err != nil {
		return err
	}
	if err := gate.Open(); err != nil {
		return fmt.Errorf("let qemu run: %w", err)
	}
	p.QMP, err = qmp.Dial(ctx, layout.RunVM(p.Spec.RunDir).QMP())
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	p.events = p.QMP.Subscribe()
	return nil
}

// Adopt takes over a QEMU that another process started. NotFound when it is
// gone.
func Adopt(ctx context.Context, spec vm.MachineSpec) (*Process, error) {
	var id Ident
	if err := layout.ReadJSON(layout.RunVM(spec.RunDir).QEMUPID(), &id); err != nil {
		return nil, err
	}
	h, err := id.Open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil, vm.Errorf(vm.NotFound, string(spec.ID), "its qemu is gone")
	}
	if err != nil {
		return nil, err
	}
	p := &Process{Ident: id, Spec: withoutKeys(spec), handle: h, exited: make(chan struct{})}
	if p.output, err = readOutput(spec); err != nil && vm.KindOf(err) != vm.NotFound { // an older Warren gave it a file
		h.Close()
		return nil, err
	}
	if p.QMP, err = qmp.Dial(ctx, layout.RunVM(spec.RunDir).QMP()); err != nil {
		p.output.close()
		h.Close()
		return nil, vm.Errorf(vm.Unavailable, string(spec.ID), "qemu does not answer: %w", err)
	}
	p.events = p.QMP.Subscribe()
	go func() {
		defer close(p.exited)
		_ = h.Wait(context.WithoutCancel(ctx)) // ends with the process, or with Abandon
		p.output.finish()
	}()
	return p, nil
}

// Abandon closes the connections to the process, which keeps running. Only for a
// monitor that ends.
func (p *Process) Abandon() {
	_ = p.QMP.Close()
	p.output.close()
	if p.handle != nil {
		p.handle.Close()
	}
}

// Exited is closed when the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// AwaitRunning makes QEMU load the machine's generation, if it has one, and waits until the
// guest's CPUs run. If QEMU refuses the state it ends, and the error contains its message.
// Call it once.
//
// A client that connects to the agent's socket before the load has a working port at once.
// While loading, QEMU 7.2 writes what the port held back at the capture
// (fetch_active_ports_list in hw/char/virtio-serial-bus.c). If no client is connected then,
// the port stays silent until its connection is closed and made again.
func (p *Process) AwaitRunning(ctx context.Context) error {
	if err := p.load(ctx); err != nil {
		return p.failure(err)
	}
	events := p.QMP.Subscribe()
	defer events.Close()
	for {
		state, err := p.RunState(ctx)
		if err != nil {
			return p.failure(err)
		}
		switch state {
		case "running":
			return p.dropSecrets(ctx)
		case "inmigrate", "prelaunch", "postmigrate", "restore-vm":
		case stoppedForRoom:
			return p.noRoom()
		default: // also "paused": the state was read and could not be activated
			return vm.Errorf(vm.Internal, string(p.Spec.ID), "qemu is %s after its start%s", state, p.lastWords())
		}
		// There is no event for a state that could not be activated.
		look, cancel := context.WithTimeout(ctx, lookAgain)
		_, err = events.Next(look)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return p.failure(err)
		}
	}
}

// lookAgain is how long to wait for an event before QEMU is asked again.
const lookAgain = 200 * time.Millisecond

// RunState asks QEMU for its state, e.g. "running".
func (p *Process) RunState(ctx context.Context) (string, error) {
	var st struct {
		Status string `json:"status"`
	}
	err := p.QMP.Execute(ctx, "query-status", nil, &st)
	return st.Status, err
}

// stoppedForRoom is the state of a machine whose guest wrote to its disk while the
// host's was full.
const stoppedForRoom = "io-error"

func (p *Process) noRoom() error {
	return vm.Errorf(vm.NoSpace, string(p.Spec.ID), "the guest is paused: the disk of the data directory is full").
		WithHint("free some space there; the guest keeps running by itself then")
}

// Kill ends the process and returns when it is gone, or with ctx's error.
func (p *Process) Kill(ctx context.Context) error {
	if err := p.Ident.End(ctx); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Quit asks QEMU to end, which flushes the disk's metadata, and kills it if ctx
// ends first. It returns when the process is gone.
func (p *Process) Quit(ctx context.Context) error {
	err := p.QMP.Execute(ctx, "quit", nil, nil)
	if err == nil || errors.Is(err, qmp.ErrClosed) {
		select {
		case <-p.exited:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
}

// Reason returns why an exited process has ended: on request of the guest or of
// Warren, or by a crash. It blocks briefly for the last events.
func (p *Process) Reason(ctx context.Context) vm.MachineExit {
	out := vm.MachineExit{Reason: "qemu-crash"}
	for {
		e, err := p.events.Next(ctx)
		if err != nil {
			break
		}
		if e.Name == "SHUTDOWN" {
			out.Reason = shutdownReason(e)
		}
	}
	if out.Reason == "qemu-crash" {
		out.Detail = strings.Trim(p.status+": "+lastLines(p.Spec, 1), ": ")
	}
	return out
}

func shutdownReason(e qmp.Event) string {
	switch data := string(e.Data); {
	case strings.Contains(data, `"guest-shutdown"`):
		return "guest-poweroff"
	case strings.Contains(data, `"guest-reset"`):
		return "guest-reboot"
	case strings.Contains(data, `"guest-panic"`):
		return "guest-panic"
	case strings.Contains(data, `"host-qmp-quit"`):
		return "stop"
	case strings.Contains(data, `"host-signal"`):
		return "kill"
	}
	return "qemu-crash"
}

// failure explains an error of a QEMU that may have ended: the log's last lines say
// more than a closed connection. It waits for them for at most twice lastOutput.
func (p *Process) failure(err error) error {
	if errors.Is(err, qmp.ErrClosed) {
		select {
		case <-p.exited: // all that QEMU said is in its log
		case <-time.After(2 * lastOutput): // QEMU lives, or does not end
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return vm.Errorf(vm.Timeout, string(p.Spec.ID), "qemu did not get ready in time%s: %w", p.lastWords(), err)
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, qmp.ErrClosed) && !p.gone() {
		return err
	}
	if p.gone() && p.status != "" {
		err = fmt.Errorf("%s: %w", p.status, err)
	}
	return startError(p.Spec, err)
}

func (p *Process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *Process) lastWords() string { return words(p.Spec) }

func words(spec vm.MachineSpec) string {
	if s := lastLines(spec, 3); s != "" {
		return " (it said: " + s + ")"
	}
	return ""
}

// startError gives the error of a failed start a kind.
func startError(spec vm.MachineSpec, err error) error {
	said := lastLines(spec, 3)
	out := vm.Errorf(vm.Internal, string(spec.ID), "qemu could not be started%s: %w", words(spec), err)
	switch {
	case errors.Is(err, os.ErrNotExist) && !fileExists(spec.QEMU):
		out = vm.Errorf(vm.Unsupported, spec.QEMU, "qemu is not installed").WithHint("`warren doctor` says how to install it")
	case strings.Contains(said, "Cannot allocate memory") || strings.Contains(said, "cannot set up guest memory"):
		out.Kind = vm.Limit
		out.Hint = "stop another VM or use a smaller one (--mem)"
	case noSpace(said) || errors.Is(err, syscall.ENOSPC):
		out.Kind = vm.NoSpace
		out.Hint = "free some space on the disk of the data directory"
	}
	return out
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// environ is QEMU's environment. Encrypted disks use a buffer as large as the
// request, allocated and freed each time. By default glibc returns such memory to
// the kernel and gets it again page by page, which took a third of the time of an
// encrypted read.
func environ() []string {
	return []string{"LC_ALL=C", "MALLOC_MMAP_THRESHOLD_=4194304", "MALLOC_TRIM_THRESHOLD_=8388608"}
}
