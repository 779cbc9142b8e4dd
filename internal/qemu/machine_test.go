// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// counter is a guest of 512 bytes: it fills 64 KiB at 0x20000 with 0x5a and
// then counts at 0x9000 for ever.
var counter = []byte{
	0xfa,       // cli
	0x31, 0xc0, // xor ax,ax
	0x8e, 0xd8, // mov ds,ax
	0xb8, 0x00, 0x20, // mov ax,0x2000
	0x8e, 0xc0, // mov es,ax
	0x31, 0xff, // xor di,di
	0xb9, 0x00, 0x80, // mov cx,0x8000
	0xb8, 0x5a, 0x5a, // mov ax,0x5a5a
	0xfc, 0xf3, 0xab, // cld; rep stosw
	0x66, 0xff, 0x06, 0x00, 0x90, // inc dword [0x9000]
	0xb9, 0x00, 0x10, // mov cx,0x1000
	0xe2, 0xfe, // loop $
	0xeb, 0xf4, // jmp to the inc
}

const fillAt, fillSize, countAt = 0x20000, 0x10000, 0x9000

func needQEMU(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is not installed")
	}
	return bin
}

// newSpec is a machine whose disk holds the counter.
func newSpec(t *testing.T) vm.MachineSpec {
	t.Helper()
	bin := needQEMU(t)
	dir := t.TempDir()
	run, err := os.MkdirTemp("", "wr") // a short path: sockets have at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	sector := make([]byte, 1<<20)
	copy(sector, counter)
	sector[510], sector[511] = 0x55, 0xaa
	raw := filepath.Join(dir, "raw")
	if err := os.WriteFile(raw, sector, 0o600); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk.qcow2")
	qemuImg(t, "convert", "-O", "qcow2", raw, disk)
	return vm.MachineSpec{
		Format: 1, ID: vm.NewID(), Dir: dir, RunDir: run, QEMU: bin, Accel: vm.TCG, CPU: "Nehalem",
		Machine: "pc-q35-7.2", Size: vm.Size{VCPU: 1, MemoryMiB: 64, DiskMiB: 1}, Disk: disk,
	}
}

func spawn(ctx context.Context, t *testing.T, spec vm.MachineSpec) *Process {
	t.Helper()
	p, err := Spawn(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(context.Background()); err != nil {
			t.Errorf("kill: %v", err)
		}
	})
	if err := p.AwaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// capture captures p into a fresh directory and returns it as a generation.
func capture(ctx context.Context, t *testing.T, p *Process, s vm.CaptureSpec) (vm.GenerationSource, vm.Captured, error) {
	t.Helper()
	dir := t.TempDir()
	s.RAM, s.Device = layout.GenerationDir(dir).RAM(), layout.GenerationDir(dir).Device()
	c, err := p.Capture(ctx, s, nil)
	return vm.GenerationSource{RAM: s.RAM, Device: s.Device}, c, err
}

// count reads the guest's counter, 0 before the guest has begun, out of a file in
// which the memory may begin at an offset.
func count(t *testing.T, ram string, at ...int64) uint32 {
	t.Helper()
	start := append(at, 0)[0]
	f, err := os.Open(ram)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fill, n := make([]byte, fillSize), make([]byte, 4)
	if _, err := f.ReadAt(fill, start+fillAt); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(n, start+countAt); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fill, bytes.Repeat([]byte{0x5a}, fillSize)) {
		return 0
	}
	return binary.LittleEndian.Uint32(n)
}

