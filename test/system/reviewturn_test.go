//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// answer runs warren with --json and decodes its answer.
func answer[T any](h *host, args ...string) (out T) {
	h.t.Helper()
	text := h.ok(slices.Insert(args, 1, "--json")...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		h.t.Fatalf("warren %s --json gives no JSON: %v\n%s", strings.Join(args, " "), err, text)
	}
	return out
}

// TestReviewTurn marks three turns, destroys the workspace, and undoes it: files and
// processes are back, and a running server answers again. One deleted directory comes
// back while a process keeps running.
func TestReviewTurn(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.sh("app", "mkdir -p /work/src /etc/app && echo one > /work/src/a && chmod 640 /work/src/a && chown 1:1 /work/src/a && truncate -s 64M /work/src/sparse && echo end >> /work/src/sparse && echo conf > /etc/app/c && cd /work && (setsid python3 -m http.server 3000 >/dev/null 2>&1 &)")
	h.eventually("the server answers", func() bool { return h.run("exec", "app", "--", "curl", "-sf", "localhost:3000/src/a").code == 0 })
	server := h.sh("app", "pgrep -f '[h]ttp.server'")
	first := answer[vm.Turn](h, "turn", "app", "first try")
	if first.Number != 1 || !first.Memory {
		t.Errorf("the first turn is %+v, want number 1 with memory", first)
	}
	h.sh("app", "echo two > /work/src/b; echo 2 > /etc/app/d")
	h.ok("turn", "app", "second try")
	h.sh("app", "rm /work/src/b; echo changed > /work/src/a")
	h.ok("exec", "app", "--turn", "third try", "--", "sh", "-c", "pkill -f '[h]ttp.server'; rm -rf /work/src /etc/app")

	turns := answer[[]vm.Turn](h, "turns", "app")
	if len(turns) != 3 || turns[2].Note != "third try" {
		t.Fatalf("the turns are %+v, want three", turns)
	}
	for i, want := range []vm.DiffStat{{Added: 2}, {Modified: 1, Deleted: 1}, {Deleted: 4}} {
		got := turns[i].Stat
		if got == nil {
			t.Errorf("turn %d has no figures: %s", i+1, turns[i].StatError)
			continue
		}
		if got.Added < want.Added || got.Deleted < want.Deleted || got.Modified < want.Modified {
			t.Errorf("turn %d changed %+v, want at least %+v", i+1, *got, want)
		}
	}

	h.run("exec", "app", "--", "curl", "-sf", "--max-time", "5", "localhost:3000/").wants(t, 7, "") // nobody listens
	if out := h.ok("undo", "app"); !strings.Contains(out, "back to turn 3") || !strings.Contains(out, "warren undo app sl-") {
		t.Errorf("undo says %q, want the turn and how to undo it", out)
	}
	if got := h.sh("app", "cat /work/src/a /etc/app/c && curl -sf localhost:3000/src/a && pgrep -f '[h]ttp.server'"); got != "changed\nconf\nchanged\n"+server {
		t.Errorf("after undo the files, the server's answer and its process are %q, want those of turn 3", got)
	}

	// One path, while the server keeps running.
	h.sh("app", "rm -r /work/src && echo kept > /work/other")
	if plan := h.ok("restore", "app", "/work/src", "--from", "1", "--dry-run"); !strings.Contains(plan, "/work/src/a") || !strings.Contains(plan, "would be restored") {
		t.Errorf("the plan says %q, want /work/src/a", plan)
	}
	h.ok("restore", "app", "/work/src", "--from", "1")
	if got := h.sh("app", "cat /work/src/a /work/other && stat -c '%a %u %g' /work/src/a && curl -sf localhost:3000/src/a && pgrep -f '[h]ttp.server' && ls -A /work"); got != "one\nkept\n640 1 1\none\n"+server+"\nother\nsrc" {
		t.Errorf("after the restore: %q, want the directory of turn 1 with modes and owners, and all else as it was", got)
	}
	if got := h.sh("app", "stat -c %s /work/src/sparse && tail -c 4 /work/src/sparse && du -k /work/src/sparse | cut -f1"); !strings.HasPrefix(got, "67108868\nend\n") || len(got) > len("67108868\nend\n1234") {
		t.Errorf("the sparse file that came back has the size, end and KiB on the disk %q, want 67108868, end and less than 10,000", got)
	}
	h.sparse()
	h.run("restore", "app", "/work/nothing").wants(t, 3, "was not there")

	// A summary beside a command's own output and status.
	r := h.run("exec", "app", "--cwd", "/work", "--summary", "--", "sh", "-c", "echo out; echo x > /work/new; echo y > /etc/app-new; exit 3")
	if r.code != 3 || r.stdout != "out\n" {
		t.Errorf("the command with a summary ended with %d and printed %q, want its own 3 and out", r.code, r.stdout)
	}
	if !strings.Contains(r.stderr, "2 added") || !strings.Contains(r.stderr, "/etc/app-new") || strings.Contains(r.stderr, "/work/new") {
		t.Errorf("the summary is %q, want 2 added and only /etc/app-new outside", r.stderr)
	}
	ran := answer[struct {
		Summary *vm.ExecSummary `json:"summary"`
	}](h, "exec", "app", "--summary", "--", "true")
	if ran.Summary == nil || ran.Summary.Error != "" {
		t.Errorf("the summary as JSON is %+v, want one without an error", ran.Summary)
	} else {
		t.Logf("a summary of a command that changes nothing takes %.0f ms", ran.Summary.CostMs)
	}
	t.Logf("a turn paused the VM for %.1f ms", first.PauseMs)
}

// sparse wants clear refusals of a file of 10 GB that is nearly empty: neither a restore
// nor a commit takes it, and the VM stays as it was.
func (h *host) sparse() {
	h.t.Helper()
	h.sh("app", "mkdir /work/new && truncate -s 10G /work/new/huge")
	h.ok("turn", "app", "with a sparse file")
	h.ok("repo", "create", "shop")
	h.run("commit", "app", "/work/new", "--repo", "shop", "--yes").wants(h.t, 8, "/work/new/huge: it is larger than 100 MiB")
	h.sh("app", "rm /work/new/huge")
	h.run("restore", "app", "/work/new/huge").wants(h.t, 8, "it has 10240 MiB, with its holes")
	if got := h.sh("app", "ls -A /work/new; rmdir /work/new"); got != "" {
		h.t.Errorf("after a refused restore /work/new has %q, want nothing", got)
	}
}

func paths(list []vm.GuestPath) (out []string) {
	for _, p := range list {
		out = append(out, string(p))
	}
	return out
}
