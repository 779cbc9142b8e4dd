// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

// world is a folder beside something that is none of the guest's business.
func world(t *testing.T) (dir, secret string) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, secret = filepath.Join(root, "given"), filepath.Join(root, "outside")
	put(t, filepath.Join(dir, "sub/file"), "inside")
	put(t, filepath.Join(secret, "file"), "SECRET")
	return dir, secret
}

// TestNames: no name leads out of the folder, in no operation that has one.
func TestNames(t *testing.T) {
	dir, secret := world(t)
	k := serve(t, dir, true)
	sub := k.find(rootID, "sub")
	for _, name := range []string{"", ".", "..", "../outside", "sub/file", "/etc/passwd", "a/../..", strings.Repeat("x", 256)} {
		for op, body := range map[uint32][]byte{
			opLookup: text(name), opUnlink: text(name), opRmdir: text(name), opSymlink: text(name, "target"),
			opMknod: append(put32(nil, unix.S_IFREG|0o644, 0, 0, 0), text(name)...), opMkdir: append(put32(nil, 0o755, 0), text(name)...),
			opCreate: createBody(unix.O_RDWR, 0o644, name), opLink: append(put64(nil, k.find(sub, "file")), text(name)...),
			opRename: append(put64(nil, rootID), text(name, "new")...), opRename2: append(put32(put64(nil, rootID), 0, 0), text("sub", name)...),
		} {
			if no, _ := k.ask(op, rootID, body); no != unix.EINVAL && no != unix.ENAMETOOLONG {
				t.Errorf("operation %d with the name %q: %v", op, name, no)
			}
		}
	}
	if no, _ := k.ask(opLookup, rootID, []byte("no end")); no != unix.EINVAL {
		t.Errorf("a name without an end: %v", no)
	}
	if data, err := os.ReadFile(filepath.Join(secret, "file")); err != nil || string(data) != "SECRET" {
		t.Errorf("outside: %q, %v", data, err)
	}
}

// TestLinks: symbolic links are the guest's to follow, and lead nowhere here.
func TestLinks(t *testing.T) {
	dir, secret := world(t)
	for name, to := range map[string]string{"abs": secret, "rel": "../outside", "file": filepath.Join(secret, "file"), "magic": "/proc/self/root", "fd": "/proc/self/fd/0"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	k := serve(t, dir, true)
	for _, name := range []string{"abs", "rel", "file", "magic", "fd"} {
		n := k.find(rootID, name)
		if n == 0 {
			t.Errorf("%s is not seen", name)
			continue
		}
		if k.find(n, "file") != 0 || k.find(n, "etc") != 0 {
			t.Errorf("%s is followed", name)
		}
		if _, no := k.content(n); no == 0 {
			t.Errorf("%s is opened", name)
		}
		if no, _ := k.ask(opOpendir, n, put32(nil, 0, 0)); no == 0 {
			t.Errorf("%s is listed", name)
		}
		if no, _ := k.ask(opSetattr, n, setattrBody(setSize, 0, 0)); no == 0 {
			t.Errorf("%s is truncated", name)
		}
		if no, _ := k.ask(opCreate, rootID, createBody(unix.O_RDWR|unix.O_TRUNC, 0o644, name)); no == 0 {
			t.Errorf("%s is created through", name)
		}
	}
	if data, err := os.ReadFile(filepath.Join(secret, "file")); err != nil || string(data) != "SECRET" {
		t.Errorf("outside: %q, %v", data, err)
	}
}

// TestSwap: a directory that somebody replaces by a link again and again leads
// nowhere else at any time.
func TestSwap(t *testing.T) {
	dir, secret := world(t)
	k := serve(t, dir, true)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	d, link, spare := filepath.Join(dir, "sub"), filepath.Join(dir, "link"), filepath.Join(dir, "spare")
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = os.Rename(d, spare)
			_ = os.Symlink(secret, link)
			_ = os.Rename(link, d)
			_ = os.Remove(d)
			_ = os.Rename(spare, d)
			<-time.After(20 * time.Microsecond) // else nobody ever sees it
		}
	})
	seen := 0
	for i, until := 0, time.Now().Add(30*time.Second); i < 1500 || seen == 0 && time.Now().Before(until); i++ {
		n := k.find(rootID, "sub")
		if n == 0 {
			continue
		}
		if f := k.find(n, "file"); f != 0 {
			seen++
			if got, no := k.content(f); no == 0 && got != "inside" {
				t.Fatalf("read %q", got)
			}
		}
		_, _ = k.ask(opCreate, n, createBody(unix.O_RDWR, 0o644, "mine"))
		_, _ = k.ask(opUnlink, n, text("mine"))
		k.forget(n)
	}
	stop()
	wg.Wait()
	if names, err := os.ReadDir(secret); err != nil || len(names) != 1 || seen == 0 {
		t.Errorf("outside has %v (%v); the file was seen %d times", names, err, seen)
	}
}

