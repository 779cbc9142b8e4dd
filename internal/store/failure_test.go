// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// loud collects what is logged as an error.
type loud struct {
	slog.Handler
	mu    *sync.Mutex
	lines *[]string
}

func (l loud) Enabled(context.Context, slog.Level) bool { return true }

func (l loud) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		*l.lines = append(*l.lines, r.Message)
	}
	return nil
}

// TestQuiet: a start, some work, a stop and a start again log neither warning
// nor error.
func TestQuiet(t *testing.T) {
	dir := shortDir(t)
	var mu sync.Mutex
	var lines []string
	for range 2 {
		s, err := Open(t.Context(), Options{
			Dir: filepath.Join(dir, "etcd"), SocketDir: filepath.Join(dir, "s"),
			Log: slog.New(loud{slog.DiscardHandler, &mu, &lines}),
		})
		if err != nil {
			t.Fatal(err)
		}
		w := vms(s).Follow(t.Context(), 0)
		if _, err := vms(s).put(t.Context(), record{ID: string(vm.NewID())}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		w.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	for _, l := range lines {
		t.Errorf("the store logged: %s", l)
	}
}

// TestPrivate: nobody else on the host gets at the records.
func TestPrivate(t *testing.T) {
	dir := shortDir(t)
	s := open(t, dir)
	defer s.Close()
	for _, d := range []string{"etcd", "s"} {
		if st, err := os.Stat(filepath.Join(dir, d)); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s is %v (%v), want a directory of mode 0700", d, st, err)
		}
	}
	deep := filepath.Join(dir, strings.Repeat("x", 100))
	if _, err := Open(t.Context(), Options{Dir: deep, SocketDir: deep, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, vm.Invalid) {
		t.Errorf("a long path: %v", err)
	}
}

// TestDamage: data that cannot be used is refused with a kind and what to do,
// and the process keeps running; a tail torn by a crash is repaired.
func TestDamage(t *testing.T) {
	origin := shortDir(t)
	s := open(t, origin)
	for i := range 1200 { // more than one snapshot of the log
		if _, err := vms(s).put(t.Context(), record{ID: fmt.Sprint(i), Name: strings.Repeat("x", 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, glob string
		damage     func(name string) error
		ok         bool
	}{
		{"log: a byte changed", "member/wal/*.wal", changeRecord, false},
		{"log: removed", "member/wal/*.wal", os.Remove, false},
		{"everything removed", "member", os.RemoveAll, false},
		{"log: empty", "member/wal/*.wal", func(n string) error { return os.Truncate(n, 0) }, false},
		{"log: a record's length changed", "member/wal/*.wal", atFrame(func(frames []int64, n int) (int64, []byte) {
			return frames[n/2] + 1, []byte("garbage garbage garbage")
		}), false},
		{"log: a record's length reaches over others", "member/wal/*.wal", atFrame(func(frames []int64, n int) (int64, []byte) {
			return frames[n/2], binary.LittleEndian.AppendUint64(nil, 2<<20)
		}), false},
		{"log: cut before what the database has", "member/wal/*.wal", atFrame(func(frames []int64, n int) (int64, []byte) {
			return frames[n-4], nil
		}), false},
		{"log: a write that a crash tore", "member/wal/*.wal", tearWrite, true},
		{"log: unwritten tail cut", "member/wal/*.wal", func(n string) error { return os.Truncate(n, 6<<20) }, true},
		{"database: first pages zero", "member/snap/db", overwrite(0, 8192), false},
		{"database: cut to a few pages", "member/snap/db", func(n string) error { return os.Truncate(n, 5*4096) }, false},
		{"database: cut to a page", "member/snap/db", func(n string) error { return os.Truncate(n, 4096) }, false},
		{"database: empty", "member/snap/db", func(n string) error { return os.Truncate(n, 0) }, false},
		{"database: removed", "member/snap/db", os.Remove, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := shortDir(t)
			if err := os.CopyFS(filepath.Join(dir, "etcd"), os.DirFS(filepath.Join(origin, "etcd"))); err != nil {
				t.Fatal(err)
			}
			lock, err := os.ReadFile(filepath.Join(origin, "etcd.lock"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "etcd.lock"), lock, 0o600); err != nil {
				t.Fatal(err)
			}
			names, err := filepath.Glob(filepath.Join(dir, "etcd", c.glob))
			if err != nil || len(names) == 0 {
				t.Fatal("no file", err)
			}
			if err := c.damage(names[len(names)-1]); err != nil {
				t.Fatal(err)
			}
			s, err := tryOpen(t.Context(), dir)
			switch {
			case err == nil:
				list, _, lerr := vms(s).list(t.Context())
				if !c.ok || lerr != nil || len(list) != 1200 {
					t.Errorf("opened with %d records, %v", len(list), lerr)
				}
				if rev, err := vms(s).put(t.Context(), record{ID: "new"}); err != nil || rev == 0 {
					t.Errorf("a new record: revision %d, %v", rev, err)
				}
				if list, _, err := vms(s).list(t.Context()); err != nil || len(list) != 1201 {
					t.Errorf("with a new record it has %d, %v", len(list), err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			case c.ok || !errors.Is(err, vm.Corrupt) || vm.AsError(err).Hint == "":
				t.Errorf("the damaged store's opening fails with %v (%s), want corrupt with a hint, and only where it must", err, vm.KindOf(err))
			default:
				t.Log(err)
			}
		})
	}
}

func overwrite(off, n int64) func(string) error {
	return func(name string) error {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(make([]byte, n), off)
		return errors.Join(err, f.Close())
	}
}

// changeRecord changes one byte of a record in a log.
func changeRecord(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	at := 100_000 + bytes.Index(data[100_000:], []byte("xxxx"))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("y"), int64(at))
	return errors.Join(err, f.Close())
}

// frames returns where each record of a log begins, and where the last one ends.
func frames(data []byte) (at []int64) {
	for i := 0; i+8 <= len(data); {
		l := binary.LittleEndian.Uint64(data[i:])
		at = append(at, int64(i))
		if l == 0 {
			break
		}
		i += 8 + int(l&(1<<56-1)) + int(l>>56&7)
	}
	return at
}

// atFrame returns what writes bytes into a log, or zeros from there to its end, at a place that pick chooses. pick is
// told where each of n records begins.
func atFrame(pick func(frames []int64, n int) (int64, []byte)) func(string) error {
	return func(name string) error {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all := frames(data)
		at, text := pick(all, len(all)-1)
		if text == nil {
			clear(data[at:])
		}
		copy(data[at:], text)
		return os.WriteFile(name, data, 0o600)
	}
}

// tearWrite adds a record to a log of which only the first sector was written. Nobody was told that it is kept.
func tearWrite(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	all := frames(data)
	end := all[len(all)-1]
	binary.LittleEndian.PutUint64(data[end:], 4096)
	for i := end + 8; i%512 != 0; i++ {
		data[i] = 'x'
	}
	return os.WriteFile(name, data, 0o600)
}

// TestNoRoom: before the disk is full new records are refused, while changes,
// by which room is made, still go.
func TestNoRoom(t *testing.T) {
	ctx := t.Context()
	s := open(t, shortDir(t))
	defer s.Close()
	rec := record{ID: "a"}
	var err error
	if rec.Revision, err = vms(s).put(ctx, rec); err != nil {
		t.Fatal(err)
	}
	s.createRoom = 1 << 60
	if _, err := vms(s).put(ctx, record{ID: "b"}); !errors.Is(err, vm.NoSpace) || vm.AsError(err).Hint == "" {
		t.Errorf("create: %v", err)
	}
	if rec.Revision, err = vms(s).put(ctx, rec); err != nil {
		t.Errorf("update: %v", err)
	}
	s.changeRoom = 1 << 60
	if err := vms(s).drop(ctx, rec); !errors.Is(err, vm.NoSpace) {
		t.Errorf("delete: %v", err)
	}
	if got, err := vms(s).get(ctx, "a"); err != nil || got.Revision != rec.Revision {
		t.Errorf("read: %+v, %v", got, err)
	}
	s.createRoom, s.changeRoom = createRoom, changeRoom
	if err := vms(s).drop(ctx, rec); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestFullDisk fills a small file system, in a mount namespace of its own, to
// the last byte while etcd writes: callers are told, the process lives, and a
// new one finds every acknowledged record once there is space.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv("WARREN_STORE_FULL"); dir != "" {
		onFullDisk(t, dir)
		return
	}
	if dir := os.Getenv("WARREN_STORE_FILL"); dir != "" {
		fill(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), "WARREN_STORE_FULL="+shortDir(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("this host lets nobody but root mount a small file system:", err)
	}
	if err != nil || !strings.Contains(string(out), "all there") {
		t.Errorf("the test on a full disk failed: %v\n%s", err, out)
	}
}

func onFullDisk(t *testing.T, dir string) {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=40m"); err != nil {
		t.Fatal(err)
	}
	if s, err := tryOpen(t.Context(), dir); !errors.Is(err, vm.NoSpace) {
		t.Errorf("a new store on a small disk: %v, %v", s, err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=200m"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), "WARREN_STORE_FULL=", "WARREN_STORE_FILL="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("filling the disk failed: %v\n%s", err, out)
	}
	ballast := filepath.Join(dir, "ballast")
	st, err := os.Stat(ballast)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(ballast, st.Size()-(20<<20)); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir) // nearly full: enough to make room with
	defer s.Close()
	list, _, err := vms(s).list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, r := range list {
		have[r.ID] = true
	}
	acked := 0
	for _, line := range strings.Split(string(out), "\n") {
		if id, ok := strings.CutPrefix(line, "written "); ok {
			if acked++; !have[id] {
				t.Errorf("%s is lost", id)
			}
		}
	}
	if acked < 50 {
		t.Errorf("only %d were written:\n%s", acked, out)
	}
	if err := vms(s).drop(t.Context(), list[0]); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := vms(s).put(t.Context(), record{ID: "new"}); !errors.Is(err, vm.NoSpace) {
		t.Errorf("create: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := vms(s).put(t.Context(), record{ID: "new"}); err != nil {
		t.Errorf("with space again: %v", err)
	}
	t.Log("all there:", acked)
}

func fill(t *testing.T, dir string) {
	s := open(t, dir)
	write := func(n int, body string) (err error) {
		for i := 0; i < n && err == nil; i++ {
			id := vm.NewID()
			if _, err = vms(s).put(t.Context(), record{ID: string(id), Name: body}); err == nil {
				fmt.Println("written", id)
			}
		}
		return err
	}
	if err := write(50, "first"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	// A careful writer is refused first.
	if _, err := vms(s).put(t.Context(), record{ID: "careful"}); !errors.Is(err, vm.NoSpace) {
		t.Errorf("careful: %v", err)
	}
	// A careless one brings etcd to its end.
	s.createRoom = 0
	err = write(6000, strings.Repeat("x", 60<<10))
	if !errors.Is(err, vm.NoSpace) {
		t.Errorf("careless: %v", err)
	}
	<-s.Failed()
	if _, err := vms(s).get(t.Context(), "any"); !errors.Is(err, vm.NoSpace) {
		t.Errorf("get: %v", err)
	}
	if err := s.Healthy(t.Context()); !errors.Is(err, vm.NoSpace) {
		t.Errorf("healthy: %v", err)
	}
	if err := s.Close(); !errors.Is(err, vm.NoSpace) {
		t.Errorf("close: %v", err)
	}
}
