// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func ref(name string) vault.Ref { return vault.Ref{Volume: name} }

func mountOf(name, path string) engine.MountRequest {
	return engine.MountRequest{Ref: ref(name), Path: path, RW: true}
}

func newVolume(t *testing.T, e *vmtest.House, c *vm.Call, name string) vault.Info {
	t.Helper()
	v, err := e.CreateVolume(t.Context(), c, vault.VolumeRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func unlock(t *testing.T, e *vmtest.House, c *vm.Call, name string) {
	t.Helper()
	if _, _, err := e.UnlockVolume(t.Context(), c, ref(name), vault.UnlockRequest{}); err != nil {
		t.Fatal(err)
	}
}

func mount(t *testing.T, e *vmtest.House, c *vm.Call, box string, r engine.MountRequest) {
	t.Helper()
	if _, err := e.Mount(t.Context(), c, box, r); err != nil {
		t.Fatal(err)
	}
}

func volumeIs(t *testing.T, e *vmtest.House, c *vm.Call, name string, unlocked bool, mounts int) {
	t.Helper()
	v, err := e.VolumeOf(t.Context(), c, ref(name))
	if err != nil || v.Unlocked != unlocked || len(v.Mounts) != mounts {
		t.Errorf("%s: unlocked %v, mounts %v, %v; want %v and %d", name, v.Unlocked, v.Mounts, err, unlocked, mounts)
	}
}

func refused(t *testing.T, err error, kind vm.Kind, code string) {
	t.Helper()
	got := vm.AsError(err).Code
	if reason, ok := vm.AsError(err).Fields["reason"].(string); ok && got == "CONFLICT" {
		got = reason
	}
	if vm.KindOf(err) != kind || got != code {
		t.Errorf("got %s %s (%v), want %s %s", vm.KindOf(err), vm.AsError(err).Code, err, kind, code)
	}
}

// consistentVolumes checks that leases, machines and guests agree.
func consistentVolumes(t *testing.T, s *vmtest.Site) {
	t.Helper()
	recs, err := vmtest.Stored[vm.Volume](s.Backend, "volumes")
	if err != nil {
		t.Fatal(err)
	}
	leased := map[vm.ID][]vm.VolumeID{}
	for _, v := range recs {
		for _, m := range v.Mounts {
			leased[m.VM] = append(leased[m.VM], v.ID)
			spec, running := s.World.Spec(m.VM)
			has := slices.ContainsFunc(spec.Plugged.Volumes, func(p vm.PluggedVolume) bool { return p.ID == v.ID })
			if running && !m.Pending && (!has || s.World.Mounted(m.VM)[m.Path].ID != v.ID) {
				t.Errorf("%s is not mounted in %s at %s as its record says", v.Name, m.VM, m.Path)
			}
		}
	}
	for _, id := range s.World.Running() {
		spec, _ := s.World.Spec(id)
		for _, p := range spec.Plugged.Volumes {
			if !p.Cut && !slices.Contains(leased[id], p.ID) {
				t.Errorf("VM %s has %s without a lease", id, p.ID)
			}
		}
	}
}

// nothingPending: the next engine finishes or undoes the operations during which an
// engine died.
func nothingPending(t *testing.T, s *vmtest.Site) {
	t.Helper()
	recs, err := vmtest.Stored[vm.Volume](s.Backend, "volumes")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range recs {
		for _, m := range v.Mounts {
			if m.Pending {
				t.Errorf("the mount of %s at %s is still pending", v.Name, m.Path)
			}
		}
	}
}

// TestVolumeLife: from create to remove, including refusals.
//
// 003-09, 003-15, 003-17
func TestVolumeLife(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	v := newVolume(t, e, c, "work")
	volumeIs(t, e, c, "work", false, 0)
	_, err := e.CreateVolume(ctx, c, vault.VolumeRequest{Name: "work"})
	refused(t, err, vm.Exists, "VOLUME_EXISTS")
	if other, err := e.CreateVolume(ctx, c, vault.VolumeRequest{Name: "work", Project: "other"}); err != nil || other.ID == v.ID {
		t.Errorf("the same name in another project: %v", err)
	}
	_, err = e.Mount(ctx, c, "box", mountOf("work", "/data"))
	refused(t, err, vm.WrongState, "VOLUME_LOCKED")
	if hint := vm.AsError(err).Hint; !strings.Contains(hint, "warren volume unlock work") {
		t.Errorf("hint %q", hint)
	}
	unlock(t, e, c, "work")
	r := mountOf("work", "/data")
	r.RW = false
	_, err = e.Mount(ctx, c, "box", r)
	refused(t, err, vm.WrongState, "VOLUME_NOT_READY")
	mount(t, e, c, "box", mountOf("work", "/data"))
	volumeIs(t, e, c, "work", true, 1)
	if spec, _ := s.World.Spec(box.ID); len(spec.Plugged.Volumes) != 1 || spec.Plugged.Volumes[0].ReadOnly {
		t.Errorf("plugged: %+v", spec.Plugged.Volumes)
	}
	if l, err := e.Mounts(ctx, c, "box"); err != nil || len(l) != 1 || l[0].Path != "/data" || !l[0].RW {
		t.Errorf("mounts %v, %v", l, err)
	}
	_, err = e.LockVolume(ctx, c, ref("work"), false)
	refused(t, err, vm.Busy, "VOLUME_IN_USE")
	_, err = e.RemoveVolume(ctx, c, ref("work"))
	refused(t, err, vm.Busy, "VOLUME_IN_USE")
	s.World.Occupy(box.ID, "12 vim")
	err = e.Unmount(ctx, c, "box", "/data", false)
	refused(t, err, vm.Busy, "VOLUME_BUSY")
	if !strings.Contains(err.Error(), "vim") {
		t.Errorf("it does not name who uses it: %v", err)
	}
	if _, err := e.LockVolume(ctx, c, ref("work"), true); err != nil {
		t.Fatal(err)
	}
	volumeIs(t, e, c, "work", false, 0)
	refused(t, e.Unmount(ctx, c, "box", "/data", false), vm.NotFound, "MOUNT_NOT_FOUND")
	unlock(t, e, c, "work")
	mount(t, e, c, "box", r)
	if spec, _ := s.World.Spec(box.ID); len(spec.Plugged.Volumes) != 1 || !spec.Plugged.Volumes[0].ReadOnly {
		t.Errorf("without rw the host lets the guest write: %+v", spec.Plugged.Volumes)
	}
	consistent(t, s)
	if err := e.Unmount(ctx, c, "box", "work", false); err != nil { // by its name
		t.Error(err)
	}
	if _, err := e.ResizeVolume(ctx, c, ref("work"), v.SizeMiB*2); err != nil {
		t.Error(err)
	}
	_, err = e.ResizeVolume(ctx, c, ref("work"), v.SizeMiB)
	refused(t, err, vm.Invalid, "VOLUME_SIZE_INVALID")
	if _, err := e.RemoveVolume(ctx, c, ref("work")); err != nil {
		t.Fatal(err)
	}
	_, err = e.VolumeOf(ctx, c, ref("work"))
	refused(t, err, vm.NotFound, "VOLUME_NOT_FOUND")
	sensitive(t, s)
}

// sensitive: unlocking and mounting are audited as such, and no record holds a
// key.
func sensitive(t *testing.T, s *vmtest.Site) {
	t.Helper()
	recs, err := s.Audit.List(t.Context(), vm.AuditFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[vm.Op]bool{}
	for _, r := range recs {
		if r.Detail["sensitive"] == true {
			seen[r.Op] = true
		}
		for k, v := range r.Detail {
			if text, ok := v.(string); ok && strings.Contains(text, "key of") {
				t.Errorf("%s: %s holds a key", r.Op, k)
			}
		}
	}
	if !seen[vm.OpVolumeUnlock] || !seen[vm.OpMount] {
		t.Errorf("sensitive records: %v", seen)
	}
}

// TestVolumePaths: paths at which a volume cannot be mounted.
func TestVolumePaths(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	for _, p := range []string{"", "data", "/", "/proc", "/proc/x", "/dev/shm", "/sys", "/a/../b", "/a/", "//a", "/a\x00", "/usr", "/etc", "/home"} {
		_, err := e.Mount(t.Context(), c, "box", mountOf("work", p))
		refused(t, err, vm.Invalid, "MOUNT_PATH_INVALID")
	}
	r := mountOf("work", "/")
	r.Over = true
	_, err := e.Mount(t.Context(), c, "box", r)
	refused(t, err, vm.Invalid, "MOUNT_PATH_INVALID")
	r.Path = "/home"
	mount(t, e, c, "box", r)
	newVolume(t, e, c, "more")
	unlock(t, e, c, "more")
	_, err = e.Mount(t.Context(), c, "box", engine.MountRequest{Ref: ref("more"), Path: "/home", RW: true, Over: true})
	refused(t, err, vm.Exists, "MOUNT_PATH_NOT_EMPTY")
}

// TestVolumeShares: one writer, or many readers.
func TestVolumeShares(t *testing.T) {
	s, e, c := site(t)
	for _, name := range []string{"a", "b", "c"} {
		create(t, e, c, engine.CreateRequest{Name: name})
	}
	newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	try := func(box string, rw, share bool) error {
		_, err := e.Mount(t.Context(), c, box, engine.MountRequest{Ref: ref("work"), Path: "/data", RW: rw, Share: share})
		return err
	}
	away := func(boxes ...string) {
		t.Helper()
		for _, box := range boxes {
			if err := e.Unmount(t.Context(), c, box, "/data", false); err != nil {
				t.Error(err)
			}
		}
	}
	if err := try("a", true, false); err != nil {
		t.Fatal(err)
	}
	refused(t, try("a", true, false), vm.Exists, "MOUNT_PATH_NOT_EMPTY")
	refused(t, try("b", true, false), vm.Busy, "VOLUME_IN_USE")
	both := try("b", true, true)
	refused(t, both, vm.Busy, "VOLUME_IN_USE")
	if e := vm.AsError(both); !strings.Contains(e.Error(), "ext4") || !strings.Contains(e.Hint, "a volume of its own") || !strings.Contains(e.Error(), "a has it") {
		t.Errorf("two writers: %v (%s)", e, e.Hint)
	}
	refused(t, try("b", false, false), vm.Busy, "VOLUME_IN_USE")
	if err := try("b", false, true); err != nil {
		t.Errorf("a reader that is meant to be beside a writer: %v", err)
	}
	away("a")
	if err := try("c", false, false); err != nil {
		t.Errorf("two readers: %v", err)
	}
	refused(t, try("a", true, true), vm.Busy, "VOLUME_IN_USE") // c did not agree
	away("b", "c")
	if err := try("b", false, true); err != nil {
		t.Fatal(err)
	}
	reader, err := e.Get(t.Context(), c, "b")
	if err != nil {
		t.Fatal(err)
	}
	if spec, _ := s.World.Spec(reader.ID); len(spec.Plugged.Volumes) != 1 || !spec.Plugged.Volumes[0].Share {
		t.Errorf("a reader that came first keeps writers away: %+v", spec.Plugged.Volumes)
	}
	if err := try("a", true, true); err != nil {
		t.Errorf("a writer after a reader that is meant to be beside one: %v", err)
	}
	away("a", "b")
	consistent(t, s)
}

// TestVolumeLeases: a lease ends with the VM's machine, however that ends, and then the
// volume is locked unless it was unlocked to stay so.
func TestVolumeLeases(t *testing.T) {
	for name, end := range map[string]func(context.Context, *vmtest.Site, *vmtest.House, *vm.Call, vm.VM) error{
		"stop": func(ctx context.Context, _ *vmtest.Site, e *vmtest.House, c *vm.Call, _ vm.VM) error {
			_, err := e.Stop(ctx, c, "box")
			return err
		},
		"kill": func(ctx context.Context, _ *vmtest.Site, e *vmtest.House, c *vm.Call, _ vm.VM) error {
			_, err := e.Kill(ctx, c, "box")
			return err
		},
		"delete": func(ctx context.Context, _ *vmtest.Site, e *vmtest.House, c *vm.Call, _ vm.VM) error {
			_, err := e.Delete(ctx, c, "box")
			return err
		},
		"crash": func(_ context.Context, s *vmtest.Site, _ *vmtest.House, _ *vm.Call, v vm.VM) error {
			s.World.End(v.ID, "qemu-crash")
			return nil
		},
		"reboot": func(_ context.Context, s *vmtest.Site, _ *vmtest.House, _ *vm.Call, v vm.VM) error {
			s.World.End(v.ID, "guest-reboot")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, e, c := site(t)
			box := create(t, e, c, engine.CreateRequest{Name: "box"})
			for _, v := range []string{"work", "open"} {
				newVolume(t, e, c, v)
				if _, _, err := e.UnlockVolume(t.Context(), c, ref(v), vault.UnlockRequest{Keep: v == "open"}); err != nil {
					t.Fatal(err)
				}
				mount(t, e, c, "box", mountOf(v, "/"+v))
			}
			if err := end(t.Context(), s, e, c, box); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the leases have ended", func() bool {
				a, err := e.VolumeOf(t.Context(), c, ref("work"))
				b, err2 := e.VolumeOf(t.Context(), c, ref("open"))
				return err == nil && err2 == nil && len(a.Mounts)+len(b.Mounts) == 0 && !a.Unlocked
			})
			volumeIs(t, e, c, "open", true, 0)
		})
	}
}

