// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// load is a host's use of resources at one moment.
type load struct {
	descriptors, goroutines, files, records, remembered int

	heap int64
}

// weigh measures a quiet host.
func weigh(t *testing.T, s *vmtest.Site, e *vmtest.House) (l load) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	l.descriptors, l.goroutines = len(fds), runtime.NumGoroutine()
	for _, dir := range []string{string(s.Dir), string(s.Run)} {
		err := filepath.WalkDir(dir, func(string, fs.DirEntry, error) error { l.files++; return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	l.remembered = e.Remembered()
	l.records, err = sum(
		stored(s, "vms"), stored(s, "generations"), stored(s, "results"), stored(s, "holds"), stored(s, "builds"),
		stored(s, "mappings"), stored(s, "vm-permissions"), stored(s, "keys"), stored(s, "accounts"),
	)
	if err != nil {
		t.Fatal(err)
	}
	s.Backend.Compact() // the simulated store keeps what changed, for those who follow
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap = int64(m.HeapAlloc)
	return l
}

type counted struct {
	n   int
	err error
}

func stored(s *vmtest.Site, kind string) counted {
	list, err := vmtest.Stored[any](s.Backend, kind)
	return counted{len(list), err}
}

func sum(all ...counted) (n int, err error) {
	for _, c := range all {
		n, err = n+c.n, errors.Join(err, c.err)
	}
	return n, err
}

// cycle makes a VM, uses it, puts it to sleep and wakes it, forks it, and
// deletes both.
func cycle(t *testing.T, s *vmtest.Site, e *vmtest.House, c *vm.Call) {
	t.Helper()
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	if out, code := sh(t, e, c, string(v.ID), "echo hi"); out != "hi\n" || code != 0 {
		t.Fatalf("exec: %q, %d", out, code)
	}
	f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Suspend(ctx, c, string(v.ID), engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, c, string(v.ID), engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []vm.ID{v.ID, f.Children[0].ID} {
		if _, err := e.Delete(ctx, c, string(id)); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func() bool {
		n, err := sum(stored(s, "vms"), stored(s, "generations"))
		return err == nil && n == 0
	}
	eventually(t, "its generations are collected", nothing)
}

// TestSlope: VMs that came and went leave nothing: no file, record, descriptor or
// goroutine, nothing in the engine's maps, and no memory except the simulators'.
func TestSlope(t *testing.T) {
	s, e, c := site(t)
	for range 10 { // pools, caches and the like fill
		cycle(t, s, e, c)
	}
	const cycles = 50
	from := weigh(t, s, e)
	for range cycles {
		cycle(t, s, e, c)
	}
	to := weigh(t, s, e)
	t.Logf("from %+v to %+v", from, to)
	if grown := to.descriptors - from.descriptors; grown > 2 {
		t.Errorf("%d descriptors more after %d cycles", grown, cycles)
	}
	if grown := to.goroutines - from.goroutines; grown > 2 {
		t.Errorf("%d goroutines more", grown)
	}
	if to.files > from.files || to.records > from.records {
		t.Errorf("%d files and %d records more", to.files-from.files, to.records-from.records)
	}
	if grown := to.remembered - from.remembered; grown > 2 {
		t.Errorf("the engine remembers %d things more", grown)
	}
	if each := (to.heap - from.heap) / cycles; each > 40<<10 {
		t.Errorf("%d bytes more a cycle", each) // the simulators' disks, logs and events take about 20 KiB
	}
}
