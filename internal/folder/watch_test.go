// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHostChanges: what is done on the host is told to the guest, once it is to
// be believed no longer what it was; what the guest does itself is not.
func TestHostChanges(t *testing.T) {
	dir, _ := world(t)
	k := serve(t, dir, true)
	sub := k.find(rootID, "sub")
	file := k.find(sub, "file")
	no, b := k.ask(opCreate, sub, createBody(unix.O_RDWR|unix.O_EXCL, 0o644, "own"))
	if no != 0 {
		t.Fatalf("create: %v", no)
	}
	if no, _ := k.ask(opWrite, le.Uint64(b), writeBody(le.Uint64(b[entrySize:]), "mine")); no != 0 {
		t.Fatalf("write: %v", no)
	}
	_, _ = k.ask(opMkdir, sub, append(put32(nil, 0o755, 0), text("dir")...))
	_, _ = k.ask(opRename, sub, append(put64(nil, sub), text("own", "renamed")...))
	_, _ = k.ask(opUnlink, sub, text("renamed"))
	<-time.After(6 * gather)
	k.mu.Lock()
	if len(k.heard) > 0 {
		t.Errorf("the guest is told what it did: %v", k.heard)
	}
	k.mu.Unlock()

	put(t, filepath.Join(dir, "sub/file"), "changed")
	k.await("the file was written to", nudgeAbout(nudgeWritten, "sub/file"))
	k.await("its content is no longer what it was", func(n note) bool { return n.kind == invalInode && le.Uint64(n.body) == file })
	put(t, filepath.Join(dir, "sub/new"), "new")
	k.await("a new file", nudgeAbout(nudgeCreate, "sub/new"))
	k.await("a new name", func(n note) bool { return n.kind == invalEntry && string(n.body[16:len(n.body)-1]) == "new" })
	if err := os.Remove(filepath.Join(dir, "sub/file")); err != nil {
		t.Fatal(err)
	}
	k.await("the file is gone", nudgeAbout(nudgeDelete, "sub/file"))
}

// TestAhead: before the answer to a change of a name the guest has the
// attributes that its directory has after it, and after nothing else.
func TestAhead(t *testing.T) {
	dir, _ := world(t)
	k := serve(t, dir, true)
	sub := k.find(rootID, "sub")
	last := func() (b []byte) {
		k.mu.Lock()
		defer k.mu.Unlock()
		b, k.ahead = k.ahead, nil
		return b
	}
	changes := []struct {
		op   uint32
		body []byte
	}{
		{opCreate, createBody(unix.O_RDWR|unix.O_EXCL, 0o644, "own")},
		{opMkdir, append(put32(nil, 0o755, 0), text("dir")...)},
		{opSymlink, text("link", "target")},
		{opMknod, append(put32(nil, unix.S_IFIFO|0o600, 0, 0, 0), text("pipe")...)},
		{opRename, append(put64(nil, sub), text("own", "renamed")...)},
		{opRmdir, text("dir")},
		{opUnlink, text("renamed")},
	}
	for _, c := range changes {
		if no, _ := k.ask(c.op, sub, c.body); no != 0 {
			t.Fatalf("change with opcode %d: %v", c.op, no)
		}
		got, number := last(), k.unique
		no, want := k.ask(opGetattr, sub, put64(put32(nil, 0, 0), 0))
		if len(got) < 16 || no != 0 || le.Uint64(got) != sub || le.Uint64(got[8:]) != number || !bytes.Equal(got[16:], want) {
			t.Errorf("%d: ahead came %v, a getattr says %v", c.op, got, want)
		}
	}
	if no, _ := k.ask(opUnlink, sub, text("renamed")); no != unix.ENOENT || last() != nil {
		t.Errorf("a change that failed: %v", no)
	}
	if k.find(sub, "file") == 0 || last() != nil {
		t.Error("a lookup is no change")
	}
}

// TestNudged: what the agent does for a nudge changes nothing.
func TestNudged(t *testing.T) {
	dir, _ := world(t)
	k := serve(t, dir, false)
	sub := k.find(rootID, "sub")
	_ = k.find(sub, "file")
	put(t, filepath.Join(dir, "sub/new"), "new")
	k.await("a new file", nudgeAbout(nudgeCreate, "sub/new"))
	if no, _ := k.askAs(nudgeGID, opLookup, sub, text("new")); no != unix.ENOENT {
		t.Errorf("the agent sees what it is to make: %v", no)
	}
	if no, b := k.askAs(nudgeGID, opMknod, sub, append(put32(nil, unix.S_IFREG, 0, 0, 0), text("new")...)); no != 0 || le.Uint64(b) != k.find(sub, "new") {
		t.Errorf("the agent makes it: %v", no)
	}
	if err := os.Remove(filepath.Join(dir, "sub/file")); err != nil {
		t.Fatal(err)
	}
	k.await("the file is gone", nudgeAbout(nudgeDelete, "sub/file"))
	if no, _ := k.askAs(nudgeGID, opLookup, sub, text("file")); no != 0 {
		t.Errorf("the agent does not see what it is to remove: %v", no)
	}
	if no, _ := k.askAs(nudgeGID, opUnlink, sub, text("new")); no != 0 {
		t.Errorf("the agent removes: %v", no)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "sub/new")); err != nil || string(data) != "new" {
		t.Errorf("the file that the agent may not remove holds %q (%v), want new", data, err)
	}
}