// TestVolumeSuspend: a suspend keeps volumes, seals the memory, and needs the key to
// resume. No other VM resumes such memory, and no capture keeps it.
func TestVolumeSuspend(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	mount(t, e, c, "box", mountOf("work", "/data"))
	for what, f := range map[string]func() error{
		"fork":     func() error { _, err := e.Fork(ctx, c, "box", engine.ForkRequest{}); return err },
		"snapshot": func() error { _, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{}); return err },
		"turn":     func() error { _, err := e.Turn(ctx, c, "box", engine.TurnRequest{}); return err },
	} {
		t.Log(what)
		refused(t, f(), vm.WrongState, "VOLUMES_ATTACHED")
	}
	if _, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{DiskOnly: true}); err != nil {
		t.Errorf("a snapshot without memory: %v", err)
	}
	if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	v, err := e.Get(ctx, c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if g, err := e.FindSnapshot(ctx, c, string(v.Generation)); err != nil || !g.Sealed || len(g.VolumesSeen) != 1 {
		t.Errorf("suspended on %+v, %v", g, err)
	}
	volumeIs(t, e, c, "work", true, 1)
	if _, err := e.LockVolume(ctx, c, ref("work"), false); err != nil {
		t.Errorf("lock beside a suspended VM: %v", err)
	}
	_, err = e.Exec(ctx, c, "box", vm.ExecSpec{Command: "true"})
	refused(t, err, vm.WrongState, "VOLUME_LOCKED")
	_, err = e.RemoveVolume(ctx, c, ref("work"))
	refused(t, err, vm.Busy, "VOLUME_IN_USE")
	_, err = e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesDetach})
	refused(t, err, vm.WrongState, "VOLUMES_ATTACHED")
	_, err = e.Snapshot(ctx, c, "box", engine.SnapshotRequest{})
	refused(t, err, vm.WrongState, "VOLUMES_ATTACHED")
	closeEngine(t, e)

	e, c = open(t, s)
	volumeIs(t, e, c, "work", false, 1)
	_, err = e.Start(ctx, c, "box", engine.StartRequest{})
	refused(t, err, vm.WrongState, "VOLUME_LOCKED")
	sealed := func() bool {
		_, err := os.Stat(layout.GenerationDir(s.Dir.Generation(v.Generation)).RAM())
		return errors.Is(err, fs.ErrNotExist)
	}
	if !sealed() {
		t.Error("its memory was opened for a start that was refused")
	}
	unlock(t, e, c, "work")
	s.World.Fail("launch", vm.Errorf(vm.Internal, "qemu", "no"))
	if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err == nil {
		t.Fatal("it starts")
	}
	s.World.Fail("launch", nil)
	eventually(t, "its memory is sealed again after a start that failed", sealed)
	if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if spec, _ := s.World.Spec(box.ID); len(spec.Plugged.Volumes) != 1 {
		t.Errorf("it continues with %+v", spec.Plugged.Volumes)
	}
	if err := e.Unmount(ctx, c, "box", "/data", false); err != nil {
		t.Fatal(err)
	}
	g, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "after"})
	if err != nil || len(g.VolumesSeen) != 1 { // labelled until it is gone
		t.Errorf("a snapshot after the unmount: %v, %v", g.VolumesSeen, err)
	}
	if _, err := e.Stop(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
	if v, err := e.Get(ctx, c, "box"); err != nil || len(v.VolumesSeen) != 0 {
		t.Errorf("stopped: %v, %v", v.VolumesSeen, err)
	}
}

