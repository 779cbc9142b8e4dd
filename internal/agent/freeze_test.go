// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/agent"
)

// groups makes a tree of control groups: name to the content of cgroup.freeze,
// and whether it says that it stands still at once.
func groups(t *testing.T, r *rig, obeys map[string]bool, frozen ...string) {
	t.Helper()
	r.stop()
	r.cfg.CgroupDir, r.cfg.ProcDir = t.TempDir(), t.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(r.cfg.CgroupDir+"/cgroup.procs", "1\n2\n77\n88\n")
	write(r.cfg.ProcDir+"/2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0")
	write(r.cfg.ProcDir+"/77/stat", "77 (stray (x)) S 1 77 77 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0")
	for name, at := range obeys {
		dir := r.cfg.CgroupDir + "/" + name
		state := "0"
		if slices.Contains(frozen, name) {
			state = "1"
		}
		write(dir+"/cgroup.freeze", state+"\n")
		events := "populated 1\nfrozen 0\n"
		if at {
			events = "populated 1\nfrozen 1\n"
		}
		write(dir+"/cgroup.events", events)
	}
	r.start()
}

func frozenState(t *testing.T, r *rig, group string) string {
	t.Helper()
	b, err := os.ReadFile(r.cfg.CgroupDir + "/" + group + "/cgroup.freeze")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// TestFreeze: every group but those that were frozen before stands still until
// a wake whose resets are all done; strays of the root group are moved first.
func TestFreeze(t *testing.T) {
	r := etcRig(t, nil)
	groups(t, r, map[string]bool{"system.slice": true, "slow.slice": false, "theirs.slice": true}, "theirs.slice")
	ctx := within(t, 10*time.Second)
	report, err := r.Freeze(ctx, false)
	if err != nil || report.Groups != 2 || !slices.Equal(report.Unfrozen, []string{"slow.slice"}) || report.Waited < 250*time.Millisecond {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, g := range []string{"system.slice", "slow.slice", "theirs.slice"} {
		if frozenState(t, r, g) != "1" {
			t.Errorf("%s is not frozen", g)
		}
	}
	if b, err := os.ReadFile(r.cfg.CgroupDir + "/warren.misc/cgroup.procs"); err != nil || string(b) != "77" {
		t.Errorf("the stray was not moved: %q, %v", b, err)
	}
	bad := testReset()
	bad.LinkKey = nil
	if _, report, err := r.Wake(ctx, bad); err != nil || report["link-key"] == "ok" || frozenState(t, r, "system.slice") != "1" {
		t.Errorf("a wake without every reset lets programs go on: %v, %v", report, err)
	}
	if _, _, err := r.Wake(ctx, testReset()); err != nil {
		t.Fatal(err)
	}
	for g, want := range map[string]string{"system.slice": "0", "slow.slice": "0", "theirs.slice": "1"} {
		if got := frozenState(t, r, g); got != want {
			t.Errorf("after the wake %s is %s", g, got)
		}
	}
}

// TestThawByAnother: an agent that was started anew knows what stands still.
func TestThawByAnother(t *testing.T) {
	r := etcRig(t, nil)
	groups(t, r, map[string]bool{"system.slice": true})
	ctx := within(t, 10*time.Second)
	if err := r.Thaw(ctx); err != nil {
		t.Fatalf("thaw of what is not frozen: %v", err)
	}
	if _, err := r.Freeze(ctx, false); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.start()
	if err := r.Thaw(ctx); err != nil || frozenState(t, r, "system.slice") != "0" {
		t.Errorf("%v, %s", err, frozenState(t, r, "system.slice"))
	}
}

// TestFreezeAmongFeatures: a host asks for it only where it is.
func TestFreezeAmongFeatures(t *testing.T) {
	if !slices.Contains(agent.Features, "freeze") {
		t.Error("not a feature")
	}
}
