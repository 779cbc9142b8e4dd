// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// server is the real API over an engine on a simulated host, with a VM "box".
func server(t *testing.T) *client.Client {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	lifetime, end := context.WithCancel(context.Background())
	h := httpd.New(httpd.Config{House: e.Rooms, Log: slog.New(slog.DiscardHandler), Settings: map[string]any{"data": "x"}, Lifetime: lifetime})
	s := httptest.NewServer(h)
	c := client.New(s.URL, secret)
	t.Cleanup(func() {
		end()
		c.Close()
		s.Close()
		h.Wait()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.Create(t.Context(), api.CreateVM{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAgainstServer: the two ends of the wire mean the same.
//
// 003-23
func TestAgainstServer(t *testing.T) {
	c, ctx := server(t), t.Context()
	l, err := c.List(ctx, true)
	if err != nil || len(l.VMs) != 1 || l.VMs[0].Name != "box" || l.VMs[0].State != vm.Running {
		t.Fatalf("the list is %+v (%v), want the running VM box alone", l, err)
	}
	if _, err := c.Get(ctx, "nobody"); !errors.Is(err, vm.NotFound) {
		t.Errorf("an unknown VM: %v", err)
	}
	if who, err := c.WhoAmI(ctx); err != nil || !who.Admin {
		t.Errorf("the caller is %+v (%v), want an admin", who, err)
	}

	data := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	for name, size := range map[string]int64{"/work/a b": int64(len(data)), "/work/unsized": -1} {
		w, err := c.PutRaw(ctx, "box", "", name, 0o640, true, size, bytes.NewReader(data))
		if err != nil || w.File.Size != int64(len(data)) {
			t.Fatalf("put %s: %+v, %v", name, w, err)
		}
		n, r, err := c.GetRaw(ctx, "box", "", name, 16<<20)
		if err != nil || n != int64(len(data)) {
			t.Fatalf("get %s: %d, %v", name, n, err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("get %s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, _, err := c.GetRaw(ctx, "box", "", "/work/a b", 100); !errors.Is(err, vm.Limit) {
		t.Errorf("above the limit: %v", err)
	}
	if _, _, err := c.GetRaw(ctx, "box", "", "/none", 0); !errors.Is(err, vm.NotFound) {
		t.Errorf("no such file: %v", err)
	}
	if _, _, err := c.GetRaw(client.WithDestination(ctx, strings.Repeat("x", 9000)), "box", "", "/work/a b", 0); !errors.Is(err, vm.Invalid) {
		t.Errorf("a place of 9,000 bytes: %v", err)
	}
	r, err := c.GetTar(ctx, "box", "", "/work")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := io.ReadAll(r)
	r.Close()
	if err != nil || len(tree) < 2*len(data) {
		t.Fatalf("tar: %d bytes, %v", len(tree), err)
	}
	if err := c.PutTar(ctx, "box", "", "/copy", bytes.NewReader(tree)); err != nil {
		t.Fatal(err)
	}
	if l, err := c.ReadDir(ctx, "box", "", "/copy"); err != nil || len(l) == 0 {
		t.Errorf("copied: %+v, %v", l, err)
	}

	if err := c.Kill(ctx, "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stats(ctx, "box"); !errors.Is(err, vm.WrongState) {
		t.Errorf("stats of a stopped VM: %v", err)
	}
	if err := c.Delete(ctx, "box"); err != nil {
		t.Fatal(err)
	}
	ev, err := c.Events(ctx, 0, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close()
	for {
		e, err := ev.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "vm.deleted" {
			break
		}
	}
}

func TestExecAgainstServer(t *testing.T) {
	c, ctx := server(t), t.Context()
	e, err := c.Exec(ctx, "box", vm.ExecSpec{Command: "echo out; echo err >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	st, err := e.Run(&out, &errs)
	if err != nil || st.Code != 3 || out.String() != "out\n" || errs.String() != "err\n" {
		t.Errorf("the command ended with %+v (%v), stdout %q, stderr %q, want exit code 3 and a line in each", st, err, out.String(), errs.String())
	}
	e, err = c.Exec(ctx, "box", vm.ExecSpec{Command: "cat", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(e, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := e.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if st, err := e.Run(&out, io.Discard); err != nil || st.Code != 0 || out.String() != "hello" {
		t.Errorf("the command with input ended with %+v (%v), stdout %q, want exit code 0 and the input", st, err, out.String())
	}
	started, err := c.StartProcess(ctx, "box", vm.ExecSpec{Command: "echo logged"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.WaitProcess(ctx, "box", started.ID)
	if err != nil || p.ExitCode == nil || *p.ExitCode != 0 {
		t.Fatalf("the process ended as %+v (%v), want exit code 0", p, err)
	}
	r, off, err := c.ProcessLog(ctx, "box", p.ID, 0, false)
	if err != nil || off != 0 {
		t.Fatalf("the process's log begins at offset %d (%v), want 0", off, err)
	}
	defer r.Close()
	if data, err := io.ReadAll(r); err != nil || string(data) != "logged\n" {
		t.Errorf("log %q, %v", data, err)
	}
}

// TestSignalPassesInput: ^C reaches a command that reads none of an endless input.
func TestSignalPassesInput(t *testing.T) {
	c := server(t)
	e, err := c.Exec(t.Context(), "box", vm.ExecSpec{Argv: []string{"sleep", "60"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	fed := make(chan struct{})
	go func() { // ends with the connection
		defer close(fed)
		for piece := make([]byte, 64<<10); ; {
			n, err := e.Write(piece)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	for stuck, last := 0, int64(-1); stuck < 20; { // nothing more is taken
		n := written.Load()
		if n == last {
			stuck++
		} else {
			stuck, last = 0, n
		}
		<-time.After(5 * time.Millisecond)
	}
	signalled := make(chan error, 1)
	go func() { signalled <- e.Signal("INT") }() // ends with the answer below
	st, err := e.Run(io.Discard, io.Discard)
	if err != nil || st.Code != 130 {
		t.Errorf("the interrupted command ended with %+v (%v), want exit code 130", st, err)
	}
	if err := <-signalled; err != nil {
		t.Error(err)
	}
	<-fed
}
