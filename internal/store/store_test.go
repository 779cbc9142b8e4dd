// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := tryOpen(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryOpen(ctx context.Context, dir string) (*Store, error) {
	return Open(ctx, Options{Dir: filepath.Join(dir, "etcd"), SocketDir: filepath.Join(dir, "s"), Log: slog.New(slog.DiscardHandler)})
}

// shortDir is a directory whose sockets stay below the length limit.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestCollection(t *testing.T) {
	ctx, dir := t.Context(), shortDir(t)
	s := open(t, dir)
	c := vms(s)
	rec := record{ID: "a", Name: "box", State: vm.Starting}
	rev, err := c.put(ctx, rec)
	if err != nil || rev == 0 {
		t.Fatalf("create: %d, %v", rev, err)
	}
	if _, err := c.put(ctx, rec); !errors.Is(err, vm.Exists) {
		t.Errorf("second create: %v", err)
	}
	stale := rec
	stale.Revision = rev - 1
	if _, err := c.put(ctx, stale); !errors.Is(err, vm.Busy) {
		t.Errorf("stale update: %v", err)
	}
	rec.Revision, rec.State = rev, vm.Running
	next, err := c.put(ctx, rec)
	if err != nil || next <= rev {
		t.Fatalf("update: %d, %v", next, err)
	}
	if err := c.drop(ctx, rec); !errors.Is(err, vm.Busy) {
		t.Errorf("stale delete: %v", err)
	}
	if _, err := c.put(ctx, record{ID: "ab"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir)
	defer s.Close()
	c = vms(s)
	got, err := c.get(ctx, "a")
	if err != nil || got.State != vm.Running || got.Revision != next {
		t.Fatalf("after reopening: %+v, %v", got, err)
	}
	list, _, err := c.list(ctx)
	if err != nil || len(list) != 2 || list[0].ID != "a" || list[1].ID != "ab" {
		t.Fatalf("list: %v, %v", list, err)
	}
	if err := c.drop(ctx, got); err != nil {
		t.Error(err)
	}
	if err := c.drop(ctx, got); !errors.Is(err, vm.NotFound) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := c.get(ctx, "a"); !errors.Is(err, vm.NotFound) {
		t.Errorf("get after delete: %v", err)
	}
	got.Revision = 0
	got.ID = "ab"
	if err := c.drop(ctx, got); err != nil {
		t.Errorf("delete of any revision: %v", err)
	}
}

// TestRace: of many updates from one revision exactly one wins.
func TestRace(t *testing.T) {
	s := open(t, shortDir(t))
	defer s.Close()
	c := vms(s)
	rev, err := c.put(t.Context(), record{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := c.put(t.Context(), record{ID: "a", Name: strconv.Itoa(i), Revision: rev})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !errors.Is(err, vm.Busy):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d updates won", won)
	}
}

// TestTwoOpens: a second process on the same directory is refused.
func TestTwoOpens(t *testing.T) {
	dir := shortDir(t)
	s := open(t, dir)
	defer s.Close()
	if second, err := tryOpen(t.Context(), dir); !errors.Is(err, vm.Busy) {
		t.Errorf("second open: %v", err)
		if err == nil {
			second.Close()
		}
	}
}

// TestAcknowledgedWritesSurvive kills a writing process and wants every write
// it had acknowledged.
func TestAcknowledgedWritesSurvive(t *testing.T) {
	dir := os.Getenv("WARREN_STORE_CHILD")
	if dir != "" {
		writeForEver(t, dir)
		return
	}
	dir = shortDir(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestAcknowledgedWritesSurvive$")
	cmd.Env = append(os.Environ(), "WARREN_STORE_CHILD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := -1
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if n, ok := strings.CutPrefix(sc.Text(), "written "); ok {
			if last, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
		}
		if last == 200 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	s := open(t, dir)
	defer s.Close()
	for i := range last + 1 {
		if _, err := vms(s).get(t.Context(), fmt.Sprintf("r%06d", i)); err != nil {
			t.Fatalf("of %d acknowledged writes %d is lost: %v", last+1, i, err)
		}
	}
}

func writeForEver(t *testing.T, dir string) {
	s := open(t, dir)
	for i := 0; ; i++ {
		if _, err := vms(s).put(t.Context(), record{ID: fmt.Sprintf("r%06d", i)}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("written", i)
	}
}

// TestUpdateAll changes as many records at once as one fork has children, and
// none of them where one is not of the revision that it was read in.
func TestUpdateAll(t *testing.T) {
	const n = 1000
	ctx, s := t.Context(), open(t, shortDir(t))
	defer s.Close()
	c := vms(s)
	recs := make([]record, n)
	for i := range recs {
		recs[i] = record{ID: fmt.Sprintf("vm%04d", i), State: vm.Starting, Name: strings.Repeat("w", 4096)}
		rev, err := c.put(ctx, recs[i])
		if err != nil {
			t.Fatal(err)
		}
		recs[i].Revision = rev
		recs[i].State = vm.Running
	}
	recs[n-1].Revision--
	if _, err := c.putAll(ctx, recs); !errors.Is(err, vm.Busy) {
		t.Fatalf("with a stale one: %v", err)
	}
	if got, err := c.get(ctx, "vm0000"); err != nil || got.State != vm.Starting {
		t.Errorf("half of a change was made: %+v, %v", got, err)
	}
	recs[n-1].Revision++
	rev, err := c.putAll(ctx, recs)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := c.list(ctx)
	if err != nil || len(list) != n {
		t.Fatal(len(list), err)
	}
	for _, rec := range list {
		if rec.State != vm.Running || rec.Revision != rev {
			t.Fatalf("%+v, want revision %d", rec, rev)
		}
	}
	for i := range maxChanges + 1 - n {
		recs = append(recs, record{ID: fmt.Sprintf("more%04d", i), Revision: rev})
	}
	if _, err := c.putAll(ctx, recs); !errors.Is(err, vm.Limit) {
		t.Errorf("too many: %v", err)
	}
}
