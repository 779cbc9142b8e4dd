// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

const (
	plainDir = "/srv/plain"
	cryptDir = "/srv/crypt"
)

func folderOf(host, at string, rw bool) engine.FolderRequest {
	return engine.FolderRequest{Name: "data", Host: host, Path: at, RW: rw}
}

func fixture(host, at string, rw bool) engine.FolderRequest {
	return engine.FolderRequest{Host: host, Path: at, RW: rw, Fixture: true}
}

func foldered(t *testing.T, e *vmtest.House, c *vm.Call, ref string, r engine.FolderRequest) engine.Mounted {
	t.Helper()
	m, err := e.MountFolder(t.Context(), c, ref, r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFolderRules: who may mount a directory of the host, and how.
//
// 003-04, 003-20
func TestFolderRules(t *testing.T) {
	s, e, c := site(t)
	s.Folders.Put(plainDir, false)
	s.Folders.Put(cryptDir, true)
	for _, p := range vm.Profiles {
		create(t, e, c, engine.CreateRequest{Name: p.Name, Profile: p.Name})
	}
	ctx := t.Context()
	for _, x := range []struct {
		vm   string
		r    engine.FolderRequest
		kind vm.Kind
		code string
	}{
		{vm.ProfileUntrusted, fixture(plainDir, "/data", false), "", ""},
		{vm.ProfileUntrusted, fixture(plainDir, "/w", true), vm.Denied, "FORBIDDEN"},
		{vm.ProfileUntrusted, folderOf(cryptDir, "/v", false), vm.Denied, "FORBIDDEN"},
		{vm.ProfileAgent, fixture(plainDir, "/data", false), "", ""},
		{vm.ProfileAgent, fixture(cryptDir, "/w", true), vm.Denied, "FORBIDDEN"},
		{vm.ProfileAgent, folderOf(cryptDir, "/v", true), vm.Denied, "FORBIDDEN"},
		{vm.ProfileAgent, folderOf(cryptDir, "/v", false), "", ""},
		{vm.ProfileAgent, folderOf(plainDir, "/p", false), vm.Denied, "HOST_PATH_NOT_ENCRYPTED"},
		{vm.ProfileDev, fixture(plainDir, "/w", true), "", ""},
		{vm.ProfileDev, folderOf(cryptDir, "/v", true), "", ""},
		{vm.ProfileDev, folderOf(plainDir, "/p", true), vm.Denied, "HOST_PATH_NOT_ENCRYPTED"},
		{vm.ProfileDev, fixture("/srv/none", "/n", false), vm.NotFound, "HOST_PATH_INVALID"},
		{vm.ProfileDev, fixture(plainDir, "/w", false), vm.Exists, "MOUNT_PATH_NOT_EMPTY"},
		{vm.ProfileDev, fixture(plainDir, "/usr", false), vm.Invalid, "MOUNT_PATH_INVALID"},
		{vm.ProfileDev, fixture(plainDir, "/", false), vm.Invalid, "MOUNT_PATH_INVALID"},
	} {
		_, err := e.MountFolder(ctx, c, x.vm, x.r)
		if x.kind == "" {
			if err != nil {
				t.Errorf("the folder %+v is not mounted in %s: %v", x.r, x.vm, err)
			}
			continue
		}
		refused(t, err, x.kind, x.code)
	}
	own, _ := newAccount(t, e, c, "team")
	create(t, e, own, engine.CreateRequest{Name: "theirs", Profile: vm.ProfileDev})
	_, err := e.MountFolder(ctx, own, "theirs", fixture(plainDir, "/data", false))
	refused(t, err, vm.Denied, "FORBIDDEN")
}

// TestFolderHalfMounted: a mount that fails after the guest has mounted it is fully
// undone.
func TestFolderHalfMounted(t *testing.T) {
	s, e, c := site(t)
	s.Folders.Put(plainDir, false)
	box := create(t, e, c, engine.CreateRequest{Name: "box", Profile: vm.ProfileDev})
	s.World.Fail("foldered", vm.Errorf(vm.Unavailable, "", "no answer"))
	if _, err := e.MountFolder(t.Context(), c, "box", fixture(plainDir, "/src", true)); vm.KindOf(err) != vm.Unavailable {
		t.Errorf("mounted: %v", err)
	}
	if spec, _ := s.World.Spec(box.ID); len(spec.Folders) != 0 {
		t.Errorf("the guest still has %v", spec.Folders)
	}
	if l, err := e.Mounts(t.Context(), c, "box"); err != nil || len(l) != 0 {
		t.Errorf("the record still has %v, %v", l, err)
	}
	s.World.Fail("foldered", nil)
	foldered(t, e, c, "box", fixture(plainDir, "/src", true))
}

// TestFolderLives: a folder stays with its VM until it is unmounted or the machine ends.
// Children can read it. A replaced directory is not mounted again.
func TestFolderLives(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	s.Folders.Put(plainDir, false)
	s.Folders.Put(cryptDir, true)
	box := create(t, e, c, engine.CreateRequest{Name: "box", Profile: vm.ProfileDev})
	foldered(t, e, c, "box", fixture(plainDir, "/src", true))
	foldered(t, e, c, "box", folderOf(cryptDir, "/data", true))
	paths := func(id vm.ID) (out []string) {
		spec, _ := s.World.Spec(id)
		for _, f := range spec.Folders {
			mode := ":ro"
			if f.RW {
				mode = ":rw"
			}
			out = append(out, f.Path+mode)
		}
		return out
	}
	want := func(what string, id vm.ID, list ...string) {
		t.Helper()
		if got := paths(id); !slices.Equal(got, list) {
			t.Errorf("%s: %q, want %q", what, got, list)
		}
	}
	want("mounted", box.ID, "/src:rw", "/data:rw")
	for mode, list := range map[string][]string{"": {"/src:ro", "/data:ro"}, engine.FoldersRW: {"/src:rw", "/data:rw"}, engine.FoldersNone: nil} {
		f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Folders: mode})
		if err != nil {
			t.Fatal(err)
		}
		kid := f.Children[0].ID
		want("a fork "+mode, kid, list...)
		spec, _ := s.World.Spec(kid)
		if lost := spec.LostFolders; mode == engine.FoldersNone && !slices.Equal(lost, []string{"/src", "/data"}) {
			t.Errorf("a fork without leaves %q", lost)
		}
		if _, err := e.Delete(ctx, c, string(kid)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	s.Folders.Put(cryptDir, false) // somebody has unmounted it
	if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	want("after a suspend", box.ID, "/src:rw")
	if err := e.Unmount(ctx, c, "box", "/src", false); err != nil {
		t.Fatal(err)
	}
	want("unmounted", box.ID)
	refused(t, e.Unmount(ctx, c, "box", "/src", false), vm.NotFound, "MOUNT_NOT_FOUND")
	foldered(t, e, c, "box", fixture(plainDir, "/src", true))
	if _, err := e.Stop(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
	if l, err := e.Mounts(ctx, c, "box"); err != nil || len(l) != 0 {
		t.Errorf("a VM without a machine has %v, %v", l, err)
	}
}
