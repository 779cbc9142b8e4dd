// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// plugs is what was plugged into a simulated QEMU.
type plugs struct {
	mu      sync.Mutex
	cpus    int // beyond the one of the boot
	modules []map[string]any
	sizes   map[string]any // of backends
	disk    any
}

// qmp answers what belongs to plugging.
func (p *plugs) qmp(command string, args map[string]any) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch command {
	case "query-hotpluggable-cpus":
		var list []map[string]any
		for i := range 8 {
			c := map[string]any{"type": "x-cpu", "props": map[string]any{"core-id": i}}
			if i <= p.cpus {
				c["qom-path"] = fmt.Sprint("/machine/", i)
			}
			list = append(list, c)
		}
		return encoded(list), true
	case "query-memory-devices":
		return encoded(append([]map[string]any{}, p.modules...)), true
	case "query-block-jobs":
		return `[]`, true
	case "qom-get":
		return `"disk0"`, true
	case "object-add":
		if p.sizes == nil {
			p.sizes = map[string]any{}
		}
		p.sizes[args["id"].(string)] = args["size"]
	case "device_add":
		if args["driver"] == "pc-dimm" {
			data := map[string]any{"id": args["id"], "slot": args["slot"], "size": p.sizes[args["memdev"].(string)]}
			p.modules = append(p.modules, map[string]any{"type": "dimm", "data": data})
		} else {
			p.cpus++
		}
	case "block_resize":
		p.disk = args["size"]
	default:
		return "", false
	}
	return "{}", true
}

