// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/powercut"
	"github.com/warren-vm/warren/vm"
)

// TestDiskHangs: on a disk whose fsync does not return, whoever gives up waiting
// for a record is let go, the log can be read, and when the disk answers again
// each record is there, those of who gave up as not done.
func TestDiskHangs(t *testing.T) {
	d := powercut.Mount(t)
	l, err := Open(t.Context(), d.Dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(t.Context(), Entry{Op: vm.OpExec, Subject: "first"}); err != nil {
		t.Fatal(err)
	}
	hangs, goOn := make(chan struct{}), make(chan struct{})
	d.BeforeSync(func(path string) {
		if strings.HasSuffix(path, ".jsonl") {
			select {
			case <-hangs:
			default:
				close(hangs)
			}
			<-goOn
		}
	})
	ctx, giveUp := context.WithCancel(t.Context())
	refused := make(chan error, 1)
	go func() {
		_, err := l.Begin(ctx, Entry{Op: vm.OpExec, Subject: "given up"})
		refused <- err
	}()
	<-hangs
	giveUp()
	if err := <-refused; vm.KindOf(err) != vm.Cancelled {
		t.Errorf("who gave up got %v", err)
	}
	if list, err := l.List(Filter{}); err != nil || len(list) != 1 || list[0].Subject != "first" {
		t.Errorf("read meanwhile: %v, %v", list, err)
	}
	d.BeforeSync(nil)
	close(goOn)
	if _, err := l.Begin(t.Context(), Entry{Op: vm.OpExec, Subject: "last"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(d.Dir, "", Head{}); err != nil || r.Problem != "" {
		t.Errorf("after the stall, the log's verification gives %+v (%v), want no problem", r, err)
	}
	if l, err = Open(t.Context(), d.Dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	list, err := l.List(Filter{})
	if err != nil || len(list) != 3 || list[1].Subject != "given up" || list[1].Outcome == "ok" || list[1].Outcome == "pending" {
		t.Errorf("afterwards: %+v, %v", list, err)
	}
}
