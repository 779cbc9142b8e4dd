// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// probeDeadline is how long a guest's first hello may take under KVM. Where KVM
// works it takes a fraction of a second.
const probeDeadline = 5 * time.Second

// TCGModel is the CPU that is emulated: x86-64-v2, as fast as any.
const TCGModel = "Nehalem"

// kvmModels are the named CPU models, best first; the first that the host supports
// completely is used. Never "host": then a generation could not move to another
// host.
var kvmModels = []string{
	"Cascadelake-Server-noTSX", "Skylake-Server-noTSX-IBRS", "Skylake-Client-noTSX-IBRS", "Broadwell-noTSX", "Haswell-noTSX",
	"EPYC-Milan", "EPYC-Rome", "EPYC-IBPB", "EPYC", "IvyBridge", "SandyBridge", "Westmere", "Nehalem",
}

// ProbeOptions describe the probe guest.
type ProbeOptions struct {
	Dir      layout.Dir
	Launcher *monitor.Launcher
	QEMU     string // absolute path of the binary
	// Boot is the kernel, the initial file system with this version's agent,
	// and the command line for KVM; the guest has no disk.
	Boot        vm.BootSource
	Agent       string // absolute path
	AgentDigest string
	Fresh       bool // do not use the cached answer
}

// Try is one attempt with one accelerator.
type Try struct {
	Accel vm.Accel      `json:"accel"`
	OK    bool          `json:"ok"`
	Took  time.Duration `json:"took"`
	Why   string        `json:"why,omitempty"` // of a failure
}

// ProbeReport is the result of a probe.
type ProbeReport struct {
	Key         string    `json:"key"` // of the cache: host's boot, kernel, QEMU
	Accel       vm.Accel  `json:"accel"`
	CPU         string    `json:"cpu"`
	QEMUVersion string    `json:"qemuVersion"`
	Machine     string    `json:"machine"`
	Tries       []Try     `json:"tries"`
	Time        time.Time `json:"time"`
	Cached      bool      `json:"-"`
}

// Probe finds the accelerator by booting a guest to its agent's hello: there are
// hosts whose /dev/kvm opens and then hangs or aborts on a stock kernel. Without
// KVM it is TCG. The answer is cached until the host, the kernel or QEMU changes.
// Kind Unsupported when there is no usable QEMU.
func Probe(ctx context.Context, o ProbeOptions) (vm.Accel, ProbeReport, error) {
	key, err := o.key()
	if err != nil {
		return "", ProbeReport{}, err
	}
	path := filepath.Join(o.Dir.Cache(), "accel.json")
	var r ProbeReport
	if err := layout.ReadJSON(path, &r); err == nil && r.Key == key && !o.Fresh {
		r.Cached = true
		return r.Accel, r, nil
	}
	info, err := qemu.Inspect(ctx, o.QEMU)
	if err != nil {
		return "", ProbeReport{}, err
	}
	r = ProbeReport{
		Key: key, Accel: vm.TCG, CPU: TCGModel, QEMUVersion: info.Version, Machine: info.Machine, Time: time.Now().UTC().Truncate(time.Second),
	}
	begin := time.Now()
	model, err := o.tryKVM(ctx, info)
	if ctx.Err() != nil {
		return "", ProbeReport{}, ctx.Err()
	}
	try := Try{Accel: vm.KVM, OK: err == nil, Took: time.Since(begin)}
	if err == nil {
		r.Accel, r.CPU = vm.KVM, model
	} else {
		try.Why = err.Error()
	}
	r.Tries = append(r.Tries, try)
	if err := os.MkdirAll(o.Dir.Cache(), 0o700); err != nil {
		return "", ProbeReport{}, vm.Errorf(vm.Internal, o.Dir.Cache(), "%w", err)
	}
	return r.Accel, r, layout.WriteJSON(path, r, 0o600)
}

// key identifies what an answer depends on.
func (o ProbeOptions) key() (string, error) {
	boot, err := qemu.HostBootID()
	if err != nil {
		return "", vm.Errorf(vm.Internal, "", "boot id: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, "warren probe 1", boot, o.Boot.Cmdline, o.AgentDigest)
	for _, path := range []string{o.QEMU, o.Boot.Kernel} {
		st, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && path == o.QEMU {
			return "", vm.Errorf(vm.Unsupported, path, "qemu is not installed").WithHint("`warren doctor` says how to install it")
		}
		if err != nil {
			return "", vm.Errorf(vm.NotFound, path, "%w", err)
		}
		fmt.Fprintln(h, path, st.Size(), st.ModTime().UnixNano())
	}
	// The answer also changes when a device appears or the user joins its group.
	fmt.Fprintln(h, openKVM())
	return hex.EncodeToString(h.Sum(nil)[:10]), nil
}

func openKVM() error {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// tryKVM boots a guest and returns the CPU model it had.
func (o ProbeOptions) tryKVM(ctx context.Context, info qemu.Info) (string, error) {
	switch err := openKVM(); {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("there is no /dev/kvm: switch virtualisation on in the firmware, or nested virtualisation in the host above")
	case errors.Is(err, fs.ErrPermission):
		return "", errors.New("/dev/kvm may not be opened: add this user to the group kvm")
	case err != nil:
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*probeDeadline)
	defer cancel()
	model, err := qemu.CPUModel(ctx, o.QEMU, vm.KVM, kvmModels)
	if err != nil {
		return "", err
	}
	work, err := layout.Temp(o.Dir.Cache())
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	run, err := o.Dir.Run()
	if err != nil {
		return "", err
	}
	spec := vm.MachineSpec{
		Format: 1, ID: vm.NewID(), Dir: work, QEMU: o.QEMU, Accel: vm.KVM, CPU: model, Machine: info.Machine,
		Size: vm.Size{VCPU: 1, MemoryMiB: vm.MinMemoryMiB}, Boot: o.Boot, Network: vm.NetworkPolicy{Mode: vm.NetClosed},
		GuestKey: newKey(), Reset: firstReset(), Agent: o.Agent, AgentDigest: o.AgentDigest, Deadline: probeDeadline,
	}
	spec.RunDir = run.VM(spec.ID)
	c, _, err := o.Launcher.Launch(ctx, spec)
	if err != nil {
		return "", err
	}
	c.Close()
	return model, o.Launcher.Sweep(context.WithoutCancel(ctx), spec.RunDir)
}

// String is one line for people.
func (t Try) String() string {
	took := t.Took.Round(time.Millisecond)
	if t.OK {
		return fmt.Sprintf("%s: a guest answered after %s", t.Accel, took)
	}
	return fmt.Sprintf("%s: no, after %s: %s", t.Accel, took, t.Why)
}
