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

// Keys go on after a lost answer, too: what keeps them whole is before every
// collection.
func TestOthersAfterLostAnswer(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keys := lossyOf(&s.Records.Keys)
	e, c := open(t, s)
	key, _, err := e.CreateKey(t.Context(), c, "", "mine")
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		lost int
		dumb bool
		want vm.Kind
	}{{0, false, ""}, {1, false, ""}, {1, true, vm.Unavailable}, {0, false, ""}, {2, true, vm.Unavailable}, {0, false, ""}} {
		keys.loses(step.lost, step.dumb)
		if _, _, err := e.RotateKey(t.Context(), c, key.ID); vm.KindOf(err) != step.want {
			t.Errorf("change %d: %v", i, err)
		}
	}
}
