// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/vm"
)

// counters start a program of the init system, one of exec, and one in the
// root of the control groups, which count without end.
var counters = []string{
	"systemd-run -q sh -c 'while :; do echo >>/run/count.unit; done'",
	"sh -c 'while :; do echo >>/run/count.exec; done' >/dev/null 2>&1 &",
	"sh -c 'echo $$ >/sys/fs/cgroup/cgroup.procs; while :; do echo >>/run/count.root; done' >/dev/null 2>&1 &",
}

// counts returns how far each has come.
func counts(ctx context.Context, t *testing.T, g *guest.Client) (n [3]int64) {
	t.Helper()
	for i, name := range []string{"unit", "exec", "root"} {
		st, err := g.Stat(ctx, "", "/run/count."+name)
		if err != nil {
			t.Fatal(err)
		}
		n[i] = st.Size
	}
	return n
}

// While a guest is frozen none of its programs does anything; the agent does,
// and can be replaced. A wake with every reset lets them continue.
func TestFreeze(t *testing.T) {
	r, ctx := real(t), deadline(t)
	s := r.spec(t)
	c, _ := r.launch(ctx, t, s)
	g := c.Guest()
	for _, line := range counters {
		run(ctx, t, g, line)
	}
	wait(ctx, t, time.Second)
	stands := func(what string) {
		t.Helper()
		before := counts(ctx, t, g)
		wait(ctx, t, 300*time.Millisecond)
		if after := counts(ctx, t, g); after != before {
			t.Errorf("%s: %v became %v", what, before, after)
		}
	}
	goes := func(what string) {
		t.Helper()
		before := counts(ctx, t, g)
		wait(ctx, t, time.Second)
		after := counts(ctx, t, g)
		for i := range after {
			if after[i] <= before[i] {
				t.Errorf("%s: %v became %v", what, before, after)
			}
		}
	}
	freeze := func(disk bool) {
		t.Helper()
		begin := time.Now()
		report, err := g.Freeze(ctx, disk)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("freeze (disk %t): %v, in the guest %v, %d groups", disk, time.Since(begin), report.Waited, report.Groups)
		if report.Groups < 4 {
			t.Errorf("the freeze reports %+v, want at least 4 groups", report)
		}
		if len(report.Unfrozen) > 0 { // on a host that is busy; it must come to rest still
			t.Logf("late: %v", report.Unfrozen)
			wait(ctx, t, time.Second)
		}
	}
	for _, disk := range []bool{false, true} {
		freeze(disk)
		stands("frozen")
		begin := time.Now()
		if err := g.Thaw(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("thaw: %v", time.Since(begin))
		goes("thawed")
	}
	freeze(false)
	agent, err := os.ReadFile(r.o.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Upgrade(ctx, bytes.NewReader(agent), int64(len(agent))); err != nil {
		t.Fatal(err)
	}
	if err := again(ctx, t, g); err != nil {
		t.Fatal(err)
	}
	stands("upgraded")

	reset := s.Reset
	reset.Time, reset.Entropy = time.Now(), randomBytes(64)
	bad := reset
	bad.Hostname = "-"
	if _, _, err := g.Wake(ctx, bad); err != nil {
		t.Fatal(err)
	}
	stands("a reset failed")
	_, report, err := g.Wake(ctx, reset)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range vm.Resets {
		if report[name] != "ok" {
			t.Errorf("reset %s of a frozen guest: %q", name, report[name])
		}
	}
	goes("woken")
	if state, _ := run(ctx, t, g, "systemctl is-system-running"); state != "running" {
		t.Errorf("systemd is %s", state)
	}
}

// again asks until the agent that was replaced answers.
func again(ctx context.Context, t *testing.T, g *guest.Client) error {
	for {
		_, err := g.Hello(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait(ctx, t, 50*time.Millisecond)
	}
}

// A disk that is frozen holds all that was written to it, and no writer.
func TestFreezeDisk(t *testing.T) {
	r, ctx := real(t), deadline(t)
	c, _ := r.launch(ctx, t, r.spec(t))
	g := c.Guest()
	run(ctx, t, g, "echo kept >/root/kept")
	if _, err := g.Freeze(ctx, true); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if _, err := g.WriteFile(short, "", "/root/late", vm.WriteOptions{Size: 1}, bytes.NewReader([]byte("x"))); err == nil {
		t.Error("a file was written on a frozen disk")
	}
	_, f, err := g.Open(ctx, "", "/root/kept") // reading continues
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "kept\n" {
		t.Errorf("the file reads as %q (%v), want what was kept", b, err)
	}
	if err := g.Upgrade(ctx, bytes.NewReader([]byte("x")), 1); !isKind(err, vm.WrongState) {
		t.Errorf("an upgrade on a frozen disk: %v", err)
	}
	if err := g.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	if out, code := run(ctx, t, g, "echo on >/root/on && cat /root/on"); out != "on" || code != 0 {
		t.Errorf("after the thaw: %q, status %d", out, code)
	}
}

func isKind(err error, k vm.Kind) bool { return err != nil && vm.KindOf(err) == k }
