// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func baseImage() vm.Image {
	return NewImage("base")
}

// NewImage returns an image for AddImage.
func NewImage(name string) vm.Image {
	id := vm.NewImageID()
	return vm.Image{
		Format: 1, ID: id, Name: name, Snapshot: vm.SnapshotID("sc-" + string(vm.NewID())),
		CreatedAt: time.Now().UTC(), DiskMiB: 2048, Kernel: "6.1.0-sim", Cmdline: "console=ttyS0",
		Registries: []vm.Registry{{Host: "packages.example", Port: 443, Manager: "apt"}},
	}
}

// AddImage adds an image to the host. Of images with the same name the newest is used.
func (w *World) AddImage(img vm.Image) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images = append(w.images, img)
}

// RemoveImages leaves the host without images.
func (w *World) RemoveImages() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images = nil
}

// Images returns the simulator of images.
func (w *World) Images() engine.Images { return images{w} }

type images struct{ w *World }

func (i images) Find(ctx context.Context, ref string) (vm.Image, error) {
	if err := i.w.step(ctx, "find"); err != nil {
		return vm.Image{}, err
	}
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	if ref == "" {
		ref = "base"
	}
	for _, img := range slices.Backward(i.w.images) {
		if img.Name == ref || string(img.ID) == ref || string(img.Snapshot) == ref {
			return img, nil
		}
	}
	return vm.Image{}, vm.Errorf(vm.NotFound, ref, "no such image")
}

func (i images) List(context.Context) ([]vm.Image, error) {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	return slices.Clone(i.w.images), nil
}

func (i images) Warm(ctx context.Context, img vm.Image, size vm.Size) (vm.Manifest, error) {
	if err := i.w.step(ctx, "warm"); err != nil {
		return vm.Manifest{}, err
	}
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	key := fmt.Sprintf("%d-%d-%d", size.VCPU, size.MemoryMiB, size.DiskMiB)
	if i.w.rewarmed > 0 {
		key += fmt.Sprintf("-%d", i.w.rewarmed)
	}
	i.w.warmed[string(img.ID)+"/"+key]++
	return vm.Manifest{
		Format: 1, ID: vm.NewGenerationID(), Image: img.ID, Key: key, Size: size,
		Accel: vm.TCG, CPU: "Nehalem", Machine: "pc-q35-7.2", QEMU: "7.2.0", GuestKey: []byte("the key of the generation"),
	}, nil
}

func (i images) Boot(ctx context.Context, img vm.Image) (vm.BootSource, error) {
	if err := i.w.step(ctx, "boot"); err != nil {
		return vm.BootSource{}, err
	}
	return vm.BootSource{Kernel: "/images/" + string(img.ID) + "/vmlinux", Initramfs: "/initramfs", Cmdline: img.Cmdline}, nil
}

// Overlay makes an empty file and its simulated disk.
func (i images) Overlay(path, backing string, sizeMiB int) error {
	if err := i.w.fault("overlay"); err != nil {
		return err
	}
	if filepath.IsAbs(backing) || filepath.Base(backing) != "disk.qcow2" {
		return vm.Errorf(vm.Internal, backing, "not the relative name of a generation's disk")
	}
	if err := os.WriteFile(path, []byte(backing), 0o600); err != nil {
		return err
	}
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	i.w.disks[path] = newDisk(int64(sizeMiB) << 20)
	return nil
}

// Host returns the simulator of the host.
func (w *World) Host() engine.Host { return host{w} }

type host struct{ w *World }

func (h host) Platform(context.Context) (engine.Platform, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return engine.Platform{
		QEMU: "/usr/bin/qemu-system-x86_64", QEMUVersion: h.w.qemu, Accel: vm.TCG, CPU: "Nehalem", Machine: "pc-q35-7.2",
		Agent: "/bin/warren-agent", AgentDigest: h.w.agent, BootID: h.w.bootID, Version: "test",
		Warnings: []string{vm.EmulatedWarning},
	}, nil
}

func (h host) Capacity(ctx context.Context) (engine.Capacity, error) {
	if err := h.w.step(ctx, "capacity"); err != nil {
		return engine.Capacity{}, err
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return engine.Capacity{CPUs: 2, MemTotal: h.w.free, MemAvailable: h.w.free, DiskTotal: h.w.diskFree, DiskFree: h.w.diskFree, Waiting: h.w.waiting, MemoryStalled: h.w.stalled}, nil
}
