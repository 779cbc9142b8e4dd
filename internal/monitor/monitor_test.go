// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// fakeSpec is a machine on the simulated QEMU, which is this test binary.
func fakeSpec(t *testing.T, behaviour string) vm.MachineSpec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run, err := os.MkdirTemp("", "wr") // a short path: sockets have at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	id, dir := vm.NewID(), t.TempDir()
	disk := filepath.Join(dir, "disk") // that it says it writes to
	rootDisk(t, disk)
	return vm.MachineSpec{
		Format: 1, ID: id, Dir: dir, RunDir: filepath.Join(run, string(id)), QEMU: self,
		Accel: vm.TCG, CPU: behaviour, Disk: disk, Machine: "pc-q35-7.2", Size: vm.Size{VCPU: 1, MemoryMiB: 64},
		Boot:     vm.BootSource{Kernel: "/k", Initramfs: "/i", Cmdline: "quiet"},
		GuestKey: []byte(strings.Repeat("g", link.KeySize)),
		Reset:    vm.Reset{Hostname: "box", LinkKey: []byte(strings.Repeat("n", link.KeySize))},
		Network:  vm.NetworkPolicy{Mode: vm.NetClosed}, Deadline: 20 * time.Second,
	}
}

// rootDisk makes a disk that lies on nothing: what QEMU is to open is looked at
// before.
func rootDisk(t *testing.T, path string) {
	t.Helper()
	if err := qemu.CreateOverlay(path, "nothing", 1); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 12), 8); err != nil { // the backing name's offset and length
		t.Fatal(err)
	}
}

func launcher(t *testing.T) *Launcher {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Launcher{Binary: self}
}

// killMonitor ends a VM's monitor as a crash would; it returns what it said last.
func killMonitor(ctx context.Context, t *testing.T, c *Client) vm.MachineStatus {
	t.Helper()
	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(st.MonitorPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return st
}

func launch(ctx context.Context, t *testing.T, spec vm.MachineSpec) (*Launcher, *Client) {
	t.Helper()
	l := launcher(t)
	c, st, err := l.Launch(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := l.Sweep(context.Background(), spec.RunDir); err != nil {
			t.Error(err)
		}
	})
	if !st.Ready || st.Resets[vm.ResetClock] != "ok" || st.RunState != "running" {
		t.Errorf("status %+v", st)
	}
	return l, c
}

