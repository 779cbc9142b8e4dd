// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

// verified verifies a log that must be sound.
func verified(t *testing.T, dir, key string, outside ...vm.Checkpoint) Report {
	t.Helper()
	r, err := Verify(dir, key, Head{}, outside...)
	if err != nil || r.Problem != "" {
		t.Fatalf("a sound log verifies as %+v (%v), want no problem", r, err)
	}
	return r
}

// broken verifies a log that must have a problem with this code.
func broken(t *testing.T, dir, code, words string, kept Head, outside ...vm.Checkpoint) {
	t.Helper()
	r, err := Verify(dir, "", kept, outside...)
	if err != nil || r.Code != code || r.Fix == "" || !strings.Contains(r.Problem, words) {
		t.Errorf("the log verifies as %+v (%v), want the code %s, the words %q and what to do", r, err, code, words)
	}
}

func copied(t *testing.T, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "audit")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOlderChain: a log that an older warren wrote verifies, opens with its open action,
// takes new records, and gets a tree over all of its records.
func TestOlderChain(t *testing.T) {
	dir := copied(t, "testdata/format1")
	before := verified(t, dir, "")
	if before.Records != 26 || before.Anchored != 26 {
		t.Errorf("the older log has %d records, %d signed, want 26 of each", before.Records, before.Anchored)
	}
	l := mustOpen(t, dir)
	if open := l.Pending(); len(open) != 1 || open[0].ID != "rc-osgof7hu6y9auih608mk" {
		t.Errorf("the older log has the open actions %+v, want one", open)
	}
	begin(t, l, vm.OpExec, "new")
	mustClose(t, l)
	after := verified(t, dir, before.Key)
	if after.Records != 27 || after.Log != before.Log || after.Root == before.Root {
		t.Errorf("after one more record, the log verifies as %+v, want 27 records of the same log", after)
	}
	last, err := lastCheckpoint(dir)
	if err != nil || last.Root != after.Root || last.Version != 2 {
		t.Errorf("the last checkpoint is %+v (%v), want the root %s", last, err, after.Root)
	}
	l = mustOpen(t, dir)
	defer mustClose(t, l)
	if got := l.here(); got.Log != before.Log || got.tree.Size != 27 {
		t.Errorf("opened again, the log has the id %s and a tree of %d, want %s and 27", got.Log, got.tree.Size, before.Log)
	}
}

// shelves are anchors outside, in memory.
type shelves struct {
	list chan vm.Checkpoint
	err  error
}

func (s *shelves) Name() string { return "shelf" }

func (s *shelves) Put(_ context.Context, c vm.Checkpoint, _ []byte) error {
	if s.err == nil {
		s.list <- c
	}
	return s.err
}

// TestCutWithItsAnchors: a tail that was cut together with its signatures, and with the
// chain signed again by the right key, is seen by what was anchored outside.
func TestCutWithItsAnchors(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "anchors")
	l, err := Open(t.Context(), dir, Options{Outside: []Anchor{File(file)}})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		begin(t, l, vm.OpExec, "one")
	}
	mustClose(t, l)
	old := copied(t, dir)
	l, err = Open(t.Context(), dir, Options{Outside: []Anchor{File(file)}})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, l, vm.OpExec, "evil")
	mustClose(t, l)
	list, err := ReadCheckpoints(file)
	if err != nil || len(list) < 2 || list[len(list)-1].Seq != 6 {
		t.Fatalf("the file of anchors has the checkpoints %+v (%v), want one of record 6 and others", list, err)
	}
	if r := verified(t, dir, "", list...); r.Outside != len(list) {
		t.Errorf("%d anchors were compared, want %d", r.Outside, len(list))
	}
	verified(t, old, "")
	broken(t, old, CodeCut, "record 6 was anchored outside, but the last one is 5", Head{}, list...)

	l = mustOpen(t, old)
	begin(t, l, vm.OpExec, "harmless")
	mustClose(t, l)
	broken(t, old, CodeChanged, "record 6 is not the one that was anchored outside", Head{}, list...)
}

