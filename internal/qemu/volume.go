// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/qmp"
	"github.com/warren-vm/warren/vm"
)

// The names of a volume's parts in QEMU.
func volumeNode(id vm.VolumeID) string   { return string(id) }
func volumeDevice(id vm.VolumeID) string { return "dev-" + string(id) }
func volumeSecret(id vm.VolumeID) string { return "key-" + string(id) }

// volumeBlock is the encrypted disk of a volume. Without the right to write, QEMU
// itself opens the file read-only.
func volumeBlock(v vm.PluggedVolume) map[string]any {
	if v.Cut {
		return cutBlock(v)
	}
	file := map[string]any{"driver": "file", "filename": v.File}
	if v.Share {
		file["locking"] = "off"
	}
	return map[string]any{
		"driver": "qcow2", "node-name": volumeNode(v.ID), "read-only": v.ReadOnly, "discard": "unmap",
		"encrypt": map[string]any{"format": "luks", "key-secret": volumeSecret(v.ID)},
		"file":    file,
	}
}

// cutBlock is a disk of the same size on which every access fails.
func cutBlock(v vm.PluggedVolume) map[string]any {
	return map[string]any{
		"driver": "blkdebug", "node-name": volumeNode(v.ID), "read-only": v.ReadOnly,
		"image":        map[string]any{"driver": "null-co", "size": int64(v.SizeMiB) << 20, "read-only": v.ReadOnly},
		"inject-error": []any{map[string]any{"event": "none", "errno": int(syscall.EIO)}},
	}
}

// volumeFront is the disk as the guest sees it. The guest identifies it by its
// serial number, because device names do not follow the order of plugging.
func volumeFront(v vm.PluggedVolume) map[string]any {
	return map[string]any{
		"driver": "virtio-blk-pci", "id": volumeDevice(v.ID), "drive": volumeNode(v.ID),
		"serial": string(v.ID), "bus": fmt.Sprintf("port%d", v.Port),
	}
}

// volumeDevices are the arguments for volumes' disks as the guest sees them.
func volumeDevices(s vm.MachineSpec) (args []string) {
	for _, v := range s.Plugged.Volumes {
		args = append(args, "-device", string(encode(volumeFront(v))))
	}
	return args
}

// volumeBlocks are the arguments for their files. Each key comes through a pipe of
// its own.
func volumeBlocks(s vm.MachineSpec) (args []string) {
	for _, v := range s.Plugged.Volumes {
		if !v.Cut {
			secret := map[string]any{"qom-type": "secret", "id": volumeSecret(v.ID), "file": keyPipe(s, v.ID)}
			args = append(args, "-object", string(encode(secret)))
		}
		args = append(args, "-blockdev", string(encode(volumeBlock(v))))
	}
	return args
}

// keyPipe is where QEMU reads the key of a volume with which it starts.
func keyPipe(s vm.MachineSpec, id vm.VolumeID) string {
	return filepath.Join(layout.VMDir(s.Dir).Lent(), volumeSecret(id))
}

// unlocked wants a key for each volume with which the machine starts.
func unlocked(s vm.MachineSpec) error {
	for _, v := range s.Plugged.Volumes {
		if !v.Cut && len(s.VolumeKeys[v.ID]) == 0 {
			return vm.Errorf(vm.WrongState, string(v.ID), "the volume is locked")
		}
	}
	return nil
}

// offerKeys makes the pipes that the arguments name and writes each key for its
// first reader, which is QEMU; then it removes the pipe. ctx ends the offer.
func offerKeys(ctx context.Context, s vm.MachineSpec) error {
	keys := map[string][]byte{} // by pipe
	for _, v := range s.Plugged.Volumes {
		if !v.Cut {
			keys[keyPipe(s, v.ID)] = s.VolumeKeys[v.ID]
		}
	}
	if s.Generation == nil && s.Boot.Kernel != "" {
		config, err := bootConfig(s)
		if err != nil {
			return err
		}
		keys[bootPipe(s)] = config
	}
	for path, key := range keys {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return fileError(path, err)
		}
		if confine.MaySwitchUsers() {
			if err := give(path, 0o040); err != nil {
				return fileError(path, err)
			}
		}
		go func() { // ends with the reader, or with ctx
			defer os.Remove(path)
			confine.Offer(ctx, path, key)
		}()
	}
	return nil
}