// alive lists processes that belong to the machine.
func alive(t *testing.T, spec vm.MachineSpec) (list []string) {
	t.Helper()
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		line, err := os.ReadFile(p)
		if err == nil && (strings.Contains(string(line), spec.Dir) || strings.Contains(string(line), string(spec.ID))) {
			list = append(list, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return list
}

// nothingLeft checks that neither process nor socket nor run directory is there.
func nothingLeft(t *testing.T, spec vm.MachineSpec) {
	t.Helper()
	if left := alive(t, spec); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	if _, err := os.Stat(spec.RunDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run directory is left: %v", err)
	}
	if _, err := os.Stat(layout.VMDir(spec.Dir).ColdRAM()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a memory file is left: %v", err)
	}
}

func TestLaunchAndStop(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	l, c := launch(ctx, t, spec)
	if _, _, err := l.Launch(ctx, spec); !errors.Is(err, vm.Busy) {
		t.Errorf("a second machine for the same VM: %v", err)
	}
	if hello, err := c.Guest().Hello(ctx); err != nil || hello.Protocol != 1 {
		t.Errorf("hello %+v, %v", hello, err)
	}
	st, err := c.Status(ctx)
	if err != nil || st.QEMUPID == 0 || st.RSS == 0 || st.Protocol != Protocol {
		t.Errorf("status %+v, %v", st, err)
	}
	for _, want := range []string{confine.Seccomp, confine.NoNewPrivileges, confine.NoCapabilities} {
		if !slices.Contains(st.Confined, want) {
			t.Errorf("%s does not hold QEMU: %v", want, st.Confined)
		}
	}
	if held, err := confine.Of(st.MonitorPID); err != nil || !slices.Contains(held, confine.NoNewPrivileges) || !slices.Contains(held, confine.Seccomp) {
		t.Errorf("the monitor is held by %v, %v", held, err)
	}
	if err := c.SetNetwork(ctx, vm.NetworkPolicy{Mode: vm.NetOpen}); err != nil {
		t.Error(err)
	}
	var kept vm.MachineSpec
	if err := layout.ReadJSON(layout.VMDir(spec.Dir).Machine(), &kept); err != nil || kept.Network.Mode != vm.NetOpen {
		t.Errorf("the policy is not kept for the next monitor: %+v, %v", kept.Network, err)
	}
	if list, err := c.Connections(ctx); err != nil || len(list) != 0 {
		t.Errorf("the connections are %v (%v), want none", list, err)
	}
	waited := make(chan vm.MachineExit, 1)
	go func() {
		exit, err := c.Wait(ctx)
		if err != nil {
			t.Error(err)
		}
		waited <- exit
	}()
	if err := c.Stop(ctx, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if exit := <-waited; exit.Reason != "stop" || exit.Time.IsZero() {
		t.Errorf("exit %+v", exit)
	}
	if exit := ReadExit(spec.RunDir); exit.Reason != "stop" {
		t.Errorf("exit.json %+v", exit)
	}
	console, err := os.ReadFile(layout.VMDir(spec.Dir).ConsoleLog())
	if err != nil || !strings.Contains(string(console), "hello from the console") {
		t.Errorf("console %q, %v", console, err)
	}
	if _, _, err := l.Attach(ctx, spec.RunDir); !errors.Is(err, vm.NotFound) {
		t.Errorf("attached to what is gone: %v", err)
	}
	if err := c.Stop(ctx, time.Second); err != nil {
		t.Errorf("stop of what is gone: %v", err)
	}
	if err := l.Sweep(ctx, spec.RunDir); err != nil {
		t.Error(err)
	}
	nothingLeft(t, spec)
	if err := l.Sweep(ctx, spec.RunDir); err != nil {
		t.Errorf("a second sweep: %v", err)
	}
}

// Whatever fails in a start, the caller learns it with its
// kind and nothing is left.
func TestLaunchFailures(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		warm      bool
		kind      vm.Kind
		says      string
	}{
		{"refuse", false, vm.Internal, "this machine is refused"},
		{"mute-qmp", false, vm.Timeout, "not ready within"},
		{"bad-state", true, vm.Internal, "load of migration failed"},
		{"bad-state+late", true, vm.Internal, "load of migration failed"},
		{"no-agent", false, vm.GuestFault, "did not answer"},
		{"no-agent", true, vm.GuestFault, "did not answer"},
		{"panics", true, vm.GuestFault, "kernel panicked while it was started: Kernel panic - not syncing: no init"},
		{"other-key", true, vm.GuestFault, "refuses this server's key"},
		{"silent", true, vm.GuestFault, "did not answer"},
		{"bad-hostname", true, vm.GuestFault, "hostname could not be reset: read-only file system"},
		{"no-rng", true, vm.GuestFault, "rng could not be reset: not acknowledged"},
		{"dies", true, vm.Internal, "qemu ended"},
		{"reboots", false, vm.GuestFault, "guest-reboot"},
	} {
		t.Run(fmt.Sprint(c.behaviour, c.warm), func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			spec := fakeSpec(t, c.behaviour)
			spec.Deadline = time.Minute
			if slices.Contains([]string{"mute-qmp", "no-agent", "silent"}, c.behaviour) {
				spec.Deadline = 5 * time.Second // nothing else ends the wait; what comes before it takes its time on a busy host
			}
			if c.warm {
				spec.Generation = generation(t)
			}
			_, _, err := launcher(t).Launch(ctx, spec)
			if vm.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("kind %s: %v", vm.KindOf(err), err)
			}
			nothingLeft(t, spec)
		})
	}
}

