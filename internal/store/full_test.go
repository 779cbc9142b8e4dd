// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// small opens a store whose records may take 8 MiB.
func small(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{
		Dir: filepath.Join(dir, "etcd"), SocketDir: filepath.Join(dir, "s"), Quota: 8 << 20, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLargeRecord: no record is larger than the limit, whatever it is changed
// to; one that an earlier version has left may shrink.
func TestLargeRecord(t *testing.T) {
	ctx := t.Context()
	s := open(t, shortDir(t))
	defer s.Close()
	c := vms(s)
	refused := func(what string, err error) {
		t.Helper()
		if e := vm.AsError(err); e.Kind != vm.Limit || e.Hint == "" || e.Fields["limit"] != ledger.MaxRecord {
			t.Errorf("%s: error %v with fields %v, want limit with a hint and the largest size", what, err, e.Fields)
		}
	}
	large := record{ID: "a", Name: strings.Repeat("x", ledger.MaxRecord)}
	_, err := c.put(ctx, large)
	refused("create", err)
	if large.Revision, err = c.put(ctx, record{ID: "a", Name: strings.Repeat("x", ledger.MaxRecord-1000)}); err != nil {
		t.Fatal(err)
	}
	_, err = c.put(ctx, large)
	refused("update", err)
	put, err := s.client.Put(ctx, c.path("a"), `{"id":"a","name":"`+strings.Repeat("x", 3*ledger.MaxRecord)+`"}`)
	if err != nil {
		t.Fatal(err)
	}
	large.Revision, large.Name = put.Header.Revision, strings.Repeat("x", 2*ledger.MaxRecord)
	if large.Revision, err = c.put(ctx, large); err != nil {
		t.Errorf("one that shrinks: %v", err)
	}
	_, err = c.put(ctx, large)
	refused("the same again", err)
}

// TestHistory: what a record was before takes no room for long: it can be
// changed for ever.
func TestHistory(t *testing.T) {
	s := small(t, shortDir(t))
	defer s.Close()
	c := vms(s)
	rec := record{ID: "a", Name: strings.Repeat("x", 60<<10)}
	var err error
	if rec.Revision, err = c.put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	for i := range 400 { // 24 MiB
		if rec.Revision, err = c.put(t.Context(), rec); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
}

// TestFull: a store whose records take their quota refuses what grows and says
// what to do. What makes room goes through, also after a restart, and then there
// is room.
func TestFull(t *testing.T) {
	ctx, dir := t.Context(), shortDir(t)
	s := small(t, dir)
	body := strings.Repeat("x", 32<<10)
	var list []record
	fill := func() (err error) {
		for range 1000 {
			rec := record{ID: string(vm.NewID()), Name: body}
			if rec.Revision, err = vms(s).put(ctx, rec); err != nil {
				return err
			}
			list = append(list, rec)
		}
		return nil
	}
	full := func() {
		t.Helper()
		if err := fill(); !errors.Is(err, vm.NoSpace) || vm.AsError(err).Hint == "" {
			t.Fatalf("after %d records: %v, want no space and what to do", len(list), err)
		}
		if s.alarmed() {
			t.Fatal("etcd itself had to stop")
		}
	}
	full()
	if n := len(list); n < 200 || n > 300 {
		t.Errorf("%d records of 32 KiB in 8 MiB", n)
	}
	shrinks := func() {
		t.Helper()
		c := vms(s)
		list[0].Name += strings.Repeat("y", 8<<10)
		if _, err := c.put(ctx, list[0]); !errors.Is(err, vm.NoSpace) {
			t.Errorf("a record that grows: %v", err)
		}
		list[0].Name = body
		for range 100 { // also again and again
			list[0].State, list[0].Reason = vm.Stopped, "to make room"
			rev, err := c.put(ctx, list[0])
			if err != nil {
				t.Fatalf("a small change: %v", err)
			}
			list[0].Revision = rev
		}
		list[1].Name = ""
		rev, err := c.put(ctx, list[1])
		if err != nil {
			t.Fatalf("a record that shrinks: %v", err)
		}
		list[1].Revision = rev
		for range 20 {
			last := list[len(list)-1]
			list = list[:len(list)-1]
			if err := c.drop(ctx, last); err != nil {
				t.Fatalf("delete: %v", err)
			}
		}
		if _, err := c.put(ctx, record{ID: string(vm.NewID()), Name: body}); err != nil {
			t.Errorf("with room again: %v", err)
		}
		full()
	}
	shrinks()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = small(t, dir)
	defer func() { _ = s.Close() }()
	shrinks()
}

// TestNoSpaceAlarm: a store that etcd itself has stopped, as by an earlier
// version, continues by itself: while it runs, and at its next start.
func TestNoSpaceAlarm(t *testing.T) {
	ctx, dir := t.Context(), shortDir(t)
	s := small(t, dir)
	stop := func() {
		t.Helper()
		var err error
		for i := 0; i < 400 && err == nil; i++ { // behind the store's back
			_, err = s.client.Put(ctx, fmt.Sprintf("%sjunk/%d", prefix, i%8), strings.Repeat("x", 60<<10))
		}
		if !errors.Is(err, rpctypes.ErrNoSpace) || !s.alarmed() {
			t.Fatalf("not full: %v", err)
		}
	}
	works := func(id string) {
		t.Helper()
		if _, err := vms(s).put(ctx, record{ID: id}); err != nil {
			t.Fatalf("creating %s: %v", id, err)
		}
		if s.alarmed() {
			t.Fatal("the alarm is still on")
		}
	}
	stop()
	works("while-it-runs")
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = small(t, dir)
	defer func() { _ = s.Close() }()
	if s.alarmed() {
		t.Error("the alarm outlived the start")
	}
	works("after-a-start")
	// An alarm without a reason, as after somebody else's defragmentation.
	if _, err := s.server.Server.Alarm(ctx, &etcdserverpb.AlarmRequest{
		MemberID: uint64(s.server.Server.MemberID()), Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE,
	}); err != nil {
		t.Fatal(err)
	}
	if err := vms(s).drop(ctx, record{ID: "after-a-start"}); err != nil {
		t.Errorf("delete: %v", err)
	}
	works("after-a-start")
}
