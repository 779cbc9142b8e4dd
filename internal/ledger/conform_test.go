// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// promises are what every table keeps, whatever its kind and its store.
var promises = map[string]func(p *place, v *server){
	"records are stored and found":                 storedAndFound,
	"a lost answer of a write that was made":       answerLost,
	"a write that did not get there":               writeLost,
	"a store that does not answer for a while":     storeAway,
	"a create that gets there after its caller":    lateCreate,
	"a change that gets there after its caller":    lateChange,
	"another server changes a record":              foreignChange,
	"another server drops and creates":             foreignDrop,
	"a server that ends before or after its write": crash,
	"a record above the limit":                     tooLarge,
	"a record that cannot be decoded":              undecodable,
	"changes that are told late":                   toldLate,
	"many writers of one record":                   manyWriters,
	"several records, all or none":                 allOrNone,
	"records of another server":                    otherHost,
	"an unreadable record of another server":       otherHostUnreadable,
	"a store that is full":                         storeFull,
	"changes that the store no longer has":         changesGone,
}

// TestEveryKind: every table of the product keeps every promise, on the simulated
// store and on etcd.
func TestEveryKind(t *testing.T) {
	kinds := productKinds(t)
	for _, p := range []*place{simulator(), etcd(t, 0)} {
		p.small = simulator()
		if p.name == "etcd" {
			p.small = etcd(t, 2<<20)
		}
		for _, s := range kinds {
			for name, f := range promises {
				t.Run(p.name+"/"+s.Kind()+"/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
					v := p.open(t, s, "here")
					f(p, v)
					v.forgets(p)
				})
			}
		}
	}
}

// productKinds are the kinds of all tables that a server opens.
func productKinds(t *testing.T) (out []sample) {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(t.Context()) })
	for _, table := range ledger.Tables(h.Rooms.Ledger) {
		s, err := newSample(table)
		if err != nil {
			t.Error(err)
			continue
		}
		out = append(out, s)
	}
	return out
}

// forgets wants that nothing is remembered of writes that are over.
func (v *server) forgets(p *place) {
	v.net.heal()
	v.stored(p) // what the store tells of it comes after all that was before
	v.soon("nothing is remembered of writes that are over", func() bool {
		writing, dropped, unwanted := v.table.Kept()
		return writing+dropped+unwanted == 0
	})
}

func storedAndFound(p *place, v *server) {
	rec := p.next(v.sample)
	id := v.Key(rec)
	v.must("create", v.create(rec))
	if host := v.Host(rec); host != nil {
		*host = "here"
	}
	if have, ok := v.table.Get(id); !ok || !sameJSON(have, rec) {
		v.Errorf("after the create the table shows %+v, want %+v", have, rec)
	}
	v.refused("a second create", v.create(rec), vm.Exists)
	v.must("change", v.add(id, "+"))
	have, _ := v.table.Get(id)
	if !v.table.Indexed(have) {
		v.Error("after a change it is not found by its index")
	}
	fresh := p.open(v.T, v.sample, "here")
	if again, _ := fresh.table.Get(id); !sameJSON(have, again) {
		v.Errorf("after a restart the table shows %+v, want %+v", again, have)
	}
	v.must("drop", v.drop(id))
	v.shows("after the drop", id, "none")
	v.must("a second drop", v.drop(id))
	v.refused("a change of none", v.add(id, "+"), vm.NotFound)
	p.inStore(v, "after the drop", id, "none")
	v.untold("own writes")
}

func answerLost(p *place, v *server) {
	rec := p.next(v.sample)
	v.setMark(rec, "a")
	id := v.Key(rec)
	v.net.next(lostAnswer, false)
	v.must("create", v.create(rec))
	v.shows("after the create", id, "a")
	v.net.next(lostAnswer, false)
	v.must("change", v.add(id, "b"))
	v.shows("after the change", id, "ab")
	v.must("the next change", v.add(id, "c"))
	p.inStore(v, "after the changes", id, "abc")
	v.net.next(lostAnswer, false)
	v.must("drop", v.drop(id))
	v.shows("after the drop", id, "none")
	p.inStore(v, "after the drop", id, "none")
	v.untold("own writes")
}

