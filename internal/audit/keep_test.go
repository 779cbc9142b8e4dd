// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// shelf is a keeper outside of the log's directory.
type shelf struct {
	mu    sync.Mutex
	head  Head
	err   error // of Save
	saves int
}

func (s *shelf) Load(context.Context) (Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, nil
}

func (s *shelf) Save(_ context.Context, h Head) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.err == nil {
		s.head = h
	}
	return s.err
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// acted opens a log, records so many actions and closes it. k may be nil.
func acted(t *testing.T, dir string, k Keeper, n int) {
	t.Helper()
	l, err := Open(t.Context(), dir, Options{Keeper: k})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		id, err := l.Begin(t.Context(), Entry{Op: vm.OpExec, Subject: "true"})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.End(id, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// cutTo leaves the first lines of the log, and of the signatures those that are
// of them, as somebody would who wants nobody to see it.
func cutTo(t *testing.T, dir string, lines int) {
	t.Helper()
	first := func(name string, keep func(i int, line []byte) bool) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		for i, line := range bytes.SplitAfter(data, []byte("\n")) {
			if len(line) > 0 && keep(i, line) {
				out = append(out, line...)
			}
		}
		if err := os.WriteFile(name, out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first(filepath.Join(dir, segmentName(0)), func(i int, _ []byte) bool { return i < lines })
	first(filepath.Join(dir, anchorsFile), func(i int, _ []byte) bool { return i == 0 })
}

// opening opens a log and compares it with what was kept.
func opening(t *testing.T, dir string, k Keeper) error {
	t.Helper()
	l, err := Open(t.Context(), dir, Options{Keeper: k})
	if err != nil {
		return err
	}
	return l.Close()
}

// TestCutTail: a tail that was cut off with its signatures, or written again
// with the key that lies beside the log, is seen by what the record store knows:
// by a verification, and at a start.
func TestCutTail(t *testing.T) {
	for _, forged := range []bool{false, true} {
		dir, k := t.TempDir(), &shelf{}
		acted(t, dir, k, 200)
		acted(t, dir, k, 100) // and a signature at each end
		kept := k.head
		if r, err := Verify(dir, "", kept); err != nil || r.Problem != "" || r.Records != 600 || kept.Seq != 600 {
			t.Fatalf("as it was: %+v, %v, kept %d", r, err, kept.Seq)
		}
		cutTo(t, dir, 400)
		want := "the tail is cut"
		if forged {
			acted(t, dir, nil, 150)
			want = "record 600 is not the one"
		}
		if r, err := Verify(dir, "", Head{}); err != nil || r.Problem != "" {
			t.Fatalf("the log by itself: %+v, %v", r, err)
		}
		if r, err := Verify(dir, "", kept); err != nil || !strings.Contains(r.Problem, want) {
			t.Errorf("forged %v: %+v, %v", forged, r, err)
		}
		if err := opening(t, dir, k); !errors.Is(err, vm.Corrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("forged %v: at a start: %v", forged, err)
		}
		if k.head != kept {
			t.Errorf("what was kept was replaced by %+v", k.head)
		}
	}
}

// TestKeptIsOld: what was kept last may be of a while ago, as after a crash, and
// in an older segment.
func TestKeptIsOld(t *testing.T) {
	dir, k := t.TempDir(), &shelf{}
	acted(t, dir, k, 10)
	l, err := openSized(t.Context(), dir, Options{}, 2<<10)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := l.Begin(t.Context(), Entry{Op: vm.OpExec}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := segments(dir); err != nil || len(found) < 3 {
		t.Fatalf("the log has segments %v (%v), want at least 3", found, err)
	}
	if err := opening(t, dir, k); err != nil {
		t.Error(err)
	}
	if k.head.Seq < 120 {
		t.Errorf("after closing %d is kept", k.head.Seq)
	}
	k.head.Seq, k.head.Hash = 15, strings.Repeat("0", hashLen)
	if err := opening(t, dir, k); !errors.Is(err, vm.Corrupt) {
		t.Errorf("another record: %v", err)
	}
}

// TestLogIsGone: a log that begins again although the record store knows one
// says so in its first line, for ever.
func TestLogIsGone(t *testing.T) {
	dir, k := t.TempDir(), &shelf{}
	acted(t, dir, k, 10)
	was := k.head
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	acted(t, dir, k, 3)
	data, err := os.ReadFile(filepath.Join(dir, segmentName(0)))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if !strings.Contains(string(line), "ended with record 20, hash "+was.Hash) {
		t.Errorf("the first line: %s", line)
	}
	if k.head.Seq != 7 || k.head.Gone == nil || k.head.Gone.Hash != was.Hash {
		t.Errorf("the record store has %+v, want record 7 and the end of the log before", k.head)
	}
	broken(t, dir, CodeCut, "record 1: a new log: the one before it ended with record 20, hash "+was.Hash, k.head)
	broken(t, dir, CodeCut, "record 1: a new log", Head{})
	l, err := Open(t.Context(), dir, Options{Keeper: k})
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, l, Filter{Op: vm.OpAuditNote}); len(got) != 1 || got[0].Seq != 1 || !strings.Contains(got[0].Subject, "a new log") {
		t.Errorf("the notes of the log are %+v, want the first record", got)
	}
	if got := list(t, l, Filter{}); len(got) != 4 || got[3].Seq != 1 {
		t.Errorf("the log lists %+v, want three actions and the note", got)
	}
	if got := list(t, l, Filter{Account: "one"}); len(got) != 0 {
		t.Errorf("an account lists %+v, want no notes of the log", got)
	}
	if _, err := l.Accept(t.Context(), Entry{Actor: vm.Actor{Account: "one"}}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if r, err := Verify(dir, "", k.head); err != nil || r.Problem != "" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "record 8 accepts that") {
		t.Errorf("accepted, the new log verifies as %+v (%v), want a note of it", r, err)
	}
	if k.head.Gone == nil || k.head.Gone.Hash != was.Hash {
		t.Errorf("the record store has %+v, want the end of the log before", k.head)
	}
	l = mustOpen(t, t.TempDir())
	defer mustClose(t, l)
	if _, err := l.Accept(t.Context(), Entry{}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a log that replaced no other is accepted with %v, want not found", err)
	}
}

// TestNotes: what a log says of itself is in the report of a verification, without the
// starts of segments, and not more than some of it.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	l := mustOpenSized(t, dir, 2<<10)
	for i := range maxNotes + 5 {
		if err := l.note(fmt.Sprintf("note %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	if found, err := segments(dir); err != nil || len(found) < 2 {
		t.Fatalf("the log has segments %v (%v), want at least 2", found, err)
	}
	r := verified(t, dir, "")
	if len(r.Notes) != maxNotes+1 || r.Notes[0] != "record 1: note 0" || r.Notes[maxNotes] != "and 5 notes more" {
		t.Errorf("the report has the notes %q, want %d and that there are 5 more", r.Notes, maxNotes)
	}
}

// TestKeepsUp: the end is kept while the log is open, also after it could not be
// for a while, and nobody waits for it.
func TestKeepsUp(t *testing.T) {
	k := &shelf{}
	k.fail(errors.New("no store"))
	l, err := Open(t.Context(), t.TempDir(), Options{Keeper: k})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Begin(t.Context(), Entry{Op: vm.OpExec}); err != nil {
		t.Fatalf("while the end cannot be kept: %v", err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("did not happen: " + what)
			}
		}
	}
	until("it is tried", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.saves > 0 })
	k.fail(nil)
	until("it is kept", func() bool { h, _ := k.Load(t.Context()); return h.Seq == 1 })
}
