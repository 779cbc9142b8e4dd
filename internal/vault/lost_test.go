// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault_test

import (
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

var errLost = vm.Errorf(vm.Unavailable, "records", "the answer was lost")

// lossy makes answers of a store to writes of volumes get lost.
type lossy struct {
	mu sync.Mutex
	// guarded by mu
	skip int  // writes of volumes that are answered first
	lose bool // the answer to the next
	dumb bool // the store answers nothing after it, until answers is called
	away bool
}

func newLossy(s *vmtest.Site) *lossy {
	l := &lossy{}
	volumes := func(kind string) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if kind == "volumes" && l.away {
			return errLost
		}
		return nil
	}
	s.Backend.Silent = volumes
	s.Backend.Fault = func(done bool, ops []ledger.Op) error {
		if ops[0].Kind != "volumes" {
			return nil
		}
		if !done {
			return volumes("volumes")
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.skip > 0 || !l.lose {
			l.skip--
			return nil
		}
		l.lose, l.away = false, l.dumb
		return errLost
	}
	return l
}

// loses makes one answer get lost, after those of skip writes. With dumb the store
// answers nothing any more then.
func (l *lossy) loses(skip int, dumb bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skip, l.lose, l.dumb, l.away = skip, true, dumb, false
}

// answers makes the store answer again. It reports whether an answer was lost.
func (l *lossy) answers() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := !l.lose
	l.lose, l.away = false, false
	return lost
}

// perhaps reports whether a write whose answer was lost has ended as it may: the
// store has told of it by its stream of changes, or nobody knows what became of it.
func perhaps(err error) bool { return err == nil || vm.KindOf(err) == vm.Unavailable }

// If the answer to a change of a volume is lost, the change succeeds if the store
// confirms it. If the store does not answer, the change fails, and the volume can be used
// again as soon as the store answers.
func TestVolumeAfterLostAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, s *vmtest.Site) {
		store := newLossy(s)
		e, c := open(t, s)
		ctx := t.Context()
		store.loses(0, false)
		newVolume(t, e, c, "vol")
		unlock(t, e, c, "vol")
		size := vm.DefaultVolumeMiB
		grow := func() error {
			size += 1024
			_, err := e.ResizeVolume(ctx, c, ref("vol"), size)
			return err
		}
		for range 3 {
			store.loses(0, false)
			if err := grow(); err != nil {
				t.Errorf("the store has made the change: %v", err)
			}
		}
		for range 3 { // again and again, while the store does not answer
			store.loses(0, true)
			for range 2 {
				if err := grow(); !perhaps(err) {
					t.Errorf("the store may not say what became of it: %v", err)
				}
			}
		}
		store.answers()
		if err := grow(); err != nil {
			t.Errorf("the store answers again: %v", err)
		}

		store.loses(0, true)
		if _, err := e.RemoveVolume(ctx, c, ref("vol")); !perhaps(err) {
			t.Errorf("remove: %v", err)
		}
		store.answers()
		if _, err := e.RemoveVolume(ctx, c, ref("vol")); err != nil && vm.KindOf(err) != vm.NotFound {
			t.Errorf("remove again: %v", err)
		}
		store.loses(0, true)
		_, err := e.CreateVolume(ctx, c, vault.VolumeRequest{Name: "next"})
		if !perhaps(err) {
			t.Errorf("create: %v", err)
		}
		store.answers()
		if err != nil {
			newVolume(t, e, c, "next")
		}
		if list, err := e.Volumes(ctx, c, "", ""); err != nil || len(list) != 1 {
			t.Errorf("the list shows %v, %v", list, err)
		}
		eventually(t, "the store has one volume", func() bool {
			list, err := vmtest.Stored[vm.Volume](s.Backend, "volumes")
			return err == nil && len(list) == 1
		})
	})
}

