// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// keyPipe makes the pipe from which a monitor reads the keys of the volumes that
// its machine starts with. They are in no file and no argument.
func keyPipe(spec vm.MachineSpec) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, vm.Errorf(vm.Limit, string(spec.ID), "no pipe for its monitor: %w", err)
	}
	data, err := json.Marshal(spec.VolumeKeys)
	if err == nil {
		_, err = w.Write(data) // a few keys: far less than a pipe holds
	}
	clear(data)
	if err = errors.Join(err, w.Close()); err != nil {
		r.Close()
		return nil, vm.Errorf(vm.Internal, string(spec.ID), "pipe: %w", err)
	}
	return r, nil
}

func readKeys(from io.ReadCloser, spec *vm.MachineSpec) error {
	if from == nil {
		return nil
	}
	defer from.Close()
	if err := json.NewDecoder(from).Decode(&spec.VolumeKeys); err != nil && !errors.Is(err, io.EOF) {
		return vm.Errorf(vm.Internal, string(spec.ID), "the keys of its volumes were not handed over: %w", err)
	}
	return nil
}

// pluggedKey is a volume's disk with the key that opens it.
type pluggedKey struct {
	vm.PluggedVolume
	Key vm.VolumeKey `json:"key"`
}

// plugVolume plugs a volume's disk into any spare port of the machine. Capture,
// resize and plugging exclude each other.
func (m *machine) plugVolume(ctx context.Context, v pluggedKey) error {
	if !closed(m.started) {
		return vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
	}
	m.capturing.Lock()
	defer m.capturing.Unlock()
	now := m.qemu().Machine()
	if slices.ContainsFunc(now.Plugged.Volumes, func(p vm.PluggedVolume) bool { return p.ID == v.ID }) {
		return vm.Errorf(vm.Exists, string(v.ID), "the machine already has this volume")
	}
	if v.Port = qemu.FreePort(now.Plugged); v.Port == 0 {
		return vm.Errorf(vm.Limit, string(m.spec.ID), "the machine has %d volumes and no port for another", len(now.Plugged.Volumes)).
			WithCode("VOLUME_LIMIT_EXCEEDED").WithHint("unmount one first")
	}
	if err := m.qemu().PlugVolume(ctx, v.PluggedVolume, v.Key); err != nil {
		return err
	}
	next := now.Plugged
	next.Volumes = append(slices.Clone(next.Volumes), v.PluggedVolume)
	return m.changed(now.Size, next)
}

// unplugVolume takes a volume's disk out of the machine; the guest must have
// unmounted it. An absent one is no error.
func (m *machine) unplugVolume(ctx context.Context, id vm.VolumeID) error {
	if !closed(m.started) {
		return vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
	}
	m.capturing.Lock()
	defer m.capturing.Unlock()
	if err := m.qemu().UnplugVolume(ctx, id); err != nil {
		return err
	}
	now := m.qemu().Machine()
	next := now.Plugged
	next.Volumes = slices.DeleteFunc(slices.Clone(next.Volumes), func(p vm.PluggedVolume) bool { return p.ID == id })
	return m.changed(now.Size, next)
}

func (s *server) plugVolume(w http.ResponseWriter, r *http.Request) {
	var v pluggedKey
	err := readJSONBody(r, &v)
	if err == nil {
		err = s.m.plugVolume(r.Context(), v)
		clear(v.Key)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

// The unplugging continues if its caller disconnects, so that it is not left half
// done.
func (s *server) unplugVolume(w http.ResponseWriter, r *http.Request) {
	if err := s.m.unplugVolume(context.WithoutCancel(r.Context()), vm.VolumeID(r.PathValue("id"))); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

// PlugVolume plugs a volume's disk into a port that the monitor chooses. Kinds:
// Busy when another process has the disk open, Corrupt, Exists, Limit.
func (c *Client) PlugVolume(ctx context.Context, v vm.PluggedVolume, key vm.VolumeKey) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	return c.call(ctx, "POST", "/volume", pluggedKey{v, key}, nil)
}

// UnplugVolume takes a volume's disk out of the machine; an absent one is no error.
// Kind GuestFault when the guest does not release it.
func (c *Client) UnplugVolume(ctx context.Context, id vm.VolumeID) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	return c.call(ctx, "DELETE", "/volume/"+string(id), nil, nil)
}

// snapshotVolume makes or deletes a snapshot of a volume's disk, by the request's
// method, while no capture runs. It continues if its caller disconnects.
func (s *server) snapshotVolume(w http.ResponseWriter, r *http.Request) {
	do := s.m.qemu().SnapshotVolume
	if r.Method == http.MethodDelete {
		do = s.m.qemu().DropVolumeSnapshot
	}
	s.m.capturing.Lock()
	err := do(context.WithoutCancel(r.Context()), vm.VolumeID(r.PathValue("id")), r.PathValue("snapshot"))
	s.m.capturing.Unlock()
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

// SnapshotVolume makes a snapshot of a volume's disk.
func (c *Client) SnapshotVolume(ctx context.Context, id vm.VolumeID, snapshot string) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	return c.call(ctx, "POST", "/volume/"+string(id)+"/snapshots/"+snapshot, nil, nil)
}

// DropVolumeSnapshot deletes a snapshot; an absent one is no error.
func (c *Client) DropVolumeSnapshot(ctx context.Context, id vm.VolumeID, snapshot string) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	return c.call(ctx, "DELETE", "/volume/"+string(id)+"/snapshots/"+snapshot, nil, nil)
}
