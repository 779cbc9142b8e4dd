// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package answers_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// site opens a simulated host and the rooms of one server on it. A nil clock is the
// system's.
func site(t *testing.T, clock engine.Clock) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Clock = clock
	e := open(t, s)
	c, _, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return s, e, c
}

// open opens a server; the test closes it at its end.
func open(t *testing.T, s *vmtest.Site) *vmtest.House {
	t.Helper()
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, e) })
	return e
}

func shut(t *testing.T, e *vmtest.House) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := e.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func wantGone(t *testing.T, err error) {
	t.Helper()
	if vm.KindOf(err) != vm.NotFound {
		t.Errorf("kind %q, want %q: %v", vm.KindOf(err), vm.NotFound, err)
	}
	if code := vm.AsError(err).Code; code != "NOT_FOUND" {
		t.Errorf("code %q, want NOT_FOUND: %v", code, err)
	}
}

// TestResults: stored answers are available to their account only, for an hour.
func TestResults(t *testing.T) {
	clock := vmtest.NewClock()
	s, e, c := site(t, clock)
	ctx := t.Context()
	id := vm.NewRequestID()
	if err := e.SaveResult(ctx, c, answers.Result{Request: id}); err != nil {
		t.Fatal(err)
	}
	if err := e.SaveResult(ctx, c, answers.Result{Request: id, Done: true, Status: 200, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if r, err := e.Result(ctx, c, id); err != nil || !r.Done || string(r.Body) != "{}" {
		t.Errorf("the saved answer is %+v (%v), want it done with the body {}", r, err)
	}
	_, err := e.Result(ctx, &vm.Call{Actor: vm.Actor{Account: "else"}}, id)
	wantGone(t, err)
	clock.Advance(2 * time.Hour)
	_, err = e.Result(ctx, c, id)
	wantGone(t, err)
	if err := e.SaveResult(ctx, c, answers.Result{Request: vm.NewRequestID()}); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(s.Dir.Answers()); err != nil || len(files) != 0 {
		t.Errorf("files of answers that nobody can fetch any more: %v, %v", files, err)
	}
}

// TestAnswersAreFiles: the body of an answer is not in its record, and survives a
// restart. Bodies that an older warren stored in the record are still served. A file
// without a record is removed.
func TestAnswersAreFiles(t *testing.T) {
	s, e, c := site(t, nil)
	ctx := t.Context()
	id, old := vm.NewRequestID(), vm.NewRequestID()
	body := strings.Repeat("x", 1<<20)
	if err := e.SaveResult(ctx, c, answers.Result{Request: id, Done: true, Status: 200, Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	stored, err := vmtest.Stored[answers.Result](s.Backend, "results")
	if err != nil || len(stored) != 1 {
		t.Fatalf("the stored answers are %+v (%v), want one", stored, err)
	}
	if n := len(stored[0].Body); n != 0 {
		t.Errorf("the record has %d bytes of the body", n)
	}
	shut(t, e)
	orphan := s.Dir.Answer(vm.NewRequestID())
	if err := os.WriteFile(orphan, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := vmtest.Put(s.Backend, "results", string(old), answers.Result{Request: old, Account: c.Actor.Account, Done: true, Body: []byte("old"), Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	e = open(t, s)
	if r, err := e.Result(ctx, c, id); err != nil || string(r.Body) != body {
		t.Errorf("after a restart: %d bytes, %v", len(r.Body), err)
	}
	if r, err := e.Result(ctx, c, old); err != nil || string(r.Body) != "old" {
		t.Errorf("of an older warren: %q, %v", r.Body, err)
	}
	if _, err := os.Stat(orphan); err == nil {
		t.Error("a file without a record is still there")
	}
}
