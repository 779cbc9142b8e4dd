// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// storeFull: a full store refuses only what grows, and says what to do. What makes
// room goes through. An etcd that its old revisions have filled is compacted,
// defragmented and disarmed by the next write.
func storeFull(p *place, v *server) {
	p = p.small
	v = p.open(v.T, v.sample, "here")
	defer v.forgets(p)
	large, spare := v.stored(p), v.stored(p)
	v.must("a change that grows", v.add(large, strings.Repeat("x", 8<<10)))
	p.stop(v.T)
	v.must("a change of a store that old revisions fill", v.add(spare, "b"))
	free := p.fill(v.T)
	noSpace := func(what string, err error) {
		v.Helper()
		v.refused(what, err, vm.NoSpace)
		if e := vm.AsError(err); e == nil || e.Hint == "" {
			v.Errorf("%s has no hint: %v", what, err)
		}
	}
	rec := p.next(v.sample)
	v.setMark(rec, "new")
	noSpace("a create", v.create(rec))
	v.shows("after the refused create", v.Key(rec), "none")
	noSpace("a change that grows", v.add(spare, strings.Repeat("y", 8<<10)))
	v.shows("after the refused change", spare, "ab")
	v.must("a small change", v.add(spare, "c"))
	v.must("a change that shrinks", v.set(large, "small"))
	v.must("a drop", v.drop(spare))
	p.inStore(v, "after the change that shrinks", large, "small")
	p.inStore(v, "after the drop", spare, "none")
	free()
	v.must("a create with room again", v.create(rec))
	p.inStore(v, "after the create", v.Key(rec), "new")
	v.untold("own writes")
}

// changesGone: when the store has compacted changes that a server has not been told
// of, the server reads the table again and misses nothing.
func changesGone(p *place, v *server) {
	changed, dropped := v.stored(p), v.stored(p)
	other := p.prepare(v.T, v.sample, "here")
	other.net.hold()
	other.load()
	v.must("change", v.add(changed, "b"))
	v.must("drop", v.drop(dropped))
	made := v.stored(p)
	p.compact(v.T)
	other.net.release()
	other.comes("a change", changed, "ab")
	other.comes("a drop", dropped, "none")
	other.comes("a create", made, "a")
	other.told("a -> ab")
	other.told("a -> none")
	other.told("none -> a")
	v.must("a change after the compaction", v.add(made, "c"))
	other.told("a -> ac")
	other.must("a change by the server that read again", other.add(made, "d"))
	v.comes("at the first server", made, "acd")
}

// otherHostUnreadable: a record that cannot be decoded is listed by the server that
// it belongs to, and by no other.
func otherHostUnreadable(p *place, v *server) {
	if v.Host(v.Blank()) == nil {
		return
	}
	other := p.open(v.T, v.sample, "there")
	damage := func(id, value string) {
		v.Helper()
		at, err := p.Read(v.Context(), v.Kind(), id)
		v.must("read", err)
		_, err = p.Write(v.Context(), ledger.Op{Kind: v.Kind(), ID: id, Value: []byte(value), Revision: at.Revision})
		v.must("write", err)
	}
	lists := func(who string, s *server, want ...string) {
		v.Helper()
		have := func() string {
			ids := []string{}
			for _, u := range s.table.Unreadable() {
				ids = append(ids, u.ID)
			}
			return fmt.Sprint(ids)
		}
		slices.Sort(want) // s999 comes after s1000
		v.soon(fmt.Sprintf("%s lists %s as unreadable", who, want), func() bool { return have() == fmt.Sprint(append([]string{}, want...)) })
	}
	named, cut, bare := other.stored(p), other.stored(p), other.stored(p)
	damage(named, `{"id":7,"vm":7,"name":[],"host":"there","_write":"x"}`)
	damage(cut, `{"deep":{"host":"here"},"host":"there","name":"n`)
	damage(bare, `{"ho`)
	end := other.stored(p)
	other.must("a change that both are told of", other.add(end, "b"))
	v.stored(p)
	lists("the server that had the records", other, named, cut, bare)
	lists("the server that has records without a host", v, bare)
	again := p.prepare(v.T, v.sample, "there")
	again.l.LeaveUnclaimed()
	again.load()
	lists("the server, started again", again, named, cut)
	third := p.prepare(v.T, v.sample, "third")
	third.l.LeaveUnclaimed()
	third.load()
	lists("a third server", third)
	again.must("drop", again.drop(named))
	again.must("drop", again.drop(cut))
	v.must("drop", v.drop(bare))
	lists("the server, after the drops", other)
}

// TestOneRevision: tables are loaded as they were at one moment. A token whose
// identity another server made in between would seem to belong to nobody.
func TestOneRevision(t *testing.T) {
	for _, p := range []*place{simulator(), etcd(t, 0)} {
		t.Run(p.name, func(t *testing.T) {
			first, ids, tokens := identityTables(p)
			if err := first.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for n := range 200 {
					id := vm.IdentityID(fmt.Sprint(n))
					if err := ids.Create(t.Context(), vm.Identity{ID: id}); err != nil {
						t.Error(err)
						return
					}
					if err := tokens.Create(t.Context(), vm.IdentityToken{ID: vm.TokenID(id), Identity: id}); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			for writing := true; writing; {
				select {
				case <-done:
					writing = false
				default:
				}
				l, ids, tokens := identityTables(p)
				if err := l.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, token := range tokens.All() {
					if _, ok := ids.Get(token.Identity); !ok {
						t.Errorf("token %s is there and its identity is not", token.ID)
					}
				}
				l.Close()
			}
		})
	}
}

// identityTables are a ledger with two of its tables.
func identityTables(p *place) (*ledger.Ledger, *ledger.Table[vm.IdentityID, vm.Identity], *ledger.Table[vm.TokenID, vm.IdentityToken]) {
	l := ledger.New(p.Backend, "here", slog.New(slog.DiscardHandler))
	return l, ledger.Add(l, ledger.Kind[vm.IdentityID, vm.Identity]{Name: "identities", Key: func(i *vm.Identity) vm.IdentityID { return i.ID }}),
		ledger.Add(l, ledger.Kind[vm.TokenID, vm.IdentityToken]{Name: "tokens", Key: func(t *vm.IdentityToken) vm.TokenID { return t.ID }})
}