// counting captures p until its guest counts above min.
func counting(ctx context.Context, t *testing.T, p *Process, min uint32) (vm.GenerationSource, uint32) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		g, c, err := capture(ctx, t, p, vm.CaptureSpec{})
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, g.RAM); n > min {
			t.Logf("counter %d, pause %v, total %v, %d private pages, %d KiB of RAM file, %d of state", n, c.Pause, c.Total, c.PrivatePages, c.RAMBytes>>10, c.DeviceBytes)
			return g, n
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the guest does not count")
		}
	}
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Memory, device state and disk of one instant; the machine keeps running,
// and so does every machine that is started on what was captured.
func TestCaptureAndStart(t *testing.T) {
	ctx := deadline(t)
	spec := newSpec(t)
	p := spawn(ctx, t, spec)
	if _, err := os.Stat(RAMPath(spec)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the memory file of a cold boot was left: %v", err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.Ident.PID))
	if err != nil || !strings.Contains(string(limits), fmt.Sprint(64<<20+overhead)) {
		t.Errorf("no limit on its memory: %v\n%s", err, limits)
	}
	gen, first := counting(ctx, t, p, 0)
	if _, later := counting(ctx, t, p, first); later <= first {
		t.Fatalf("the captured machine stands still at %d", later)
	}

	sum, err := Sum(ctx, gen.RAM)
	if err != nil {
		t.Fatal(err)
	}
	if used := blocks(t, gen.RAM); used > 16<<20 {
		t.Errorf("the memory file takes %d bytes: it is not sparse", used)
	}
	// The disk of the child must not be the parent's: an overlay beside it.
	child := newSpec(t)
	child.Disk = filepath.Join(spec.Dir, "child.qcow2")
	if err := CreateOverlay(child.Disk, "disk.qcow2", 1); err != nil {
		t.Fatal(err)
	}
	child.Generation = &gen
	if err := p.Quit(ctx); err != nil {
		t.Fatal(err)
	}
	c := spawn(ctx, t, child)
	gen2, second := counting(ctx, t, c, first)
	if second <= first {
		t.Errorf("the child began anew: %d after %d", second, first)
	}
	if err := Verify(ctx, gen.RAM, sum); err != nil {
		t.Errorf("the child wrote into its generation: %v", err)
	}
	if err := c.Quit(ctx); err != nil {
		t.Fatal(err)
	}
	grandchild := newSpec(t)
	grandchild.Disk = filepath.Join(spec.Dir, "grandchild.qcow2")
	if err := CreateOverlay(grandchild.Disk, "child.qcow2", 1); err != nil {
		t.Fatal(err)
	}
	grandchild.Generation = &gen2
	counting(ctx, t, spawn(ctx, t, grandchild), second)
}

func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestCaptureMovesDisk(t *testing.T) {
	ctx := deadline(t)
	spec := newSpec(t)
	p := spawn(ctx, t, spec)
	over, disk0 := "", spec.Disk
	for range 2 {
		id := vm.NewGenerationID()
		backing := filepath.Base(disk0)
		over = layout.VMDir(spec.Dir).NextOverlay(id)
		if err := CreateOverlay(over, backing, 1); err != nil {
			t.Fatal(err)
		}
		disk0 = over
		_, c, err := capture(ctx, t, p, vm.CaptureSpec{Overlay: over})
		if err != nil || c.Pause == 0 {
			t.Fatalf("the capture: %v; its pause %v", err, c.Pause)
		}
		node, err := p.diskNode(ctx)
		if want := "disk-" + string(id); err != nil || node != want {
			t.Errorf("the disk is %q, %v", node, err)
		}
		if path, err := p.ActiveDisk(ctx); err != nil || path != over {
			t.Errorf("the disk is %q, %v", path, err)
		}
	}
	if err := p.Quit(ctx); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, "check", "-q", over)
}

