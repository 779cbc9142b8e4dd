// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// lossy is a collection whose answers can be lost.
type lossy[T any] struct {
	engine.Collection[T]

	mu sync.Mutex
	// guarded by mu
	lose int  // answers to changes, from now on
	dumb bool // it does not list, too
}

func lossyOf[T any](c *engine.Collection[T]) *lossy[T] {
	l := &lossy[T]{Collection: *c}
	*c = l
	return l
}

// loses makes the answers to the next n changes get lost. With dumb the store
// does not say either what became of them, until answers is called.
func (l *lossy[T]) loses(n int, dumb bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose, l.dumb = n, dumb
}

func (l *lossy[T]) answers() { l.loses(0, false) }

var errLost = vm.Errorf(vm.Unavailable, "records", "the answer was lost")

func (l *lossy[T]) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lose == 0 {
		return nil
	}
	l.lose--
	return errLost
}

func (l *lossy[T]) List(ctx context.Context) ([]T, error) {
	l.mu.Lock()
	dumb := l.dumb
	l.mu.Unlock()
	if dumb {
		return nil, errLost
	}
	return l.Collection.List(ctx)
}

func (l *lossy[T]) Create(ctx context.Context, rec T) (int64, error) {
	rev, err := l.Collection.Create(ctx, rec)
	if lost := l.lost(); lost != nil {
		return 0, lost
	}
	return rev, err
}

func (l *lossy[T]) Update(ctx context.Context, rec T) (int64, error) {
	rev, err := l.Collection.Update(ctx, rec)
	if lost := l.lost(); lost != nil {
		return 0, lost
	}
	return rev, err
}

func (l *lossy[T]) Delete(ctx context.Context, rec T) error {
	err := l.Collection.Delete(ctx, rec)
	if lost := l.lost(); lost != nil {
		return lost
	}
	return err
}

// onBoth runs a test on simulated records and on those of an embedded etcd.
func onBoth(t *testing.T, f func(t *testing.T, s *vmtest.Site)) {
	t.Run("simulated", func(t *testing.T) {
		s, err := vmtest.NewSite(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
	})
	t.Run("etcd", func(t *testing.T) { f(t, storeSite(t)) })
}

// A lost answer of the store to a change of a volume is no failure where the store
// says that the change was made. Where it does not answer the change fails, and
// the volume goes on as soon as the store answers again.
func TestVolumeAfterLostAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, s *vmtest.Site) {
		vols := lossyOf(&s.Records.Volumes)
		e, c := open(t, s)
		ctx := t.Context()
		create(t, e, c, engine.CreateRequest{Name: "box"})

		vols.loses(1, false)
		newVolume(t, e, c, "vol")
		unlock(t, e, c, "vol")
		size := vm.DefaultVolumeMiB
		grow := func() error {
			size += 1024
			_, err := e.ResizeVolume(ctx, c, ref("vol"), size)
			return err
		}
		for range 3 {
			vols.loses(1, false)
			if err := grow(); err != nil {
				t.Errorf("the store has made the change: %v", err)
			}
		}
		for range 3 { // also when several answers in a row are lost
			vols.loses(2, true)
			if err := grow(); vm.KindOf(err) != vm.Unavailable {
				t.Errorf("nobody knows what became of it: %v", err)
			}
		}
		vols.answers()
		if err := grow(); err != nil {
			t.Errorf("the store answers again: %v", err)
		}
		for range 4 { // a mount changes its record twice: each of the answers, and that of its undo
			vols.loses(1, true)
			if _, err := e.Mount(ctx, c, "box", mountOf("vol", "/data")); vm.KindOf(err) != vm.Unavailable {
				t.Errorf("mount: %v", err)
			}
			vols.answers()
			volumeIs(t, e, c, "vol", true, 0)
		}
		mount(t, e, c, "box", mountOf("vol", "/data"))
		consistentVolumes(t, s)
		vols.loses(2, true)
		_ = e.Unmount(ctx, c, "box", "/data", false) // it may be done or not
		vols.answers()
		if err := e.Unmount(ctx, c, "box", "/data", false); err != nil && vm.KindOf(err) != vm.NotFound {
			t.Errorf("unmount: %v", err)
		}
		volumeIs(t, e, c, "vol", true, 0)
		vols.loses(1, true)
		if _, err := e.RemoveVolume(ctx, c, ref("vol")); vm.KindOf(err) != vm.Unavailable {
			t.Errorf("remove: %v", err)
		}
		vols.answers()
		if _, err := e.RemoveVolume(ctx, c, ref("vol")); err != nil {
			t.Errorf("remove again: %v", err)
		}
		vols.loses(1, true)
		if _, err := e.CreateVolume(ctx, c, engine.VolumeRequest{Name: "next"}); vm.KindOf(err) != vm.Unavailable {
			t.Errorf("create: %v", err)
		}
		vols.answers()
		newVolume(t, e, c, "next")
		if list, err := e.Volumes(ctx, c, "", ""); err != nil || len(list) != 1 {
			t.Errorf("volumes %v, %v", list, err)
		}
	})
}

// What another writer made of a record is not overwritten, also after answers
// were lost.
func TestForeignWriterIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, s *vmtest.Site) {
		vols := lossyOf(&s.Records.Volumes)
		e, c := open(t, s)
		newVolume(t, e, c, "vol")
		unlock(t, e, c, "vol")
		vols.loses(1, true)
		if _, err := e.ResizeVolume(t.Context(), c, ref("vol"), 2*vm.DefaultVolumeMiB); vm.KindOf(err) != vm.Unavailable {
			t.Fatal(err)
		}
		vols.answers()
		list, err := vols.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		list[0].Reverting = "theirs"
		if _, err := vols.Update(t.Context(), list[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := e.ResizeVolume(t.Context(), c, ref("vol"), 3*vm.DefaultVolumeMiB); vm.KindOf(err) != vm.Busy {
			t.Errorf("over another's change: %v", err)
		}
		if list, err := vols.List(t.Context()); err != nil || list[0].Reverting != "theirs" {
			t.Errorf("it was overwritten: %+v, %v", list, err)
		}
	})
}

// Keys and mappings go on after a lost answer, too: what keeps volumes whole is
// before every collection.
func TestOthersAfterLostAnswer(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keys, mappings := lossyOf(&s.Records.Keys), lossyOf(&s.Records.Mappings)
	s.Settings.PreviewDomains = []string{"warren.localhost"}
	e, c := open(t, s)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	key, _, err := e.CreateKey(ctx, c, "", "mine")
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(int) error{
		"key": func(int) error { _, _, err := e.RotateKey(ctx, c, key.ID); return err },
		"mapping": func(i int) error {
			_, err := e.MapDomain(ctx, c, "app.warren.localhost", "box", uint16(80+i))
			return err
		},
	}
	for what, lose := range map[string]func(int, bool){"key": keys.loses, "mapping": mappings.loses} {
		for i, step := range []struct {
			lost int
			dumb bool
			want vm.Kind
		}{{0, false, ""}, {1, false, ""}, {1, true, vm.Unavailable}, {0, false, ""}, {2, true, vm.Unavailable}, {0, false, ""}} {
			lose(step.lost, step.dumb)
			if err := changes[what](i); vm.KindOf(err) != step.want {
				t.Errorf("%s, change %d: %v", what, i, err)
			}
		}
	}
}
