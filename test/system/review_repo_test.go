//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// elsewhere is another server: it has a repository with two commits, an archive of it, and
// a page for webhooks that fails once.
type elsewhere struct {
	url   string
	calls chan *http.Request // with their bodies
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	gitHere(t, "", "init", "-q", "-b", "main", work)
	for _, text := range []string{"one\n", "two\n"} {
		if err := os.MkdirAll(filepath.Join(work, "lib"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, "lib/a"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		gitHere(t, work, "add", "-A")
		gitHere(t, work, "commit", "-qm", "write "+strings.TrimSpace(text))
	}
	gitHere(t, dir, "clone", "-q", "--bare", work, "shop.git")
	gitHere(t, work, "archive", "--prefix=shop-1.0/", "-o", filepath.Join(dir, "shop.tar.gz"), "HEAD")
	e := &elsewhere{calls: make(chan *http.Request, 10)}
	backend := &cgi.Handler{
		Path: filepath.Join(gitHere(t, "", "--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
	mux := http.NewServeMux()
	mux.Handle("/shop.git/", backend)
	mux.Handle("/shop.tar.gz", http.FileServer(http.Dir(dir)))
	failed := false
	mux.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if !failed {
			failed = true
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		e.calls <- r
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	e.url = s.URL
	return e
}

// called waits for the next call of the webhook.
func (e *elsewhere) called(t *testing.T) (r *http.Request, body string) {
	t.Helper()
	select {
	case r = <-e.calls:
	case <-time.After(40 * time.Second):
		t.Fatal("the webhook was not called")
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(data)
}

// TestReviewRepo: the commands for repositories do what their help says: take over a
// repository and an archive, clone, push, and call a webhook, again after it failed.
//
// 000-16
func TestReviewRepo(t *testing.T) {
	t.Setenv("WARREN_REACH_PRIVATE", "127.0.0.1/32") // the other server of this test
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	h, other := newHost(t), newElsewhere(t)
	h.ok("repo", "import", other.url+"/shop.git", "shop")
	var log []api.GitCommit
	if err := json.Unmarshal([]byte(h.ok("repo", "log", "shop", "--json")), &log); err != nil || len(log) != 2 || !strings.HasPrefix(log[0].Message, "write two") {
		t.Errorf("the imported history is %+v, %v, want both commits", log, err)
	}
	h.ok("repo", "import", other.url+"/shop.tar.gz", "lib", "--as", "tar", "--dir", "shop-1.0/lib")
	dir := t.TempDir()
	cloned := func(name string) string {
		t.Helper()
		r := h.runIn(dir, nil, "repo", "clone", name)
		if r.code != 0 || !strings.Contains(r.stderr, name+" is in "+name) {
			t.Fatalf("repo clone does not say where the clone is: %s", r)
		}
		return filepath.Join(dir, name)
	}
	if got := gitHere(t, cloned("lib"), "ls-files"); got != "a" {
		t.Errorf("the imported directory of the archive has %q, want its one file", got)
	}
	h.run("repo", "import", other.url+"/none.tar.gz", "none", "--as", "tar").wants(t, 2, "answered 404")
	h.run("repo", "import", "http://10.0.0.1/x.git", "none").wants(t, 4, "private address")
	h.run("repo", "import", "http://"+vmtest.FreePort(t)+"/x.git", "none").wants(t, 2, "cannot connect to this host")
	h.run("repo", "import", "git@example.com:a/b.git", "none").wants(t, 2, "use a URL such as")
	h.run("repo", "import", other.url+"/shop.git", "shop").wants(t, 5, "choose another name")
	h.run("repo", "clone", "none").wants(t, 3, "no such repository")

	work := cloned("shop")
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	if config := gitHere(t, work, "config", "--list", "--show-origin"); strings.Contains(config, strings.TrimSpace(string(key))) {
		t.Error("the clone's configuration holds the key")
	}
	trigger := strings.Fields(h.ok("repo", "trigger", "add", "shop", other.url+"/hook", "--branch", "main", "--glob", "lib/**"))
	for _, file := range []string{"README", "lib/b"} { // the first is of no interest to the trigger
		if err := os.WriteFile(filepath.Join(work, file), []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		gitHere(t, work, "add", "-A")
		gitHere(t, work, "commit", "-qm", "add "+file)
		push := exec.Command("git", "-C", work, "push", "-q", "origin", "HEAD:main")
		push.Env = append(h.environ(), "GIT_TERMINAL_PROMPT=0")
		if out, err := push.CombinedOutput(); err != nil {
			t.Fatalf("a push in the clone: %v\n%s", err, out)
		}
	}
	if patch := h.ok("repo", "diff", "shop", gitHere(t, work, "rev-parse", "HEAD")); !strings.Contains(patch, "+++ b/lib/b") || strings.Contains(patch, "README") {
		t.Errorf("repo diff of a commit shows %q, want its one file", patch)
	}
	webhook(t, h, other, trigger, gitHere(t, work, "rev-parse", "HEAD"))
	h.ok("repo", "rm", "shop", "lib")
	if left := h.ok("repo", "ls", "--json"); strings.TrimSpace(left) != "[]" {
		t.Errorf("after rm repo ls has %s", left)
	}
}

// webhook wants two calls for the same push, the second because the first failed, and the
// log of them.
func webhook(t *testing.T, h *host, other *elsewhere, trigger []string, head string) {
	t.Helper()
	if len(trigger) != 2 {
		t.Fatalf("trigger add prints %q, want an id and a secret", trigger)
	}
	first, body := other.called(t)
	mac := hmac.New(sha256.New, []byte(trigger[1]))
	mac.Write([]byte(body))
	if got := first.Header.Get("X-Warren-Signature-256"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("the signature is %s, want that of the body by the secret", got)
	}
	var told struct{ Event, Branch, After string }
	if err := json.Unmarshal([]byte(body), &told); err != nil || told.Event != "push" || told.Branch != "main" || told.After != head {
		t.Errorf("the webhook is told %s, %v, want the push of lib/b", body, err)
	}
	if _, again := other.called(t); again != body {
		t.Errorf("the second try has the body %s, want that of the first", again)
	}
	h.eventually("the log says that the second try arrived", func() bool {
		var log []vm.Delivery
		if err := json.Unmarshal([]byte(h.ok("repo", "trigger", "log", "shop", trigger[0], "--json")), &log); err != nil {
			t.Fatal(err)
		}
		return len(log) == 1 && log[0].State == vm.DeliveryDone && log[0].Tries == 2 && log[0].Status == http.StatusOK
	})
	h.ok("repo", "trigger", "rm", "shop", trigger[0])
	if left := h.ok("repo", "trigger", "ls", "shop", "--json"); strings.TrimSpace(left) != "[]" {
		t.Errorf("after rm trigger ls has %s", left)
	}
}
