// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/qmp"
	"github.com/warren-vm/warren/vm"
)

// The room that a machine leaves for plugging. It is part of the machine: other
// values make existing generations unusable.
const (
	maxCPUs      = 8         // vCPUs that a machine can have, unless it booted with more
	maxModules   = 8         // slots for memory modules
	maxMemoryMiB = 256 << 10 // end of the guest's addresses: a processor has 40 bits of them
)

// smp is the value of -smp.
func smp(boot int) string {
	most := max(boot, maxCPUs)
	return fmt.Sprintf("%d,maxcpus=%d,sockets=1,cores=%d,threads=1", boot, most, most)
}

// memorySize is the value of -m.
func memorySize(bootMiB int) string {
	if bootMiB >= maxMemoryMiB {
		return fmt.Sprintf("%dM", bootMiB)
	}
	return fmt.Sprintf("%dM,slots=%d,maxmem=%dM", bootMiB, maxModules, maxMemoryMiB)
}

// plugged are the arguments for the devices that were plugged in, on the command
// line of a machine that continues with them.
func plugged(s vm.MachineSpec) (args []string) {
	boot := s.Plugged.Boot(s.Size)
	model, _, _ := strings.Cut(s.CPU, ",")
	for i := range s.Plugged.CPUs {
		n := boot.VCPU + i
		args = append(args, "-device", fmt.Sprintf("%s-x86_64-cpu,id=%s,socket-id=0,core-id=%d,thread-id=0", model, cpuID(n), n))
	}
	for i, m := range s.Plugged.Modules {
		args = append(args, "-device", fmt.Sprintf("pc-dimm,id=%s,memdev=%s,slot=%d", m.ID, backendOf(m.ID), i))
	}
	return args
}

func cpuID(n int) string { return fmt.Sprintf("cpu%d", n) }

// MorePlugged returns what a machine has plugged in when it has grown to a size, or
// why it cannot grow so far while it runs. Memory grows by modules no larger than
// what is there: a guest keeps a record of each page, and allocates those of a new
// module in existing memory.
func MorePlugged(s vm.MachineSpec, want vm.Size) (vm.Plugged, error) {
	boot, p := s.Plugged.Boot(s.Size), s.Plugged
	p.BootVCPU, p.BootMemoryMiB = boot.VCPU, boot.MemoryMiB
	if most := max(boot.VCPU, maxCPUs); want.VCPU > most {
		return s.Plugged, vm.Errorf(vm.Unsupported, string(s.ID), "a running machine can have %d CPUs at most", most)
	}
	p.CPUs = max(p.CPUs, want.VCPU-boot.VCPU)
	have := boot.MemoryMiB + p.MemoryMiB()
	if want.MemoryMiB > have && want.MemoryMiB > maxMemoryMiB {
		return s.Plugged, vm.Errorf(vm.Unsupported, string(s.ID), "a running machine can have %d MiB of memory at most", maxMemoryMiB)
	}
	p.Modules = slices.Clone(p.Modules)
	for have < want.MemoryMiB {
		if len(p.Modules) >= maxModules {
			return s.Plugged, vm.Errorf(vm.Unsupported, string(s.ID), "its %d slots for memory modules are not enough", maxModules)
		}
		m := vm.MemoryModule{ID: fmt.Sprintf("dimm%d", len(p.Modules)), MiB: min(have, want.MemoryMiB-have)}
		p.Modules = append(p.Modules, m)
		have += m.MiB
	}
	return p, nil
}

// Machine is Spec with what was plugged in since the start.
func (p *Process) Machine() vm.MachineSpec {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.Spec
	if p.now != nil {
		s.Size, s.Plugged = p.now.Size, p.now.Plugged
	}
	return s
}

// SetMachine sets the current size and modules of the machine.
func (p *Process) SetMachine(size vm.Size, plugged vm.Plugged) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = &vm.MachineSpec{Size: size, Plugged: plugged}
}

// hotCPU is a slot for a vCPU.
type hotCPU struct {
	Type  string         `json:"type"`
	Props map[string]any `json:"props"`
	Path  string         `json:"qom-path"` // "" = empty
}

func (p *Process) cpus(ctx context.Context) (list []hotCPU, err error) {
	return list, p.refused(p.QMP.Execute(ctx, "query-hotpluggable-cpus", nil, &list))
}

// PlugCPU adds vCPU n, counted from 0. An existing one is no error. The guest has
// to set it online.
func (p *Process) PlugCPU(ctx context.Context, n int) error {
	list, err := p.cpus(ctx)
	if err != nil {
		return err
	}
	for _, c := range list {
		if core, ok := c.Props["core-id"].(float64); !ok || int(core) != n {
			continue
		}
		if c.Path != "" {
			return nil
		}
		c.Props["driver"], c.Props["id"] = c.Type, cpuID(n)
		return p.refused(p.QMP.Execute(ctx, "device_add", c.Props, nil))
	}
	return vm.Errorf(vm.Unsupported, string(p.Spec.ID), "its machine has no slot for CPU %d", n)
}