// Whichever answer of the store is lost during a mount or an unmount, and however long
// the store is silent afterwards: in the end the volume's record says what is mounted,
// without a restart.
func TestMountAfterLostAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, s *vmtest.Site) {
		store := newLossy(s)
		e, c := open(t, s)
		ctx := t.Context()
		box := newBox(t, e, c)
		newVolume(t, e, c, "vol")
		unlock(t, e, c, "vol")
		agrees := func() bool {
			v, err := e.VolumeOf(ctx, c, ref("vol"))
			return err == nil && len(v.Mounts) == len(s.World.Mounted(box.ID)) && (len(v.Mounts) == 0 || !v.Mounts[0].Pending)
		}
		for _, dumb := range []bool{false, true} {
			for skip := range 2 { // a mount and an unmount write twice each
				store.loses(skip, dumb)
				_, err := e.Mount(ctx, c, "box", mountOf("vol", "/data"))
				if !store.answers() {
					t.Fatalf("a mount has less than %d writes", skip+1)
				}
				if err != nil && !dumb || !perhaps(err) {
					t.Errorf("mount, answer %d: %v", skip, err)
				}
				eventually(t, "the record agrees with the guest after a mount", agrees)
				if err != nil {
					volumeIs(t, e, c, "vol", true, 0)
					mount(t, e, c, "vol", "/data")
				}
				volumeIs(t, e, c, "vol", true, 1)

				store.loses(skip, dumb)
				err = e.Unmount(ctx, c, "box", "/data", false)
				if !store.answers() {
					t.Fatalf("an unmount has less than %d writes", skip+1)
				}
				if err != nil && !dumb || !perhaps(err) {
					t.Errorf("unmount, answer %d: %v", skip, err)
				}
				if err != nil { // it may be unplugged or not
					if err := e.Unmount(ctx, c, "box", "/data", false); err != nil && vm.KindOf(err) != vm.NotFound {
						t.Errorf("unmount again: %v", err)
					}
				}
				eventually(t, "the record agrees with the guest after an unmount", agrees)
				volumeIs(t, e, c, "vol", true, 0)
			}
		}
	})
}

// A VM that ends while the store does not answer has no volume as soon as the store
// answers, and the volume is locked.
func TestEndOfVMAfterLostAnswer(t *testing.T) {
	s := newSite(t)
	store := newLossy(s)
	e, c := open(t, s)
	newBox(t, e, c)
	newVolume(t, e, c, "vol")
	unlock(t, e, c, "vol")
	mount(t, e, c, "vol", "/data")
	store.loses(0, true)
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Errorf("stop: %v", err)
	}
	if !store.answers() {
		t.Fatal("no answer was lost")
	}
	eventually(t, "the mount has ended and the volume is locked", func() bool {
		v, err := e.VolumeOf(t.Context(), c, ref("vol"))
		return err == nil && len(v.Mounts) == 0 && !v.Unlocked
	})
}

// A change of another server is kept: the next change is made to its record, also
// after answers were lost.
func TestForeignWriterIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, s *vmtest.Site) {
		store := newLossy(s)
		e, c := open(t, s)
		id := newVolume(t, e, c, "vol").ID
		unlock(t, e, c, "vol")
		store.loses(0, true)
		if _, err := e.ResizeVolume(t.Context(), c, ref("vol"), 2*vm.DefaultVolumeMiB); !perhaps(err) {
			t.Fatal(err)
		}
		store.answers()
		list, err := vmtest.Stored[vm.Volume](s.Backend, "volumes")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		list[0].Reverting = "theirs"
		if err := vmtest.Put(s.Backend, "volumes", string(id), list[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := e.ResizeVolume(t.Context(), c, ref("vol"), 3*vm.DefaultVolumeMiB); err != nil {
			t.Errorf("after another's change: %v", err)
		}
		if list, err = vmtest.Stored[vm.Volume](s.Backend, "volumes"); err != nil {
			t.Fatal(err)
		}
		if list[0].Reverting != "theirs" {
			t.Errorf("it was overwritten: %+v", list[0])
		}
		if list[0].SizeMiB != 3*vm.DefaultVolumeMiB {
			t.Errorf("it has %d MiB", list[0].SizeMiB)
		}
	})
}