// generation makes files that pass the check; the simulated QEMU reads neither.
func generation(t *testing.T) *vm.GenerationSource {
	t.Helper()
	dir := layout.GenerationDir(t.TempDir())
	var g vm.Manifest
	for path, to := range map[string]*vm.File{dir.RAM(): &g.RAM, dir.Device(): &g.Device} {
		if err := os.WriteFile(path, []byte(strings.Repeat("x", 3<<20)), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if *to, err = qemu.Sum(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	if err := layout.WriteJSON(dir.Manifest(), g, 0o600); err != nil {
		t.Fatal(err)
	}
	return &vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device()}
}

func TestLaunchOnGeneration(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	spec.Generation = generation(t)
	_, c := launch(ctx, t, spec)
	if err := c.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if exit := ReadExit(spec.RunDir); exit.Reason != "kill" {
		t.Errorf("after a kill the exit is %+v, want reason kill", exit)
	}
}

// A restored guest is woken before there is a session. One whose agent is of an older
// Warren is reset by way of a session.
func TestLaunchWakes(t *testing.T) {
	for behaviour, linked := range map[string]bool{"well": false, "older-agent": true} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			spec := fakeSpec(t, behaviour)
			spec.Generation = generation(t)
			_, c := launch(ctx, t, spec)
			st, err := c.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := st.Timings["linked"]; ok != linked {
				t.Errorf("the steps of its start: %v", st.Timings)
			}
			if _, err := c.Guest().Hello(ctx); err != nil {
				t.Errorf("its agent: %v", err)
			}
		})
	}
}

// A damaged generation is refused before anything is started.
func TestLaunchRefusesDamage(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	spec.Generation = generation(t)
	l := launcher(t)
	if err := l.Verify(ctx, *spec.Generation); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(spec.Generation.RAM, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{'y'}, 2<<20+5); err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, _, err = l.Launch(ctx, spec)
	if !errors.Is(err, vm.Corrupt) || !strings.Contains(err.Error(), "MiB 2") || vm.AsError(err).Hint == "" {
		t.Errorf("launching with a damaged memory file: %v, want corrupt with a hint, in MiB 2", err)
	}
	nothingLeft(t, spec)
}

func TestLaunchGivenUp(t *testing.T) {
	spec := fakeSpec(t, "no-agent")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := launcher(t).Launch(ctx, spec)
	if !errors.Is(err, vm.Timeout) {
		t.Errorf("launching a guest without an agent: %v, want timeout", err)
	}
	nothingLeft(t, spec)
}

func TestLaunchUpgradesAgent(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	spec.Agent, spec.AgentDigest = spec.QEMU, "new"
	_, c := launch(ctx, t, spec)
	st, err := c.Status(ctx)
	if err != nil || st.Agent.Digest != "new" || st.Timings["upgraded"] == 0 {
		t.Errorf("after the launch the status is %+v (%v), want the new agent and the time of its upgrade", st, err)
	}
	bad := fakeSpec(t, "well")
	bad.Agent, bad.AgentDigest = bad.QEMU, "newer"
	if _, _, err := launcher(t).Launch(ctx, bad); !errors.Is(err, vm.GuestFault) {
		t.Errorf("an agent that stayed old was accepted: %v", err)
	}
	nothingLeft(t, bad)
}

// TestLaunchKeepsAgent: a guest that has no room for a newer agent starts with the
// one that it has; one whose agent has fallen silent over it does not.
func TestLaunchKeepsAgent(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "no-room")
	spec.Agent, spec.AgentDigest = spec.QEMU, "new"
	_, c := launch(ctx, t, spec)
	if st, err := c.Status(ctx); err != nil || st.Agent.Digest != "old" || !st.Ready {
		t.Errorf("after the launch the status is %+v (%v), want the old agent and a ready guest", st, err)
	}
	deaf := fakeSpec(t, "no-room+deaf")
	deaf.Agent, deaf.AgentDigest = deaf.QEMU, "new"
	if _, _, err := launcher(t).Launch(ctx, deaf); !errors.Is(err, vm.GuestFault) || !strings.Contains(err.Error(), "no space") {
		t.Errorf("an agent that does not answer any more was kept: %v", err)
	}
	nothingLeft(t, deaf)
}