// TestMovedUnseen: what is moved out of the folder is out of reach also when the
// guest has not looked into it: a directory, and a file by its number. Its other
// names, and its own when it is back, lead to it again.
func TestMovedUnseen(t *testing.T) {
	dir, secret := world(t)
	k := serve(t, dir, true)
	sub := k.find(rootID, "sub")
	if no, _ := k.ask(opMkdir, sub, append(put32(nil, 0o755, 0), text("inner")...)); no != 0 {
		t.Fatalf("mkdir: %v", no)
	}
	inner, file := k.find(sub, "inner"), k.find(sub, "file")
	put(t, filepath.Join(dir, "sub/inner/deep"), "deep")
	if no, _ := k.ask(opLink, rootID, append(put64(nil, file), text("other")...)); no != 0 {
		t.Fatalf("link: %v", no)
	}
	_ = k.find(sub, "file") // the name that it is known by
	for _, name := range []string{"inner", "file"} {
		if err := os.Rename(filepath.Join(dir, "sub", name), filepath.Join(secret, "away-"+name)); err != nil {
			t.Fatal(err)
		}
		k.await("it is gone", nudgeAbout(nudgeDelete, "sub/"+name))
	}
	if k.find(inner, "deep") != 0 {
		t.Error("a directory that was moved out is looked into")
	}
	if _, no := k.content(file); no != unix.ESTALE {
		t.Errorf("a file that was moved out is read: %v", no)
	}
	if no, _ := k.ask(opLink, rootID, append(put64(nil, file), text("third")...)); no != unix.ESTALE {
		t.Errorf("a file that was moved out is given a name: %v", no)
	}
	if no, _ := k.ask(opSetattr, file, setattrBody(setSize, 0, 0)); no != unix.ESTALE {
		t.Errorf("a file that was moved out is cut: %v", no)
	}
	if got, no := k.content(k.find(rootID, "other")); got != "inside" || no != 0 {
		t.Errorf("by its other name: %q, %v", got, no)
	}
	if err := os.Rename(filepath.Join(secret, "away-inner"), filepath.Join(dir, "sub/inner")); err != nil {
		t.Fatal(err)
	}
	if got, no := k.content(k.find(k.find(sub, "inner"), "deep")); got != "deep" || no != 0 {
		t.Errorf("back again: %q, %v", got, no)
	}
}

// TestMovedReplaced: a directory whose place another has taken is out of reach
// also when the guest saw that one first.
func TestMovedReplaced(t *testing.T) {
	dir, secret := world(t)
	k := serve(t, dir, true)
	sub := k.find(rootID, "sub")
	put(t, filepath.Join(dir, "next/file"), "next")
	if err := os.Rename(filepath.Join(dir, "sub"), filepath.Join(secret, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if got, no := k.content(k.find(k.find(rootID, "sub"), "file")); got != "next" || no != 0 {
		t.Errorf("what is there now: %q, %v", got, no)
	}
	if k.find(sub, "file") != 0 {
		t.Error("what was moved out is looked up")
	}
}

// TestMovedAway: a directory that is moved out of the folder is out of reach,
// also for who has it open.
func TestMovedAway(t *testing.T) {
	dir, secret := world(t)
	k := serve(t, dir, true)
	sub := k.find(rootID, "sub")
	file := k.find(sub, "file")
	if err := os.Rename(filepath.Join(dir, "sub"), filepath.Join(secret, "sub")); err != nil {
		t.Fatal(err)
	}
	k.await("the directory is gone", nudgeAbout(nudgeDelete, "sub"))
	if k.find(sub, "file") != 0 {
		t.Error("what was moved out is looked up")
	}
	if _, no := k.content(file); no != unix.ESTALE {
		t.Errorf("what was moved out is read: %v", no)
	}
	if err := os.Rename(filepath.Join(secret, "sub"), filepath.Join(dir, "back")); err != nil {
		t.Fatal(err)
	}
	if got, no := k.content(k.find(k.find(rootID, "back"), "file")); got != "inside" || no != 0 {
		t.Errorf("back again: %q, %v", got, no)
	}
}
