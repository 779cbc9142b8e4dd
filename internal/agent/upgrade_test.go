// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/agent"
	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// TestMain lets the test binary be the agent: "agent -heritage N" as an upgrade execs it, "check"
// as the upgrade tests it, and "first" as the test starts it, with the port as descriptor 3.
func TestMain(m *testing.M) {
	if dir := os.Getenv("WARREN_TEST_AGENT"); dir != "" && len(os.Args) > 1 {
		if err := actAsAgent(dir, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func actAsAgent(dir string, args []string) error {
	cfg := agent.Config{
		Version: "old", Digest: "d-old", Key: testKey, LogDir: dir + "/log", RunDir: dir + "/run", EtcDir: dir + "/etc",
		System: &fakeSystem{}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	switch args[0] {
	case "check":
		return nil
	case "first":
		a, err := agent.New(cfg)
		if err != nil {
			return err
		}
		return a.Run(context.Background(), os.NewFile(3, "port"))
	case "agent":
		fd, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		cfg.Version = "new"
		a, port, err := agent.Inherit(cfg, fd)
		if err != nil {
			return err
		}
		return a.Run(context.Background(), port)
	}
	return errors.New("no such part")
}

// startAgent runs an agent as a process of its own and connects to it.
func startAgent(t *testing.T, dir string) (*rig, *exec.Cmd) {
	t.Helper()
	port, hostEnd := portPair(t)
	cmd := exec.Command(os.Args[0], "first")
	cmd.Env = append(os.Environ(), "WARREN_TEST_AGENT="+dir)
	cmd.ExtraFiles = []*os.File{port}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = port.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = hostEnd.Close()
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	r := &rig{t: t, host: hostEnd, cfg: agent.Config{Key: testKey}}
	r.connect()
	r.Client = guest.New(func(context.Context) (net.Conn, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.session.Open()
	})
	return r, cmd
}

// The next agent knows the processes that a killed agent had started: running
// ones stay running, although they are nobody's children.
func TestKilledAgent(t *testing.T) {
	dir := t.TempDir()
	r, cmd := startAgent(t, dir)
	ctx := within(t, 30*time.Second)
	p, err := r.Start(ctx, vm.ExecSpec{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	r, _ = startAgent(t, dir)
	if got, err := r.Process(ctx, p.ID); err != nil || got.ExitCode != nil || got.PID != p.PID {
		t.Fatalf("the process under the new agent is %+v (%v), want PID %d running", got, err, p.PID)
	}
	if err := r.Signal(ctx, p.ID, "TERM"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx, p.ID); err != nil || got.ExitCode == nil || got.EndedAt == nil {
		t.Errorf("the terminated process is %+v (%v), want an exit code and an end", got, err)
	}
}

// A process that ran when its machine went down is listed as ended with it.
func TestRestartedMachine(t *testing.T) {
	dir := t.TempDir()
	r, cmd := startAgent(t, dir)
	ctx := within(t, 30*time.Second)
	p, err := r.Start(ctx, vm.ExecSpec{Command: "echo hi; exec sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	for log := ""; log != "hi\n"; log, _ = r.logOf(p.ID, 0, false) {
		if ctx.Err() != nil {
			t.Fatal("no output")
		}
	}
	if err := errors.Join(cmd.Process.Kill(), syscall.Kill(p.PID, syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := os.Remove(dir + "/run/boot"); err != nil { // it is in memory
		t.Fatal(err)
	}
	r, _ = startAgent(t, dir)
	if got, err := r.Process(ctx, p.ID); err != nil || got.ExitCode == nil || *got.ExitCode != 137 || got.EndedAt == nil || got.LogBytes != 3 {
		t.Errorf("the killed process is %+v (%v), want exit code 137, an end and 3 bytes of log", got, err)
	}
}

// An upgrade replaces the program in the same process: its pid, its children,
// their pipes and logs, timeouts and exit statuses are kept.
func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	r, cmd := startAgent(t, dir)
	ctx := within(t, 15*time.Second)
	hello, err := r.Hello(ctx)
	if err != nil || hello.Version != "old" {
		t.Fatal(hello, err)
	}
	reset := testReset()
	if report, err := r.Reset(ctx, vm.Reset{LinkKey: reset.LinkKey}); err != nil || report[vm.ResetLinkKey] != "ok" {
		t.Fatal(report, err)
	}

	flag := dir + "/go"
	background, err := r.Start(ctx, vm.ExecSpec{Command: "echo before; while [ ! -e " + flag + " ]; do sleep 0.05; done; echo after; exit 11"})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := r.Exec(ctx, vm.ExecSpec{Command: "echo attached; while [ ! -e " + flag + " ]; do sleep 0.05; done; echo later >&2; exit 12"})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := r.Start(ctx, vm.ExecSpec{Argv: []string{"sleep", "60"}, Timeout: vm.Millis(4 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	done, err := r.Start(ctx, vm.ExecSpec{Command: "echo done; exit 13"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx, done.ID); err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 1)
	seen := &watchFor{want: 9, done: make(chan struct{})}
	go func() {
		_, err := attached.Run(seen, io.Discard)
		lost <- err
	}()
	<-seen.done

	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Upgrade(ctx, strings.NewReader("#!/bin/false\n"), 13); !errors.Is(err, vm.Invalid) {
		t.Fatalf("a program that does not run: %v", err)
	}
	begin := time.Now()
	if err := r.Upgrade(ctx, bytes.NewReader(program), int64(len(program))); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; !errors.Is(err, vm.GuestFault) {
		t.Errorf("the attached client saw %v", err)
	}
	r.cfg.Key = reset.LinkKey
	r.connect()
	hello, err = r.Hello(ctx)
	if err != nil || hello.Version != "new" || len(hello.Digest) != 64 {
		t.Fatal(hello, err)
	}
	t.Logf("upgraded in %v", time.Since(begin))
	if list, err := r.Processes(ctx); err != nil || len(list) != 4 || list[0].PID != background.PID || list[0].ExitCode != nil {
		t.Fatalf("after the upgrade the processes are %+v (%v), want 4 with the one in the background running", list, err)
	}
	if err := os.WriteFile(flag, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   string
		code int
		log  string
	}{
		{background.ID, 11, "before\nafter\n"}, {attached.Process().ID, 12, "attached\nlater\n"}, {done.ID, 13, "done\n"},
	} {
		p, err := r.Wait(ctx, c.id)
		if err != nil || p.ExitCode == nil || *p.ExitCode != c.code {
			t.Errorf("process %s ended with %+v (%v), want code %d", c.id, p, err, c.code)
		}
		if log, at := r.logOf(c.id, 0, false); log != c.log || at != 0 {
			t.Errorf("%s: log %q at %d", c.id, log, at)
		}
	}
	if p, err := r.Wait(ctx, limited.ID); err != nil || !p.TimedOut || *p.ExitCode != 137 {
		t.Errorf("the timeout was lost: %+v, %v", p, err)
	}
	if cmd.Process.Pid != parentOf(t, r) {
		t.Error("the agent is another process now")
	}
	if got := r.run(vm.ExecSpec{Argv: []string{"sh", "-c", "exit 3"}}); got.status.Code != 3 {
		t.Errorf("a command after the upgrade ended with %+v, want code 3", got)
	}
	// The heritage had the old key, too: a session with the new key retired it.
	c, err := net.FileConn(r.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := link.Host(short, c, nil, testKey); err == nil {
		t.Errorf("the old key %s opens the link", hex.EncodeToString(testKey[:2]))
	}
}

// parentOf returns the agent's pid as its children see it.
func parentOf(t *testing.T, r *rig) int {
	t.Helper()
	got := r.sh("echo $PPID")
	pid, err := strconv.Atoi(strings.TrimSpace(got.stdout))
	if err != nil {
		t.Fatal(got, err)
	}
	return pid
}

// Statistics name processes and listening ports.
func TestStats(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := r.Stats(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if s.UptimeSeconds <= 0 || s.CPUSeconds <= 0 || s.VCPU < 1 || s.MemTotal < s.MemAvailable || s.MemAvailable <= 0 || s.DiskTotal < s.DiskFree || s.DiskTotal <= 0 {
		t.Errorf("the stats are %+v, want every figure above 0 and none above its total", s)
	}
	me := false
	for _, p := range s.Processes {
		me = me || p.PID == os.Getpid() && p.PPID == os.Getppid() && p.RSS > 0 && strings.Contains(p.Command, os.Args[0])
	}
	if !me {
		t.Error("this process is not in the table")
	}
	listening := false
	for _, p := range s.Ports {
		listening = listening || p.Proto == "tcp" && p.Address == "127.0.0.1" && p.Port == l.Addr().(*net.TCPAddr).Port && p.PID == os.Getpid()
	}
	if !listening {
		t.Errorf("the port is not listed: %+v", s.Ports)
	}
}
