// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// forgery makes a log of another key, which hands over to the key of a genuine one. It
// returns the genuine key and what the record store knows of the genuine log.
func forgery(t *testing.T) (dir string, own KeyFile, known Head) {
	t.Helper()
	genuine, dir := t.TempDir(), t.TempDir()
	l := mustOpen(t, genuine)
	begin(t, l, vm.OpExec, "one")
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	known = l.head()
	mustClose(t, l)
	own, err := ReadKey(filepath.Join(genuine, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir)
	begin(t, l, vm.OpExec, "evil")
	if err := l.handOver(own.Public(), nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if err := publish(dir, own.Public()); err != nil {
		t.Fatal(err)
	}
	return dir, own, known
}

// TestForgedHandover: anybody can make a key and let it hand over to the operator's. Such a
// log is not the operator's.
func TestForgedHandover(t *testing.T) {
	dir, own, known := forgery(t)
	for _, key := range []string{"", hex.EncodeToString(own.Public()), vm.Fingerprint(own.Public())} {
		r, err := Verify(dir, key, Head{})
		if err != nil || r.Code != CodeKey || !strings.Contains(r.Problem, "is signed by "+vm.Fingerprint(own.Public())) {
			t.Errorf("with the key %q, a log that another key handed over verifies as %+v (%v), want the code %s", key, r, err, CodeKey)
		}
		if r.Key == hex.EncodeToString(own.Public()) || r.Anchored != 0 {
			t.Errorf("a log that another key signed is signed by %s up to record %d, want no signature of the operator's", r.Key, r.Anchored)
		}
	}
	broken(t, dir, CodeKey, "signatures were removed, or the log is a forgery", Head{Key: known.Key})
	for name, o := range map[string]Options{
		"the key alone":         {Signer: own},
		"the key and the store": {Signer: own, Keeper: &shelf{head: known}},
	} {
		before, err := os.ReadFile(filepath.Join(dir, anchorsFile))
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), dir, o)
		if vm.KindOf(err) != vm.Corrupt || vm.AsError(err).Hint == "" {
			t.Errorf("with %s, the forged log opens with %v, want corrupt and what to do", name, err)
		}
		if err == nil {
			mustClose(t, l)
		}
		after, err := os.ReadFile(filepath.Join(dir, anchorsFile))
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("with %s, the operator's key signed the forged log", name)
		}
	}
}

// TestJustRotated: a log verifies with the new key as soon as the rotation is done, and
// after a crash in the middle of it as soon as the log is open again.
func TestJustRotated(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	begin(t, l, vm.OpExec, "one")
	next, err := l.RotateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := verified(t, dir, vm.Fingerprint(next)); r.Anchored != 1 || r.Key != hex.EncodeToString(next) {
		t.Errorf("just rotated, the log verifies as %+v, want its record signed by the new key", r)
	}
	other, err := makeKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.RotateKey(other.Public()); err != nil {
		t.Fatal(err)
	}
	k := &shelf{head: l.head()}
	mustClose(t, l)
	if r := verified(t, dir, vm.Fingerprint(next)); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "has not signed yet") {
		t.Errorf("handed over to a key that the server does not have, the log has the notes %q, want that", r.Notes)
	}
	if r, err := Verify(dir, vm.Fingerprint(other.Public()), Head{}); err != nil || r.Code != CodeKey {
		t.Errorf("with the key that has not signed yet, the log verifies as %+v (%v), want the code %s", r, err, CodeKey)
	}
	l, err = Open(t.Context(), dir, Options{Signer: other, Keeper: k})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	verified(t, dir, vm.Fingerprint(other.Public()))
	if k.head.Key != hex.EncodeToString(other.Public()) {
		t.Errorf("the store knows the key %s, want %x", k.head.Key, other.Public())
	}
}