// TestForeignChain: the log of another server is named as such, by its key and by its
// anchors.
func TestForeignChain(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	var heads []Head
	for _, dir := range dirs {
		l := mustOpen(t, dir)
		begin(t, l, vm.OpExec, "one")
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		heads = append(heads, l.head())
		mustClose(t, l)
	}
	broken(t, dirs[1], CodeKey, "its key was swapped", heads[0])
	one, err := lastCheckpoint(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	broken(t, dirs[1], CodeForeign, "belongs to another server", Head{}, one)
	sameKey := heads[0]
	sameKey.Key = ""
	broken(t, dirs[1], CodeForeign, "belongs to the log of another server", sameKey)
	key, err := os.ReadFile(filepath.Join(dirs[0], publicFile))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dirs[1], string(key), Head{}); err != nil || r.Code != CodeForeign {
		t.Errorf("with another server's key, the log verifies as %+v (%v), want the code %s", r, err, CodeForeign)
	}
	if err := opening(t, dirs[1], &shelf{head: heads[0]}); vm.KindOf(err) != vm.Corrupt || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a server that knows another log opens this one with %v, want another server's", err)
	}
}

// TestKeySwapped: a server does not continue with another key, and a key that signs when it
// may not is found.
func TestKeySwapped(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		l := mustOpen(t, d)
		begin(t, l, vm.OpExec, "one")
		mustClose(t, l)
	}
	swapped := copied(t, dir)
	for _, name := range []string{keyFile, publicFile} {
		data, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(swapped, name), func([]byte) []byte { return data })
	}
	broken(t, swapped, CodeKey, "was swapped", Head{})
	if _, err := Open(t.Context(), swapped, Options{}); vm.KindOf(err) != vm.Corrupt || !strings.Contains(err.Error(), "another key") {
		t.Errorf("open with a swapped key gives %v, want another key", err)
	}
}

// TestRotate: after a rotation the log verifies with the old key and the new one, and a
// later signature by the old key does not count.
func TestRotate(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	begin(t, l, vm.OpExec, "one")
	before, err := ReadKey(filepath.Join(dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	next, err := l.RotateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, l, vm.OpExec, "two")
	mustClose(t, l)
	for _, key := range []string{"", hex.EncodeToString(before.Public()), vm.Fingerprint(before.Public()), hex.EncodeToString(next), vm.Fingerprint(next)} {
		if r := verified(t, dir, key); r.Key != hex.EncodeToString(next) {
			t.Errorf("the log is signed by %s, want %x", r.Key, next)
		}
	}
	l = mustOpen(t, dir)
	late, err := checkpoint(t.Context(), before, l.point, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.appendCheckpoint(late); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	broken(t, dir, CodeKey, "when only "+vm.Fingerprint(next)+" could sign", Head{})
}

// TestRotationCutOff: a crash between the handover and the new key's name leaves a log
// that opens with the new key.
func TestRotationCutOff(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	begin(t, l, vm.OpExec, "one")
	next, err := makeKey(filepath.Join(dir, keyFile+nextKey))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.handOver(next.Public(), nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, dir)
	begin(t, l, vm.OpExec, "two")
	mustClose(t, l)
	if r := verified(t, dir, ""); r.Key != hex.EncodeToString(next.Public()) || r.Anchored != 2 {
		t.Errorf("the log verifies as %+v, want it signed by the next key", r)
	}
}

// program writes a signer that is a shell script.
func program(t *testing.T, body string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "signer")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+body), 0o700); err != nil { //nolint:gosec // a program is executable
		t.Fatal(err)
	}
	return name
}

// fragile is a signer that can be made to fail.
type fragile struct {
	KeyFile
	fail chan error
}

func (f fragile) Sign(ctx context.Context, m []byte) ([]byte, error) {
	select {
	case err := <-f.fail:
		f.fail <- err
		return nil, err
	default:
		return f.KeyFile.Sign(ctx, m)
	}
}

