// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// ruled serves a directory at /src of a guest, under rules.
func ruled(t *testing.T, dir string, ask Asker, list ...vm.PathRule) (*kernel, *Rules) {
	t.Helper()
	r := NewRules("/src", ask)
	r.Set(compiled(t, list...))
	return serveAs(t, dir, Options{RW: true, Rules: r}), r
}

func compiled(t *testing.T, list ...vm.PathRule) *pathrule.Set {
	t.Helper()
	s, err := pathrule.Compile(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// secrets is a folder with what rules are about.
func secrets(t *testing.T) string {
	t.Helper()
	dir, _ := world(t)
	for name, content := range map[string]string{"open": "open", "hid/.env": "HIDDEN", ".env": "HIDDEN", "deny/key": "DENIED", "docs/a": "read", "ask/me": "asked", "plain/deep/x": "x"} {
		put(t, filepath.Join(dir, name), content)
	}
	return dir
}

var secretRules = []vm.PathRule{
	{Action: vm.PathHide, Path: "/src/**/.env"},
	{Action: vm.PathDeny, Path: "/src/deny"},
	{Action: vm.PathReadOnly, Path: "/src/docs"},
	{Action: vm.PathAsk, Path: "/src/ask/*"},
}

// entries lists a directory.
func (k *kernel) entries(op uint32, node uint64) (out []string, no unix.Errno) {
	no, b := k.ask(opOpendir, node, put32(nil, 0, 0))
	if no != 0 {
		return nil, no
	}
	no, b = k.ask(op, node, readBody(le.Uint64(b), 64<<10))
	for len(b) > 0 {
		if op == opReaddirplus {
			b = b[entrySize:]
		}
		n := int(le.Uint32(b[16:]))
		out = append(out, string(b[guestDirent:guestDirent+n]))
		b = b[(guestDirent+n+7)&^7:]
	}
	slices.Sort(out)
	return out, no
}

// TestRulesHide: what is hidden is in no list, has no attributes and no content, and cannot be
// made, replaced, linked or renamed, in whatever case it is asked for.
//
// 001-07
func TestRulesHide(t *testing.T) {
	dir := secrets(t)
	k, _ := ruled(t, dir, nil, secretRules...)
	for _, op := range []uint32{opReaddir, opReaddirplus} {
		list, no := k.entries(op, rootID)
		if want := []string{".", "..", "ask", "deny", "docs", "hid", "open", "plain", "sub"}; no != 0 || !slices.Equal(list, want) {
			t.Errorf("operation %d lists %q, %v, want %q", op, list, no, want)
		}
	}
	for _, name := range []string{".env", ".ENV", ".Env"} {
		if no, b := k.ask(opLookup, rootID, text(name)); no != unix.ENOENT && (no != 0 || le.Uint64(b) != 0) {
			t.Errorf("looking up %s: %v", name, no)
		}
		if no, _ := k.askAs(nudgeGID, opMknod, rootID, append(put32(nil, unix.S_IFREG|0o644, 0, 0, 0), text(name)...)); no != unix.ENOENT {
			t.Errorf("a forged nudge about %s: %v, want no such file", name, no)
		}
	}
	open := k.find(rootID, "open")
	for op, body := range map[uint32][]byte{
		opCreate: createBody(unix.O_RDWR, 0o644, ".env"), opMknod: append(put32(nil, unix.S_IFREG|0o644, 0, 0, 0), text(".env")...),
		opMkdir: append(put32(nil, 0o755, 0), text(".env")...), opSymlink: text(".env", "open"), opUnlink: text(".env"),
		opRename: append(put64(nil, rootID), text(".env", "taken")...), opRename2: append(put32(put64(nil, rootID), unix.RENAME_EXCHANGE, 0), text("open", ".env")...),
		opLink: append(put64(nil, open), text(".env")...),
	} {
		if no, _ := k.ask(op, rootID, body); no != unix.EACCES {
			t.Errorf("operation %d on a hidden name: %v, want permission denied", op, no)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, ".env")); err != nil || string(data) != "HIDDEN" {
		t.Errorf("the hidden file on the host: %q, %v", data, err)
	}
}

// TestRulesDenyAndReadOnly: each operation that reads a denied path or changes a read-only one
// fails, and the other operations work.
//
// 001-07
func TestRulesDenyAndReadOnly(t *testing.T) {
	dir := secrets(t)
	k, _ := ruled(t, dir, nil, secretRules...)
	deny, docs := k.find(rootID, "deny"), k.find(rootID, "docs")
	if deny == 0 || docs == 0 {
		t.Fatal("the directories are not seen")
	}
	if _, no := k.entries(opReaddir, deny); no != unix.EACCES {
		t.Errorf("listing a denied directory: %v", no)
	}
	if no, _ := k.ask(opLookup, deny, text("key")); no != unix.EACCES {
		t.Errorf("a name in a denied directory: %v", no)
	}
	file := k.find(docs, "a")
	if got, no := k.content(file); no != 0 || got != "read" {
		t.Errorf("a read-only file: %q, %v", got, no)
	}
	open := k.find(rootID, "open")
	for what, x := range map[string]struct {
		op   uint32
		node uint64
		body []byte
	}{
		"write":         {opOpen, file, put32(nil, unix.O_WRONLY, 0)},
		"read, write":   {opOpen, file, put32(nil, unix.O_RDWR, 0)},
		"empty":         {opOpen, file, put32(nil, unix.O_RDONLY|unix.O_TRUNC, 0)},
		"truncate":      {opSetattr, file, setattrBody(setSize, 0, 0)},
		"chmod":         {opSetattr, file, setattrBody(setMode, 0o777, 0)},
		"chmod the dir": {opSetattr, docs, setattrBody(setMode, 0o777, 0)},
		"create":        {opCreate, docs, createBody(unix.O_RDWR, 0o644, "new")},
		"make":          {opMkdir, docs, append(put32(nil, 0o755, 0), text("new")...)},
		"symlink":       {opSymlink, docs, text("new", "a")},
		"link into":     {opLink, docs, append(put64(nil, open), text("new")...)},
		"link out":      {opLink, rootID, append(put64(nil, file), text("new")...)},
		"unlink":        {opUnlink, docs, text("a")},
		"rmdir":         {opRmdir, rootID, text("docs")},
		"rename within": {opRename, docs, append(put64(nil, docs), text("a", "b")...)},
		"rename out":    {opRename, docs, append(put64(nil, rootID), text("a", "b")...)},
		"rename into":   {opRename, rootID, append(put64(nil, docs), text("open", "b")...)},
		"rename it":     {opRename, rootID, append(put64(nil, rootID), text("docs", "b")...)},
		"exchange":      {opRename2, rootID, append(put32(put64(nil, docs), unix.RENAME_EXCHANGE, 0), text("open", "a")...)},
		"xattr":         {opSetxattr, file, append(put32(nil, 1, 0), append(text("user.x"), 'y')...)},
		"without name":  {opTmpfile, docs, createBody(unix.O_RDWR, 0o644, "")},
	} {
		if no, _ := k.ask(x.op, x.node, x.body); no != unix.EROFS {
			t.Errorf("%s in a read-only directory: %v, want read-only file system", what, no)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "docs/a")); err != nil || string(data) != "read" {
		t.Errorf("the read-only file on the host: %q, %v", data, err)
	}
	if no, _ := k.ask(opRename, rootID, append(put64(nil, rootID), text("open", "opened")...)); no != 0 {
		t.Errorf("a file without a rule is not renamed: %v", no)
	}
}

// TestRulesRename: a directory is not renamed if that gives a path below it another verdict,
// in either direction, also by an exchange and while others rename.
//
// 001-07
func TestRulesRename(t *testing.T) {
	dir := secrets(t)
	k, _ := ruled(t, dir, nil, append(secretRules, vm.PathRule{Action: vm.PathDeny, Path: "/src/plain/deep/x"}, vm.PathRule{Action: vm.PathHide, Path: "/src/nothing/secret"})...)
	plain := k.find(rootID, "plain")
	rename := func(from uint64, old string, to uint64, name string) unix.Errno {
		no, _ := k.ask(opRename, from, append(put64(nil, to), text(old, name)...))
		return no
	}
	if no := rename(rootID, "plain", rootID, "other"); no != unix.EXDEV {
		t.Errorf("renaming a directory above a denied file: %v, want another device", no)
	}
	if no := rename(plain, "deep", rootID, "deep"); no != unix.EXDEV {
		t.Errorf("moving a directory with a denied file: %v, want another device", no)
	}
	if no := rename(rootID, "sub", rootID, "nothing"); no != unix.EXDEV {
		t.Errorf("renaming a directory to one of which a name is hidden: %v, want another device", no)
	}
	if no, _ := k.ask(opRename2, rootID, append(put32(put64(nil, rootID), unix.RENAME_EXCHANGE, 0), text("sub", "plain")...)); no != unix.EXDEV {
		t.Errorf("exchanging directories: %v, want another device", no)
	}
	if no := rename(rootID, "hid", rootID, "moved"); no != 0 {
		t.Errorf("a directory in which the same rule holds is not renamed: %v", no)
	}
	if n := k.find(k.find(rootID, "moved"), ".env"); n != 0 {
		t.Error("a hidden file is seen after its directory was renamed")
	}
	deep := k.find(plain, "deep")
	if _, no := k.content(k.find(deep, "x")); no != unix.EACCES {
		t.Errorf("the denied file after the attempts: %v", no)
	}
}

// TestRulesChange: new rules hold at once, also for what is open and what the guest's kernel
// has in memory.
//
// 001-07
func TestRulesChange(t *testing.T) {
	dir := secrets(t)
	k, r := ruled(t, dir, nil)
	n := k.find(rootID, ".env")
	no, b := k.ask(opOpen, n, put32(nil, unix.O_RDWR, 0))
	if no != 0 {
		t.Fatalf("without rules it is not opened: %v", no)
	}
	h := le.Uint64(b)
	r.Set(compiled(t, vm.PathRule{Action: vm.PathReadOnly, Path: "/src/**/.env"}))
	if no, _ := k.ask(opWrite, n, writeBody(h, "x")); no != unix.EACCES {
		t.Errorf("writing an open file that became read-only: %v", no)
	}
	if got, no := k.content(n); no != 0 || got != "HIDDEN" {
		t.Errorf("reading it: %q, %v", got, no)
	}
	r.Set(compiled(t, secretRules...))
	k.await("the name is gone", func(n note) bool { return n.kind == invalEntry && string(n.body[16:20]) == ".env" })
	if no, _ := k.ask(opRead, n, readBody(h, 10)); no != unix.EACCES {
		t.Errorf("reading an open file that became hidden: %v", no)
	}
	if no, _ := k.ask(opGetattr, n, make([]byte, 16)); no != unix.ENOENT {
		t.Errorf("its attributes: %v", no)
	}
	r.Set(nil)
	if got, no := k.content(n); no != 0 || got != "HIDDEN" {
		t.Errorf("without rules again: %q, %v", got, no)
	}
	put(t, filepath.Join(dir, "ask/new"), "x")
}

// TestRulesAsk: an operation waits for a decision while others continue; a decision is remembered
// until the rules change, and no answer is a no.
//
// 001-07
func TestRulesAsk(t *testing.T) {
	dir := secrets(t)
	put(t, filepath.Join(dir, "ask/other"), "other")
	var asked atomic.Int32
	answer, called := make(chan error), make(chan string, 8)
	k, r := ruled(t, dir, func(ctx context.Context, path string, write bool) (time.Duration, error) {
		asked.Add(1)
		if write {
			path += " write"
		}
		called <- path
		select {
		case err := <-answer:
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}, secretRules...)
	sub := k.find(rootID, "ask")
	file, other := k.find(sub, "me"), k.find(sub, "other")
	type result struct {
		text string
		no   unix.Errno
	}
	read := func(n uint64) chan result {
		c := make(chan result, 1)
		go func() { s, no := k.content(n); c <- result{s, no} }()
		return c
	}
	first := read(file)
	if got := <-called; got != "/src/ask/me" {
		t.Errorf("asked about %q", got)
	}
	if got, no := k.content(k.find(rootID, "open")); no != 0 || got != "open" {
		t.Errorf("another file meanwhile: %q, %v", got, no)
	}
	answer <- nil
	if got := <-first; got.no != 0 || got.text != "asked" {
		t.Errorf("after the approval: %+v", got)
	}
	if got, no := k.content(file); no != 0 || got != "asked" || asked.Load() != 1 {
		t.Errorf("a second read: %q, %v, asked %d times, want once", got, no, asked.Load())
	}
	second := read(other)
	<-called
	answer <- vm.Errorf(vm.Denied, "", "no")
	if got := <-second; got.no != unix.EACCES {
		t.Errorf("after the denial: %+v", got)
	}
	if _, no := k.content(other); no != unix.EACCES || asked.Load() != 2 {
		t.Errorf("a second try: %v, asked %d times, want twice", no, asked.Load())
	}
	wrote := make(chan unix.Errno, 1)
	go func() { no, _ := k.ask(opOpen, file, put32(nil, unix.O_WRONLY, 0)); wrote <- no }()
	if got := <-called; got != "/src/ask/me write" {
		t.Errorf("for a write it asks about %q", got)
	}
	answer <- errors.New("nobody there")
	if no := <-wrote; no != unix.EACCES {
		t.Errorf("without a decision: %v", no)
	}
	r.Set(compiled(t, secretRules...))
	third := read(file)
	<-called
	answer <- nil
	if got := <-third; got.no != 0 {
		t.Errorf("after a change of the rules: %+v", got)
	}
}

// TestRulesAskMany: operations beyond the bound fail at once instead of waiting.
func TestRulesAskMany(t *testing.T) {
	dir := secrets(t)
	waits := make(chan struct{})
	k, _ := ruled(t, dir, func(context.Context, string, bool) (time.Duration, error) {
		<-waits
		return 0, vm.Errorf(vm.Denied, "", "no")
	}, secretRules...)
	file := k.find(k.find(rootID, "ask"), "me")
	ended := make(chan unix.Errno, maxAsking+4)
	for range maxAsking + 4 {
		go func() { _, no := k.content(file); ended <- no }()
	}
	for range 4 {
		if no := <-ended; no != unix.EACCES {
			t.Errorf("beyond the bound: %v", no)
		}
	}
	close(waits)
	for range maxAsking {
		if no := <-ended; no != unix.EACCES {
			t.Errorf("after the denial: %v", no)
		}
	}
}

// TestRulesNews: the guest hears nothing of hidden names.
func TestRulesNews(t *testing.T) {
	dir := secrets(t)
	k, _ := ruled(t, dir, nil, secretRules...)
	if _, no := k.entries(opReaddirplus, rootID); no != 0 {
		t.Fatalf("list of the root failed with errno %d", no)
	}
	if err := os.Remove(filepath.Join(dir, ".env")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, ".env"), "HIDDEN again")
	put(t, filepath.Join(dir, "news"), "x")
	k.await("a new file", nudgeAbout(nudgeCreate, "news"))
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.heard {
		if slices.Contains([]string{".env"}, string(n.body[max(0, len(n.body)-4):])) {
			t.Errorf("the guest hears of a hidden name: %v", n)
		}
	}
}

// TestHoldsRules: an ordinary file system holds rules.
func TestHoldsRules(t *testing.T) {
	dir, err := Open(secrets(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := HoldsRules(dir); err != nil {
		t.Error(err)
	}
}

// TestRulesAskNested: a decision about a directory is none about what another rule asks for below
// it.
//
// 001-07
func TestRulesAskNested(t *testing.T) {
	dir := secrets(t)
	put(t, filepath.Join(dir, "ask/deep/key"), "key")
	put(t, filepath.Join(dir, "ask/deep/plain"), "plain")
	called := make(chan string, 8)
	k, _ := ruled(t, dir, func(_ context.Context, path string, _ bool) (time.Duration, error) {
		called <- path
		if path == "/src/ask" {
			return 0, nil
		}
		return 0, vm.Errorf(vm.Denied, path, "no")
	}, vm.PathRule{Action: vm.PathAsk, Path: "/src/ask/deep/key"}, vm.PathRule{Action: vm.PathAsk, Path: "/src/ask"})
	sub := k.find(rootID, "ask")
	if _, no := k.entries(opReaddir, sub); no != 0 || <-called != "/src/ask" {
		t.Fatalf("listing the directory: %v, want it after an approval", no)
	}
	deep := k.find(sub, "deep")
	if got, no := k.content(k.find(deep, "plain")); no != 0 || got != "plain" || len(called) != 0 {
		t.Errorf("a file below it: %q, %v, want it without another question", got, no)
	}
	if got, no := k.content(k.find(deep, "key")); no != unix.EACCES || len(called) != 1 {
		t.Errorf("a file with a rule of its own: %q, %v after %d questions, want one and a denial", got, no, len(called))
	}
}
