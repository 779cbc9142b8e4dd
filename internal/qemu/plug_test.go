// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

func TestMorePlugged(t *testing.T) {
	now := specs()["warm"]
	grow := func(s vm.MachineSpec, cpus, mib int) vm.MachineSpec {
		t.Helper()
		want := vm.Size{VCPU: cpus, MemoryMiB: mib}
		p, err := MorePlugged(s, want)
		if err != nil {
			t.Fatal(err)
		}
		s.Size, s.Plugged = want, p
		return s
	}
	m := func(id string, mib int) vm.MemoryModule { return vm.MemoryModule{ID: id, MiB: mib} }
	s := grow(now, 2, 4096)
	want := vm.Plugged{BootVCPU: 1, BootMemoryMiB: 512, CPUs: 1, Modules: []vm.MemoryModule{m("dimm0", 512), m("dimm1", 1024), m("dimm2", 2048)}}
	if !reflect.DeepEqual(s.Plugged, want) {
		t.Errorf("after growing to 2 CPUs and 4 GiB %+v is plugged in, want %+v", s.Plugged, want)
	}
	s = grow(s, 8, 8192)
	want.CPUs, want.Modules = 7, append(want.Modules, m("dimm3", 4096))
	if !reflect.DeepEqual(s.Plugged, want) {
		t.Errorf("after growing to 8 CPUs and 8 GiB %+v is plugged in, want %+v", s.Plugged, want)
	}
	if s = grow(s, 1, 8192); !reflect.DeepEqual(s.Plugged, want) {
		t.Errorf("fewer CPUs: %+v, want all still plugged in", s.Plugged)
	}
	for _, far := range []vm.Size{{VCPU: 16, MemoryMiB: 512}, {VCPU: 1, MemoryMiB: 512 << 10}} {
		if p, err := MorePlugged(now, far); vm.KindOf(err) != vm.Unsupported || !reflect.DeepEqual(p, now.Plugged) {
			t.Errorf("growing to %+v plugs %+v (%v), want unsupported and no change", far, p, err)
		}
	}
	for range maxModules {
		s.Plugged.Modules = append(s.Plugged.Modules, m("x", 1))
	}
	if _, err := MorePlugged(s, vm.Size{VCPU: 1, MemoryMiB: 32 << 10}); vm.KindOf(err) != vm.Unsupported {
		t.Errorf("more modules than places: %v", err)
	}
}

// A machine takes a CPU, a module and a larger disk while it runs; what is
// captured then continues in another QEMU, and grows again there.
func TestPlug(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	spec := newSpec(t)
	p := spawn(ctx, t, spec)
	want := vm.Size{VCPU: 2, MemoryMiB: 128, DiskMiB: 8}
	plug(ctx, t, p, want)
	plug(ctx, t, p, want) // again: nothing happens
	if mib := virtualMiB(t, spec.Disk); mib != 8 {
		t.Errorf("the disk has %d MiB", mib)
	}
	if _, err := os.Stat(layout.VMDir(spec.Dir).ColdModule("dimm0")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the module's file has a name still: %v", err)
	}
	g, n := counting(ctx, t, p, 0)
	g.Modules = []string{layout.GenerationDir(filepath.Dir(g.RAM)).Module("dimm0")}
	if st, err := os.Stat(g.Modules[0]); err != nil || st.Size() != 64<<20 {
		t.Fatalf("memory of the module: %v, %v", st, err)
	}
	now := p.Machine()
	if err := p.Quit(ctx); err != nil {
		t.Fatal(err)
	}

	next := spec
	next.Size, next.Plugged, next.Generation = now.Size, now.Plugged, &g
	q := spawn(ctx, t, next)
	if got, err := q.modules(ctx); err != nil || !reflect.DeepEqual(got, now.Plugged.Modules) {
		t.Errorf("the restored machine has %v, %v", got, err)
	}
	if _, again := counting(ctx, t, q, n); again <= n {
		t.Errorf("the counter went from %d to %d", n, again)
	}
	plug(ctx, t, q, vm.Size{VCPU: 4, MemoryMiB: 256, DiskMiB: 8})
}