func writeLost(p *place, v *server) {
	rec := p.next(v.sample)
	v.setMark(rec, "a")
	id := v.Key(rec)
	v.net.next(lostWrite, false)
	v.refused("create", v.create(rec), vm.Unavailable)
	v.shows("after the lost create", id, "none")
	create := v.net.lost()
	v.must("create again", v.create(rec))
	v.net.next(lostWrite, false)
	v.refused("change", v.add(id, "b"), vm.Unavailable)
	v.shows("after the lost change", id, "a")
	v.must("change again", v.add(id, "c"))
	v.net.next(lostWrite, false)
	v.refused("drop", v.drop(id), vm.Unavailable)
	v.shows("after the lost drop", id, "ac")
	v.must("change once more", v.add(id, "d"))
	p.inStore(v, "after all", id, "acd")
	v.must("drop again", v.drop(id))
	if v.deliver(p, v.net.lost()) == nil {
		v.Error("a lost drop was made after the record was dropped")
	}
	v.must("the first create, now", v.deliver(p, create))
	v.vanishes(p, id)
}

// deliver makes a write that was lost.
func (v *server) deliver(p *place, ops []ledger.Op) error {
	_, err := p.Write(v.Context(), ops...)
	return err
}

// vanishes wants that a record is removed from the store.
func (v *server) vanishes(p *place, id string) {
	v.soon("it is removed from the store", func() bool {
		_, err := p.Read(v.Context(), v.Kind(), id)
		return vm.KindOf(err) == vm.NotFound
	})
	v.shows("after that", id, "none")
}

func storeAway(p *place, v *server) {
	id := v.stored(p)
	v.net.hold()
	v.net.next(lostAnswer, true)
	v.refused("change", v.add(id, "b"), vm.Unavailable)
	v.shows("while nobody knows", id, "a")
	v.net.heal()
	v.must("a change as soon as the store answers", v.add(id, "c"))
	v.shows("it was made on top of the one before", id, "abc")
	v.net.next(lostAnswer, true)
	v.refused("drop", v.drop(id), vm.Unavailable)
	v.net.heal()
	v.must("drop again", v.drop(id))
	v.shows("after the drop", id, "none")
	rec := p.next(v.sample)
	v.setMark(rec, "z")
	v.net.next(lostAnswer, true)
	v.refused("create", v.create(rec), vm.Unavailable)
	v.shows("while nobody knows", v.Key(rec), "none")
	v.net.heal()
	v.setMark(rec, "y")
	v.must("create again", v.create(rec))
	v.shows("the second create", v.Key(rec), "y")
	v.must("change", v.add(v.Key(rec), "x"))
	v.net.release()
	v.stored(p)
	v.told("a -> ab") // what the lost answer had hidden
	p.inStore(v, "after all", v.Key(rec), "yx")
}

func lateCreate(p *place, v *server) {
	rec := p.next(v.sample)
	v.net.next(lostWrite, true)
	v.refused("create", v.create(rec), vm.Unavailable)
	v.net.heal()
	v.must("the late create", v.deliver(p, v.net.lost()))
	v.vanishes(p, v.Key(rec))
	v.must("the same again", v.create(rec))
	p.inStore(v, "after that", v.Key(rec), v.markOf(rec))
	v.untold("what nobody saw")
}

func lateChange(p *place, v *server) {
	id := v.stored(p)
	v.net.next(lostWrite, true)
	v.refused("change", v.add(id, "b"), vm.Unavailable)
	v.net.heal()
	v.must("the late change", v.deliver(p, v.net.lost()))
	v.comes("after the late change", id, "ab")
	v.told("a -> ab")
	v.must("the next change", v.add(id, "c"))
	v.shows("after the next change", id, "abc")
}

func foreignChange(p *place, v *server) {
	other := p.open(v.T, v.sample, "here")
	id := v.stored(p)
	other.comes("at the other server", id, "a")
	other.told("none -> a")
	v.must("change", v.add(id, "b"))
	other.comes("at the other server", id, "ab")
	other.told("a -> ab")
	other.net.hold()
	v.must("a change that the other does not know of", v.add(id, "c"))
	other.must("a change there", other.add(id, "d"))
	other.shows("nothing was overwritten", id, "abcd")
	v.comes("at the first server", id, "abcd")
	v.must("another", v.add(id, "e"))
	other.net.next(lostAnswer, false)
	other.must("a change there whose answer is lost", other.add(id, "f"))
	v.comes("at the first server", id, "abcdef")
	v.must("another", v.add(id, "g"))
	other.must("a drop of a record that it does not know", other.drop(id))
	v.comes("at the first server", id, "none")
	v.told("abcdefg -> none")
	other.net.release()
}