// TestStartSignsNoForgery: a server that refuses to start because the record store knows
// another log signs nothing.
func TestStartSignsNoForgery(t *testing.T) {
	dir, k := t.TempDir(), &shelf{}
	acted(t, dir, k, 3)
	key, err := ReadKey(filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	acted(t, other, nil, 5)
	if err := os.Remove(filepath.Join(other, anchorsFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), other, Options{Signer: key, Keeper: k}); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("another log opens with %v, want corrupt", err)
	}
	if data, err := os.ReadFile(filepath.Join(other, anchorsFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another log was signed: %s (%v)", data, err)
	}
	swapped := copied(t, dir) // the same records, signed by another key alone
	for _, name := range []string{keyFile, anchorsFile} {
		if err := os.Remove(filepath.Join(swapped, name)); err != nil {
			t.Fatal(err)
		}
	}
	acted(t, swapped, nil, 0)
	if err := opening(t, swapped, k); vm.KindOf(err) != vm.Corrupt || !strings.Contains(err.Error(), "key") {
		t.Errorf("the log with a swapped key opens with %v, want corrupt", err)
	}
}

// TestUnsignedParts: a checkpoint of another version, and one with parts that its signature
// does not cover, count nowhere. A key that an old one names without signing it takes
// over nothing.
func TestUnsignedParts(t *testing.T) {
	origin := copied(t, "testdata/format1")
	own, err := ReadKey(filepath.Join(origin, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	evil, err := makeKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := lastCheckpoint(origin)
	if err != nil || old.Version != 0 {
		t.Fatalf("the last checkpoint of the older log is %+v (%v), want version 0", old, err)
	}
	digest, key := strings.Repeat("0", hashLen), hex.EncodeToString(evil.Public())
	for name, change := range map[string]func(c *vm.Checkpoint){
		"next":            func(c *vm.Checkpoint) { c.Next = key },
		"key":             func(c *vm.Checkpoint) { c.Key = hex.EncodeToString(own.Public()) },
		"root":            func(c *vm.Checkpoint) { c.Root = digest },
		"log":             func(c *vm.Checkpoint) { c.Log = digest },
		"version 1":       func(c *vm.Checkpoint) { c.Version = 1 },
		"version 3":       func(c *vm.Checkpoint) { c.Version, c.Key, c.Log, c.Root = 3, key, digest, digest },
		"version 2, bare": func(c *vm.Checkpoint) { c.Version = 2 },
	} {
		c := old
		if change(&c); c.Version != 0 { // those without are signed already
			sig, err := own.Sign(t.Context(), c.Message())
			if err != nil {
				t.Fatal(err)
			}
			c.Signature = hex.EncodeToString(sig)
		}
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		dir := copied(t, origin)
		edit(t, filepath.Join(dir, anchorsFile), func(b []byte) []byte { return append(b, append(line, '\n')...) })
		broken(t, dir, CodeChanged, "has not the form", Head{})
		broken(t, origin, CodeChanged, "has not the form", Head{}, c)
		if _, err := ParseCheckpoints(line); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%s: the checkpoint is read as an anchor (%v), want invalid", name, err)
		}
		if l, err := Open(t.Context(), dir, Options{}); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("%s: the log opens with %v, want corrupt", name, err)
			if err == nil {
				mustClose(t, l)
			}
		}
	}
}

// timed makes a log whose lines have these times, the first so many of them signed.
func timed(t *testing.T, signed int, times ...time.Time) string {
	t.Helper()
	dir := t.TempDir()
	l := mustOpen(t, dir)
	for i, at := range times {
		ln, err := newLine(Begin, Entry{Op: vm.OpExec})
		if err != nil {
			t.Fatal(err)
		}
		ln.Time = at
		it := &item{line: ln, written: make(chan error, 1)}
		if err := errors.Join(l.enqueue(it), <-it.written); err != nil {
			t.Fatal(err)
		}
		if i+1 == signed {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustClose(t, l)
	edit(t, filepath.Join(dir, anchorsFile), editLines(func(lines [][]byte) (out [][]byte) {
		for _, raw := range lines {
			c, err := parseCheckpoint(raw)
			if err != nil {
				t.Fatal(err)
			}
			if c.Seq == int64(signed) {
				out = append(out, raw)
			}
		}
		return out[:min(1, len(out))]
	}))
	return dir
}

// TestUnsignedTail: lines after the last signature are always named. They are a fault if
// they should be signed by their age, and if nothing is signed.
func TestUnsignedTail(t *testing.T) {
	now := time.Now().UTC()
	fresh := timed(t, 2, now, now, now, now.Add(time.Minute))
	if r := verified(t, fresh, ""); r.Anchored != 2 || len(r.Notes) != 1 || r.Notes[0] != "records 3 to 4 are not signed" {
		t.Errorf("a log with two unsigned lines verifies as %+v, want a note of records 3 to 4", r)
	}
	broken(t, timed(t, 2, now, now, now, now.Add(time.Hour)), CodeKey, "records 3 to 4 are not signed, although the last of them is 1h0m0s younger", Head{})
	broken(t, timed(t, 0, now, now), CodeKey, "none of the 2 records is signed", Head{})
	late := timed(t, 2, now.Add(-time.Hour), now.Add(-time.Hour))
	if r := verified(t, late, ""); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "records 1 to 2 were signed 1h0m") {
		t.Errorf("a log that was signed an hour late has the notes %q, want that", r.Notes)
	}
}

// TestFirstSignature: the first record of a log is signed at once, so that a copy of a new
// log verifies, and so is the first one after a start.
func TestFirstSignature(t *testing.T) {
	dir := t.TempDir()
	for n := range int64(2) {
		l := mustOpen(t, dir)
		begin(t, l, vm.OpExec, "one")
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			l.mu.Lock()
			anchored := l.anchored
			l.mu.Unlock()
			if anchored > n {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after the start number %d, %d records are signed, want more", n, anchored)
			}
		}
		mustClose(t, l)
	}
}
