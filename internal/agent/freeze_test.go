// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// groups is a directory that looks like a hierarchy of control groups.
type groups struct {
	t   *testing.T
	dir string
}

// freezeRig is a rig whose guest has these groups; they report that they are
// frozen as soon as that is requested.
func freezeRig(t *testing.T, names ...string) (*rig, groups) {
	r := etcRig(t, nil)
	g := groups{t, t.TempDir()}
	g.write("cgroup.procs", "")
	for _, n := range names {
		g.add(n, "frozen 1\n")
	}
	r.sys.cgroups = g.dir
	return r, g
}

func (g groups) add(name, events string) {
	g.t.Helper()
	if err := os.Mkdir(filepath.Join(g.dir, name), 0o755); err != nil {
		g.t.Fatal(err)
	}
	g.write(name+"/cgroup.freeze", "0")
	g.write(name+"/cgroup.procs", "")
	g.write(name+"/cgroup.events", events)
}

func (g groups) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

func (g groups) read(name string) string {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(b)
}

// frozen returns the groups that were asked to freeze.
func (g groups) frozen() string {
	g.t.Helper()
	files, err := filepath.Glob(g.dir + "/*/cgroup.freeze")
	if err != nil {
		g.t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && string(b) == "1" {
			names = append(names, filepath.Base(filepath.Dir(f)))
		}
	}
	return strings.Join(names, " ")
}