func foreignDrop(p *place, v *server) {
	other := p.open(v.T, v.sample, "here")
	id := v.stored(p)
	other.comes("at the other server", id, "a")
	other.net.hold()
	rec, _ := v.table.Get(id)
	v.must("drop", v.drop(id))
	other.refused("a change of what was dropped", other.add(id, "b"), vm.NotFound)
	other.shows("it is seen", id, "none")
	other.told("a -> none")
	v.setMark(rec, "c")
	v.must("create", v.create(rec))
	other.refused("a create of what is there", other.create(rec), vm.Exists)
	other.shows("it is seen", id, "c")
	other.net.release()
	v.must("drop", v.drop(id))
	other.comes("after all", id, "none")
}

func crash(p *place, v *server) {
	id := v.stored(p)
	v.net.hold()
	v.net.next(lostWrite, true)
	v.refused("change", v.add(id, "b"), vm.Unavailable)
	p.inStore(v, "ended before the write", id, "a")
	v.net.next(lostAnswer, true)
	v.refused("change", v.add(id, "c"), vm.Unavailable)
	p.inStore(v, "ended after the write", id, "ac")
	v.net.release()
	fresh := p.open(v.T, v.sample, "here")
	fresh.must("change", fresh.add(id, "d"))
	fresh.net.hold()
	fresh.net.next(lostAnswer, true)
	fresh.refused("drop", fresh.drop(id), vm.Unavailable)
	p.inStore(v, "ended after the drop", id, "none")
}

func tooLarge(p *place, v *server) {
	id := v.stored(p)
	big := strings.Repeat("x", ledger.MaxRecord)
	v.refused("a change", v.add(id, big), vm.Limit)
	v.shows("after the refused change", id, "a")
	rec := p.next(v.sample)
	v.setMark(rec, big)
	v.refused("a create", v.create(rec), vm.Limit)
	v.shows("after the refused create", v.Key(rec), "none")
	v.must("a small change", v.add(id, "b"))
	v.setMark(rec, "s")
	v.must("a small create", v.create(rec))
}

func undecodable(p *place, v *server) {
	good, bad := v.stored(p), v.stored(p)
	at, err := p.Read(v.Context(), v.Kind(), bad)
	v.must("read", err)
	_, err = p.Write(v.Context(), ledger.Op{Kind: v.Kind(), ID: bad, Value: []byte(`{"id":`), Revision: at.Revision})
	v.must("write", err)
	fresh := p.open(v.T, v.sample, "here")
	fresh.shows("the others load", good, "a")
	list := fresh.table.Unreadable()
	if len(list) != 1 {
		v.Fatalf("%d records are unreadable, want 1", len(list))
	}
	if list[0].ID != bad {
		v.Errorf("%s is unreadable, want %s", list[0].ID, bad)
	}
	v.refused("it says", list[0].Err, vm.Corrupt)
	v.soon("a server that runs sees it", func() bool { return len(v.table.Unreadable()) == 1 })
	v.refused("a change there", v.add(bad, "b"), vm.Corrupt)
	v.shows("it keeps what it knew", bad, "a")
	fresh.must("drop", fresh.drop(bad))
	v.comes("after the drop", bad, "none")
	if n := len(fresh.table.Unreadable()) + len(v.table.Unreadable()); n > 0 {
		v.Errorf("%d records are unreadable after the drop", n)
	}
}

func toldLate(p *place, v *server) {
	v.net.hold()
	kept, gone := v.stored(p), v.stored(p)
	rec, _ := v.table.Get(gone)
	v.must("change", v.add(kept, "b"))
	v.must("change", v.add(gone, "b"))
	v.must("drop", v.drop(gone))
	again := v.stored(p)
	v.must("drop", v.drop(again))
	v.net.release()
	end := v.stored(p)
	other := p.open(v.T, v.sample, "here")
	other.must("change", other.add(end, "z"))
	v.comes("after all was told", end, "az")
	v.shows("a newer record stays", kept, "ab")
	v.shows("a dropped record stays away", gone, "none")
	v.must("create", v.create(rec))
	v.shows("one of its id", gone, "a")
	v.must("drop", v.drop(again))
	v.told("a -> az")
	if n := len(v.all()); n != 1 {
		v.Errorf("Changed was called with %q, want only what another server wrote", v.all())
	}
}

