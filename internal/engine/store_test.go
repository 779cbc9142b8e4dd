// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// storeSite is a site whose records are in an embedded etcd.
func storeSite(t testing.TB) *vmtest.Site {
	t.Helper()
	dir, err := os.MkdirTemp("", "we") // short: the sockets' paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := vmtest.NewSite(dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{Dir: s.Dir.Etcd(), SocketDir: filepath.Join(dir, "s"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	s.Backend.Over = store.Backend{Store: st}
	return s
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

// silence is a backend that loses answers about one kind of record.
type silence struct {
	mu sync.Mutex
	// guarded by mu
	lose int  // answers to changes, from now on
	dumb bool // it does not answer reads either
}

// lossyKind gives a backend that no ledger has yet faults about one kind.
func lossyKind(b *vmtest.Backend, kind string) *silence {
	l := &silence{}
	lost := vm.Errorf(vm.Unavailable, "records", "the answer was lost")
	b.Fault = func(done bool, ops []ledger.Op) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !done || l.lose == 0 || ops[0].Kind != kind {
			return nil
		}
		l.lose--
		return lost
	}
	b.Silent = func(of string) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dumb && of == kind {
			return lost
		}
		return nil
	}
	return l
}

// loses makes the answers to the next n changes get lost. With dumb the store answers no
// reads either, until answers is called.
func (l *silence) loses(n int, dumb bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose, l.dumb = n, dumb
}

func (l *silence) answers() { l.loses(0, false) }

// TestOnStore repeats the life of a VM, and a death at the steps between which
// records change, on the real store.
func TestOnStore(t *testing.T) {
	s := storeSite(t)
	for _, label := range []string{"", "create:warm", "create:done", "start:launch", "start:done", "stop:commit", "kill:commit", "delete:machine", "delete:forget"} {
		verb, _, _ := strings.Cut(label, ":")
		if label == "" {
			verb = "create"
		}
		e, c := open(t, s)
		prepare(t, e, c, verb)
		closeEngine(t, e)
		hit := false
		s.Fault = nil
		if label != "" {
			s.Fault = faultAt(label, engine.ErrDied, &hit)
		}
		e, c = open(t, s)
		if err := doVerb(t, e, c, verb); label != "" && !errors.Is(err, engine.ErrDied) {
			t.Fatalf("at %s the verb ends with %v, want the engine's death", label, err)
		}
		closeEngine(t, e)
		s.Fault = nil
		e, c = open(t, s)
		consistent(t, s)
		afterwards(t, e, c)
		nothingLeft(t, s)
		closeEngine(t, e)
	}
}

// TestOverheadOfCreate: the cost of create beyond the machine's own start stays within
// the budget, in the median.
func TestOverheadOfCreate(t *testing.T) {
	s := storeSite(t)
	e, c := open(t, s)
	const n = 21
	took := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		v := create(t, e, c, engine.CreateRequest{})
		took = append(took, time.Since(begin))
		if _, err := e.Delete(t.Context(), c, string(v.ID)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	t.Logf("median %v, worst %v", took[n/2], took[n-1])
	if took[n/2] > 100*time.Millisecond { // the budget is 15 ms; a loaded machine gets some room
		t.Errorf("median %v", took[n/2])
	}
}

// TestListOfMany: 1,000 records are listed from memory.
func TestListOfMany(t *testing.T) {
	s, e, c := site(t)
	closeEngine(t, e)
	for range 1000 {
		id := vm.NewID()
		rec := vm.VM{ID: id, Account: c.Actor.Account, Name: "n", State: vm.Stopped, CreatedAt: time.Now()}
		if err := vmtest.Put(s.Backend, "vms", string(id), rec); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(s.Dir.VM(id), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Dir.Overlay(id), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	e, c = open(t, s)
	t.Logf("open with 1000 records: %v", time.Since(begin))
	begin = time.Now()
	vms, n, _, err := e.List(t.Context(), c, engine.Filter{})
	took := time.Since(begin)
	t.Logf("list of 1000: %v", took)
	if err != nil || len(vms) != 1000 || n != 1000 || took > 50*time.Millisecond {
		t.Errorf("%d of %d in %v, %v", len(vms), n, took, err)
	}
}

// TestLostAnswer: if the answer to a successful write is lost, the VM can still be
// managed, both when the store answers reads at once and when it is silent for a while.
func TestLostAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, s *vmtest.Site) {
		vms := lossyKind(s.Backend, "vms")
		e, c := open(t, s)
		ctx := t.Context()
		v := create(t, e, c, engine.CreateRequest{Name: "box"})
		vms.loses(1, false)
		if _, err := e.Stop(ctx, c, "box"); err != nil {
			t.Errorf("stop: %v", err)
		}
		labelled := func(value string) error {
			_, err := e.Label(ctx, c, "box", map[string]*string{"a": &value})
			return err
		}
		vms.loses(1, true)
		// What follows the store may tell of the write before the label's answer is given up.
		if err := labelled("1"); err == nil {
			if got, err := e.Get(ctx, c, string(v.ID)); err != nil || got.Labels["a"] != "1" {
				t.Errorf("the label was set: its labels are %v, %v", got.Labels, err)
			}
		} else if vm.KindOf(err) != vm.Unavailable {
			t.Errorf("nobody knows what became of the label: %v", err)
		}
		vms.answers()
		if err := labelled("2"); err != nil {
			t.Errorf("the store answers again: %v", err)
		}
		if got, err := e.Get(ctx, c, string(v.ID)); err != nil || got.Labels["a"] != "2" {
			t.Errorf("its labels are %v, %v", got.Labels, err)
		}
		vms.loses(1, false)
		if _, err := e.Delete(ctx, c, "box"); err != nil {
			t.Errorf("delete: %v", err)
		}
		nothingLeft(t, s)
	})
}