// TestSignerFails: while the signer fails, records are written up to a bound, and then nothing
// is recorded, so nothing is done. Once it works again, all is signed.
func TestSignerFails(t *testing.T) {
	key, err := makeKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	dir, signer := t.TempDir(), fragile{key, make(chan error, 1)}
	signer.fail <- vm.Errorf(vm.Unavailable, "signer", "is away")
	l, err := Open(t.Context(), dir, Options{Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	many := make([]Entry, anchorEvery)
	for i := range many {
		many[i] = Entry{Op: vm.OpConnection, Outcome: "ok"}
	}
	for l.head().Seq < maxUnsigned {
		if err := l.Record(t.Context(), many); err != nil {
			t.Fatalf("record after %d gives %v, want none before %d", l.head().Seq, err, maxUnsigned)
		}
	}
	if _, err := l.Begin(t.Context(), Entry{Op: vm.OpExec}); vm.KindOf(err) != vm.Unavailable {
		t.Errorf("begin with %d unsigned records gives %v, want unavailable", maxUnsigned, err)
	}
	<-signer.fail
	begin(t, l, vm.OpExec, "again")
	mustClose(t, l)
	if r := verified(t, dir, ""); r.Anchored != r.Records {
		t.Errorf("%d of %d records are signed, want all", r.Anchored, r.Records)
	}
}

// TestCommandFails: a program that signs wrongly, or says nothing useful, is named with
// what to do.
func TestCommandFails(t *testing.T) {
	if _, err := NewCommand(t.Context(), program(t, "echo hello")); vm.KindOf(err) != vm.Invalid || vm.AsError(err).Hint == "" {
		t.Errorf("a program without a public key gives %v, want invalid with a hint", err)
	}
	if _, err := NewCommand(t.Context(), program(t, "echo broken >&2; exit 3")); vm.KindOf(err) != vm.Unavailable || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a program that fails gives %v, want what it said", err)
	}
	pub := strings.Repeat("00", ed25519.PublicKeySize)
	c, err := NewCommand(t.Context(), program(t, "[ $1 = public ] && echo "+pub+" || cat"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sign(t.Context(), []byte("m")); vm.KindOf(err) != vm.Unavailable {
		t.Errorf("a program that prints no signature gives %v, want unavailable", err)
	}
}

// TestOtherSigner: the key in the directory hands over to another signer, and the log
// does not open without that one.
func TestOtherSigner(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	begin(t, l, vm.OpExec, "one")
	mustClose(t, l)
	key, err := makeKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		l, err := Open(t.Context(), dir, Options{Signer: key})
		if err != nil {
			t.Fatalf("open number %d with the other key: %v", i, err)
		}
		begin(t, l, vm.OpExec, "two")
		mustClose(t, l)
	}
	if r := verified(t, dir, ""); r.Key != hex.EncodeToString(key.Public()) || r.Anchored != 3 {
		t.Errorf("the log verifies as %+v, want it signed by the other key", r)
	}
	if _, err := Open(t.Context(), dir, Options{}); vm.KindOf(err) != vm.Corrupt || !strings.Contains(vm.AsError(err).Hint, "--audit-key") {
		t.Errorf("open without the other key gives %v, want a hint to it", err)
	}
}

// TestPrune: pruning removes whole old segments; what is left verifies, with every anchor
// below too, and the kept records have proofs. Without its record it is a cut.
func TestPrune(t *testing.T) {
	dir, shelf := t.TempDir(), &shelves{list: make(chan vm.Checkpoint, 100)}
	l, err := openSized(t.Context(), dir, Options{Outside: []Anchor{shelf}}, 4000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		id := begin(t, l, vm.OpExec, vm.AccountID(fmt.Sprint("acc-", i)))
		if err := l.End(id, nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	stays := begin(t, l, vm.OpExec, "stays open")
	before := l.head()
	if p, err := l.Prune(t.Context(), time.Now().Add(-time.Hour), Entry{}); err != nil || p.Segments != 0 {
		t.Errorf("pruning what is older than an hour removes %+v (%v), want nothing", p, err)
	}
	p, err := l.Prune(t.Context(), time.Now().Add(time.Hour), Entry{Actor: vm.Actor{Account: "acc-1"}})
	if err != nil || p.Segments < 3 || p.Receipt == "" {
		t.Fatalf("pruning removes %+v (%v), want at least 3 segments and a receipt", p, err)
	}
	if open := l.Pending(); len(open) != 1 || open[0].ID != stays {
		t.Errorf("after the pruning, %+v is open, want the action that was", open)
	}
	lines, at, err := l.Prove(1000, func(Record) bool { return true })
	if err != nil || len(lines) == 0 {
		t.Fatalf("the kept records have %d proofs (%v), want some", len(lines), err)
	}
	root, err := hex.DecodeString(at.Root)
	if err != nil {
		t.Fatal(err)
	}
	for _, ln := range lines {
		sum, err := hex.DecodeString(ln.Hash)
		if err != nil || !merkle.Included(merkle.Leaf(sum), ln.Seq-1, at.Seq, ln.Proof, merkle.Hash(root)) {
			t.Errorf("the proof of record %d does not verify (%v)", ln.Seq, err)
		}
	}
	mustClose(t, l)
	var anchors []vm.Checkpoint
	for len(shelf.list) > 0 {
		anchors = append(anchors, <-shelf.list)
	}
	r := verified(t, dir, "", anchors...)
	if r.Pruned != p.Through || r.Outside != len(anchors) || anchors[0].Seq > p.Through || r.Records <= before.Seq {
		t.Errorf("the pruned log verifies as %+v, want %d pruned records and %d anchors, the first of them below", r, p.Through, len(anchors))
	}

	again := mustOpen(t, dir)
	begin(t, again, vm.OpExec, "later")
	if l, err := again.List(Filter{Limit: 1000}); err != nil || len(l) == 0 || l[0].Actor.Account != "later" {
		t.Errorf("the pruned log lists %d records (%v), want the kept ones", len(l), err)
	}
	mustClose(t, again)
	verified(t, dir, "", anchors...)

	forged := copied(t, dir)
	edit(t, filepath.Join(forged, hashesName(1)), func(b []byte) []byte { b[40] ^= 1; return b })
	broken(t, forged, CodeChanged, "000001.hashes: record", Head{})
	cut := copied(t, dir)
	if err := os.Remove(filepath.Join(cut, hashesName(0))); err != nil {
		t.Fatal(err)
	}
	broken(t, cut, CodePruned, "no pruning has left its hashes", Head{})
}

// TestRemovedByHand: somebody who removes segments and leaves their hashes has no record
// of a pruning.
func TestRemovedByHand(t *testing.T) {
	dir := t.TempDir()
	l := mustOpenSized(t, dir, 2000)
	for range 20 {
		begin(t, l, vm.OpExec, "one")
	}
	l.mu.Lock()
	l.pending = map[string]*Record{}
	l.mu.Unlock()
	if err := l.removeSegment(0); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	broken(t, dir, CodePruned, "no signed record of a pruning", Head{})
}

// TestClockSetBack: a clock that was set back is reported; the chain is whole.
func TestClockSetBack(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	begin(t, l, vm.OpExec, "one")
	ln, err := newLine(Note, Entry{Subject: "past"})
	if err != nil {
		t.Fatal(err)
	}
	ln.Time = ln.Time.Add(-3 * time.Hour)
	it := &item{line: ln, written: make(chan error, 1)}
	if err := errors.Join(l.enqueue(it), <-it.written); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if r := verified(t, dir, ""); len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "record 2: the clock was set back by 3h0m") {
		t.Errorf("the notes of a log with a clock set back are %q, want that", r.Notes)
	}
}

// TestOneFlippedBit: a bit that is flipped anywhere in a segment is found.
func TestOneFlippedBit(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	for range 3 {
		begin(t, l, vm.OpExec, "one")
	}
	mustClose(t, l)
	whole, err := os.ReadFile(filepath.Join(dir, segmentName(0)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		edit(t, filepath.Join(dir, segmentName(0)), func([]byte) []byte { return changed })
		if r, err := Verify(dir, "", Head{}); err != nil || r.Problem == "" {
			t.Errorf("the bit %d of the log was flipped, and it verifies (%v)", i, err)
		}
	}
}