// dropSecrets deletes from QEMU the keys of the volumes with which the machine
// started: QEMU needs them only to open the disks.
func (p *Process) dropSecrets(ctx context.Context) error {
	for _, v := range p.Spec.Plugged.Volumes {
		if v.Cut {
			continue
		}
		if err := p.QMP.Execute(ctx, "object-del", map[string]any{"id": volumeSecret(v.ID)}, nil); err != nil {
			return p.refused(err)
		}
	}
	return nil
}

// FreePort finds a spare port for another volume; 0 = there is none.
func FreePort(plugged vm.Plugged) int {
	for port := 1; port <= sparePorts; port++ {
		if !slices.ContainsFunc(plugged.Volumes, func(v vm.PluggedVolume) bool { return v.Port == port }) {
			return port
		}
	}
	return 0
}

// checkVolume reads the header of a volume's disk before QEMU does: another machine
// may have written it.
func checkVolume(v vm.PluggedVolume) error {
	if v.Cut {
		return nil
	}
	_, err := qcow.Check(v.File, qcow.Volume)
	if vm.KindOf(err) == vm.Corrupt {
		return vm.Errorf(vm.Corrupt, string(v.ID), "its disk does not open: %s", vm.AsError(err).Msg).WithCode("VOLUME_DAMAGED").
			WithHint("lock and unlock it, which puts its header back from a copy")
	}
	return err
}

// PlugVolume plugs a volume's disk into the machine. After an error nothing is left
// of it.
func (p *Process) PlugVolume(ctx context.Context, v vm.PluggedVolume, key vm.VolumeKey) (err error) {
	if err := checkVolume(v); err != nil {
		return err
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	secret := map[string]any{"id": volumeSecret(v.ID)}
	_ = p.QMP.Execute(ctx, "object-del", secret, nil) // left by an attempt that broke off; usually absent
	err = p.QMP.Execute(ctx, "object-add", map[string]any{"qom-type": "secret", "id": volumeSecret(v.ID), "data": string(key)}, nil)
	if err != nil {
		return p.refused(err)
	}
	lent := v
	if !v.Cut {
		lent.File, err = p.lendVolume(v)
		defer os.Remove(lent.File) // QEMU then has it open
	}
	opened := false
	if err == nil {
		err = p.QMP.Execute(ctx, "blockdev-add", volumeBlock(lent), nil)
		opened = err == nil || unheard(err)
	}
	err = errors.Join(err, p.QMP.Execute(cleanup, "object-del", secret, nil)) // the disk is open, or opening has failed
	if err != nil && opened {
		return errors.Join(p.volumeRefused(v, err), p.closeVolume(cleanup, v.ID))
	}
	if err != nil {
		return p.volumeRefused(v, err)
	}
	err = p.QMP.Execute(ctx, "device_add", volumeFront(v), nil)
	if unheard(err) {
		return errors.Join(p.refused(err), p.UnplugVolume(cleanup, v.ID))
	}
	if err != nil {
		return errors.Join(p.refused(err), p.closeVolume(cleanup, v.ID))
	}
	return nil
}

// lendVolume is Lend for a volume's file, because all volumes' files have the same
// name.
func (p *Process) lendVolume(v vm.PluggedVolume) (string, error) {
	name := filepath.Join(layout.VMDir(p.Spec.Dir).Lent(), string(v.ID))
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fileError(name, err)
	}
	if err := os.Link(v.File, name); err != nil {
		return "", fileError(v.File, err)
	}
	return name, p.allow(name)
}

// volumeRefused explains why QEMU did not open a volume's disk.
func (p *Process) volumeRefused(v vm.PluggedVolume, err error) error {
	var no *qmp.Error
	switch {
	case !errors.As(err, &no):
		return p.failure(err)
	case strings.Contains(no.Desc, "Failed to get"):
		return vm.Errorf(vm.Busy, string(v.ID), "another process has its disk open: %s", no.Desc)
	case strings.Contains(no.Desc, "Invalid password"):
		return vm.Errorf(vm.Corrupt, string(v.ID), "its disk does not open with its key").WithCode("VOLUME_DAMAGED")
	}
	return p.refused(err)
}

const (
	unplugWait  = 10 * time.Second // time for a guest to release a disk
	unplugAgain = 2 * time.Second  // a busy guest may have missed the request
	closeAgain  = 10 * time.Millisecond
)