// TestVolumeDetach: a fork with detach gives the children nothing, and the
// parent has its volume again.
func TestVolumeDetach(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	mount(t, e, c, "box", mountOf("work", "/data"))
	s.World.Occupy(box.ID, "12 vim")
	_, err := e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesDetach})
	refused(t, err, vm.Busy, "VOLUME_BUSY")
	volumeIs(t, e, c, "work", true, 1)
	s.World.Occupy(box.ID, "")
	f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesDetach})
	if err != nil {
		t.Fatal(err)
	}
	if spec, _ := s.World.Spec(f.Children[0].ID); len(spec.Plugged.Volumes) != 0 {
		t.Errorf("the child has %+v", spec.Plugged.Volumes)
	}
	volumeIs(t, e, c, "work", true, 1)
	if s.World.Scrubs(box.ID) != 1 {
		t.Error("its memory was not scrubbed")
	}
	if err := e.Unmount(ctx, c, "box", "/data", false); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing new
		if _, err := e.Fork(ctx, c, "box", engine.ForkRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.World.Scrubs(box.ID); n != 2 {
		t.Errorf("scrubbed %d times, want 2: it was mounted again after the first fork", n)
	}
	_, err = e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: "copy"})
	refused(t, err, vm.Invalid, "INVALID_REQUEST")
	consistent(t, s)
}
