// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

// cleanupTime bounds the work that must be done even if a capture's context has
// ended: resuming the machine.
const cleanupTime = 20 * time.Second

// Capture writes memory and device state of the running machine to files and, with
// an overlay, freezes its disk at the same instant. The machine resumes in every
// case, also on an error, unless Quit was given and everything is written. The
// files are not yet durable: layout.Publish makes them so. On an error the files
// are removed. before, if not nil, is called directly before the pause. Kinds:
// NoSpace, WrongState, Internal.
func (p *Process) Capture(ctx context.Context, s vm.CaptureSpec, before func(context.Context) error) (out vm.Captured, err error) {
	begin := time.Now()
	defer func() { out.Total = time.Since(begin) }()
	if out.Machine, err = p.describe(ctx, s.GuestKey); err != nil {
		return out, err
	}
	state, err := p.RunState(ctx)
	if err != nil {
		return out, p.failure(err)
	}
	if state == stoppedForRoom {
		return out, p.noRoom()
	}
	if state != "running" {
		return out, vm.Errorf(vm.WrongState, string(p.Spec.ID), "its machine is %s, not running", state)
	}
	if s.RAM == "" {
		return out, p.captureDisk(ctx, s, &out, before)
	}
	mem, err := p.copyMemories(ctx, s.RAM)
	if err != nil {
		return out, err
	}
	defer func() {
		err = errors.Join(err, mem.close())
		if err != nil {
			mem.remove()
		}
	}()
	// The first pass runs beside the guest; the second corrects it.
	if _, err := mem.copyPrivate(ctx, nil); err != nil {
		return out, err
	}
	if err := createDevice(s.Device); err != nil {
		return out, err
	}
	defer func() {
		p.TakeBack(s.Device)
		if err != nil {
			os.Remove(s.Device)
		}
	}()
	device, err := p.Lend(s.Device)
	if err != nil {
		return out, err
	}
	if err := p.writeBack(ctx, s); err != nil {
		return out, err
	}
	if err := call(ctx, before); err != nil {
		return out, err
	}
	err = p.paused(ctx, s, &out, device, begin, func(ctx context.Context, free <-chan struct{}) (err error) {
		out.PrivatePages, err = mem.copyPrivate(ctx, free)
		out.RAMBytes = mem.dataBytes()
		return err
	})
	return out, err
}

func call(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return nil
	}
	return f(ctx)
}

// note writes the file that marks the capture as complete.
func note(s vm.CaptureSpec, out vm.Captured, begin time.Time) error {
	if s.Note == "" {
		return nil
	}
	out.Total = time.Since(begin)
	data, err := json.Marshal(out)
	if err != nil {
		return vm.Errorf(vm.Internal, s.Note, "%w", err)
	}
	tmp := s.Note + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fileError(s.Note, err)
	}
	return fileError(s.Note, os.Rename(tmp, s.Note))
}

// captureDisk freezes the disk alone.
func (p *Process) captureDisk(ctx context.Context, s vm.CaptureSpec, out *vm.Captured, before func(context.Context) error) error {
	begin := time.Now()
	if s.Overlay == "" {
		return vm.Errorf(vm.Internal, string(p.Spec.ID), "nothing to capture")
	}
	if err := p.writeBack(ctx, s); err != nil {
		return err
	}
	if err := call(ctx, before); err != nil {
		return err
	}
	return p.paused(ctx, s, out, "", begin, func(context.Context, <-chan struct{}) error { return nil })
}

// createDevice makes the file that QEMU will write, so that it gets our mode.
func createDevice(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileError(path, err)
	}
	return fileError(path, f.Close())
}