// plug makes a machine as large as want, as a monitor does.
func plug(ctx context.Context, t *testing.T, p *Process, want vm.Size) {
	t.Helper()
	goal, err := MorePlugged(p.Machine(), want)
	if err != nil {
		t.Fatal(err)
	}
	for i := range goal.Modules {
		part := goal
		part.Modules = goal.Modules[:i+1]
		if err := p.PlugModule(ctx, part, i); err != nil {
			t.Fatal(err)
		}
	}
	for n := range goal.BootVCPU + goal.CPUs {
		if err := p.PlugCPU(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.ResizeDisk(ctx, want.DiskMiB); err != nil {
		t.Fatal(err)
	}
	// A monitor that was told nothing of it finds it out.
	if err := p.ReadPlugged(ctx); err != nil {
		t.Fatal(err)
	}
	if got := p.Machine(); !reflect.DeepEqual(got.Plugged, goal) || got.Size.MemoryMiB != want.MemoryMiB {
		t.Errorf("plugged in is %+v, want %+v", got.Plugged, goal)
	}
	p.SetMachine(want, goal)
}

// What a machine refuses has a kind, and leaves nothing.
func TestPlugRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	p := spawn(ctx, t, newSpec(t))
	if err := p.PlugCPU(ctx, maxCPUs); vm.KindOf(err) != vm.Unsupported {
		t.Errorf("one CPU too many: %v", err)
	}
	many := vm.Plugged{BootVCPU: 1, BootMemoryMiB: 64}
	for i := range maxModules + 1 {
		many.Modules = append(many.Modules, vm.MemoryModule{ID: fmt.Sprintf("dimm%d", i), MiB: 64})
	}
	for range 2 {
		if err := p.PlugModule(ctx, many, maxModules); vm.KindOf(err) != vm.Unsupported || strings.Contains(err.Error(), "duplicate") {
			t.Errorf("a module without a place: %v", err)
		}
	}
	if list, err := p.modules(ctx); err != nil || len(list) != 0 {
		t.Errorf("modules %v, %v", list, err)
	}
	if _, err := os.Stat(layout.VMDir(p.Spec.Dir).ColdModule("dimm8")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its file is left: %v", err)
	}
	if err := p.PlugModule(ctx, many, 0); err != nil {
		t.Errorf("a good module afterwards: %v", err)
	}
}

// A start on a generation whose modules are not all named is refused: QEMU
// would give the guest empty memory instead.
func TestModulesMustBeThere(t *testing.T) {
	s := specs()["grown"]
	s.Generation.Modules = s.Generation.Modules[:1]
	if _, err := Spawn(t.Context(), s); vm.KindOf(err) != vm.Internal || !strings.Contains(err.Error(), "modules") {
		t.Errorf("a generation without its memory modules: %v, want internal", err)
	}
}

// A module's file is checked at each start like the rest of the memory.
func TestVerifyModules(t *testing.T) {
	dir := layout.GenerationDir(t.TempDir())
	var g vm.Manifest
	for path, to := range map[string]*vm.File{dir.RAM(): &g.RAM, dir.Device(): &g.Device, dir.Module("dimm0"): nil} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Sum(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if to == nil {
			g.Modules = []vm.File{f}
		} else {
			*to = f
		}
	}
	if err := layout.WriteJSON(dir.Manifest(), g, 0o600); err != nil {
		t.Fatal(err)
	}
	src := vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device(), Modules: []string{dir.Module("dimm0")}}
	var v Verifier
	if err := v.Generation(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Module("dimm0"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Generation(t.Context(), src); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a damaged module: %v", err)
	}
	src.Modules[0] = dir.Module("dimm1")
	if err := os.WriteFile(dir.Module("dimm1"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Generation(t.Context(), src); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a module that is not recorded: %v", err)
	}
}

func virtualMiB(t *testing.T, path string) int {
	t.Helper()
	out, err := exec.Command("qemu-img", "info", "-U", "--output=json", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Size int64 `json:"virtual-size"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		t.Fatal(err)
	}
	return int(info.Size >> 20)
}

func TestGrowOverlay(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("qemu-img is not installed")
	}
	dir := t.TempDir()
	base, over := filepath.Join(dir, "base"), filepath.Join(dir, "over")
	qemuImg(t, "create", "-f", "qcow2", base, "1G")
	if err := CreateOverlay(over, "base", 1024); err != nil {
		t.Fatal(err)
	}
	// What lies behind the table's entries must not come to count.
	f, err := os.OpenFile(over, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("junk", 1000)), 3*clusterSize+2*8); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, mib := range []int{1025, 100_000, vm.MaxDiskMiB, 10} {
		if err := GrowOverlay(over, mib); err != nil {
			t.Fatal(err)
		}
		qemuImg(t, "check", over)
		if got := virtualMiB(t, over); got != max(mib, got) || mib > 10 && got != mib {
			t.Errorf("grown to %d MiB it has %d", mib, got)
		}
	}
	// One that QEMU has grown itself, and used.
	qemuImg(t, "create", "-f", "qcow2", "-F", "qcow2", "-b", "base", filepath.Join(dir, "own"), "1G")
	qemuImg(t, "resize", filepath.Join(dir, "own"), "3G")
	if err := GrowOverlay(filepath.Join(dir, "own"), 9000); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, "check", filepath.Join(dir, "own"))
	if err := GrowOverlay(over, vm.MaxDiskMiB+1); vm.KindOf(err) != vm.Invalid {
		t.Errorf("too large: %v", err)
	}
	if err := os.WriteFile(base, []byte("no qcow2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := GrowOverlay(base, 10); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("not a qcow2: %v", err)
	}
}