func manyWriters(p *place, v *server) {
	const writers, times = 4, 5
	id := v.stored(p)
	other := p.open(v.T, v.sample, "here")
	other.comes("at the other server", id, "a")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range times {
				if err := v.add(id, "x"); err != nil {
					v.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range times {
			err := other.add(id, "y")
			for errors.Is(err, vm.Busy) { // the others are many
				err = other.add(id, "y")
			}
			if err != nil {
				v.Error(err)
			}
		}
	})
	wg.Wait()
	v.soon("both servers show one record", func() bool { return v.marked(v.table, id) == other.marked(other.table, id) })
	text := v.marked(v.table, id)
	if n := strings.Count(text, "x"); n != writers*times {
		v.Errorf("%d changes of %d are in the record", n, writers*times)
	}
	if n := strings.Count(text, "y"); n != times {
		v.Errorf("%d changes of the other server of %d are in the record", n, times)
	}
}

func allOrNone(p *place, v *server) {
	ids := []string{v.stored(p), v.stored(p), v.stored(p)}
	ids[0], ids[2] = ids[2], ids[0]
	add := func(v *server, text string) error {
		return v.table.ChangeAny(v.Context(), ids, func(i int, rec any) error {
			v.setMark(rec, fmt.Sprint(v.markOf(rec), text, i))
			return nil
		})
	}
	show := func(what, want string) {
		v.Helper()
		for i, id := range ids {
			v.shows(what, id, strings.ReplaceAll(want, "#", fmt.Sprint(i)))
		}
	}
	v.must("change", add(v, "b"))
	show("after the change", "ab#")
	v.net.next(lostAnswer, false)
	v.must("a change whose answer is lost", add(v, "c"))
	show("after it", "ab#c#")
	v.net.next(lostWrite, true)
	v.refused("a change that does not get there", add(v, "d"), vm.Unavailable)
	v.net.heal()
	show("after it", "ab#c#")
	no := errors.New("no")
	if err := v.table.ChangeAny(v.Context(), ids, func(i int, _ any) error {
		if i == 2 {
			return no
		}
		return nil
	}); !errors.Is(err, no) {
		v.Errorf("a change that its function refuses: %v", err)
	}
	other := p.open(v.T, v.sample, "here")
	v.net.hold()
	other.must("a change of the last", other.add(ids[2], "!"))
	v.must("a change that does not know of it", add(v, "e"))
	v.shows("nothing was overwritten", ids[2], "ab2c2!e2")
	v.shows("the others changed once", ids[0], "ab0c0e0")
	other.must("a drop of the last", other.drop(ids[2]))
	v.refused("a change of one that is gone", add(v, "f"), vm.NotFound)
	v.shows("the others did not change", ids[0], "ab0c0e0")
	v.net.release()
	v.net.next(lostAnswer, true)
	ids = ids[:2]
	_ = add(v, "g") // the follower may tell of it in time
	v.net.heal()
	v.comes("after an answer and a look that were lost", ids[1], "ab1c1e1g1")
	v.refused("one record twice", v.table.ChangeAny(v.Context(), []string{ids[0], ids[0]}, func(int, any) error { return nil }), vm.Internal)
}

func otherHost(p *place, v *server) {
	if v.Host(v.Blank()) == nil {
		return
	}
	id := v.stored(p)
	other := p.open(v.T, v.sample, "there")
	other.shows("a record of another server", id, "none")
	other.refused("a change of it", other.add(id, "b"), vm.NotFound)
	other.must("a drop of it", other.drop(id))
	rec, _ := v.table.Get(id)
	other.refused("a create of its id", other.create(rec), vm.Exists)
	p.inStore(v, "after all that", id, "a")
	theirs := other.stored(p)
	v.stored(p)
	v.shows("a record of the other server", theirs, "none")
	v.untold("records of the other server")
	at, err := p.Read(v.Context(), v.Kind(), theirs)
	v.must("read", err)
	old := strings.Replace(string(at.Value), `:"there"`, `:""`, 1) // only the host has this value
	_, err = p.Write(v.Context(), ledger.Op{Kind: v.Kind(), ID: theirs, Value: []byte(old), Revision: at.Revision})
	v.must("write", err)
	v.comes("a record without a host", theirs, "a")
	v.must("a change of it", v.add(theirs, "b"))
	other.comes("it belongs to this server", theirs, "none")
}