// TestMadeFiles: a guest makes no devices and nothing that changes its user,
// takes nobody's files and gives none away.
func TestMadeFiles(t *testing.T) {
	dir, _ := world(t)
	put(t, filepath.Join(dir, "suid"), "#!")
	if err := os.Chmod(filepath.Join(dir, "suid"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	k := serve(t, dir, true)
	for _, mode := range []uint32{unix.S_IFCHR, unix.S_IFBLK, unix.S_IFDIR, 0o7000000} {
		if no, _ := k.ask(opMknod, rootID, append(put32(nil, mode|0o666, 0x0801, 0, 0), text("node")...)); no != unix.EPERM {
			t.Errorf("mknod %o: %v", mode, no)
		}
	}
	no, b := k.ask(opCreate, rootID, createBody(unix.O_RDWR|unix.O_EXCL, 0o6755, "new"))
	if no != 0 {
		t.Fatalf("create: %v", no)
	}
	n := le.Uint64(b)
	for _, mode := range []uint32{0o4755, 0o2755, 0o6711} {
		if no, _ := k.ask(opSetattr, n, setattrBody(setMode, mode, 0)); no != unix.EPERM {
			t.Errorf("chmod %o: %v", mode, no)
		}
	}
	if no, _ := k.ask(opSetattr, n, setattrBody(setUID|setGID, 0, 0)); no != unix.EPERM {
		t.Errorf("chown: %v", no)
	}
	if st, err := os.Stat(filepath.Join(dir, "new")); err != nil || st.Mode() != 0o755 {
		t.Errorf("the new file: %v, %v", st, err)
	}
	suid := k.find(rootID, "suid")
	if no, _ := k.ask(opOpen, suid, put32(nil, unix.O_RDWR, 0)); no != unix.EPERM {
		t.Errorf("a program that changes its user is written to: %v", no)
	}
	for _, flags := range []uint32{unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDONLY | unix.O_TRUNC} {
		if no, _ := k.ask(opCreate, rootID, createBody(flags, 0o755, "suid")); no != unix.EPERM {
			t.Errorf("a program that changes its user is created over: %v", no)
		}
	}
	holds(t, filepath.Join(dir, "suid"), "#!")
	for _, name := range []string{"security.capability", "trusted.x", "system.posix_acl_access"} {
		body := append(append(put32(nil, 1, 0), text(name)...), 'x')
		if no, _ := k.ask(opSetxattr, n, body); no != unix.EOPNOTSUPP {
			t.Errorf("setting %s: %v, want EOPNOTSUPP", name, no)
		}
	}
}

// TestReadOnly: of a folder that is read-only nothing changes, whatever the
// guest's kernel asks for.
func TestReadOnly(t *testing.T) {
	dir, _ := world(t)
	k := serve(t, dir, false)
	sub := k.find(rootID, "sub")
	file := k.find(sub, "file")
	if got, no := k.content(file); got != "inside" || no != 0 {
		t.Fatalf("read %q, %v", got, no)
	}
	for op := range uint32(60) {
		if reads[op] != nil || op == opForget || op == opBatchForget || op == opInterrupt || op == opDestroy {
			continue
		}
		for _, gid := range []uint32{0, nudgeGID} {
			for _, body := range [][]byte{text("file", "x"), append(put32(nil, 0o100644, 0, 0, 0), text("x")...), writeBody(1, "xx"), setattrBody(setSize|setMode, 0o777, 0), make([]byte, 100)} {
				no, _ := k.askAs(gid, op, sub, body)
				if gid == 0 && no != unix.EROFS && no != unix.ENOSYS {
					t.Errorf("operation %d: %v", op, no)
				}
				_, _ = k.askAs(gid, op, file, body)
			}
		}
	}
	for _, flags := range []uint32{unix.O_RDWR, unix.O_WRONLY, unix.O_TRUNC, unix.O_WRONLY | unix.O_APPEND} {
		if no, _ := k.ask(opOpen, file, put32(nil, flags, 0)); no != unix.EROFS {
			t.Errorf("open with %o: %v", flags, no)
		}
	}
	if no, b := k.askAs(nudgeGID, opOpen, file, put32(nil, unix.O_RDWR, 0)); no != 0 || le.Uint64(b) != 0 {
		t.Errorf("a nudge opens the file for good: %v", no)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "sub/file")); err != nil || string(data) != "inside" {
		t.Errorf("after the nudges the file holds %q (%v), want inside", data, err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "sub")); err != nil || len(names) != 1 {
		t.Errorf("after the nudges the directory holds %v (%v), want one file", names, err)
	}
}

// TestNonsense: what makes no sense is refused, and the server keeps running.
func TestNonsense(t *testing.T) {
	dir, secret := world(t)
	k := serve(t, dir, true)
	for _, node := range []uint64{0, 77, 1 << 60} {
		if no, _ := k.ask(opGetattr, node, make([]byte, 16)); no != unix.ESTALE {
			t.Errorf("node %d: %v", node, no)
		}
	}
	if no, _ := k.ask(opRead, rootID, readBody(99, 4096)); no != unix.EBADF {
		t.Errorf("a handle that is none: %v", no)
	}
	if no, _ := k.ask(opRead, rootID, readBody(1, maxData+1)); no != unix.EINVAL {
		t.Errorf("a long read: %v", no)
	}
	for op, body := range map[uint32][]byte{opSetattr: make([]byte, 20), opWrite: writeBody(1, "x")[:30], opRename2: make([]byte, 3), opBatchForget: make([]byte, 5)} {
		if op == opBatchForget {
			continue // nothing answers it
		}
		if no, _ := k.ask(op, rootID, body); no == 0 {
			t.Errorf("operation %d was done from half a message", op)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		body := make([]byte, r.IntN(120))
		for i := range body {
			body[i] = byte(r.Uint32() >> r.IntN(25))
		}
		op := uint32(r.IntN(60))
		if op == opForget || op == opBatchForget || op == opInterrupt || op == opDestroy {
			continue
		}
		_, _ = k.askAs(uint32(r.IntN(2))*nudgeGID, op, uint64(r.IntN(6)), body)
	}
	if k.find(rootID, "sub") == 0 {
		t.Error("the server does not answer any more")
	}
	if data, err := os.ReadFile(filepath.Join(secret, "file")); err != nil || string(data) != "SECRET" {
		t.Errorf("outside: %q, %v", data, err)
	}
}

// TestOpen: what is no directory, or may not be what it was, is not served.
func TestOpen(t *testing.T) {
	dir, secret := world(t)
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]vm.Kind{
		"given": vm.Invalid, "": vm.Invalid, dir + "/": vm.Invalid, dir + "/../outside": vm.Invalid, link: vm.Invalid, link + "/sub": vm.Invalid,
		dir + "/none": vm.NotFound, dir + "/sub/file": vm.Invalid, "/proc/self/root": vm.Invalid,
	} {
		if f, err := Open(path); vm.KindOf(err) != kind || err == nil {
			t.Errorf("opening %q: %v, %v, want %s", path, f, err, kind)
		}
	}
	if _, err := Open(link); !strings.Contains(vm.AsError(err).Hint, "give "+dir) {
		t.Errorf("a link's refusal does not say what it is: %v", err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, err := Identity(f)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Reopen(dir, id); err != nil {
		t.Error(err)
	} else {
		again.Close()
	}
	for _, swap := range [][2]string{{dir, dir + ".old"}, {secret, dir}} { // another directory
		if err := os.Rename(swap[0], swap[1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Reopen(dir, id); vm.KindOf(err) != vm.WrongState {
		t.Errorf("another directory: %v", err)
	}
	if err := os.Rename(dir, secret); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(dir, id); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a link to the directory: %v", err)
	}
}
