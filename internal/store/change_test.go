// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// key is a record of another kind than a VM's.
type key struct {
	ID       string
	Revision int64 `json:"-"`
}

func keys(s *Store) collection[key] {
	return collection[key]{Backend{s}, "keys", func(k *key) (string, *int64) { return k.ID, &k.Revision }}
}

// TestTxn: several changes happen together or not at all, and the error says
// which one could not be made and why.
func TestTxn(t *testing.T) {
	ctx := t.Context()
	s := open(t, shortDir(t))
	defer s.Close()
	v, k := vms(s), keys(s)
	rev, err := s.Txn(ctx, v.op(record{ID: "a"}), k.op(key{ID: "k"}))
	if err != nil {
		t.Fatal(err)
	}
	a, err := v.get(ctx, "a")
	if err != nil || a.Revision != rev {
		t.Fatalf("the created record is %+v (%v), want revision %d", a, err, rev)
	}
	stale := a
	stale.Revision--
	cases := []struct {
		name string
		ops  []Op
		kind vm.Kind
		id   string
	}{
		{"taken", []Op{v.op(record{ID: "b"}), k.op(key{ID: "k"})}, vm.Exists, "k"},
		{"stale", []Op{v.op(record{ID: "b"}), v.op(stale)}, vm.Busy, "a"},
		{"stale delete", []Op{v.op(record{ID: "b"}), v.removal(stale)}, vm.Busy, "a"},
		{"update of none", []Op{v.op(record{ID: "b"}), v.op(record{ID: "x", Revision: rev})}, vm.NotFound, "x"},
		{"delete of none", []Op{v.op(record{ID: "b"}), v.removal(record{ID: "x", Revision: rev})}, vm.NotFound, "x"},
		{"a creation of what is there", []Op{v.op(record{ID: "a"})}, vm.Exists, "a"},
		{"nothing", nil, vm.Internal, "records"},
		{"too large", []Op{v.op(record{ID: "b", Name: strings.Repeat("x", 2<<20)})}, vm.Limit, "b"},
	}
	for _, c := range cases {
		_, err := s.Txn(ctx, c.ops...)
		if vm.KindOf(err) != c.kind || vm.AsError(err).Subject != c.id {
			t.Errorf("a transaction with %s: %v (%s), want %s of %s", c.name, err, vm.KindOf(err), c.kind, c.id)
		}
	}
	if _, err := v.get(ctx, "b"); !errors.Is(err, vm.NotFound) {
		t.Errorf("a refused transaction left something: %v", err)
	}
	a.State = vm.Stopped
	if _, err := s.Txn(ctx, v.op(a), k.removal(key{ID: "k", Revision: rev})); err != nil {
		t.Error(err)
	}
	if list, _, err := k.list(ctx); err != nil || len(list) != 0 {
		t.Errorf("after the transaction the keys are %v (%v), want none", list, err)
	}
}

// TestWatchShowsAll: of random changes by several writers a watch from a
// snapshot shows each, in order, and ends up with what direct reads show.
func TestWatchShowsAll(t *testing.T) {
	ctx := t.Context()
	s := open(t, shortDir(t))
	defer s.Close()
	c := vms(s)
	if _, err := c.put(ctx, record{ID: "r0"}); err != nil {
		t.Fatal(err)
	}
	recs, at, err := c.list(ctx)
	if err != nil || len(recs) != 1 {
		t.Fatalf("the snapshot is %v (%v), want one record", recs, err)
	}
	w := c.Follow(ctx, at)
	defer w.Close()
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 7))
			for i := range 200 {
				change(t, c, rnd, fmt.Sprintf("%d-%d", n, i))
			}
		})
	}
	wg.Wait()
	last, err := c.put(ctx, record{ID: "the-end"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]record{"r0": recs[0]}
	for rev := at; rev < last; {
		ch, rec := c.next(t, w)
		if ch.Revision <= rev {
			t.Fatalf("after revision %d the watch tells of %d", rev, ch.Revision)
		}
		rev = ch.Revision
		if seen[ch.ID] = rec; ch.Deleted {
			delete(seen, ch.ID)
		}
	}
	list, _, err := c.list(ctx)
	if err != nil || len(list) != len(seen) {
		t.Fatalf("%d records, %d seen, %v", len(list), len(seen), err)
	}
	for _, r := range list {
		if got := seen[r.ID]; got.Name != r.Name || got.Revision != r.Revision {
			t.Errorf("%+v, seen %+v (%v)", r, got, maps.Keys(seen))
		}
	}
}