// grown reports whether the machine has what its guest was told to use: a
// module is used before the next one is plugged in.
func (p *plugs) grown(cpus, mib string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := 256
	for _, m := range p.modules {
		have += int(m["data"].(map[string]any)["size"].(float64)) >> 20
	}
	n, _ := strconv.Atoi(cpus)
	return n <= 1+p.cpus && (mib == "" || mib == strconv.Itoa(have))
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func resizable(t *testing.T, behaviour string) vm.MachineSpec {
	spec := fakeSpec(t, behaviour)
	spec.Disk, spec.Size = "/disk", vm.Size{VCPU: 1, MemoryMiB: 256, DiskMiB: 100}
	return spec
}

func kept(t *testing.T, spec vm.MachineSpec) (out vm.MachineSpec) {
	t.Helper()
	if err := layout.ReadJSON(layout.VMDir(spec.Dir).Machine(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A machine grows while it runs, and its next monitor knows what it has, also
// when the last one died before it could write that down.
func TestResize(t *testing.T) {
	ctx := deadline(t)
	spec := resizable(t, "well")
	l, c := launch(ctx, t, spec)
	want := vm.Size{VCPU: 2, MemoryMiB: 1024, DiskMiB: 200}
	how, err := c.Resize(ctx, want)
	live := map[string]string{vm.PartCPU: vm.Live, vm.PartMemory: vm.Live, vm.PartDisk: vm.Live}
	if err != nil || !maps.Equal(how, live) {
		t.Fatalf("the resize is done %v (%v), want %v", how, err, live)
	}
	plugged := vm.Plugged{BootVCPU: 1, BootMemoryMiB: 256, CPUs: 1, Modules: []vm.MemoryModule{{ID: "dimm0", MiB: 256}, {ID: "dimm1", MiB: 512}}}
	if s := kept(t, spec); s.Size != want || !reflect.DeepEqual(s.Plugged, plugged) {
		t.Errorf("kept %+v %+v", s.Size, s.Plugged)
	}
	if err := c.SetNetwork(ctx, vm.NetworkPolicy{Mode: vm.NetOpen}); err != nil {
		t.Fatal(err)
	}
	if s := kept(t, spec); s.Size != want || s.Network.Mode != vm.NetOpen {
		t.Errorf("after a change of the network kept is %+v", s.Size)
	}
	if how, err := c.Resize(ctx, want); err != nil || len(how) != 0 {
		t.Errorf("again: %v, %v", how, err)
	}
	// As if the monitor had died between the second module and its note of it.
	st, err := c.Status(ctx)
	if err != nil || st.Size != want {
		t.Fatalf("status %+v, %v", st, err)
	}
	if err := unix.Kill(st.MonitorPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx); err == nil {
		t.Fatal("the monitor lives")
	}
	before := kept(t, spec)
	before.Size.MemoryMiB, before.Plugged.Modules = 512, before.Plugged.Modules[:1]
	if err := writeJSON(layout.VMDir(spec.Dir).Machine(), before); err != nil {
		t.Fatal(err)
	}
	next, st, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if st.Size != want || !reflect.DeepEqual(st.Plugged, plugged) {
		t.Errorf("taken over with %+v %+v", st.Size, st.Plugged)
	}
	if how, err := next.Resize(ctx, vm.Size{VCPU: 1, MemoryMiB: 1024, DiskMiB: 200}); err != nil || how[vm.PartCPU] != vm.Live || len(how) != 1 {
		t.Errorf("fewer CPUs: %v, %v", how, err)
	}
	if s := kept(t, spec); s.Size.VCPU != 1 || s.Plugged.CPUs != 1 {
		t.Errorf("a CPU that is offline stays plugged in: %+v %+v", s.Size, s.Plugged)
	}
}

// What a machine cannot do while it runs is said, and the rest is not begun.
func TestResizeNotLive(t *testing.T) {
	for _, tc := range []struct {
		behaviour string
		want      vm.Size
		how       map[string]string // the beginning of each
		size      vm.Size           // afterwards
	}{
		{
			"well",
			vm.Size{VCPU: 2, MemoryMiB: 128, DiskMiB: 200},
			map[string]string{vm.PartMemory: "memory that a guest uses", vm.PartCPU: "another part", vm.PartDisk: "another part"},
			vm.Size{VCPU: 1, MemoryMiB: 256, DiskMiB: 100},
		},
		{
			"well",
			vm.Size{VCPU: 16, MemoryMiB: 256, DiskMiB: 100},
			map[string]string{vm.PartCPU: "a running machine can have 8 CPUs"},
			vm.Size{VCPU: 1, MemoryMiB: 256, DiskMiB: 100},
		},
		{
			"well",
			vm.Size{VCPU: 1, MemoryMiB: 256, DiskMiB: 50},
			map[string]string{vm.PartDisk: "a disk cannot shrink"},
			vm.Size{VCPU: 1, MemoryMiB: 256, DiskMiB: 100},
		},
		{
			"full",
			vm.Size{VCPU: 2, MemoryMiB: 512, DiskMiB: 200},
			map[string]string{vm.PartDisk: vm.Live, vm.PartMemory: "qemu device_add: no room", vm.PartCPU: "another part"},
			vm.Size{VCPU: 1, MemoryMiB: 256, DiskMiB: 200},
		},
		{
			"unwilling",
			vm.Size{VCPU: 2, MemoryMiB: 256, DiskMiB: 100},
			map[string]string{vm.PartCPU: "the kernel has found nothing"},
			vm.Size{VCPU: 1, MemoryMiB: 256, DiskMiB: 100},
		},
	} {
		t.Run(fmt.Sprint(tc.behaviour, tc.want), func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			spec := resizable(t, tc.behaviour)
			_, c := launch(ctx, t, spec)
			how, err := c.Resize(ctx, tc.want)
			if err != nil || len(how) != len(tc.how) {
				t.Fatalf("the resize is done %v (%v), want %v", how, err, tc.how)
			}
			for part, begins := range tc.how {
				if !strings.Contains(how[part], begins) {
					t.Errorf("the resize of %s is done %q, want %q", part, how[part], begins)
				}
			}
			if st, err := c.Status(ctx); err != nil || st.Size != tc.size {
				t.Errorf("it has %+v, %v", st.Size, err)
			}
		})
	}
}
