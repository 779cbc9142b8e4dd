//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// truth runs `warren truth` and reads its JSON.
func (h *host) truth(name string) vm.Truth {
	h.t.Helper()
	var out vm.Truth
	if err := json.Unmarshal([]byte(h.ok("truth", name, "--json")), &out); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// treeAt returns a tree of a truth.
func treeAt(t testing.TB, truth vm.Truth, path string) vm.TruthTree {
	t.Helper()
	i := slices.IndexFunc(truth.Trees, func(tree vm.TruthTree) bool { return string(tree.Path) == path })
	if i < 0 {
		t.Fatalf("no tree is at %s: %+v", path, truth.Trees)
	}
	return truth.Trees[i]
}

// stored lists the versions of a bucket.
func (h *host) stored(bucket string) []vm.Object {
	h.t.Helper()
	var out []vm.Object
	if err := json.Unmarshal([]byte(h.ok("artifact", "versions", "s3://"+bucket+"/", "--json")), &out); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// TestReviewTruth: on a real VM, the copy that counts is the repository's commit, then the
// machine when a file changes or the guest's git commits, then the commit that `warren
// commit` makes; published files are an object's. A mounted volume is its own truth, and a
// preview that of the program that answers. Object storage holds nothing that nobody put
// there. rm says what is lost, and a new VM has nothing to lose.
//
// 000-15, 000-48, 001-39, 001-40, 001-52
func TestReviewTruth(t *testing.T) {
	h := newHost(t)
	repo, address := h.hosted("shop")
	work := t.TempDir()
	gitHere(t, work, "init", "-q", "-b", "main")
	for name, text := range map[string]string{"app.py": "print('one')\n", ".gitignore": "*.log\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitHere(t, work, "add", "-A")
	gitHere(t, work, "commit", "-q", "-m", "first")
	gitHere(t, work, "push", "-q", address, "main")
	head := gitHere(t, work, "rev-parse", "HEAD")
	h.ok("up", "--name", "app")
	if fresh := h.truth("app"); fresh.Only.Some() {
		t.Errorf("a new VM has something that exists only in it: %+v", fresh.Only)
	}
	h.sh("app", "mkdir -p /work")
	h.ok("cp", "-r", work, "app:/work/shop")

	clean := treeAt(t, h.truth("app"), "/work/shop")
	if clean.Authority.Place != vm.PlaceRepository || clean.Authority.Repo != repo || clean.Authority.Commit != head || clean.Authority.Branch != "main" || clean.Only.Some() {
		t.Errorf("the truth of a clean clone is %+v, want the repository at %s", clean, head)
	}

	h.ok("volume", "create", "data", "--size", "64")
	h.ok("volume", "unlock", "data")
	h.ok("volume", "mount", "app", "--volume", "data", "--guest", "/data", "--rw")
	h.ok("exec", "app", "--background", "--", "sh", "-c", "cd /work/shop && exec python3 -m http.server 3000")
	h.ok("wait", "app", "--port", "3000")
	served := h.truth("app")
	if data := treeAt(t, served, "/data"); data.Kind != vm.TreeVolume || data.Authority.Place != vm.PlaceVolume || data.Authority.Volume == "" || data.Authority.Name != "default/data" || !data.Stays {
		t.Errorf("the truth of a mounted volume is %+v, want the volume default/data by its id, which stays", data)
	}
	preview := treeAt(t, served, ":3000")
	if preview.Kind != vm.TreePreview || preview.Authority.Place != vm.PlaceProcess || !strings.Contains(preview.Authority.Note, "http.server") || preview.Stays {
		t.Errorf("the truth of a preview is %+v, want the program that answers", preview)
	}
	if len(preview.Copies) != 1 || preview.Copies[0].Commit != head {
		t.Errorf("the preview stands beside %+v, want the commit %s of the clone that its program works in", preview.Copies, head)
	}

	h.sh("app", `cd /work/shop && echo "print('two')" > app.py && echo new > new.txt && echo noise > a.log`)
	dirty := h.truth("app")
	tree := treeAt(t, dirty, "/work/shop")
	if tree.Authority.Place != vm.PlaceMachine || tree.Authority.Generation != dirty.Generation || tree.Differs.Modified != 1 || tree.Differs.Added != 1 || tree.Only.Files != 2 || tree.Only.Ignored != 1 {
		t.Errorf("with a changed, a new and an ignored file the truth is %+v, want the machine, and two files only here", tree)
	}

	h.sh("app", `cd /work/shop && git add -A && git -c user.name=a -c user.email=a@b commit -qm 'Only here'`)
	tree = treeAt(t, h.truth("app"), "/work/shop")
	if tree.Only.Commits != 1 || tree.Only.MoreCommits || tree.Only.Newest == nil || tree.Only.Newest.Subject != "Only here" || tree.Only.Files != 2 {
		t.Errorf("after a commit in the guest %+v is only here, want one commit and its two files", tree.Only)
	}
	shown := h.ok("truth", "app")
	for _, want := range []string{"/work/shop", "authority", "machine app at generation", "repository shop at commit " + head[:12] + " (main)", `"Only here"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the output does not say %q:\n%s", want, shown)
		}
	}

	var plan vm.CommitPlan
	out := h.ok("commit", "app", "/work/shop", "--repo", "shop", "--yes", "--json", "-m", "Accepted", "--base", head[:12], "--branch", "agent/app/main")
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatal(err)
	}
	tree = treeAt(t, h.truth("app"), "/work/shop")
	if tree.Only.Files != 0 || tree.Only.Commits != 1 || !slices.ContainsFunc(tree.Copies, func(c vm.DataCopy) bool { return c.Commit == plan.Commit }) {
		t.Errorf("after `warren commit` the truth is %+v, want the commit %s as a copy that has every file", tree, plan.Commit)
	}

	h.sh("app", "mkdir -p /work/out && echo done > /work/out/report")
	if out := treeAt(t, h.truth("app"), "/work"); out.Only.Files != 1 {
		t.Errorf("before the publish %+v is only here, want the report", out.Only)
	}
	h.ok("bucket", "create", "results")
	if list := h.stored("results"); len(list) != 0 {
		t.Errorf("before anybody published, %+v is stored, want nothing", list)
	}
	h.ok("publish", "app:/work/out", "s3://results/out")
	list := h.stored("results")
	if len(list) != 1 || list[0].Origin == nil || list[0].Origin.Name != "app" || list[0].Origin.Path != "/work/out" || list[0].Origin.Generation == "" || list[0].Origin.Receipt == "" {
		t.Fatalf("after the publish %+v is stored, want one version that names its VM, path, generation and audit record", list)
	}
	tree = treeAt(t, h.truth("app"), "/work")
	if tree.Authority.Place != vm.PlaceObject || tree.Authority.Bucket != "results" || tree.Authority.Version == "" || tree.Only.Some() {
		t.Errorf("after the publish the truth of /work is %+v, want the version of the object", tree)
	}

	h.ok("stop", "app")
	if stopped := h.truth("app"); stopped.State != vm.Stopped || treeAt(t, stopped, "/work/shop").Only.Commits != 1 {
		t.Errorf("the truth of the stopped VM is %+v, want the same, and no start", stopped)
	}
	r := h.run("rm", "app")
	if r.code != 0 || !strings.Contains(r.stderr, "only in app, and lost when it is removed") || !strings.Contains(r.stderr, "/work/shop: 1 commit") {
		t.Errorf("rm says %q with status %d, want the commit that is lost", r.stderr, r.code)
	}
}
