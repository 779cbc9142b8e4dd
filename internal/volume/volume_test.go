// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

func newStore(t *testing.T) Store {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("qemu-img is not installed")
	}
	return Store{Dir: layout.Dir(t.TempDir())}
}

func made(t *testing.T, s Store, slot vm.VolumeSlotSpec) (vm.VolumeID, layout.VolumeDir) {
	t.Helper()
	id := vm.NewVolumeID()
	if err := s.Create(t.Context(), id, 64, slot); err != nil {
		t.Fatal(err)
	}
	return id, s.dir(id)
}

func open(t *testing.T, s Store, id vm.VolumeID, secret vm.VolumeSecret) vm.VolumeKey {
	t.Helper()
	key, recovered, err := s.Open(t.Context(), id, secret, false)
	if err != nil || recovered {
		t.Fatalf("open: %v, recovered %v", err, recovered)
	}
	return key
}

// TestSlots: each way to unlock gives the same key, no other does, and
// what is refused is refused in the same words.
func TestSlots(t *testing.T) {
	s := newStore(t)
	id, d := made(t, s, vm.VolumeSlotSpec{})
	key := open(t, s, id, vm.VolumeSecret{})
	mine, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	refusal := func(secret vm.VolumeSecret) string {
		t.Helper()
		_, _, err := s.Open(t.Context(), id, secret, false)
		if vm.KindOf(err) != vm.Denied {
			t.Fatalf("want a refusal, got %v", err)
		}
		return err.Error()
	}
	none := refusal(vm.VolumeSecret{Passphrase: "correct horse"})
	pass, err := s.AddSlot(id, key, vm.VolumeSlotSpec{Name: "mine", Passphrase: "correct horse"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddSlot(id, key, vm.VolumeSlotSpec{Recipient: mine.Recipient().String()}); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []vm.VolumeSecret{{}, {Passphrase: "correct horse"}, {Identity: mine.String()}} {
		if !bytes.Equal(open(t, s, id, secret), key) {
			t.Error("another key")
		}
	}
	if wrong := refusal(vm.VolumeSecret{Passphrase: "correct horsf"}); wrong != none {
		t.Errorf("a wrong passphrase tells that there is one: %q and %q", wrong, none)
	}
	if wrong := refusal(vm.VolumeSecret{Identity: other.String()}); wrong != none {
		t.Errorf("another identity is refused in other words: %q", wrong)
	}
	refusal(vm.VolumeSecret{Identity: "nonsense"})
	if err := s.RemoveSlot(id, pass.ID); err != nil {
		t.Fatal(err)
	}
	refusal(vm.VolumeSecret{Passphrase: "correct horse"})
	if err := s.RemoveSlot(id, "ks-nothing0"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a slot that is not there: %v", err)
	}
	list, err := s.Slots(id)
	if err != nil || len(list) != 2 {
		t.Fatalf("slots %v, %v", list, err)
	}
	for _, slot := range list[:1] {
		if err := s.RemoveSlot(id, slot.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveSlot(id, list[1].ID); vm.KindOf(err) != vm.WrongState {
		t.Errorf("the last slot: %v", err)
	}
	noPlainKey(t, string(d), key)
}

func noPlainKey(t *testing.T, dir string, key vm.VolumeKey) {
	t.Helper()
	names, _ := filepath.Glob(dir + "/*")
	if len(names) != 3 {
		t.Errorf("files %v", names)
	}
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", name, st.Mode(), err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, key) {
			t.Errorf("%s holds the key", name)
		}
	}
}

// TestRotate: after a rotation the old key and old copies of the slots open
// nothing, and the ways to unlock are the same.
func TestRotate(t *testing.T) {
	s := newStore(t)
	id, d := made(t, s, vm.VolumeSlotSpec{})
	old := open(t, s, id, vm.VolumeSecret{})
	mine, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	pass, err := s.AddSlot(id, old, vm.VolumeSlotSpec{Passphrase: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddSlot(id, old, vm.VolumeSlotSpec{Recipient: mine.Recipient().String()}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate(t.Context(), id, old); vm.KindOf(err) != vm.WrongState {
		t.Errorf("with a passphrase: %v", err)
	}
	if err := s.RemoveSlot(id, pass.ID); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(d.Slots())
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.Rotate(t.Context(), id, old)
	if err != nil || bytes.Equal(next, old) {
		t.Fatalf("rotate: %v", err)
	}
	for _, secret := range []vm.VolumeSecret{{}, {Identity: mine.String()}} {
		if !bytes.Equal(open(t, s, id, secret), next) {
			t.Error("not the new key")
		}
	}
	if err := os.WriteFile(d.Slots(), before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Open(t.Context(), id, vm.VolumeSecret{}, false); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("the old slots still open it: %v", err)
	}
}

// slotted makes a volume's slots without its disk.
func slotted(t *testing.T, s Store, slot vm.VolumeSlotSpec) (vm.VolumeID, layout.VolumeDir) {
	t.Helper()
	id := vm.NewVolumeID()
	d := s.dir(id)
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := s.wrap(id, newKey(), slot)
	if err != nil {
		t.Fatal(err)
	}
	if err := saveSlots(d, slots{Format: slotsFormat, Slots: []wrapped{w}}); err != nil {
		t.Fatal(err)
	}
	return id, d
}

// TestSlotsAreBound: a slot copied to another volume opens nothing there.
func TestSlotsAreBound(t *testing.T) {
	s := Store{Dir: layout.Dir(t.TempDir())}
	a, da := slotted(t, s, vm.VolumeSlotSpec{Passphrase: "p"})
	b, db := slotted(t, s, vm.VolumeSlotSpec{Passphrase: "p"})
	if _, err := s.unwrap(a, vm.VolumeSecret{Passphrase: "p"}); err != nil {
		t.Fatal(err)
	}
	copyFile(t, da.Slots(), db.Slots())
	if _, _, err := s.Open(t.Context(), b, vm.VolumeSecret{Passphrase: "p"}, false); vm.KindOf(err) != vm.Denied {
		t.Errorf("the slot of another volume: %v", err)
	}
	if _, _, err := s.Open(t.Context(), a, vm.VolumeSecret{}, false); vm.AsError(err).Code != "VOLUME_SECRET_NEEDED" {
		t.Errorf("a volume without the host's slot opens: %v", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHeaderIsPutBack: a damaged header is recovered from its copy, a foreign
// or cut disk is refused and not written to.
func TestHeaderIsPutBack(t *testing.T) {
	s := newStore(t)
	id, d := made(t, s, vm.VolumeSlotSpec{})
	key := open(t, s, id, vm.VolumeSecret{})
	h, err := loadBackup(d)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int64{"qcow2 magic": 0, "luks magic": h.offset, "key material": h.offset + 4096 + 17} {
		scribble(t, d.Disk(), at)
		got, recovered, err := s.Open(t.Context(), id, vm.VolumeSecret{}, false)
		if err != nil || !recovered || !bytes.Equal(got, key) {
			t.Errorf("%s: recovered %v, %v", name, recovered, err)
		}
	}
	if err := s.Grow(t.Context(), id, key, 128); err != nil {
		t.Fatal(err)
	}
	scribble(t, d.Disk(), 4)
	if _, recovered, err := s.Open(t.Context(), id, vm.VolumeSecret{}, false); err != nil || !recovered {
		t.Errorf("after growing: recovered %v, %v", recovered, err)
	}
	_, other := made(t, s, vm.VolumeSlotSpec{})
	refusedAndUntouched(t, s, id, d, func() { copyFile(t, other.Disk(), d.Disk()) })
	refusedAndUntouched(t, s, id, d, func() {
		if err := os.Truncate(d.Disk(), 70<<10); err != nil {
			t.Fatal(err)
		}
	})
	refusedAndUntouched(t, s, id, d, func() {
		if err := os.WriteFile(d.Disk(), []byte("not a disk"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

func scribble(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damage"), at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func refusedAndUntouched(t *testing.T, s Store, id vm.VolumeID, d layout.VolumeDir, spoil func()) {
	t.Helper()
	spoil()
	before, err := os.ReadFile(d.Disk())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Open(t.Context(), id, vm.VolumeSecret{}, false)
	if vm.KindOf(err) != vm.Corrupt || vm.AsError(err).Code != "VOLUME_DAMAGED" {
		t.Errorf("a spoilt disk: %v", err)
	}
	after, err := os.ReadFile(d.Disk())
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("a disk that is not the volume's was written to (%v)", err)
	}
}

// TestKeyHides: a key in a log or an error is not readable.
func TestKeyHides(t *testing.T) {
	key := newKey()
	if len(key) != 43 {
		t.Errorf("%d characters", len(key))
	}
	if text := key.String() + key.GoString(); strings.Contains(text, string(key)) {
		t.Errorf("the key is readable in %q", text)
	}
}

// TestRemove: what is gone is gone, and removing it again is no error.
func TestRemove(t *testing.T) {
	s := Store{Dir: layout.Dir(t.TempDir())}
	id, d := slotted(t, s, vm.VolumeSlotSpec{})
	if list, err := s.List(); err != nil || len(list) != 1 || list[0] != id {
		t.Errorf("list %v, %v", list, err)
	}
	for range 2 {
		if err := s.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(string(d)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, _, err := s.Open(t.Context(), id, vm.VolumeSecret{}, false); vm.KindOf(err) != vm.NotFound {
		t.Errorf("open after remove: %v", err)
	}
}