func TestCaptureQuits(t *testing.T) {
	ctx := deadline(t)
	p := spawn(ctx, t, newSpec(t))
	if _, _, err := capture(ctx, t, p, vm.CaptureSpec{Quit: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Exited():
	default:
		t.Error("the machine still runs")
	}
	if exit := p.Reason(ctx); exit.Reason != "stop" {
		t.Errorf("after the stop the exit is %+v, want reason stop", exit)
	}
}

// The memory is compared while QEMU is at disk and devices, and what is captured
// is what the machine held when it stopped.
func TestCaptureComparesBesideDevices(t *testing.T) {
	ctx := deadline(t)
	p := spawn(ctx, t, newSpec(t))
	counting(ctx, t, p, 0)
	m, err := openMemory(p.Ident.PID, RAMPath(p.Spec), int64(p.Spec.Size.MemoryMiB)<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	held := func() uint32 { return count(t, fmt.Sprintf("/proc/%d/mem", m.pid), m.start) }
	dir := layout.GenerationDir(t.TempDir())
	stopped := uint32(0)
	p.fault = func(at string) error {
		if at != "disk moved" {
			return nil
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for stopped = held(); count(t, dir.RAM()) != stopped; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return errors.New("the memory waits for the devices")
			}
		}
		return nil
	}
	if _, err := p.Capture(ctx, vm.CaptureSpec{RAM: dir.RAM(), Device: dir.Device(), Hold: true}, nil); err != nil {
		t.Fatal(err)
	}
	if now := held(); now != stopped {
		t.Errorf("the counter went on from %d to %d in the pause", stopped, now)
	}
	same(t, dir.RAM(), fmt.Sprintf("/proc/%d/mem", m.pid), m.start)
}

// Whatever fails in the pause, and whoever goes away: the machine keeps
// running and no half file stays.
func TestCaptureContinuesInEveryCase(t *testing.T) {
	ctx := deadline(t)
	spec := newSpec(t)
	p := spawn(ctx, t, spec)
	boom := errors.New("boom")
	for _, step := range []string{"stopped", "disk moved", "device saved"} {
		for _, how := range []string{"error", "cancel"} {
			t.Run(step+"/"+how, func(t *testing.T) {
				cctx, cancel := context.WithCancel(ctx)
				defer cancel()
				p.fault = func(at string) error {
					switch {
					case at != step:
					case how == "error":
						return boom
					default:
						cancel()
					}
					return nil
				}
				defer func() { p.fault = nil }()
				gen, c, err := capture(cctx, t, p, vm.CaptureSpec{Quit: true})
				if !errors.Is(err, boom) && !errors.Is(err, context.Canceled) {
					t.Errorf("the capture gives %+v (%v), want the injected error or a cancelled context", c, err)
				}
				checkWhole(ctx, t, p, gen)
			})
		}
	}
	t.Run("missing overlay", func(t *testing.T) {
		disk, derr := p.diskNode(ctx)
		gen, _, err := capture(ctx, t, p, vm.CaptureSpec{Overlay: layout.VMDir(spec.Dir).NextOverlay(vm.NewGenerationID())})
		if err == nil {
			t.Error("a capture onto no file succeeded")
		}
		if now, err := p.diskNode(ctx); err != nil || derr != nil || now != disk {
			t.Errorf("the disk moved from %q to %q (%v, %v)", disk, now, derr, err)
		}
		checkWhole(ctx, t, p, gen)
	})
	t.Run("file is there", func(t *testing.T) {
		path := filepath.Join(spec.Dir, "disk.qcow2")
		_, err := p.Capture(ctx, vm.CaptureSpec{RAM: path, Device: path}, nil)
		if !errors.Is(err, vm.Exists) || !fileExists(path) {
			t.Errorf("capturing over a file that exists: %v, want exists and the file untouched", err)
		}
	})
}

func checkWhole(ctx context.Context, t *testing.T, p *Process, gen vm.GenerationSource) {
	t.Helper()
	if state, err := p.RunState(ctx); err != nil || state != "running" {
		t.Errorf("the machine is %q, %v", state, err)
	}
	if fileExists(gen.RAM) || fileExists(gen.Device) {
		t.Error("a half capture was left")
	}
}

func TestCaptureOfDyingMachine(t *testing.T) {
	ctx := deadline(t)
	p := spawn(ctx, t, newSpec(t))
	p.fault = func(at string) error {
		if at == "device saved" {
			return p.Kill(ctx)
		}
		return nil
	}
	gen, _, err := capture(ctx, t, p, vm.CaptureSpec{})
	if err == nil || fileExists(gen.RAM) || fileExists(gen.Device) {
		t.Errorf("captured a dead machine: %v", err)
	}
}

func TestKillIsNoticed(t *testing.T) {
	ctx := deadline(t)
	spec := newSpec(t)
	p := spawn(ctx, t, spec)
	adopted, err := func() (*Process, error) {
		p.QMP.Close() // QEMU listens again for the next monitor
		return Adopt(ctx, spec)
	}()
	if err != nil {
		t.Fatal(err)
	}
	defer adopted.Abandon()
	if state, err := adopted.RunState(ctx); err != nil || state != "running" {
		t.Errorf("the adopted machine is %q (%v), want running", state, err)
	}
	if found, err := Find(spec.ID); err != nil || len(found) != 1 || found[0] != p.Ident {
		t.Errorf("found %v, %v", found, err)
	}
	begin := time.Now()
	if err := unix.Kill(p.Ident.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*Process{p, adopted} {
		select {
		case <-q.Exited():
		case <-ctx.Done():
			t.Fatal("nobody noticed")
		}
	}
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("noticed after %v", d)
	}
	if r := adopted.Reason(ctx); r.Reason != "qemu-crash" {
		t.Errorf("the adopted machine's exit is %+v, want reason qemu-crash", r)
	}
	if _, err := Adopt(ctx, spec); !errors.Is(err, vm.NotFound) {
		t.Errorf("adopted a dead machine: %v", err)
	}
}

// A start that fails says why and leaves nothing.
func TestSpawnFailures(t *testing.T) {
	ctx := deadline(t)
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(*vm.MachineSpec)
		kind  vm.Kind
		says  string
	}{
		{"no qemu", func(s *vm.MachineSpec) { s.QEMU = "/nonexistent/qemu" }, vm.Unsupported, "not installed"},
		{"no machine", func(s *vm.MachineSpec) { s.Machine = "pc-q35-0.1" }, vm.Internal, "unsupported machine type"},
		{"no disk", func(s *vm.MachineSpec) { s.Disk += "x" }, vm.Internal, "No such file"},
		{"no kernel", func(s *vm.MachineSpec) { s.Boot.Kernel = "/nonexistent" }, vm.Internal, "nonexistent"},
		{"no device file", func(s *vm.MachineSpec) { s.Generation = &vm.GenerationSource{RAM: junk, Device: junk + "x"} }, vm.NotFound, "junkx"},
		{"broken state", func(s *vm.MachineSpec) { s.Generation = &vm.GenerationSource{RAM: junk, Device: junk} }, vm.Internal, ""},
		{"too much memory", func(s *vm.MachineSpec) { s.Size.MemoryMiB = 1 << 40 }, vm.Invalid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := newSpec(t)
			c.spoil(&spec)
			p, err := Spawn(ctx, spec)
			if err == nil {
				err = p.AwaitRunning(ctx)
				if kerr := p.Kill(ctx); kerr != nil {
					t.Error(kerr)
				}
				RemoveSockets(spec)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the start fails with %v, want %q", err, c.says)
			}
			if vm.KindOf(err) != c.kind && c.name != "too much memory" {
				t.Errorf("kind %s: %v", vm.KindOf(err), err)
			}
			left, _ := filepath.Glob(filepath.Join(spec.RunDir, "*.sock"))
			if len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestSpawnDeadline(t *testing.T) {
	spec := newSpec(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, err := Spawn(ctx, spec); err == nil {
		t.Errorf("started under a dead context: %v", p.Kill(t.Context()))
	}
	if id := (Ident{}); layout.ReadJSON(layout.RunVM(spec.RunDir).QEMUPID(), &id) == nil && id.Alive() {
		t.Error("it still runs")
	}
}

func TestInspect(t *testing.T) {
	bin := needQEMU(t)
	info, err := Inspect(deadline(t), bin)
	if err != nil || !strings.HasPrefix(info.Machine, "pc-q35-") || strings.Count(info.Version, ".") != 2 {
		t.Errorf("QEMU says of itself %+v (%v), want machine pc-q35 and a version of three numbers", info, err)
	}
	if _, err := Inspect(t.Context(), "/bin/false"); !errors.Is(err, vm.Unsupported) {
		t.Errorf("/bin/false: %v", err)
	}
	if _, err := Inspect(t.Context(), "/nonexistent"); !errors.Is(err, vm.Unsupported) {
		t.Errorf("nothing: %v", err)
	}
	model, err := CPUModel(deadline(t), bin, vm.TCG, []string{"NoSuchModel", "Nehalem"})
	if err != nil || model != "Nehalem" {
		t.Errorf("the CPU model is %q (%v), want Nehalem", model, err)
	}
}
