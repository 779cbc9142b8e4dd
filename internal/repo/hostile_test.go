// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// object writes an object into a client's repository without any check.
func (g *client) object(kind, content string) string {
	g.Helper()
	g.write("raw", content)
	defer os.Remove(filepath.Join(g.dir, "raw"))
	return g.git("hash-object", "-t", kind, "-w", "--literally", "raw")
}

// tree writes a tree of one entry without any check.
func (g *client) tree(mode, name, id string) string {
	g.Helper()
	var raw []byte
	for i := 0; i < len(id); i += 2 {
		var b byte
		_, _ = fmt.Sscanf(id[i:i+2], "%02x", &b)
		raw = append(raw, b)
	}
	return g.object("tree", mode+" "+name+"\x00"+string(raw))
}

// TestPushHostile: a pushed tree that a checkout would turn into git's own directory, and
// a list of submodules that would run something, are refused with git's reason, and leave
// nothing.
func TestPushHostile(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	blob := g.object("blob", "x\n")
	modules := g.object("blob", "[submodule \"a\"]\n\turl = --upload-pack=touch /tmp/x\n\tpath = a\n")
	for what, tree := range map[string]string{
		".git":                       g.tree("40000", ".git", g.tree("100644", "config", blob)),
		".GIT":                       g.tree("40000", ".GIT", g.tree("100644", "config", blob)),
		"the short name of .git":     g.tree("40000", "git~1", g.tree("100644", "config", blob)),
		".git with ignored ones":     g.tree("40000", ".g\u200cit", g.tree("100644", "config", blob)),
		"..":                         g.tree("40000", "..", g.tree("100644", "x", blob)),
		"a slash in a name":          g.tree("100644", "a/b", blob),
		"a submodule with an option": g.tree("100644", ".gitmodules", modules),
		"a linked .gitmodules":       g.tree("120000", ".gitmodules", blob),
	} {
		commit := g.git("commit-tree", "-m", "m", tree)
		g.refused(what, "the objects are refused", "push", "-q", "origin", commit+":refs/heads/agent/x")
	}
	commit := g.git("commit-tree", "-m", "m", g.tree("100644", "ok", blob))
	for _, name := range []string{"refs/other/x", "refs/heads/a\u202eb", "refs/heads/" + strings.Repeat("a", 201)} {
		g.refused("the ref "+name, "remote rejected", "push", "-q", "origin", commit+":"+name)
	}
	if list, err := h.room.Branches(t.Context(), owner, rec.ID); err != nil || len(list) != 0 {
		t.Errorf("after refusals there are the branches %+v, %v", list, err)
	}
	for _, dir := range []string{h.site.Dir.RepoIncoming(), filepath.Join(h.site.Dir.Repo(rec.ID), "objects", "pack")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%d files are left in %s, %v", len(left), dir, err)
		}
	}
	g.git("push", "-q", "origin", commit+":refs/heads/main")
}

// TestPushedProgramsNeverRun: a hook, a filter and attributes that come with a push, and
// a configuration of the user that runs the server, start nothing on the host.
func TestPushedProgramsNeverRun(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	home := t.TempDir()
	evil := "[core]\n\tfsmonitor = touch " + marker + "\n\thooksPath = " + home + "\n[filter \"x\"]\n\tclean = touch " + marker + "\n\tsmudge = touch " + marker +
		"\n[diff \"x\"]\n\ttextconv = touch " + marker + "\n\tcommand = touch " + marker + "\n[uploadpack]\n\tpackObjectsHook = touch " + marker + "\n"
	for name, text := range map[string]string{".gitconfig": evil, "pre-receive": "#!/bin/sh\ntouch " + marker + "\n", "update": "#!/bin/sh\ntouch " + marker + "\n", "reference-transaction": "#!/bin/sh\ntouch " + marker + "\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_PARAMETERS", "'core.hooksPath="+home+"'")
	t.Setenv("GIT_EXTERNAL_DIFF", "touch "+marker)
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	hooks := filepath.Join(h.site.Dir.Repo(rec.ID), "hooks")
	h.must(os.MkdirAll(hooks, 0o700))
	for _, name := range []string{"pre-receive", "post-receive", "update", "post-update", "reference-transaction"} {
		h.must(os.WriteFile(filepath.Join(hooks, name), []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o755))
	}
	first := h.commit(owner, rec, "", "m", map[string]string{".gitattributes": "* filter=x diff=x\n", "a.txt": "one\n"})
	h.commit(owner, rec, "", "m", map[string]string{"a.txt": "two\n"})
	g := newClient(t)
	t.Setenv("GIT_CONFIG_PARAMETERS", "")
	t.Setenv("GIT_EXTERNAL_DIFF", "")
	g.git("clone", "-q", h.remote(rec, key), ".")
	g.change("b", "x")
	g.git("push", "-q", "origin", "main")
	h.must(h.room.Patch(t.Context(), owner, rec.ID, first.SHA, "main", io.Discard))
	if _, err := h.room.Compare(t.Context(), owner, rec.ID, first.SHA, "main"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program that was pushed or configured ran on the host")
	}
}

