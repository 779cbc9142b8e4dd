//go:build kvm

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package kvm

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// counter is the guest: a boot sector that counts at 0x9000 for ever.
var counter = []byte{
	0xfa,       // cli
	0x31, 0xc0, // xor ax,ax
	0x8e, 0xd8, // mov ds,ax
	0xbf, 0x00, 0x90, // mov di,0x9000
	0x66, 0xc7, 0x05, 0x00, 0x00, 0x00, 0x00, // mov dword [di],0
	0x66, 0x81, 0x4d, 0x04, 0x4b, 0x56, 0x4d, 0x21, // or dword [di+4],"KVM!"
	0x66, 0xff, 0x05, // inc dword [di]
	0xeb, 0xfb, // jmp to the inc
}

const (
	countAt   = 0x9000
	mark      = "KVM!"
	memoryMiB = 64
	siblings  = 16
	atOnce    = 2 // starts, as the product's queue does it
)

// bench is what the machines of one test share.
type bench struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	binary string
	info   qemu.Info
	cpu    string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dev, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no hardware virtualisation here: %v", err)
	}
	dev.Close()
	binary, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	b := &bench{t: t, ctx: ctx, dir: t.TempDir(), binary: binary}
	if b.info, err = qemu.Inspect(ctx, binary); err != nil {
		t.Fatal(err)
	}
	b.cpu, err = qemu.CPUModel(ctx, binary, vm.KVM, []string{"Haswell-noTSX", "EPYC-Rome", "EPYC", "Nehalem", "qemu64"})
	if vm.KindOf(err) == vm.Unsupported {
		// Nested virtualisation may lack features that every model has. This guest
		// needs none of them.
		t.Logf("%v; taking Nehalem with what there is", err)
		b.cpu, err = "Nehalem", nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("QEMU %s, %s, -accel kvm -cpu %s", b.info.Version, b.info.Machine, b.cpu)
	return b
}

// bootDisk is a disk whose first sector is the guest.
func (b *bench) bootDisk() string {
	b.t.Helper()
	sector := make([]byte, 1<<20)
	copy(sector, counter)
	sector[510], sector[511] = 0x55, 0xaa
	raw, disk := filepath.Join(b.dir, "raw"), filepath.Join(b.dir, "disk.qcow2")
	if err := os.WriteFile(raw, sector, 0o600); err != nil {
		b.t.Fatal(err)
	}
	if out, err := exec.CommandContext(b.ctx, "qemu-img", "convert", "-O", "qcow2", raw, disk).CombinedOutput(); err != nil {
		b.t.Fatalf("qemu-img: %v: %s", err, out)
	}
	return disk
}

// machine is a running guest.
type machine struct {
	*qemu.Process
	b *bench
}

// start starts a machine on a generation, or cold where that is nil.
func (b *bench) start(disk string, gen *vm.GenerationSource) (machine, error) {
	run, err := os.MkdirTemp("", "wk") // a short path: sockets have at most 108 bytes
	if err != nil {
		return machine{}, err
	}
	dir, err := os.MkdirTemp(b.dir, "vm")
	if err != nil {
		return machine{}, err
	}
	p, err := qemu.Spawn(b.ctx, vm.MachineSpec{
		Format: 1, ID: vm.NewID(), Dir: dir, RunDir: run, QEMU: b.binary, Accel: vm.KVM, CPU: b.cpu,
		Machine: b.info.Machine, Size: vm.Size{VCPU: 1, MemoryMiB: memoryMiB, DiskMiB: 1}, Disk: disk, Generation: gen,
	})
	b.t.Cleanup(func() {
		if p != nil {
			if err := p.Kill(context.Background()); err != nil {
				b.t.Errorf("kill: %v", err)
			}
		}
		os.RemoveAll(run)
	})
	if err != nil {
		return machine{}, err
	}
	return machine{p, b}, p.AwaitRunning(b.ctx)
}

// count asks QEMU for the guest's counter; 0 before the guest has begun.
func (m machine) count() (uint32, error) {
	path := filepath.Join(m.Spec.Dir, "count")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return 0, err
	}
	name, err := m.Lend(path)
	if err != nil {
		return 0, err
	}
	defer m.TakeBack(path)
	args := map[string]any{"val": countAt, "size": 8, "filename": name}
	if err := m.QMP.Execute(m.b.ctx, "pmemsave", args, nil); err != nil {
		return 0, err
	}
	return countIn(path, 0)
}

func countIn(path string, at int64) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var b [8]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		return 0, err
	}
	if string(b[4:]) != mark {
		return 0, nil
	}
	return binary.LittleEndian.Uint32(b[:]), nil
}

// above waits until the guest has counted beyond n.
func (m machine) above(n uint32) (uint32, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if got, err := m.count(); err != nil || got > n {
			return got, err
		}
		select {
		case <-tick.C:
		case <-m.b.ctx.Done():
			return 0, fmt.Errorf("it stands still at or below %d: %w", n, m.b.ctx.Err())
		}
	}
}