// The machine outlives its monitor, and a new monitor takes it over.
func TestAttachAfterMonitorDied(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	l, c := launch(ctx, t, spec)
	before := killMonitor(ctx, t, c)
	if _, err := c.Wait(ctx); !errors.Is(err, vm.Unavailable) {
		t.Errorf("wait at a dead monitor: %v", err)
	}
	if _, err := c.Status(ctx); !errors.Is(err, vm.Unavailable) {
		t.Errorf("status of a dead monitor: %v", err)
	}
	c2, after, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	if after.QEMUPID != before.QEMUPID || after.MonitorPID == before.MonitorPID || !after.Ready {
		t.Errorf("%+v after %+v", after, before)
	}
	if hello, err := c2.Guest().Hello(ctx); err != nil || hello.Protocol != 1 {
		t.Errorf("hello %+v, %v", hello, err)
	}
	// Attaching again finds the monitor that is there.
	c3, again, err := l.Attach(ctx, spec.RunDir)
	if err != nil || again.MonitorPID != after.MonitorPID {
		t.Fatalf("attaching again gives %+v (%v), want monitor %d", again, err, after.MonitorPID)
	}
	c3.Close()
	if err := c2.Stop(ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if exit := ReadExit(spec.RunDir); exit.Reason != "stop" {
		t.Errorf("after a stop the exit is %+v, want reason stop", exit)
	}
}

// The files by which a machine is found come back when somebody removes them,
// and the machine is the same.
func TestRemovedFilesComeBack(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	l, c := launch(ctx, t, spec)
	before, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := layout.RunVM(spec.RunDir)
	for _, path := range []string{dir.Monitor(), dir.MonitorPID(), dir.QEMUPID()} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	answers := func() bool { // a socket is there before anybody listens at it
		conn, err := net.Dial("unix", dir.Monitor())
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	for !answers() || missing(dir.MonitorPID()) || missing(dir.QEMUPID()) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("they do not come back")
		}
	}
	c2, after, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	if after.QEMUPID != before.QEMUPID || after.MonitorPID != before.MonitorPID || !after.Ready {
		t.Errorf("%+v after %+v", after, before)
	}
	if _, err := c2.Guest().Hello(ctx); err != nil {
		t.Errorf("the guest: %v", err)
	}
	if err := c2.Stop(ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := l.Sweep(ctx, spec.RunDir); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, spec)
}

// An orderly end of the monitor leaves the machine, too.
func TestMonitorSteppedDown(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	l, c := launch(ctx, t, spec)
	id, err := loadIdentity(spec.RunDir)
	if err != nil || !id.Ready {
		t.Fatalf("the identity is %+v (%v), want a ready one", id, err)
	}
	if err := l.retire(ctx, id); err != nil {
		t.Fatal(err)
	}
	if c.gone() {
		t.Fatal("the machine went with its monitor")
	}
	c2, _, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	c2.Close()
}

