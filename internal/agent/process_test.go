// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Background processes have an id, are listed, waited for and signalled, and
// their logs outlive them and the agent.
//
// 000-03
func TestBackground(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	p, err := r.Start(ctx, vm.ExecSpec{Command: "echo one; echo two >&2; exit 6"})
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != "p1" || p.PID == 0 || !p.Background {
		t.Errorf("started as %+v", p)
	}
	if log, at := r.logOf(p.ID, 0, true); len(log) != 8 || at != 0 {
		t.Errorf("log %q at %d", log, at)
	}
	end, err := r.Wait(ctx, p.ID)
	if err != nil || end.ExitCode == nil || *end.ExitCode != 6 || end.EndedAt == nil || end.LogBytes != 8 {
		t.Errorf("ended as %+v, %v", end, err)
	}
	q, err := r.Start(ctx, vm.ExecSpec{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Forget(ctx, q.ID); !errors.Is(err, vm.WrongState) {
		t.Errorf("a running process was forgotten: %v", err)
	}
	if err := r.Signal(ctx, q.ID, "TERM"); err != nil {
		t.Error(err)
	}
	if end, err := r.Wait(ctx, q.ID); err != nil || end.Signal != "TERM" || *end.ExitCode != 143 {
		t.Errorf("ended as %+v, %v", end, err)
	}
	if f, err := r.Start(ctx, vm.ExecSpec{Argv: []string{"no-such"}}); err != nil {
		t.Error(err)
	} else if end, err := r.Wait(ctx, f.ID); err != nil || *end.ExitCode != 127 {
		t.Errorf("ended as %+v, %v", end, err)
	}

	r.stop() // the VM stops and starts again
	if err := os.Remove(r.cfg.RunDir + "/boot"); err != nil {
		t.Fatal(err)
	}
	r.start()
	list, err := r.Processes(ctx)
	if err != nil || len(list) != 3 || list[0].ID != "p1" || *list[0].ExitCode != 6 {
		t.Fatalf("after a restart: %+v, %v", list, err)
	}
	if log, _ := r.logOf("p1", 0, false); len(log) != 8 {
		t.Errorf("log after a restart: %q", log)
	}
	n, err := r.Start(ctx, vm.ExecSpec{Argv: []string{"true"}})
	if err != nil || n.ID == "p1" || n.ID == "p2" || n.ID == "p3" {
		t.Errorf("an id was given out twice: %+v, %v", n, err)
	}
	if _, err := r.Wait(ctx, n.ID); err != nil {
		t.Error(err)
	}
	if err := r.Forget(ctx, "p1"); err != nil {
		t.Error(err)
	}
	if _, err := r.Process(ctx, "p1"); !errors.Is(err, vm.NotFound) {
		t.Errorf("forgotten, and yet: %v", err)
	}
	if left, _ := filepath.Glob(r.cfg.LogDir + "/p1.*"); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
}

// A log has a maximum size; the oldest output is dropped, and offsets stay the same.
func TestLogBounds(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 60*time.Second)
	const lines = 4_000_000 // of 10 bytes
	p, err := r.Start(ctx, vm.ExecSpec{Command: fmt.Sprintf("seq -f %%09.0f %d", lines)})
	if err != nil {
		t.Fatal(err)
	}
	end, err := r.Wait(ctx, p.ID)
	if err != nil || *end.ExitCode != 0 {
		t.Fatalf("the command with a large log ended with %+v (%v), want code 0", end, err)
	}
	if end.LogBytes != lines*10 || end.LogBytes-end.LogStart > 17<<20 || end.LogBytes-end.LogStart < 8<<20 {
		t.Errorf("the log holds %d to %d", end.LogStart, end.LogBytes)
	}
	var size int64
	files, _ := filepath.Glob(r.cfg.LogDir + "/p1.log*")
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size != end.LogBytes-end.LogStart {
		t.Errorf("%d bytes on disk", size)
	}
	log, at := r.logOf(p.ID, 0, false)
	if at != end.LogStart || at+int64(len(log)) != end.LogBytes {
		t.Fatalf("read %d bytes from %d", len(log), at)
	}
	for off := (10 - at%10) % 10; off+10 <= int64(len(log)); off += 10 {
		if want := fmt.Sprintf("%09d\n", (at+off)/10+1); log[off:off+10] != want {
			t.Fatalf("the log at %d has %q, want %q", at+off, log[off:off+10], want)
		}
	}
	if log, at := r.logOf(p.ID, -20, false); log != "003999999\n004000000\n" || at != lines*10-20 {
		t.Errorf("the last 20 bytes: %q at %d", log, at)
	}
	if _, at := r.logOf(p.ID, lines*20, false); at != lines*10 {
		t.Errorf("beyond the end: at %d", at)
	}
}

func TestLogFollow(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	p, err := r.Start(ctx, vm.ExecSpec{Command: "for i in 1 2 3; do echo $i; sleep 0.1; done"})
	if err != nil {
		t.Fatal(err)
	}
	if log, _ := r.logOf(p.ID, 0, true); log != "1\n2\n3\n" {
		t.Errorf("followed: %q", log)
	}
	q, err := r.Start(ctx, vm.ExecSpec{Command: "echo x; sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	rc, _, err := r.Log(ctx, q.ID, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(rc, make([]byte, 2)); err != nil {
		t.Error(err)
	}
	_ = rc.Close()
	r.connect() // a follower whose link breaks learns it
	rc, _, err = r.Log(ctx, q.ID, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	again := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { defer close(again); r.connect() })
	if b, err := io.ReadAll(rc); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut log: %q, %v", b, err)
	}
	<-again
	if err := r.Signal(ctx, q.ID, "KILL"); err != nil {
		t.Error(err)
	}
	if _, err := r.Wait(ctx, q.ID); err != nil {
		t.Error(err)
	}
}

// Ended commands do not pile up in the agent.
func TestForgetting(t *testing.T) {
	r := newRig(t)
	for range 100 {
		r.run(vm.ExecSpec{Argv: []string{"true"}})
	}
	list, err := r.Processes(t.Context())
	if err != nil || len(list) < 60 || len(list) > 66 {
		t.Errorf("%d are remembered, %v", len(list), err)
	}
	if !strings.HasPrefix(list[len(list)-1].ID, "p100") {
		t.Errorf("the last is %+v", list[len(list)-1])
	}
}
