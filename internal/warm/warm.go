// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// Options describe a warm generation. All fields but Progress are needed.
type Options struct {
	Dir      layout.Dir
	Launcher *monitor.Launcher
	Image    vm.Image
	Size     vm.Size
	Boot     vm.BootSource // kernel, initial file system and command line of a cold boot

	QEMU        string // absolute path of the binary
	QEMUVersion string
	Accel       vm.Accel
	CPU         string
	Machine     string
	Agent       string // absolute path
	AgentDigest string

	// Progress is called with each step that begins; may be nil.
	Progress func(step string)
}

func (o Options) progress(step string) {
	if o.Progress != nil {
		o.Progress(step)
	}
}

// Key is the digest of everything that a warm generation depends on. One made
// under another key is never used.
func Key(o Options) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, part := range []any{
		"warren warm generation 1", o.Image.ID, o.Image.Kernel, o.AgentDigest, filepath.Base(o.Boot.Initramfs), o.Boot.Cmdline,
		o.Machine, majorMinor(o.QEMUVersion), o.CPU, o.Accel, o.Size, qemu.Devices(o.spec("")),
	} {
		if err := enc.Encode(part); err != nil {
			panic("warm: " + err.Error()) // only strings, numbers and structs of them come here
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}

func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// spec is what the captured machine and every machine that starts on it have in
// common.
func (o Options) spec(id vm.ID) vm.MachineSpec {
	return vm.MachineSpec{
		Format: 1, ID: id, QEMU: o.QEMU, Accel: o.Accel, CPU: o.CPU, Machine: o.Machine, QuietNIC: true, Size: o.Size,
		Disk: "disk", Boot: o.Boot, Agent: o.Agent, AgentDigest: o.AgentDigest,
		Network: vm.NetworkPolicy{Mode: vm.NetClosed},
	}
}

// Boots is the spec of a machine of o's size that boots from o.Boot, for a purpose of Warren's
// own. It is ready when systemd has started everything. The caller fills in Dir, RunDir and Disk.
func (o Options) Boots(id vm.ID) vm.MachineSpec {
	spec := o.spec(id)
	spec.GuestKey, spec.Reset = newKey(), firstReset()
	spec.WaitBooted, spec.Deadline = true, bootDeadline
	return spec
}

// Find returns the warm generation for o. Kind NotFound when there is none or it
// does not fit.
func Find(o Options) (vm.Manifest, error) {
	key := Key(o)
	var g vm.Manifest
	if err := layout.ReadJSON(layout.GenerationDir(o.Dir.Warm(o.Image.ID, key)).Manifest(), &g); err != nil {
		return vm.Manifest{}, err
	}
	if g.Key != key || g.Format != 1 {
		return vm.Manifest{}, vm.Errorf(vm.NotFound, key, "the generation was made for something else")
	}
	return g, nil
}

// clockTries is how often to boot a guest whose clock runs wrong.
const clockTries = 3

// Get returns the warm generation and builds it if there is none. Concurrent
// callers, also of several processes, make one.
func Get(ctx context.Context, o Options) (vm.Manifest, error) {
	g, err := Find(o)
	if !errors.Is(err, vm.NotFound) {
		return g, err
	}
	for range clockTries {
		if g, err = Build(ctx, o); !errors.Is(err, errClock) {
			break
		}
	}
	return g, err
}