// capture captures the machine and returns the generation, the value that is
// frozen in it and the disk layer to start on. The parent must continue.
func (m machine) capture(what string) (gen vm.GenerationSource, n uint32, disk string) {
	t, ctx := m.b.t, m.b.ctx
	t.Helper()
	dir, err := os.MkdirTemp(m.b.dir, "gen")
	if err != nil {
		t.Fatal(err)
	}
	if disk, err = m.ActiveDisk(ctx); err != nil {
		t.Fatal(err)
	}
	gen = vm.GenerationSource{RAM: layout.GenerationDir(dir).RAM(), Device: layout.GenerationDir(dir).Device()}
	spec := vm.CaptureSpec{RAM: gen.RAM, Device: gen.Device}
	spec.Overlay = layout.VMDir(m.Spec.Dir).NextOverlay(vm.NewGenerationID())
	if err := over(spec.Overlay, disk); err != nil {
		t.Fatal(err)
	}
	before, err := m.count()
	if err != nil {
		t.Fatal(err)
	}
	events := m.QMP.Subscribe()
	defer events.Close()
	c, err := m.Capture(ctx, spec, nil)
	if err != nil {
		t.Fatalf("the capture %s failed: %v", what, err)
	}
	stopped := map[string]time.Time{}
	for stopped["RESUME"].IsZero() {
		e, err := events.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		stopped[e.Name] = e.Time
	}
	if n, err = countIn(gen.RAM, countAt); err != nil || n < before || n == 0 {
		t.Fatalf("%s: captured at %d, after %d: %v", what, n, before, err)
	}
	if _, err := m.above(n); err != nil {
		t.Fatalf("%s: the captured machine: %v", what, err)
	}
	t.Logf("%s: captured at %d; pause by QMP's events %.1f ms, %d private pages, %d KiB of memory, %d bytes of state",
		what, n, stopped["RESUME"].Sub(stopped["STOP"]).Seconds()*1000, c.PrivatePages, c.RAMBytes>>10, c.DeviceBytes)
	return gen, n, disk
}

// fork starts a machine on the generation, with a disk layer of its own.
func (b *bench) fork(gen vm.GenerationSource, disk string) (machine, error) {
	layer, err := b.overlay(disk)
	if err != nil {
		return machine{}, err
	}
	return b.start(layer, &gen)
}

// overlay makes an empty layer over a disk.
func (b *bench) overlay(disk string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "disk")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "disk.qcow2")
	return path, over(path, disk)
}

// over makes an empty layer over a disk at path.
func over(path, disk string) error {
	backing, err := filepath.Rel(filepath.Dir(path), disk)
	if err != nil {
		return err
	}
	return qemu.CreateOverlay(path, backing, 1)
}

// TestForkUnderKVM: a running guest under -accel kvm is captured, 16 machines
// keep running from that one instant, each for itself, and so to the third
// generation.
func TestForkUnderKVM(t *testing.T) {
	b := newBench(t)
	root, err := b.start(b.bootDisk(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var kvm struct{ Enabled bool }
	if err := root.QMP.Execute(b.ctx, "query-kvm", nil, &kvm); err != nil || !kvm.Enabled {
		t.Fatalf("it does not run under KVM: %v", err)
	}
	if _, err := root.above(1000); err != nil {
		t.Fatal(err)
	}
	gen, captured, disk := root.capture("root")
	sum, err := qemu.Sum(b.ctx, gen.RAM)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	children := make([]machine, siblings)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range children {
		g.Go(func() (err error) {
			if children[i], err = b.fork(gen, disk); err != nil {
				return fmt.Errorf("child %d: %w", i, err)
			}
			n, err := children[i].count()
			if err == nil && n < captured {
				err = fmt.Errorf("child %d began at %d, captured was %d", i, n, captured)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d children run after %v", siblings, time.Since(begin).Round(time.Millisecond))
	diverge(t, children, captured)
	if err := qemu.Verify(b.ctx, gen.RAM, sum); err != nil {
		t.Errorf("a child wrote into the generation: %v", err)
	}
	for i, m := range children[1:] { // so that the pauses below are the captures' own
		if err := m.Quit(b.ctx); err != nil {
			t.Fatalf("child %d: %v", i+1, err)
		}
	}
	m, at := children[0], captured
	for depth := 1; depth <= 3; depth++ {
		gen, n, disk := m.capture(fmt.Sprint("depth ", depth))
		if n <= at {
			t.Errorf("depth %d: captured at %d, its parent at %d", depth, n, at)
		}
		next, err := b.fork(gen, disk)
		if err != nil {
			t.Fatal(err)
		}
		first, err := next.count()
		if err != nil || first < n {
			t.Fatalf("depth %d: began at %d, captured was %d: %v", depth, first, n, err)
		}
		if _, err := next.above(first); err != nil {
			t.Fatal(err)
		}
		m, at = next, n
	}
}

// diverge stops one child after the other; each keeps the value of its own
// while the next ones count on.
func diverge(t *testing.T, children []machine, captured uint32) {
	t.Helper()
	values := make([]uint32, len(children))
	reached := captured
	for i, m := range children {
		n, err := m.above(reached)
		if err != nil {
			t.Fatalf("child %d: %v", i, err)
		}
		if err := m.QMP.Execute(m.b.ctx, "stop", nil, nil); err != nil {
			t.Fatal(err)
		}
		if values[i], err = m.count(); err != nil || values[i] < n {
			t.Fatalf("child %d: %d after %d: %v", i, values[i], n, err)
		}
		reached = values[i]
	}
	for i, m := range children {
		if n, err := m.count(); err != nil || n != values[i] {
			t.Errorf("child %d stands at %d and holds %d: %v", i, values[i], n, err)
		}
		if err := m.QMP.Execute(m.b.ctx, "cont", nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := m.above(values[i]); err != nil {
			t.Errorf("child %d: %v", i, err)
		}
	}
	t.Logf("stopped one by one they hold %v", values)
}