func (r *rig) mustFreeze(disk bool) vm.FreezeReport {
	r.t.Helper()
	report, err := r.Freeze(within(r.t, 10*time.Second), disk)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

func (r *rig) mustThaw() {
	r.t.Helper()
	if err := r.Thaw(within(r.t, 10*time.Second)); err != nil {
		r.t.Fatal(err)
	}
}

// A freeze stops every group, and a thaw releases exactly those, however often they are called.
func TestFreezeThaw(t *testing.T) {
	r, g := freezeRig(t, "init.scope", "system.slice", "mine.slice")
	g.write("mine.slice/cgroup.freeze", "1") // the guest's own doing
	r.mustThaw()                             // nothing is frozen yet
	if report := r.mustFreeze(false); report.Groups != 2 || len(report.Unfrozen) != 0 || report.Waited <= 0 {
		t.Errorf("the freeze reports %+v, want 2 groups, all frozen, and a wait", report)
	}
	if got := g.frozen(); got != "init.scope mine.slice system.slice" {
		t.Errorf("frozen: %s", got)
	}
	g.add("late.slice", "frozen 1\n")
	if report := r.mustFreeze(false); report.Groups != 3 {
		t.Errorf("a second freeze: %+v", report)
	}
	if got := g.frozen(); !strings.Contains(got, "late.slice") {
		t.Errorf("frozen: %s", got)
	}
	for range 2 {
		r.mustThaw()
		if got := g.frozen(); got != "mine.slice" {
			t.Errorf("still frozen: %s", got)
		}
	}
	if h, err := r.Hello(within(t, 10*time.Second)); err != nil || !slices.Contains(h.Features, "freeze") {
		t.Errorf("hello is %+v (%v), want the feature freeze", h, err)
	}
}

// A program that deletes the agent's directory before or during a freeze prevents neither
// a freeze nor a thaw.
func TestFreezeWithoutDirectory(t *testing.T) {
	r, g := freezeRig(t, "system.slice")
	for range 2 {
		if err := os.RemoveAll(r.cfg.RunDir); err != nil {
			t.Fatal(err)
		}
		if report := r.mustFreeze(false); report.Groups != 1 {
			t.Errorf("a freeze without the agent's directory reports %+v, want 1 group", report)
		}
		if err := os.RemoveAll(r.cfg.RunDir); err != nil {
			t.Fatal(err)
		}
		r.mustThaw()
		if got := g.frozen(); got != "" {
			t.Errorf("after the thaw still frozen: %s", got)
		}
	}
}

// Groups that do not freeze in time are named, and the request returns.
func TestFreezeUnfrozen(t *testing.T) {
	r, g := freezeRig(t, "a.slice")
	g.add("busy.slice", "populated 1\nfrozen 0\n")
	report := r.mustFreeze(false)
	if !slices.Equal(report.Unfrozen, []string{"busy.slice"}) || report.Waited < 200*time.Millisecond {
		t.Errorf("the freeze reports %+v, want busy.slice after 200 ms", report)
	}
	r.mustThaw()
	if got := g.frozen(); got != "" {
		t.Errorf("still frozen: %s", got)
	}
}

// Programs in the root group, which cannot be frozen, move to one that can;
// the agent does not.
func TestFreezeRoot(t *testing.T) {
	r, g := freezeRig(t, "warren.misc")
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := strconv.Itoa(cmd.Process.Pid)
	g.write("cgroup.procs", strconv.Itoa(os.Getpid())+"\n"+pid+"\n999999999\n")
	if report := r.mustFreeze(false); report.Groups != 1 {
		t.Errorf("the freeze reports %+v, want 1 group", report)
	}
	if got := g.read("warren.misc/cgroup.procs"); got != pid {
		t.Errorf("moved: %q, not %s", got, pid)
	}
	if got := g.frozen(); got != "warren.misc" {
		t.Errorf("frozen: %s", got)
	}
	r.mustThaw()
}

// A wake lets a frozen guest continue if every reset was done, and only then.
func TestWakeThaws(t *testing.T) {
	r, g := freezeRig(t, "system.slice")
	r.sys.disks = []string{"/"}
	r.mustFreeze(true)
	bad := testReset()
	bad.Hostname = "-"
	if _, _, err := r.Wake(within(t, 10*time.Second), bad); err != nil {
		t.Fatal(err)
	}
	if got := g.frozen(); got != "system.slice" {
		t.Errorf("after a failed reset: %q is frozen", got)
	}
	if got := strings.Join(r.sys.calls, ", "); got != "sync /, freeze /, thaw /" { // the resets write files
		t.Errorf("disk: %s", got)
	}
	_, report, err := r.Wake(within(t, 10*time.Second), testReset())
	if err != nil {
		t.Fatal(err)
	}
	if got := g.frozen(); got != "" {
		t.Errorf("after %v: %q is frozen", report, got)
	}
}

// The disks are synced while programs run, and once more when they are frozen, without
// being frozen themselves. A frozen disk is not synced.
func TestSync(t *testing.T) {
	r, _ := freezeRig(t, "a.slice")
	r.sys.disks = []string{"/"}
	if err := r.Sync(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.FreezeSynced(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	r.mustThaw()
	if got := strings.Join(r.sys.calls, ", "); got != "sync /, sync /" {
		t.Errorf("the disks' calls are %s, want two syncs", got)
	}
	r.mustFreeze(true)
	if err := r.Sync(within(t, 10*time.Second)); err != nil {
		t.Errorf("a sync with a frozen disk: %v", err)
	}
	r.mustThaw()
	if got := strings.Join(r.sys.calls, ", "); got != "sync /, sync /, sync /, freeze /, thaw /" {
		t.Errorf("the disks' calls are %s, want no sync of a frozen disk", got)
	}
}

// The disks freeze only on request, once, and thaw.
func TestFreezeDisk(t *testing.T) {
	r, _ := freezeRig(t, "a.slice")
	r.sys.disks = []string{"/", "/mnt/a b"}
	r.mustFreeze(false)
	r.mustFreeze(true)
	r.mustFreeze(true)
	r.mustThaw()
	if got := strings.Join(r.sys.calls, ", "); got != "sync /, sync /mnt/a b, freeze /, freeze /mnt/a b, thaw /, thaw /mnt/a b" {
		t.Errorf("the disks' calls are %s, want each synced, frozen once and thawed", got)
	}
}

// If a disk cannot be frozen, nothing stays frozen.
func TestFreezeDiskFails(t *testing.T) {
	r, g := freezeRig(t, "a.slice")
	r.sys.disks, r.sys.fail = []string{"/"}, errors.New("no")
	if _, err := r.Freeze(within(t, 10*time.Second), true); !errors.Is(err, vm.Unsupported) {
		t.Errorf("a freeze whose disk fails: %v, want unsupported", err)
	}
	if got := g.frozen(); got != "" {
		t.Errorf("frozen: %s", got)
	}
}

// An agent that follows a frozen one knows what to thaw.
func TestFreezeInherited(t *testing.T) {
	r, g := freezeRig(t, "a.slice", "mine.slice")
	g.write("mine.slice/cgroup.freeze", "1")
	r.sys.disks = []string{"/"}
	r.mustFreeze(true)
	r.stop()
	r.start()
	r.mustThaw()
	if got := g.frozen(); got != "mine.slice" {
		t.Errorf("frozen: %s", got)
	}
	if got := strings.Join(r.sys.calls, ", "); got != "sync /, freeze /, thaw /" {
		t.Errorf("disk: %s", got)
	}
	r.stop()
	r.start() // an agent that believed in the state would start nothing
	if got := r.sh("echo on"); got.stdout != "on\n" {
		t.Errorf("after the thaw: %+v", got)
	}
}

// A command that is requested while the guest is frozen starts at the thaw,
// but not if nobody waits for it any more.
func TestExecFrozen(t *testing.T) {
	r, _ := freezeRig(t, "a.slice")
	r.mustFreeze(false)
	marks := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Start(ctx, vm.ExecSpec{Argv: []string{"touch", marks + "/early"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a start in a frozen guest: %v, want it to wait", err)
	}
	r.connect() // the link to the one who asked is gone
	ended := make(chan result, 1)
	go func() {
		e, err := r.Exec(within(t, 20*time.Second), vm.ExecSpec{Argv: []string{"touch", marks + "/late"}})
		if err != nil {
			ended <- result{stderr: err.Error()}
			return
		}
		st, err := e.Run(nil, nil)
		if err != nil {
			ended <- result{stderr: err.Error()}
			return
		}
		ended <- result{status: st}
	}()
	select {
	case got := <-ended:
		t.Fatalf("it ran in a frozen guest: %+v", got)
	case <-time.After(200 * time.Millisecond):
	}
	if _, err := r.Processes(within(t, 10*time.Second)); err != nil {
		t.Errorf("the agent answers nothing else: %v", err)
	}
	r.mustThaw()
	if got := <-ended; got.stderr != "" || got.status.Code != 0 {
		t.Errorf("the command after the thaw ended with %+v, want success", got)
	}
	if _, err := os.Stat(marks + "/late"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(marks + "/early"); err == nil {
		t.Error("a command ran although nobody waited for it")
	}
}

// An upgrade is refused while the disk is frozen; without control groups a
// freeze reports why it fails.
func TestFreezeRefusals(t *testing.T) {
	r, _ := freezeRig(t, "a.slice")
	r.sys.disks = []string{"/"}
	r.mustFreeze(true)
	if err := r.Upgrade(within(t, 10*time.Second), strings.NewReader("x"), 1); !errors.Is(err, vm.WrongState) {
		t.Errorf("an upgrade: %v", err)
	}
	r.mustThaw()
	r.sys.cgroups = ""
	if _, err := r.Freeze(within(t, 10*time.Second), false); !errors.Is(err, vm.Unsupported) || !strings.Contains(err.Error(), "no control groups") {
		t.Errorf("a freeze without control groups: %v, want unsupported", err)
	}
	if got := r.sh("echo on"); got.stdout != "on\n" {
		t.Errorf("after a freeze that failed: %+v", got)
	}
}