// paused stops the machine, writes disk layer, device state and memory, marks them
// as complete, and resumes the machine, unless it was asked to quit or hold. device
// is QEMU's name for the file of the device state.
func (p *Process) paused(ctx context.Context, s vm.CaptureSpec, out *vm.Captured, device string, begin time.Time, copyRAM func(context.Context, <-chan struct{}) error) (err error) {
	stopped := time.Now()
	// cleanup does not end with ctx: a caller that disconnects must not leave a VM
	// paused.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	defer func() {
		if err == nil && s.Quit {
			err = p.Quit(cleanup)
			return
		}
		if err == nil && s.Hold {
			return
		}
		cont := p.QMP.Execute(cleanup, "cont", nil, nil)
		out.Pause = time.Since(stopped)
		if cont != nil {
			err = errors.Join(err, vm.Errorf(vm.Internal, string(p.Spec.ID), "the machine could not be resumed: %w", cont))
		}
	}()
	if err := p.QMP.Execute(ctx, "stop", nil, nil); err != nil {
		return p.failure(err)
	}
	if err := p.at("stopped"); err != nil {
		return err
	}
	// QEMU works on disk and devices for milliseconds, in which it writes nothing
	// to the guest's memory. One copier compares the memory meanwhile and leaves a
	// processor to QEMU. The other copiers begin when QEMU is done.
	work, stop := context.WithCancel(ctx)
	defer stop()
	free := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error { return copyRAM(work, free) })
	err = p.saveState(ctx, s, out, device)
	close(free)
	if err != nil {
		stop() // wait, since it uses the files
	}
	if ramErr := g.Wait(); err == nil {
		err = ramErr
	}
	if err = cmp.Or(err, ctx.Err()); err != nil { // no caller waits for it any more
		return err
	}
	return note(s, *out, begin)
}

// saveState moves the disk of a paused machine and writes its device state.
func (p *Process) saveState(ctx context.Context, s vm.CaptureSpec, out *vm.Captured, device string) (err error) {
	if s.Overlay != "" {
		if err := p.moveDisk(ctx, s.Overlay); err != nil {
			return err
		}
	}
	if err := p.at("disk moved"); err != nil || s.RAM == "" {
		return err
	}
	// live:false: with true QEMU inactivates the disks of a stopped machine.
	err = p.QMP.Execute(ctx, "xen-save-devices-state", map[string]any{"filename": device, "live": false}, nil)
	if err != nil && full(s.Device) {
		err = fmt.Errorf("%w: %w", syscall.ENOSPC, err) // QEMU's error does not give the cause
	}
	if err != nil {
		return fileError(s.Device, err)
	}
	st, err := os.Stat(s.Device)
	if err != nil {
		return fileError(s.Device, err)
	}
	if out.DeviceBytes = st.Size(); out.DeviceBytes == 0 {
		return vm.Errorf(vm.Internal, s.Device, "qemu wrote no device state")
	}
	return p.at("device saved")
}

// full reports whether the file system of a file has no room for a device state,
// which QEMU does not report.
func full(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Bavail*uint64(st.Bsize) < 1<<20
}

// describe returns what must be equal for a start on a capture of this machine. key
// is the one that its agent has.
func (p *Process) describe(ctx context.Context, key []byte) (vm.Manifest, error) {
	var version struct {
		QEMU struct{ Major, Minor, Micro int } `json:"qemu"`
	}
	if err := p.QMP.Execute(ctx, "query-version", nil, &version); err != nil {
		return vm.Manifest{}, p.failure(err)
	}
	s := p.Machine()
	return vm.Manifest{
		Format: 1, Size: s.Size, Accel: s.Accel, CPU: s.CPU, Machine: s.Machine, Cmdline: s.Boot.Cmdline, Devices: Devices(s), Plugged: s.Plugged,
		QEMU: fmt.Sprintf("%d.%d.%d", version.QEMU.Major, version.QEMU.Minor, version.QEMU.Micro), GuestKey: key, TrueKey: len(key) > 0,
	}, nil
}

// at is a hook by which a test makes a capture fail.
func (p *Process) at(step string) error {
	if p.fault == nil {
		return nil
	}
	return p.fault(step)
}
