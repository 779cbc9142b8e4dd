// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestClients: clients of every kind are served: old versions of the protocol, shallow and
// partial clones, a push from a shallow clone, and requests that git compresses.
func TestClients(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	var tip vm.Commit
	for i := range 5 {
		tip = h.commit(owner, rec, "", "m", map[string]string{"a": fmt.Sprint(i), "big": strings.Repeat(fmt.Sprint(i), 1<<16)})
	}
	for _, version := range []string{"0", "1", "2"} {
		g := newClient(t)
		g.git("-c", "protocol.version="+version, "clone", "-q", h.remote(rec, key), ".")
		if have := g.git("rev-parse", "HEAD"); have != tip.SHA {
			t.Errorf("a clone by version %s of the protocol is at %s, want %s", version, have, tip.SHA)
		}
	}
	shallow := newClient(t)
	shallow.git("clone", "-q", "--depth=1", h.remote(rec, key), ".")
	pushed := shallow.change("b", "x")
	shallow.git("push", "-q", "origin", "main")
	partial := newClient(t)
	partial.git("clone", "-q", "--filter=blob:none", "--no-checkout", h.remote(rec, key), ".")
	if have := partial.git("rev-list", "--objects", "--missing=print", "HEAD"); !strings.Contains(have, "\n?") {
		t.Error("a clone without files has all files")
	}
	partial.git("checkout", "-q", "main")
	if have := partial.git("rev-parse", "HEAD"); have != pushed {
		t.Errorf("the partial clone is at %s, want %s", have, pushed)
	}
	many := newClient(t) // what it has and wants is long, so that git compresses its request
	many.git("clone", "-q", h.remote(rec, key), ".")
	for i := range 60 {
		many.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint(i))
	}
	next := h.commit(owner, rec, "", "m", map[string]string{"a": "next"})
	many.git("fetch", "-q", "origin")
	if have := many.git("rev-parse", "origin/main"); have != next.SHA {
		t.Errorf("after the fetch it is at %s, want %s", have, next.SHA)
	}
	unrelated := newClient(t)
	unrelated.git("init", "-q", ".")
	first := unrelated.change("x", "1")
	second := unrelated.change("y", "2")
	unrelated.git("clone", "-q", "--depth=1", "file://"+unrelated.dir, "part")
	part := &client{t, filepath.Join(unrelated.dir, "part")}
	part.refused("a push of history that the server lacks", "objects are missing", "push", h.remote(rec, key), second+":refs/heads/part")
	if _, err := h.room.CommitAt(t.Context(), owner, rec.ID, first); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a refused push left a commit: %v", err)
	}
}

// TestMaintenance: many small commits do not leave many packs, the repository stays whole,
// and its record says what its files take.
func TestMaintenance(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	for i := range 45 {
		h.commit(owner, rec, "", "m", map[string]string{"a": fmt.Sprint(i)})
	}
	packs := func() int {
		list, err := filepath.Glob(filepath.Join(h.site.Dir.Repo(rec.ID), "objects", "pack", "*.pack"))
		h.must(err)
		return len(list)
	}
	eventually(t, "the packs are joined and the size is recorded", func() bool {
		got, err := h.room.Get(t.Context(), owner, rec.ID)
		return err == nil && packs() <= 20 && got.Bytes > 0 && !got.PushedAt.IsZero()
	})
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	g.git("fsck", "--strict")
	if have := g.git("rev-list", "--count", "HEAD"); have != "45" {
		t.Errorf("the clone has %s commits, want 45", have)
	}
}

// TestWeeklyPack: a repository that changes a week after it was last packed is packed as a
// whole, and a reader of its objects keeps reading.
func TestWeeklyPack(t *testing.T) {
	clock := vmtest.NewClock()
	h := newHostAt(t, clock)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	h.commit(owner, rec, "", "m", map[string]string{"a": "0"})
	eventually(t, "the first change is recorded", func() bool {
		got, err := h.room.Get(t.Context(), owner, rec.ID)
		return err == nil && !got.MaintainedAt.IsZero()
	})
	clock.Advance(8 * 24 * time.Hour)
	tip := h.commit(owner, rec, "", "m", map[string]string{"a": "1"})
	eventually(t, "the repository is packed as a whole", func() bool {
		list, err := filepath.Glob(filepath.Join(h.site.Dir.Repo(rec.ID), "objects", "pack", "*.bitmap"))
		return err == nil && len(list) == 1
	})
	if file, err := h.room.Contents(t.Context(), owner, rec.ID, tip.SHA, "a", false); err != nil || string(file.Data) != "1" {
		t.Errorf("after packing the file is %q, %v", file.Data, err)
	}
	newClient(t).git("clone", "-q", h.remote(rec, key), ".")
}

// eventually waits until a fact holds.
func eventually(t *testing.T, fact string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 20 s it is not so that %s", fact)
		}
	}
}

// TestRightEnds: a caller whose key is revoked in the middle of a push moves no ref.
func TestRightEnds(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	agent, _ := h.identity(owner, "agent")
	h.must(h.GrantRepo(t.Context(), owner, "agent", rec.ID, vm.GitWrite, false))
	revoking := repo.FileEdit{Path: "x", Size: 1, Open: nil}
	content := repo.Bytes([]byte("y"))
	revoking.Open = func() (io.ReadCloser, error) {
		h.must(h.RevokeRepo(t.Context(), owner, "agent", rec.ID))
		return content()
	}
	_, err := h.room.Commit(t.Context(), agent, rec.ID, repo.CommitRequest{Branch: "agent/x", Message: "m", Files: []repo.FileEdit{revoking}})
	h.refusal("a commit whose right ends while its contents come", err, vm.Denied, "REPOSITORY_ACCESS_DENIED")
	if list, err := h.room.Branches(t.Context(), owner, rec.ID); err != nil || len(list) != 0 {
		t.Errorf("it made the branches %+v, %v", list, err)
	}
	if left, err := os.ReadDir(filepath.Join(h.site.Dir.Repo(rec.ID), "objects", "pack")); err != nil || len(left) != 0 {
		t.Errorf("it left %d files, %v", len(left), err)
	}
}
