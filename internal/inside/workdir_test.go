// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// places are the directories in which each way into a VM begins.
func places(t *testing.T, e *vmtest.House, c *vm.Call, name string) map[string]string {
	t.Helper()
	ctx := t.Context()
	at := map[string]string{}
	must := func(what string, err error) {
		if err != nil {
			t.Fatalf("%s of %s failed: %v", what, name, err)
		}
	}
	out, _ := sh(t, e, c, name, "pwd")
	at["exec"] = strings.TrimSpace(out)
	p, err := e.StartProcess(ctx, c, name, vm.ExecSpec{Command: "true"})
	must("a process", err)
	at["background"] = p.Cwd
	term, err := e.OpenTerminal(ctx, c, name, vm.TerminalSpec{Command: "pwd", Cols: 80, Rows: 24})
	must("a terminal", err)
	var shown bytes.Buffer
	_, err = term.Run(func(vm.TerminalReplay) error { return nil }, &shown)
	must("a terminal's end", err)
	at["terminal"] = strings.TrimSpace(shown.String())
	st, err := e.Stat(ctx, c, name, "", ".")
	must("stat", err)
	at["files"] = st.Path
	u, err := e.LinuxUser(ctx, c, name, "")
	must("the Linux user", err)
	at["ssh"] = u.Workdir
	w, err := e.Watch(ctx, c, name, "", ".", true)
	must("a watch", err)
	defer w.Close()
	_, err = e.WriteFile(context.WithoutCancel(ctx), c, name, "", "seen", vm.WriteOptions{Size: 1}, strings.NewReader("x"))
	must("a file", err)
	ev, err := w.Next()
	must("a change", err)
	at["watch"] = strings.TrimSuffix(ev.Path, "/seen")
	return at
}

// TestWorkdir: every way into a VM begins in the same directory: the VM's own, or the
// Linux user's home if the VM has none.
func TestWorkdir(t *testing.T) {
	_, e, c := site(t)
	for name, want := range map[string]string{"with": "/work", "without": "/root"} {
		r := engine.CreateRequest{Name: name}
		if name == "with" {
			r.Workdir = want
		}
		create(t, e, c, r)
		for what, got := range places(t, e, c, name) {
			if got != want {
				t.Errorf("%s a directory: %s begins in %q, not in %s", name, what, got, want)
			}
		}
	}
}

// TestWorkdirGone: if the VM's directory was removed, each verb that would begin there
// says so and how to make it again; naming another directory helps.
func TestWorkdirGone(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", Workdir: "/work"})
	if err := e.Remove(ctx, c, "box", "", "/work", true); err != nil {
		t.Fatal(err)
	}
	_, run := e.Exec(ctx, c, "box", vm.ExecSpec{Command: "true"})
	_, background := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "true"})
	_, terminal := e.OpenTerminal(ctx, c, "box", vm.TerminalSpec{Command: "true", Cols: 80, Rows: 24})
	for what, err := range map[string]error{"exec": run, "a process": background, "a terminal": terminal} {
		wantCode(t, err, vm.NotFound, "FILE_NOT_FOUND")
		if hint := vm.AsError(err).Hint; !strings.Contains(hint, "`warren fs mkdir -p box:/work`") {
			t.Errorf("%s: the hint is %q", what, hint)
		}
	}
	p, err := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "true", Cwd: "/"})
	if err != nil || p.Cwd != "/" {
		t.Errorf("in a directory that was named: %+v, %v", p, err)
	}
	_, err = e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "true", Cwd: "/nope"})
	if hint := vm.AsError(err).Hint; err == nil || strings.Contains(hint, "mkdir") {
		t.Errorf("another directory that is missing: %v, hint %q", err, hint)
	}
}