// TestQuota: a push and a commit beyond the account's disk quota are refused in words
// that git shows to the pusher; nothing of them is left, and smaller ones pass.
func TestQuota(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	_, err := h.SetQuota(t.Context(), h.call, owner.Actor.Account, vm.Quota{Disk: 4 << 20})
	h.must(err)
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	noise := make([]byte, 12<<20)
	_, _ = io.ReadFull(randomness(t), noise)
	g.change("big", string(noise))
	g.refused("a push beyond the quota", "the account may store", "push", "origin", "HEAD:main")
	_, err = h.room.Commit(t.Context(), owner, rec.ID, repo.CommitRequest{Message: "m", Files: edits(map[string]string{"big": string(noise)})})
	h.refusal("a commit beyond the quota", err, vm.Limit, "GIT_REPO_LIMIT_EXCEEDED")
	for _, dir := range []string{h.site.Dir.RepoIncoming(), filepath.Join(h.site.Dir.Repo(rec.ID), "objects", "pack")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%d files of refused pushes are left in %s, %v", len(left), dir, err)
		}
	}
	if list, err := h.room.Branches(t.Context(), owner, rec.ID); err != nil || len(list) != 0 {
		t.Errorf("after refused pushes there are the branches %+v, %v", list, err)
	}
	h.commit(owner, rec, "", "m", map[string]string{"half": string(noise[:2<<20])})
	_, err = h.room.Commit(t.Context(), owner, rec.ID, repo.CommitRequest{Message: "m", Files: edits(map[string]string{"more": string(noise[3<<20 : 6<<20])})})
	h.refusal("a second commit, beyond what is left", err, vm.Limit, "GIT_REPO_LIMIT_EXCEEDED")
	use, err := h.Storage(t.Context(), owner)
	h.must(err)
	found := false
	for _, item := range use.Items {
		found = found || item.Kind == "repository" && item.ID == rec.ID && item.Unique > 2<<20
	}
	if !found {
		t.Errorf("the account's storage does not name the repository: %+v", use.Items)
	}
}

func randomness(t *testing.T) io.Reader {
	t.Helper()
	f, err := os.Open("/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestHTTPRefused: what is no request of git's smart protocol gets its status and nothing
// of the repository.
func TestHTTPRefused(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{Public: true})
	h.commit(owner, rec, "", "m", map[string]string{"a": "x"})
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
	}{
		{"GET", "/info/refs", "", "", 403},
		{"GET", "/info/refs?service=git-upload-archive", "", "", 403},
		{"GET", "/HEAD", "", "", 403},
		{"GET", "/objects/info/packs", "", "", 403},
		{"GET", "/config", "", "", 403},
		{"POST", "/info/refs?service=git-upload-pack", "", "", 400},
		{"GET", "/git-upload-pack", "", "", 400},
		{"POST", "/git-upload-pack", "text/plain", "0000", 400},
		{"POST", "/git-receive-pack", "application/x-git-receive-pack-request", "0000", 401},
		{"GET", "/info/refs?service=git-receive-pack", "", "", 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, h.url+"/"+rec.ID+c.path, strings.NewReader(c.body))
		h.must(err)
		req.Header.Set("Content-Type", c.kind)
		res, err := http.DefaultClient.Do(req)
		h.must(err)
		_ = res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s %s answers %d, want %d", c.method, c.path, res.StatusCode, c.status)
		}
	}
	for _, body := range []string{"zzzz", "00010000", "0004", "fff5", "0020" + strings.Repeat("x", 28), strings.Repeat("000ashallow", 3)} {
		actor := *owner
		in := strings.NewReader(body)
		var out bytes.Buffer
		err := h.room.ServeStream(t.Context(), &actor, rec.ID, repo.ReceivePack, "", in, &out, io.Discard)
		if err == nil {
			t.Errorf("a push that begins with %q succeeds", body)
		}
	}
}
