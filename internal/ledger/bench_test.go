// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// place is a store that ledgers of several servers are opened on.
type place struct {
	ledger.Backend
	name    string
	compact func(t testing.TB)
	fill    func(t testing.TB) (free func()) // fills the store until free is called
	stop    func(t testing.TB)               // fills an etcd with old revisions until it refuses every write
	small   *place                           // a store of the same sort that is quickly full
	last    int                              // number of the last record that was given out
}

func simulator() *place {
	b := vmtest.NewBackend()
	return &place{
		Backend: b, name: "simulator", compact: func(testing.TB) { b.Compact() }, stop: func(testing.TB) {},
		fill: func(testing.TB) func() {
			b.SetFull(true)
			return func() { b.SetFull(false) }
		},
	}
}

// openStore opens an embedded etcd whose records may take so many bytes; 0 = the
// usual.
func openStore(t testing.TB, quota int64) (s *store.Store, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wl") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	s, err = store.Open(t.Context(), store.Options{
		Dir: filepath.Join(dir, "etcd"), SocketDir: filepath.Join(dir, "s"), Quota: quota, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		os.RemoveAll(dir)
	})
	return s, "unix://" + filepath.Join(dir, "s", "client.sock")
}

func etcd(t testing.TB, quota int64) *place {
	s, socket := openStore(t, quota)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{socket}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	p := &place{Backend: store.Backend{Store: s}, name: "etcd"}
	p.compact = func(t testing.TB) {
		t.Helper()
		now, err := client.Get(t.Context(), "none")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Compact(t.Context(), now.Header.Revision); err != nil {
			t.Fatal(err)
		}
	}
	p.fill = func(t testing.TB) func() { return fillStore(t, p) }
	p.stop = func(t testing.TB) {
		t.Helper()
		var err error
		for range 1000 { // etcd counts what it has committed, ten times a second
			if _, err = client.Put(t.Context(), "revisions", strings.Repeat("x", 60<<10)); err != nil {
				break
			}
		}
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("etcd does not refuse to write: %v", err)
		}
	}
	return p
}

// fillStore writes records of no table until the store takes no more.
func fillStore(t testing.TB, p *place) (free func()) {
	t.Helper()
	var made []ledger.Op
	for n, size := 0, 60<<10; size > 1<<10; n++ {
		o := ledger.Op{Kind: "filler", ID: fmt.Sprint(n), Value: []byte(`"` + strings.Repeat("x", size) + `"`)}
		rev, err := p.Write(t.Context(), o)
		switch {
		case err == nil:
			made = append(made, ledger.Op{Kind: o.Kind, ID: o.ID, Revision: rev, Delete: true})
		case errors.Is(err, vm.NoSpace):
			size /= 4
		default:
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		for _, o := range made {
			if _, err := p.Write(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		probe := ledger.Op{Kind: "filler", ID: "probe", Value: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)}
		rev, err := p.Write(t.Context(), probe)
		if err != nil {
			t.Fatalf("a store whose records were deleted takes no record: %v", err)
		}
		if _, err := p.Write(t.Context(), ledger.Op{Kind: probe.Kind, ID: probe.ID, Revision: rev, Delete: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// server is one ledger with one table on a place, and what is wrong with its
// connection.
type server struct {
	*testing.T
	sample
	table ledger.AnyTable
	l     *ledger.Ledger
	net   *wire
	*news
}

// news is what Changed was called with: the marks before and after.
type news struct {
	mu   sync.Mutex
	list []string
}

func (n *news) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// open opens the ledger of a server.
func (p *place) open(t *testing.T, s sample, host string) *server {
	t.Helper()
	v := p.prepare(t, s, host)
	v.load()
	return v
}

// load loads the server's ledger, which is open until the end of the test.
func (v *server) load() {
	v.Helper()
	v.must("load", v.l.Load(v.Context()))
	v.Cleanup(v.l.Close)
}

// prepare makes a server whose ledger is not loaded.
func (p *place) prepare(t *testing.T, s sample, host string) *server {
	t.Helper()
	v := &server{T: t, sample: s, net: newWire(p.Backend), news: &news{}}
	v.l = ledger.New(v.net, host, slog.New(slog.DiscardHandler))
	mark := func(rec any) string {
		if rec == nil {
			return "none"
		}
		return s.markOf(rec)
	}
	v.table = s.Again(v.l, func(was, now any) {
		v.news.mu.Lock()
		defer v.news.mu.Unlock()
		v.list = append(v.list, mark(was)+" -> "+mark(now))
	})
	return v
}

// next is a record that nobody has.
func (p *place) next(s sample) any {
	p.last++
	return s.rec(p.last)
}

func (v *server) create(rec any) error {
	return v.table.CreateAny(context.Background(), rec)
}

// set changes the mark of a record.
func (v *server) set(id, text string) error {
	return v.table.ChangeAny(context.Background(), []string{id}, func(_ int, rec any) error {
		v.setMark(rec, text)
		return nil
	})
}

// add changes the mark of a record to what it is, and text behind it.
func (v *server) add(id, text string) error {
	return v.table.ChangeAny(context.Background(), []string{id}, func(_ int, rec any) error {
		v.setMark(rec, v.markOf(rec)+text)
		return nil
	})
}

func (v *server) drop(id string) error { return v.table.Drop(context.Background(), id) }

// stored is a new record that the server has stored, with the mark "a".
func (v *server) stored(p *place) (id string) {
	v.Helper()
	rec := p.next(v.sample)
	v.setMark(rec, "a")
	v.must("create", v.create(rec))
	return v.Key(rec)
}

func (v *server) must(what string, err error) {
	v.Helper()
	if err != nil {
		v.Fatalf("%s failed: %v", what, err)
	}
}

func (v *server) refused(what string, err error, kind vm.Kind) {
	v.Helper()
	if vm.KindOf(err) != kind {
		v.Errorf("%s: %v, want an error of kind %s", what, err, kind)
	}
}

// shows wants the table to show a mark.
func (v *server) shows(what, id, want string) {
	v.Helper()
	if have := v.marked(v.table, id); have != want {
		v.Errorf("%s: the table shows %q, want %q", what, have, want)
	}
}

// comes wants it to do so soon.
func (v *server) comes(what, id, want string) {
	v.Helper()
	v.soon(what+": the table shows "+want, func() bool { return v.marked(v.table, id) == want })
}

func (v *server) soon(what string, f func() bool) {
	v.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			v.Fatalf("not within 10 s: %s", what)
		}
	}
}

// told wants Changed to be called with that, soon and once.
func (v *server) told(want string) {
	v.Helper()
	v.soon(fmt.Sprintf("Changed is called with %q", want), func() bool { return slices.Contains(v.all(), want) })
}

// untold wants that Changed was not called.
func (v *server) untold(what string) {
	v.Helper()
	if list := v.all(); len(list) > 0 {
		v.Errorf("%s: Changed was called: %q", what, list)
	}
}

// inStore reports what a server that starts now sees.
func (p *place) inStore(v *server, what, id, want string) {
	v.Helper()
	fresh := p.open(v.T, v.sample, "here")
	fresh.shows(what+", after a restart", id, want)
	fresh.l.Close()
}
