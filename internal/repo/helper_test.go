// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// host is a server's rooms on a simulated host, with git's HTTP door.
type host struct {
	*testing.T
	site *vmtest.Site
	*vmtest.House
	room *repo.Repo
	call *vm.Call // of the admin
	url  string
}

func newHost(t *testing.T) *host {
	t.Helper()
	return newHostAt(t, nil)
}

// newHostAt is newHost with a clock of its own; nil = the system's.
func newHostAt(t *testing.T, clock engine.Clock) *host {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	site.Clock = clock
	h := &host{T: t, site: site}
	h.open()
	door := httptest.NewServer(http.HandlerFunc(h.door))
	t.Cleanup(door.Close)
	h.url = door.URL
	return h
}

// open opens the rooms; again after reopen.
func (h *host) open() {
	h.Helper()
	e, err := h.site.Open(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	h.House, h.room = e, e.Repo
	h.Cleanup(func() { h.close(e) })
	if h.call != nil {
		return
	}
	if h.call, _, err = vmtest.Admin(h.Context(), e); err != nil {
		h.Fatal(err)
	}
}

func (h *host) close(e *vmtest.House) {
	h.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := e.Close(ctx); err != nil {
		h.Errorf("close: %v", err)
	}
}

// door authenticates as the real one does: the password is a key or a token.
func (h *host) door(w http.ResponseWriter, req *http.Request) {
	c := &vm.Call{}
	if _, secret, ok := req.BasicAuth(); ok {
		actor, err := h.Authenticate(req.Context(), secret)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		c.Actor = actor
	}
	name, path, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	_ = h.room.ServeGit(w, req, c, name, path)
}

// account makes an account, and returns a call by its key and the key's secret.
func (h *host) account(name string) (*vm.Call, string) {
	h.Helper()
	_, _, secret, err := h.CreateAccount(h.Context(), h.call, name)
	h.must(err)
	actor, err := h.Authenticate(h.Context(), secret)
	h.must(err)
	return &vm.Call{Actor: actor}, secret
}

// identity makes an identity with a token, and returns a call by it and the token.
func (h *host) identity(c *vm.Call, name string) (*vm.Call, string) {
	h.Helper()
	i, err := h.CreateIdentity(h.Context(), c, name)
	h.must(err)
	_, secret, err := h.CreateToken(h.Context(), c, string(i.ID), access.TokenRequest{})
	h.must(err)
	actor, err := h.Authenticate(h.Context(), secret)
	h.must(err)
	return &vm.Call{Actor: actor}, secret
}

func (h *host) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *host) create(c *vm.Call, req repo.CreateRequest) vm.Repository {
	h.Helper()
	rec, err := h.room.Create(h.Context(), c, req)
	h.must(err)
	return rec
}

// remote is the URL of a repository for a secret; "" = anonymous.
func (h *host) remote(rec vm.Repository, secret string) string {
	if secret == "" {
		return h.url + "/" + rec.ID
	}
	return strings.Replace(h.url, "http://", "http://x-access-token:"+secret+"@", 1) + "/" + rec.ID
}

// commit makes a commit by the API, of files by path and content.
func (h *host) commit(c *vm.Call, rec vm.Repository, branch, message string, files map[string]string) vm.Commit {
	h.Helper()
	out, err := h.room.Commit(h.Context(), c, rec.ID, repo.CommitRequest{Branch: branch, Message: message, Files: edits(files)})
	h.must(err)
	return out
}

func edits(files map[string]string) (list []repo.FileEdit) {
	for path, text := range files {
		list = append(list, repo.FileEdit{Path: path, Size: int64(len(text)), Open: repo.Bytes([]byte(text))})
	}
	return list
}

// refusal wants an error of a kind with a code.
func (h *host) refusal(what string, err error, kind vm.Kind, code string) {
	h.Helper()
	if vm.KindOf(err) != kind || vm.AsError(err).Code != code {
		h.Errorf("%s: the error is %v (kind %s, code %s), want kind %s, code %s", what, err, vm.KindOf(err), vm.AsError(err).Code, kind, code)
	}
}

// client is a user's git with a working directory.
type client struct {
	*testing.T
	dir string
}

func newClient(t *testing.T) *client { return &client{t, t.TempDir()} }

// try runs git and returns all that it prints.
func (g *client) try(args ...string) (string, error) {
	cmd := exec.CommandContext(g.Context(), "git", args...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "HOME="+g.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com",
		"GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// git runs git and fails the test when it fails.
func (g *client) git(args ...string) string {
	g.Helper()
	out, err := g.try(args...)
	if err != nil {
		g.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// refused wants that git fails and prints a text.
func (g *client) refused(what, text string, args ...string) {
	g.Helper()
	out, err := g.try(args...)
	if err == nil {
		g.Errorf("%s: git %s succeeds, want a refusal", what, strings.Join(args, " "))
	} else if !strings.Contains(out, text) {
		g.Errorf("%s: git prints %q, want %q in it", what, out, text)
	}
}

func (g *client) write(name, text string) {
	g.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		g.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		g.Fatal(err)
	}
}

// change writes a file and commits it.
func (g *client) change(name, text string) string {
	g.Helper()
	g.write(name, text)
	g.git("add", "-A")
	g.git("commit", "-q", "-m", "change "+name)
	return g.git("rev-parse", "HEAD")
}