func TestQEMUKillIsNoticed(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	l, c := launch(ctx, t, spec)
	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := unix.Kill(st.QEMUPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit, err := c.Wait(ctx)
	if err != nil || exit.Reason != "qemu-crash" {
		t.Errorf("after QEMU was killed the exit is %+v (%v), want reason qemu-crash", exit, err)
	}
	if d := time.Since(begin); d > time.Second {
		t.Errorf("noticed after %v", d)
	}
	if _, _, err := l.Attach(ctx, spec.RunDir); !errors.Is(err, vm.NotFound) {
		t.Errorf("attach: %v", err)
	}
}

func TestBothKilled(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	l, c := launch(ctx, t, spec)
	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{st.MonitorPID, st.QEMUPID} {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := l.Attach(ctx, spec.RunDir); !errors.Is(err, vm.NotFound) {
		t.Errorf("attach: %v", err)
	}
	if err := c.Kill(ctx); err != nil {
		t.Errorf("kill of what is gone: %v", err)
	}
}

// A monitor killed in the middle of a start, as a crash of the host's user
// session would: the half machine is buried.
func TestAttachBuriesHalfStarts(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "no-agent")
	l := launcher(t)
	failed := make(chan error, 1)
	go func() {
		_, _, err := l.Launch(ctx, spec)
		failed <- err
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, ram := os.Stat(layout.VMDir(spec.Dir).ColdRAM())
		if q, err := loadQEMU(spec.RunDir); err == nil && q.Alive() && errors.Is(ram, os.ErrNotExist) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("never started")
		}
	}
	id, err := loadIdentity(spec.RunDir)
	if err != nil || id.Ready {
		t.Fatalf("the identity is %+v (%v), want one that is not ready", id, err)
	}
	if err := unix.Kill(id.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; vm.KindOf(err) != vm.Internal {
		t.Errorf("the launch without its monitor: %v, want internal", err)
	}
	if _, _, err := l.Attach(ctx, spec.RunDir); !errors.Is(err, vm.NotFound) {
		t.Errorf("attach: %v", err)
	}
	nothingLeft(t, spec)
}

// A QEMU that nobody noted is found by its name.
func TestSweepFindsStrays(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	l, c := launch(ctx, t, spec)
	killMonitor(ctx, t, c)
	os.Remove(layout.RunVM(spec.RunDir).QEMUPID())
	if err := l.Sweep(ctx, spec.RunDir); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, spec)
}

// A guest that will not power off is ended after the grace.
func TestStopStubborn(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "stubborn")
	_, c := launch(ctx, t, spec)
	begin := time.Now()
	if err := c.Stop(ctx, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d < 300*time.Millisecond || d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

// A guest that stops answering costs a deadline, never the caller.
// TestFullHostDisk: a machine that is paused for want of room says so, and
// continues by itself.
func TestFullHostDisk(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "full")
	_, c := launch(ctx, t, spec)
	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(st.QEMUPID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"io-error", "running"} {
		for st.RunState != want {
			if st, err = c.Status(ctx); err != nil {
				t.Fatalf("waiting for the run state %s: %v", want, err)
			}
		}
		if want == "running" {
			break
		}
		if _, err := c.Capture(ctx, vm.CaptureSpec{RAM: filepath.Join(t.TempDir(), "ram")}); vm.KindOf(err) != vm.NoSpace {
			t.Errorf("a capture meanwhile: %v", err)
		}
	}
}

func TestDeafGuest(t *testing.T) {
	ctx := deadline(t)
	_, c := launch(ctx, t, fakeSpec(t, "deaf"))
	hctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := c.Guest().Hello(hctx)
	if k := vm.KindOf(err); k != vm.Timeout && k != vm.GuestFault {
		t.Errorf("kind %s: %v", k, err)
	}
	if err := c.Stop(ctx, 5*time.Second); err != nil {
		t.Error(err)
	}
}

// standsStill waits until a signal has stopped a process.
func standsStill(t *testing.T, pid int) {
	t.Helper()
	for range 500 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), ") T ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the process has not stopped")
}

// The same for a QEMU that is paused: it can be asked about and ended.
func TestFrozenQEMU(t *testing.T) {
	ctx := deadline(t)
	_, c := launch(ctx, t, fakeSpec(t, "well"))
	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(st.QEMUPID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	standsStill(t, st.QEMUPID)
	if st, err = c.Status(ctx); err != nil || st.RunState != "" {
		t.Errorf("the status of a stopped QEMU is %+v (%v), want no run state", st, err)
	}
	if err := c.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx); err != nil {
		t.Error(err)
	}
}

func TestDialPortRefuses(t *testing.T) {
	ctx := deadline(t)
	_, c := launch(ctx, t, fakeSpec(t, "well"))
	dctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := c.DialPort(dctx, 80)
	if err == nil {
		conn.Close()
		t.Fatal("a guest without a network answered")
	}
	if k := vm.KindOf(err); k != vm.Timeout && k != vm.Unavailable {
		t.Errorf("kind %s: %v", k, err)
	}
}
