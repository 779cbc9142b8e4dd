// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/warren-vm/warren/vm"
)

// cluster is an etcd that others connect to by its endpoint.
func cluster(t *testing.T) (connect func() *Store) {
	t.Helper()
	dir := shortDir(t)
	s := open(t, dir)
	t.Cleanup(func() { s.Close() })
	return func() *Store {
		t.Helper()
		c, err := Open(t.Context(), Options{Endpoints: []string{"unix://" + filepath.Join(dir, "s", "client.sock")}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// claimant is a server whose process has that name; what others are is told by the
// names "runs", "ended" and "elsewhere".
func claimant(host, name string) Claimant {
	return Claimant{
		Host: host, Process: json.RawMessage(`"` + name + `"`), Log: slog.New(slog.DiscardHandler),
		Alive: func(other json.RawMessage) (alive, known bool) {
			return string(other) == `"runs"`, string(other) != `"elsewhere"`
		},
	}
}

// TestClaim: one server at a time has a host id. One that ended without giving it
// up is succeeded at once where that can be seen, and after its term elsewhere.
func TestClaim(t *testing.T) {
	ctx, connect := t.Context(), cluster(t)
	first, err := connect().Claim(ctx, claimant("one", "runs"))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err = connect().Claim(ctx, claimant("one", "runs"))
	if !errors.Is(err, vm.Busy) {
		t.Errorf("a second server: %v", err)
	}
	if vm.AsError(err).Hint == "" {
		t.Error("the refusal does not say what to do")
	}
	if d := time.Since(begin); d > claimTerm/2 {
		t.Errorf("it was refused after %s, although the first one is seen to run", d)
	}
	other, err := connect().Claim(ctx, claimant("two", "runs"))
	if err != nil {
		t.Fatalf("another host id: %v", err)
	}
	if err := other.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := first.Release(ctx); err != nil {
		t.Error(err)
	}
	if _, err := connect().Claim(ctx, claimant("one", "ended")); err != nil {
		t.Errorf("after the release: %v", err)
	}
	begin = time.Now()
	if _, err := connect().Claim(ctx, claimant("one", "runs")); err != nil {
		t.Errorf("after the end of the process: %v", err)
	}
	if d := time.Since(begin); d > claimTerm/2 {
		t.Errorf("an ended process is succeeded after %s", d)
	}
}

// TestClaimExpires: the claim of a server that is gone, nobody sees how, ends with
// its term. One that is kept does not.
func TestClaimExpires(t *testing.T) {
	ctx, connect := t.Context(), cluster(t)
	gone := connect()
	if _, err := gone.Claim(ctx, claimant("one", "elsewhere")); err != nil {
		t.Fatal(err)
	}
	kept, err := connect().Claim(ctx, claimant("two", "elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	s := connect()
	go func() {
		_, err := s.Claim(ctx, claimant("two", "runs"))
		done <- err
	}()
	gone.client.Close() // as its end would
	if _, err := connect().Claim(ctx, claimant("one", "runs")); err != nil {
		t.Errorf("after the term: %v", err)
	}
	if err := <-done; !errors.Is(err, vm.Busy) {
		t.Errorf("a claim that is kept: %v", err)
	}
	select {
	case <-kept.Lost():
		t.Error("the kept claim was lost")
	default:
	}
}

// TestClaimLost: a server whose lease is gone claims its id again, and is told when
// another one has it by then.
func TestClaimLost(t *testing.T) {
	ctx, connect := t.Context(), cluster(t)
	s := connect()
	c, err := s.Claim(ctx, claimant("one", "runs"))
	if err != nil {
		t.Fatal(err)
	}
	path := prefix + hostKind + "/one"
	read := func() (value string, lease int64) {
		t.Helper()
		resp, err := s.client.Get(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Kvs) == 0 {
			return "", 0
		}
		return string(resp.Kvs[0].Value), resp.Kvs[0].Lease
	}
	_, lease := read()
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(lease)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(claimTerm + claimGrace); ; time.Sleep(10 * time.Millisecond) {
		if value, again := read(); value != "" && again != lease {
			lease = again
			break
		}
		if time.Now().After(end) {
			t.Fatal("the id was not claimed again")
		}
	}
	if _, err := s.client.Put(ctx, path, `{"host":"one","process":"runs"}`); err != nil { // another server
		t.Fatal(err)
	}
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(lease)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Lost():
	case <-time.After(claimTerm + claimGrace):
		t.Fatal("it was not told that another server has the id")
	}
	if !errors.Is(c.Err(), vm.Busy) {
		t.Errorf("it was told %v", c.Err())
	}
}

// TestUnclaimed: of several servers on one etcd one has the records without a
// host, and keeps them.
func TestUnclaimed(t *testing.T) {
	connect := cluster(t)
	take := func(host string, want bool) {
		t.Helper()
		has, err := connect().TakeUnclaimed(context.Background(), host)
		if err != nil {
			t.Fatal(err)
		}
		if has != want {
			t.Errorf("%s has them: %v, want %v", host, has, want)
		}
	}
	take("one", true)
	take("two", false)
	take("one", true)
}