// change makes one random change; somebody else may have been quicker.
func change(t *testing.T, c collection[record], rnd *rand.Rand, name string) {
	id := fmt.Sprintf("r%d", rnd.IntN(8))
	rec, err := c.get(t.Context(), id)
	switch {
	case errors.Is(err, vm.NotFound):
		_, err = c.put(t.Context(), record{ID: id, Name: name})
	case err == nil && rnd.IntN(4) == 0:
		err = c.drop(t.Context(), rec)
	case err == nil:
		rec.Name = name
		_, err = c.put(t.Context(), rec)
	}
	if err != nil && !errors.Is(err, vm.Busy) && !errors.Is(err, vm.NotFound) && !errors.Is(err, vm.Exists) {
		t.Error(err)
	}
}

// TestWatchTooOld: a watch from before a compaction says so instead of
// skipping changes, and one from a snapshot continues.
func TestWatchTooOld(t *testing.T) {
	ctx := t.Context()
	s := open(t, shortDir(t))
	c := vms(s)
	rec := record{ID: "a"}
	for i := range 10 {
		var err error
		if i == 0 {
			rec.Revision, err = c.put(ctx, rec)
		} else {
			rec.Revision, err = c.put(ctx, rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.Compact(ctx, rec.Revision); err != nil {
		t.Fatal(err)
	}
	w := c.Follow(ctx, rec.Revision-5)
	defer w.Close()
	if _, err := w.Next(ctx); vm.AsError(err).Code != "REVISION_GONE" {
		t.Errorf("old revision: %v", err)
	}
	_, at, err := c.list(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w = c.Follow(ctx, at)
	defer w.Close()
	if err := c.drop(ctx, rec); err != nil {
		t.Fatal(err)
	}
	if ch, err := w.Next(ctx); err != nil || !ch.Deleted || ch.ID != "a" {
		t.Errorf("the change is %+v (%v), want the deletion of a", ch, err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := w.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a change: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Next(ctx); err == nil {
		t.Error("the watch outlived the store")
	}
}

// TestLease: a record under a lease lives as long as its holder.
func TestLease(t *testing.T) {
	ctx := t.Context()
	s := open(t, shortDir(t))
	defer s.Close()
	c := vms(s)
	l, err := s.Lease(ctx, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	dying, kill := context.WithCancel(ctx)
	other, err := s.Lease(dying, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Txn(ctx, c.op(record{ID: "kept"}).Under(l), c.op(record{ID: "dies"}).Under(other), c.op(record{ID: "free"}))
	if err != nil {
		t.Fatal(err)
	}
	w := c.Follow(ctx, at)
	defer w.Close()
	kill()
	<-other.Lost()
	gone := func(want string) {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if ch, err := w.Next(short); err != nil || !ch.Deleted || ch.ID != want {
			t.Errorf("%+v, %v, want %s to go", ch, err, want)
		}
	}
	gone("dies") // a second or more later; the kept one has outlived its term
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	gone("kept")
	if list, _, err := c.list(ctx); err != nil || len(list) != 1 || list[0].ID != "free" {
		t.Errorf("after the leases ended the records are %v (%v), want the one without a lease", list, err)
	}
}

// TestCluster: the same code works against an existing etcd by its endpoints.
func TestCluster(t *testing.T) {
	ctx, dir := t.Context(), shortDir(t)
	host := open(t, dir)
	defer host.Close()
	s, err := Open(ctx, Options{Endpoints: []string{"unix://" + filepath.Join(dir, "s", "client.sock")}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := vms(s)
	w := vms(host).Follow(ctx, 1)
	defer w.Close()
	rev, err := c.put(ctx, record{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.put(ctx, record{ID: "a"}); !errors.Is(err, vm.Exists) {
		t.Errorf("creating it again: %v, want exists", err)
	}
	if ch, err := w.Next(ctx); err != nil || ch.ID != "a" || ch.Revision != rev {
		t.Errorf("the change is %+v (%v), want the creation of a at revision %d", ch, err, rev)
	}
	if _, err := c.put(ctx, record{ID: "b", Name: strings.Repeat("x", 2<<20)}); !errors.Is(err, vm.Limit) {
		t.Errorf("too large: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := vms(host).get(ctx, "a"); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := Open(short, Options{Endpoints: []string{"unix://" + filepath.Join(dir, "none.sock")}, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, vm.Unavailable) {
		t.Errorf("no cluster: %v", err)
	}
}