// PlugModule adds a memory module, the i-th of plugged. An existing one is no
// error. The guest has to set it online.
func (p *Process) PlugModule(ctx context.Context, plugged vm.Plugged, i int) (err error) {
	present, err := p.modules(ctx)
	m := plugged.Modules[i]
	if err != nil || slices.Contains(present, m) {
		return err
	}
	s := p.Machine()
	s.Plugged = plugged
	path := ModulePath(s, i)
	if err := makeEmpty(path, m.MiB); err != nil {
		return err
	}
	if err := p.allow(path); err != nil {
		return err
	}
	defer os.Remove(path) // QEMU has it open and frees its space at the end
	if err := p.raiseDataLimit(plugged.Boot(s.Size).MemoryMiB + plugged.MemoryMiB()); err != nil {
		return err
	}
	backend := map[string]any{"id": backendOf(m.ID)}
	_ = p.QMP.Execute(ctx, "object-del", backend, nil) // left by an attempt that broke off; usually absent
	if err := p.QMP.Execute(ctx, "object-add", memoryFile(backendOf(m.ID), m.MiB, path), nil); err != nil {
		return p.refused(err)
	}
	err = p.QMP.Execute(ctx, "device_add", map[string]any{"driver": "pc-dimm", "id": m.ID, "memdev": backendOf(m.ID), "slot": i}, nil)
	if err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		return errors.Join(p.refused(err), p.QMP.Execute(cleanup, "object-del", backend, nil))
	}
	return nil
}

// modules lists the memory modules that the machine has.
func (p *Process) modules(ctx context.Context) ([]vm.MemoryModule, error) {
	var list []struct {
		Data struct {
			ID   string `json:"id"`
			Slot int    `json:"slot"`
			Size int64  `json:"size"`
		} `json:"data"`
	}
	if err := p.QMP.Execute(ctx, "query-memory-devices", nil, &list); err != nil {
		return nil, p.refused(err)
	}
	out := make([]vm.MemoryModule, len(list))
	for _, d := range list {
		if d.Data.Slot < 0 || d.Data.Slot >= len(out) {
			return nil, vm.Errorf(vm.Internal, string(p.Spec.ID), "a memory module is in slot %d of %d", d.Data.Slot, len(out))
		}
		out[d.Data.Slot] = vm.MemoryModule{ID: d.Data.ID, MiB: int(d.Data.Size >> 20)}
	}
	return out, nil
}

// ReadPlugged asks QEMU what is plugged in, for a monitor that takes over: the
// previous one may have died while it plugged.
func (p *Process) ReadPlugged(ctx context.Context) error {
	s := p.Machine()
	boot := s.Plugged.Boot(s.Size)
	list, err := p.cpus(ctx)
	if err != nil {
		return err
	}
	modules, err := p.modules(ctx)
	if err != nil {
		return err
	}
	cpus := -boot.VCPU
	for _, c := range list {
		if c.Path != "" {
			cpus++
		}
	}
	volumes, err := p.keptVolumes(ctx, s.Plugged.Volumes)
	if err != nil {
		return err
	}
	if cpus == s.Plugged.CPUs && slices.Equal(modules, s.Plugged.Modules) && slices.Equal(volumes, s.Plugged.Volumes) {
		return nil
	}
	now := vm.Plugged{BootVCPU: boot.VCPU, BootMemoryMiB: boot.MemoryMiB, CPUs: cpus, Modules: modules, Volumes: volumes}
	s.Size.MemoryMiB = boot.MemoryMiB + now.MemoryMiB()
	p.SetMachine(s.Size, now)
	return nil
}

// ResizeDisk makes the guest's disk larger.
func (p *Process) ResizeDisk(ctx context.Context, mib int) error {
	node, err := p.diskNode(ctx)
	if err != nil {
		return err
	}
	err = p.QMP.Execute(ctx, "block_resize", map[string]any{"node-name": node, "size": int64(mib) << 20}, nil)
	return p.refused(err)
}

// refused gives QEMU's refusal of a change a kind.
func (p *Process) refused(err error) error {
	var no *qmp.Error
	if !errors.As(err, &no) {
		if err == nil {
			return nil
		}
		return p.failure(err)
	}
	if noSpace(no.Desc) {
		return fileError(p.Spec.Disk, err)
	}
	return vm.Errorf(vm.Unsupported, string(p.Spec.ID), "%w", err)
}

// raiseDataLimit allows the process the memory of a guest of this size.
func (p *Process) raiseDataLimit(memoryMiB int) error {
	raise := func() error {
		var old unix.Rlimit
		if err := unix.Prlimit(p.Ident.PID, unix.RLIMIT_DATA, nil, &old); err != nil {
			return err
		}
		return unix.Prlimit(p.Ident.PID, unix.RLIMIT_DATA, &unix.Rlimit{Cur: dataLimit(memoryMiB), Max: old.Max}, nil)
	}
	err := raise()
	if errors.Is(err, unix.EPERM) && os.Getuid() == 0 { // root without the right to do this to another process
		uid, gid := userOf(p.Spec)
		err = confine.As(uid, gid, raise)
	}
	if err != nil {
		return fmt.Errorf("limit qemu: %w", err)
	}
	return nil
}
