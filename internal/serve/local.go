// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/embedded"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/warm"
	"github.com/warren-vm/warren/vm"
)

const qemuName = "qemu-system-x86_64"

// local does what this host can do without a server: probe it, make warm generations. The
// server uses it, too.
type local struct {
	dir      layout.Dir
	programs embedded.Programs
	launcher *monitor.Launcher
}

func openLocal(dir layout.Dir, log *slog.Logger) (*local, error) {
	programs, err := embedded.Unpack(dir)
	if err != nil {
		return nil, err
	}
	return &local{dir: dir, programs: programs, launcher: &monitor.Launcher{Binary: programs.Monitor, Log: log}}, nil
}

// qemu finds QEMU's program. Kind Unsupported.
func (l *local) qemu() (string, error) {
	path, err := exec.LookPath(qemuName)
	if err != nil {
		return "", vm.Errorf(vm.Unsupported, qemuName, "is not installed").
			WithHint("install it: `apt-get install qemu-system-x86`, or see `warren doctor`")
	}
	return path, nil
}

// boot returns the files of a cold boot of img on an accelerator.
func (l *local) boot(img vm.Image, accel vm.Accel) (vm.BootSource, error) {
	initramfs, err := image.Initramfs(l.dir, img, l.programs.Agent, l.programs.AgentDigest)
	if err != nil {
		return vm.BootSource{}, err
	}
	return vm.BootSource{Kernel: l.dir.Kernel(img.ID), Initramfs: initramfs, Cmdline: image.Cmdline(img, accel)}, nil
}

// probe boots a guest of img, or of the default image, to find the accelerator.
func (l *local) probe(ctx context.Context, img vm.Image, fresh bool) (warm.ProbeReport, error) {
	qemu, err := l.qemu()
	if err != nil {
		return warm.ProbeReport{}, err
	}
	boot, err := l.boot(img, vm.KVM)
	if err != nil {
		return warm.ProbeReport{}, err
	}
	_, report, err := warm.Probe(ctx, warm.ProbeOptions{
		Dir: l.dir, Launcher: l.launcher, QEMU: qemu, Boot: boot,
		Agent: l.programs.Agent, AgentDigest: l.programs.AgentDigest, Fresh: fresh,
	})
	return report, err
}

// platform returns what machines of img start with here.
func (l *local) platform(ctx context.Context, img vm.Image) (engine.Platform, error) {
	report, err := l.probe(ctx, img, false)
	if err != nil {
		return engine.Platform{}, err
	}
	qemu, err := l.qemu()
	if err != nil {
		return engine.Platform{}, err
	}
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return engine.Platform{}, vm.Errorf(vm.Internal, "boot_id", "%w", err)
	}
	p := engine.Platform{
		QEMU: qemu, QEMUVersion: report.QEMUVersion, Accel: report.Accel, CPU: report.CPU, Machine: report.Machine,
		Agent: l.programs.Agent, AgentDigest: l.programs.AgentDigest, BootID: strings.TrimSpace(string(bootID)), Version: api.Version,
	}
	if report.Accel != vm.KVM {
		p.Warnings = append(p.Warnings, vm.EmulatedWarning)
	}
	return p, nil
}

// defaultPlatform probes with the default image, or with any other.
func (l *local) defaultPlatform(ctx context.Context) (engine.Platform, error) {
	img, err := l.anyImage()
	if err != nil {
		return engine.Platform{}, err
	}
	return l.platform(ctx, img)
}

func (l *local) anyImage() (vm.Image, error) {
	img, err := image.Find(l.dir, "")
	if err == nil {
		return img, nil
	}
	list, listErr := image.List(l.dir)
	if listErr != nil || len(list) == 0 {
		return vm.Image{}, err
	}
	return slices.MaxFunc(list, func(a, b vm.Image) int { return a.CreatedAt.Compare(b.CreatedAt) }), nil
}

// warmOptions returns the inputs of img's warm generation.
func (l *local) warmOptions(img vm.Image, size vm.Size, p engine.Platform) (warm.Options, error) {
	boot, err := l.boot(img, p.Accel)
	if err != nil {
		return warm.Options{}, err
	}
	return warm.Options{
		Dir: l.dir, Launcher: l.launcher, Image: img, Size: size, Boot: boot,
		QEMU: p.QEMU, QEMUVersion: p.QEMUVersion, Accel: p.Accel, CPU: p.CPU, Machine: p.Machine,
		Agent: p.Agent, AgentDigest: p.AgentDigest,
	}, nil
}

// warmer finds and makes warm generations for the engine. It caches those that it has
// found, since every create asks for one.
type warmer struct {
	local *local
	host  engine.Host

	mu    sync.Mutex // guards known
	known map[warmKey]vm.Manifest
}

type warmKey struct {
	image vm.ImageID
	size  vm.Size
}

func (w *warmer) generation(ctx context.Context, img vm.Image, size vm.Size) (vm.Manifest, error) {
	key := warmKey{img.ID, size}
	w.mu.Lock()
	g, ok := w.known[key]
	w.mu.Unlock()
	if ok {
		if _, err := os.Stat(layout.GenerationDir(w.local.dir.Warm(img.ID, g.Key)).Manifest()); err == nil {
			return g, nil
		}
	}
	p, err := w.host.Platform(ctx)
	if err != nil {
		return vm.Manifest{}, err
	}
	o, err := w.local.warmOptions(img, size, p)
	if err != nil {
		return vm.Manifest{}, err
	}
	if g, err = warm.Get(ctx, o); err != nil {
		return vm.Manifest{}, err
	}
	w.mu.Lock()
	w.known[key] = g
	w.mu.Unlock()
	return g, nil
}

func (w *warmer) boot(ctx context.Context, img vm.Image) (vm.BootSource, error) {
	p, err := w.host.Platform(ctx)
	if err != nil {
		return vm.BootSource{}, err
	}
	return w.local.boot(img, p.Accel)
}
