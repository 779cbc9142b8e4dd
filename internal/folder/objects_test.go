// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/s3d"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// shelf is the bucket data below in/, mounted in a VM that may read it, with the room and
// the door behind it.
type shelf struct {
	*kernel
	room *objects.Objects
	call *vm.Call
	box  vm.VM
	door *httptest.Server
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{room: h.Rooms.Objects}
	if s.call, _, err = vmtest.Admin(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if s.box, err = h.Create(t.Context(), s.call, engine.CreateRequest{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	door, err := s3d.New(t.Context(), s.room, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	if err := door.Listen(socket); err != nil {
		t.Fatal(err)
	}
	inside := door.Inside(socket)
	s.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inside.ServeVM(w, r, s.box.ID) }))
	t.Cleanup(func() {
		s.door.Close()
		if err := errors.Join(door.Close(), h.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.room.CreateBucket(t.Context(), s.call, "data"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.room.Grant(t.Context(), s.call, "data", vm.ObjectGrant{VM: s.box.ID, Prefix: "in/", Access: vm.ObjectRead}); err != nil {
		t.Fatal(err)
	}
	s.kernel = s.mount(t, "in/")
	return s
}

// mount serves the keys with a prefix to a kernel of the test's.
func (s *shelf) mount(t *testing.T, prefix string) *kernel {
	t.Helper()
	address := strings.TrimPrefix(s.door.URL, "http://")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}}}
	o, err := NewObjects(NewBucket(client, "data", prefix), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	k := &kernel{t: t, conn: here, waiting: map[uint64]chan []byte{}}
	done := make(chan error, 1)
	go func() { done <- o.Serve(t.Context(), there) }()
	go k.read()
	t.Cleanup(func() {
		here.Close()
		if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
		o.Close()
	})
	if no, _ := k.ask(opInit, 0, put32(nil, protoMajor, protoMinor, 1<<20, ^uint32(0))); no != 0 {
		t.Fatalf("init: %v", no)
	}
	return k
}

// put writes an object and returns its version.
func (s *shelf) put(key string, body []byte) string {
	s.t.Helper()
	o, err := s.room.Put(s.t.Context(), s.call, objects.PutRequest{Bucket: "data", Key: key, Size: int64(len(body))}, bytes.NewReader(body))
	if err != nil {
		s.t.Fatalf("put %.60q: %v", key, err)
	}
	return o.Version
}

func (s *shelf) remove(key, version string) {
	s.t.Helper()
	if _, err := s.room.Remove(s.t.Context(), s.call, objects.RemoveRequest{Bucket: "data", Key: key, Version: version}); err != nil {
		s.t.Fatalf("remove %q: %v", key, err)
	}
}

// open opens a node and returns its handle.
func (k *kernel) open(op uint32, node uint64) (uint64, unix.Errno) {
	no, b := k.ask(op, node, put32(nil, unix.O_RDONLY, 0))
	if no != 0 {
		return 0, no
	}
	return le.Uint64(b), 0
}

// whole reads a handle to its end.
func (k *kernel) whole(handle uint64) ([]byte, unix.Errno) {
	var all []byte
	for {
		b := put32(put64(nil, handle, uint64(len(all))), 128<<10, 0)
		no, data := k.ask(opRead, 0, put32(put64(b, 0), 0, 0))
		if no != 0 || len(data) == 0 {
			return all, no
		}
		all = append(all, data...)
	}
}

// names lists a directory.
func (k *kernel) names(node uint64, op uint32) []string {
	k.t.Helper()
	handle, no := k.open(opOpendir, node)
	if no != 0 {
		k.t.Fatalf("opendir: %v", no)
	}
	var all []string
	for off := uint64(0); ; {
		no, b := k.ask(op, node, put32(put64(put32(put64(nil, handle, off), 4096, 0), 0), 0, 0))
		if no != 0 || len(b) == 0 {
			if no != 0 {
				k.t.Errorf("readdir: %v", no)
			}
			return all
		}
		for len(b) > 0 {
			if op == opReaddirplus {
				b = b[entrySize:]
			}
			n := int(le.Uint32(b[16:]))
			off = le.Uint64(b[8:])
			all = append(all, string(b[guestDirent:guestDirent+n]))
			b = b[(guestDirent+n+7)&^7:]
		}
	}
}

// TestObjectsFiles: the objects below a prefix are files with their exact bytes, in
// directories; those beside the prefix are not there.
func TestObjectsFiles(t *testing.T) {
	s := newShelf(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // three blocks
	big = append(big, "and more"...)
	s.put("in/big", big)
	s.put("in/empty", nil)
	s.put("in/deep/er/ü x+%25", []byte("deep"))
	s.put("in", []byte("beside"))
	s.put("inside", []byte("beside"))
	s.put("out/secret", []byte("secret"))
	for _, op := range []uint32{opReaddir, opReaddirplus} {
		if got := s.names(rootID, op); !slices.Equal(got, []string{".", "..", "deep", "big", "empty"}) && !slices.Equal(got, []string{".", "..", "big", "deep", "empty"}) {
			t.Errorf("the root has %q", got)
		}
	}
	deep := s.find(s.find(rootID, "deep"), "er")
	for node, want := range map[uint64][]byte{s.find(rootID, "big"): big, s.find(rootID, "empty"): {}, s.find(deep, "ü x+%25"): []byte("deep")} {
		handle, no := s.open(opOpen, node)
		if no != 0 {
			t.Errorf("open: %v", no)
			continue
		}
		if got, no := s.whole(handle); no != 0 || !bytes.Equal(got, want) {
			t.Errorf("a file has %d bytes, %v, want the object's %d", len(got), no, len(want))
		}
		if no, b := s.ask(opGetattr, node, make([]byte, 16)); no != 0 || le.Uint64(b[24:]) != uint64(len(want)) || le.Uint32(b[76:]) != unix.S_IFREG|0o444 {
			t.Errorf("the attributes of a file of %d bytes: %v, %d bytes, mode %o", len(want), no, le.Uint64(b[24:]), le.Uint32(b[76:]))
		}
	}
	for _, name := range []string{"secret", "out", "side", "nothing", "BIG"} {
		if n := s.find(rootID, name); n != 0 {
			t.Errorf("%s is there", name)
		}
	}
}

// TestObjectsReadOnly: no request changes anything.
func TestObjectsReadOnly(t *testing.T) {
	s := newShelf(t)
	s.put("in/a", []byte("a"))
	a := s.find(rootID, "a")
	for op := range changes {
		if no, _ := s.ask(op, rootID, make([]byte, 200)); no != unix.EROFS {
			t.Errorf("operation %d: %v, want a read-only file system", op, no)
		}
	}
	for _, flags := range []uint32{unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC} {
		if no, _ := s.ask(opOpen, a, put32(nil, flags, 0)); no != unix.EROFS {
			t.Errorf("open with the flags %o: %v, want a read-only file system", flags, no)
		}
	}
}

// TestObjectsOverwrite: a file that is open stays the version that it was, to its last
// byte; its name leads to the new version.
//
// 001-38
func TestObjectsOverwrite(t *testing.T) {
	s := newShelf(t)
	old, young := bytes.Repeat([]byte("a"), 3<<20), bytes.Repeat([]byte("b"), 3<<20)
	first := s.put("in/x", old)
	node := s.find(rootID, "x")
	handle, no := s.open(opOpen, node)
	if no != 0 {
		t.Fatalf("open: %v", no)
	}
	s.put("in/x", young)
	if got, no := s.whole(handle); no != 0 || !bytes.Equal(got, old) {
		t.Errorf("the open file has %d bytes, %v, want the version that was opened", len(got), no)
	}
	now := s.find(rootID, "x")
	if now == node || now == 0 {
		t.Errorf("the name leads to the file %d, as before", now)
	}
	handle, no = s.open(opOpen, now)
	if no != 0 {
		t.Fatalf("open: %v", no)
	}
	if got, no := s.whole(handle); no != 0 || !bytes.Equal(got, young) {
		t.Errorf("opened again it has %d bytes, %v, want the new version", len(got), no)
	}
	s.put("in/y", old)
	node = s.find(rootID, "y")
	s.put("in/y", young)
	if _, no := s.open(opOpen, node); no != unix.ESTALE {
		t.Errorf("open of a file whose name has a new version: %v, want stale, which makes the kernel look again", no)
	}
	for _, name := range s.names(rootID, opReaddirplus) {
		if name == "y" {
			s.put("in/y", old)
		}
	}
	if _, no := s.open(opOpen, s.find(rootID, "y")); no != unix.ESTALE {
		t.Errorf("open of a file that was listed before it changed: %v, want stale", no)
	}
	if _, no := s.open(opOpen, s.find(rootID, "y")); no != 0 {
		t.Errorf("open after the kernel has looked again: %v", no)
	}
	s.put("in/z", old)
	z := s.find(rootID, "z")
	handle, _ = s.open(opOpen, z)
	s.remove("in/z", s.put("in/z", old)) // another version of the same bytes comes and goes
	if got, no := s.whole(handle); no != 0 || !bytes.Equal(got, old) {
		t.Errorf("after another version came and went: %d bytes, %v", len(got), no)
	}
	s.remove("in/x", first)
}

// TestObjectsTwoWriters: while two write one key, every reading of it is whole.
//
// 001-38
func TestObjectsTwoWriters(t *testing.T) {
	s := newShelf(t)
	s.put("in/x", bytes.Repeat([]byte("a"), 300_000))
	var writers sync.WaitGroup
	for _, who := range []string{"b", "c"} {
		writers.Go(func() {
			for n := range 30 {
				s.put("in/x", bytes.Repeat([]byte(who), 300_000+n))
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for read := 0; ; {
		select {
		case <-done:
			if read == 0 {
				t.Error("nothing was read while the two wrote")
			}
			return
		default:
		}
		handle, no := s.open(opOpen, s.find(rootID, "x"))
		if no == unix.ESTALE {
			continue
		}
		got, bad := s.whole(handle)
		if no != 0 || bad != 0 || len(got) < 300_000 || !bytes.Equal(got, bytes.Repeat(got[:1], len(got))) {
			t.Errorf("a reading has %d bytes, %v %v, not those of one version", len(got), no, bad)
		}
		if no, _ := s.ask(opRelease, 0, put64(nil, handle, 0, 0)); no != 0 {
			t.Errorf("release: %v", no)
		}
		read++
	}
}

// TestObjectsRemoved: a tree that is removed is gone by name, what is open can be read, and
// a version that no longer exists gives an error, never other bytes.
//
// 001-38
func TestObjectsRemoved(t *testing.T) {
	s := newShelf(t)
	body := bytes.Repeat([]byte("x"), 2<<20)
	version := s.put("in/tree/a", body)
	s.put("in/tree/b/c", body)
	tree := s.find(rootID, "tree")
	a := s.find(tree, "a")
	handle, no := s.open(opOpen, a)
	if no != 0 {
		t.Fatalf("open: %v", no)
	}
	s.remove("in/tree/a", "")
	s.remove("in/tree/b/c", "")
	for _, name := range []string{"a", "b"} {
		if n := s.find(tree, name); n != 0 {
			t.Errorf("%s is there after it was removed", name)
		}
	}
	if s.find(rootID, "tree") != 0 {
		t.Error("the directory is there after everything in it was removed")
	}
	if got, no := s.whole(handle); no != 0 || !bytes.Equal(got, body) {
		t.Errorf("the open file has %d bytes, %v, after its name was removed", len(got), no)
	}
	two, no := s.open(opOpen, a)
	if no != 0 {
		t.Errorf("open by the file, not by its name: %v", no)
	}
	s.put("in/later", body)
	s.remove("in/tree/a", version)
	if _, no := s.open(opOpen, a); no != unix.ESTALE {
		t.Errorf("open of a version that is gone: %v, want stale", no)
	}
	if got, no := s.whole(two); no == 0 && !bytes.Equal(got, body) {
		t.Errorf("a file whose version is gone has %d other bytes", len(got))
	}
}

// TestObjectsRename: nothing is renamed here; a copy and a removal in the bucket show as a
// new name and a missing one.
//
// 001-38
func TestObjectsRename(t *testing.T) {
	s := newShelf(t)
	s.put("in/dir/a", []byte("a"))
	if no, _ := s.ask(opRename, rootID, append(put64(nil, rootID), text("dir", "other")...)); no != unix.EROFS {
		t.Errorf("rename: %v, want a read-only file system", no)
	}
	s.put("in/other/a", []byte("a"))
	s.remove("in/dir/a", "")
	if s.find(rootID, "dir") != 0 || s.find(s.find(rootID, "other"), "a") == 0 {
		t.Error("after a copy and a removal the old name is there, or the new one is not")
	}
}

// TestObjectsNames: a name that is a key and a directory is the directory, and keys that
// cannot be names of files are not shown.
//
// 001-32
func TestObjectsNames(t *testing.T) {
	s := newShelf(t)
	long := strings.Repeat("n", 256)
	for _, key := range []string{"in/both", "in/both/below", "in/both-not", "in/marker/", "in/a//b", "in//c", "in/" + long, "in/" + long + "/d", "in/" + long[1:]} {
		s.put(key, []byte(key))
	}
	for _, key := range []string{"in/../up", "in/./here", "in/a/.."} {
		if _, err := s.room.Put(t.Context(), s.call, objects.PutRequest{Bucket: "data", Key: key, Size: 1}, strings.NewReader("x")); vm.KindOf(err) != vm.Invalid {
			t.Errorf("the key %s: %v, want that there is no such key", key, err)
		}
	}
	got := s.names(rootID, opReaddir)
	slices.Sort(got)
	if want := []string{".", "..", "a", "both", "both-not", "marker", long[1:]}; !slices.Equal(got, want) {
		t.Errorf("the root has %.20q, want %.20q", got, want)
	}
	for _, name := range []string{"both", "marker"} {
		handle, no := s.open(opOpendir, s.find(rootID, name))
		if no != 0 || handle == 0 {
			t.Errorf("%s is no directory: %v", name, no)
		}
	}
	if got := s.names(s.find(rootID, "a"), opReaddir); len(got) != 2 {
		t.Errorf("a directory whose only key has an empty name has %q", got)
	}
	if no, _ := s.ask(opLookup, rootID, text(long)); no != unix.ENAMETOOLONG {
		t.Errorf("a name of 256 bytes: %v, want too long", no)
	}
	for _, name := range []string{"..", ".", "a/b", ""} {
		if no, _ := s.ask(opLookup, rootID, text(name)); no != unix.EINVAL {
			t.Errorf("lookup of %q: %v, want invalid", name, no)
		}
	}
}

// TestObjectsRights: a mount shows what the VM may read, and no more once that right ended.
//
// 001-17
func TestObjectsRights(t *testing.T) {
	s := newShelf(t)
	s.put("in/a", []byte("a"))
	s.put("out/a", []byte("a"))
	other := s.mount(t, "out/")
	if _, no := other.open(opOpendir, rootID); no != unix.EACCES {
		t.Errorf("a list that the VM may not have: %v, want no access", no)
	}
	if no, _ := other.ask(opLookup, rootID, text("a")); no != unix.EACCES {
		t.Errorf("a name that the VM may not know: %v, want no access", no)
	}
	a := s.find(rootID, "a")
	if _, no := s.content(a); no != 0 {
		t.Errorf("before the right ended: %v", no)
	}
	if err := s.room.Revoke(t.Context(), s.call, "data", vm.ObjectGrant{VM: s.box.ID, Prefix: "in/"}); err != nil {
		t.Fatal(err)
	}
	if _, no := s.content(a); no != unix.EACCES {
		t.Errorf("after the right ended: %v, want no access", no)
	}
}

// TestObjectsHostile: numbers that the guest's kernel was never given lead nowhere.
func TestObjectsHostile(t *testing.T) {
	s := newShelf(t)
	s.put("in/a", []byte("a"))
	a := s.find(rootID, "a")
	handle, _ := s.open(opOpen, a)
	for what, got := range map[string]func() unix.Errno{
		"an unknown node":       func() unix.Errno { no, _ := s.ask(opGetattr, 999, nil); return no },
		"a lookup below a file": func() unix.Errno { no, _ := s.ask(opLookup, a, text("x")); return no },
		"an unknown handle":     func() unix.Errno { no, _ := s.ask(opRead, a, readBody(999, 10)); return no },
		"a huge read":           func() unix.Errno { no, _ := s.ask(opRead, a, readBody(handle, 1<<31)); return no },
		"a read far behind": func() unix.Errno {
			no, _ := s.ask(opRead, a, put32(put64(put32(put64(nil, handle, 1<<63), 10, 0), 0), 0, 0))
			return no
		},
		"a short read":     func() unix.Errno { no, _ := s.ask(opRead, a, []byte{1}); return no },
		"a list of a file": func() unix.Errno { _, no := s.open(opOpendir, a); return no },
		"a read of a directory": func() unix.Errno {
			h, _ := s.open(opOpendir, rootID)
			no, _ := s.ask(opRead, 1, readBody(h, 10))
			return no
		},
		"an operation that is new": func() unix.Errno { no, _ := s.ask(4711, rootID, nil); return no },
	} {
		if no := got(); no == 0 {
			t.Errorf("%s succeeds", what)
		}
	}
	s.kernel.forget(rootID)
	s.kernel.forget(4711)
	if s.find(rootID, "a") == 0 {
		t.Error("after all that the file is not found")
	}
	for range maxHandles {
		s.open(opOpendir, rootID)
	}
	if _, no := s.open(opOpendir, rootID); no != unix.ENFILE {
		t.Errorf("open of too many files: %v, want too many", no)
	}
}

// TestBlocks: the cache has room for a fixed number of blocks, and always the right bytes.
func TestBlocks(t *testing.T) {
	c, err := newBlocks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	fetched := 0
	read := func(n int64) {
		t.Helper()
		want, p := fmt.Sprintf("block %8d", n), make([]byte, 8)
		err := c.read(blockKey{"k", "v", n}, len(want), 6, p, func(data []byte) error {
			fetched++
			copy(data, want)
			return nil
		})
		if err != nil || string(p) != want[6:] {
			t.Errorf("block %d has %q, %v, want %q", n, p, err, want[6:])
		}
	}
	for round := range 2 {
		for n := range int64(3 * maxBlocks) {
			read(n)
			read(n)
		}
		if want := 3 * maxBlocks * (round + 1); fetched != want {
			t.Errorf("after %d rounds %d blocks were fetched, want %d", round+1, fetched, want)
		}
	}
	if st, err := c.file.Stat(); err != nil || st.Size() > maxBlocks*blockBytes {
		t.Errorf("the cache has %d bytes, %v, want at most %d", st.Size(), err, maxBlocks*blockBytes)
	}
	bad := errors.New("bad")
	for range 2 * maxBlocks { // a block that could not be fetched takes no room
		if err := c.read(blockKey{"k", "bad", 0}, 8, 0, make([]byte, 8), func([]byte) error { return bad }); !errors.Is(err, bad) {
			t.Fatalf("a block that could not be fetched: %v", err)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range int64(2 * maxBlocks) {
				p := make([]byte, 4)
				err := c.read(blockKey{"many", "v", n % (maxBlocks + 50)}, 4, 0, p, func(data []byte) error {
					le.PutUint32(data, uint32(n%(maxBlocks+50)))
					return nil
				})
				if err != nil || le.Uint32(p) != uint32(n%(maxBlocks+50)) {
					t.Errorf("read by many: block %d has %d, %v", n%(maxBlocks+50), le.Uint32(p), err)
				}
			}
		})
	}
	all.Wait()
}