// UnplugVolume takes a volume's disk out of the machine; an absent one is no error.
// The guest has to release it: GuestFault when it does not.
func (p *Process) UnplugVolume(ctx context.Context, id vm.VolumeID) error {
	ctx, cancel := context.WithTimeout(ctx, unplugWait)
	defer cancel()
	events := p.QMP.Subscribe()
	defer events.Close()
	for {
		err := p.QMP.Execute(ctx, "device_del", map[string]any{"id": volumeDevice(id)}, nil)
		var no *qmp.Error
		switch {
		case errors.As(err, &no) && no.Class == "DeviceNotFound":
			return p.closeVolume(ctx, id)
		case errors.As(err, &no) && !strings.Contains(no.Desc, "already in the process"):
			return p.refused(err)
		case err != nil && no == nil:
			return p.failure(err)
		}
		gone, err := deviceGone(ctx, events, volumeDevice(id))
		if gone {
			return p.closeVolume(ctx, id)
		}
		if ctx.Err() != nil {
			return vm.Errorf(vm.GuestFault, string(p.Spec.ID), "the guest does not release the disk of %s", id).
				WithHint("try again, or stop the VM")
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return p.failure(err)
		}
	}
}

// deviceGone waits for the event that a device is gone.
func deviceGone(ctx context.Context, events *qmp.Events, device string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, unplugAgain)
	defer cancel()
	for {
		e, err := events.Next(ctx)
		if err != nil {
			return false, err
		}
		if e.Name == "DEVICE_DELETED" && strings.Contains(string(e.Data), `"`+device+`"`) {
			return true, nil
		}
	}
}

// closeVolume closes a disk that no device uses. Just after a device's end QEMU may
// still use it.
func (p *Process) closeVolume(ctx context.Context, id vm.VolumeID) error {
	for {
		err := p.QMP.Execute(ctx, "blockdev-del", map[string]any{"node-name": volumeNode(id)}, nil)
		var no *qmp.Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &no) && strings.Contains(no.Desc, "Failed to find node"):
			return nil
		case !errors.As(err, &no) || !strings.Contains(no.Desc, "in use"):
			return p.refused(err)
		}
		select {
		case <-time.After(closeAgain):
		case <-ctx.Done():
			return p.refused(err)
		}
	}
}

// SnapshotVolume makes a snapshot of a volume's disk, inside the disk itself.
func (p *Process) SnapshotVolume(ctx context.Context, id vm.VolumeID, snapshot string) error {
	return p.volumeSnapshot(ctx, "blockdev-snapshot-internal-sync", id, snapshot)
}

// DropVolumeSnapshot deletes a snapshot; an absent one is no error.
func (p *Process) DropVolumeSnapshot(ctx context.Context, id vm.VolumeID, snapshot string) error {
	err := p.volumeSnapshot(ctx, "blockdev-snapshot-delete-internal-sync", id, snapshot)
	if err != nil && strings.Contains(err.Error(), "does not exist") {
		return nil
	}
	return err
}

func (p *Process) volumeSnapshot(ctx context.Context, command string, id vm.VolumeID, snapshot string) error {
	err := p.QMP.Execute(ctx, command, map[string]any{"device": volumeNode(id), "name": snapshot}, nil)
	var no *qmp.Error
	if err != nil && !errors.As(err, &no) {
		return p.failure(err)
	}
	if err != nil {
		return p.refused(err)
	}
	return nil
}

// volumes lists the volumes whose devices the machine has.
func (p *Process) volumes(ctx context.Context) ([]vm.VolumeID, error) {
	var list []struct {
		Name string `json:"name"`
	}
	if err := p.QMP.Execute(ctx, "qom-list", map[string]any{"path": "/machine/peripheral"}, &list); err != nil {
		return nil, p.refused(err)
	}
	var out []vm.VolumeID
	for _, d := range list {
		if id, ok := strings.CutPrefix(d.Name, "dev-"); ok && vm.IsVolumeID(id) {
			out = append(out, vm.VolumeID(id))
		}
	}
	return out, nil
}

// keptVolumes are those of a machine's volumes that QEMU has. QEMU may also have
// one that is not recorded, because a monitor died while it plugged it: that one is
// taken out again.
func (p *Process) keptVolumes(ctx context.Context, known []vm.PluggedVolume) ([]vm.PluggedVolume, error) {
	have, err := p.volumes(ctx)
	if err != nil {
		return known, err
	}
	var kept []vm.PluggedVolume
	for _, v := range known {
		if slices.Contains(have, v.ID) {
			kept = append(kept, v)
		}
	}
	var errs []error
	for _, id := range have {
		if !slices.ContainsFunc(kept, func(v vm.PluggedVolume) bool { return v.ID == id }) {
			errs = append(errs, p.UnplugVolume(ctx, id))
		}
	}
	return kept, errors.Join(errs...)
}
