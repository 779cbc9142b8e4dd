//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitHost is a server with one repository, app, that has one commit on main.
type gitHost struct {
	*host
	key string // of the administrator
	id  string // of the repository
}

func newGitHost(t *testing.T, serveArgs ...string) *gitHost {
	t.Helper()
	g := &gitHost{host: newHost(t, serveArgs...)}
	key, err := os.ReadFile(filepath.Join(g.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	g.key = strings.TrimSpace(string(key))
	var made struct{ RepoID string }
	g.api("POST", "/git/v1/repo", `{"name":"app"}`, &made)
	g.id = made.RepoID
	g.api("POST", "/git/v1/repo/"+g.id+"/commits", `{"message":"first","files":[{"path":"README","content":"one\n"}]}`, nil)
	return g
}

// api calls the API and decodes the answer.
func (g *gitHost) api(method, path, body string, out any) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.listen+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != 200 {
		g.t.Fatalf("%s %s answers %d %s, %v, want 200", method, path, resp.StatusCode, b.String(), err)
	}
	if out != nil {
		if err := json.Unmarshal(b.Bytes(), out); err != nil {
			g.t.Fatal(err)
		}
	}
}

// branches are the repository's branches, by name.
func (g *gitHost) branches() string {
	g.t.Helper()
	var out struct{ Branches []struct{ Name string } }
	g.api("GET", "/git/v1/repo/"+g.id+"/git/refs/heads/", "", &out)
	var names []string
	for _, b := range out.Branches {
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

// inGuest runs a shell line and returns its status and all its output.
func (g *gitHost) inGuest(name, line string) (int, string) {
	g.t.Helper()
	r := g.run("exec", name, "--", "sh", "-c", line)
	return r.code, r.stdout + r.stderr
}

const commitLine = `cd /work/app && git config user.name a && git config user.email a@b && date +%N >> README && git commit -qam change && `

// TestGitInside: a VM whose network is closed uses a repository of its server as itself,
// without a secret, and only as far as it was granted.
//
// 000-16, 001-52, 002-29
func TestGitInside(t *testing.T) {
	g := newGitHost(t)
	g.ok("up", "--name", "box", "--net", "closed", "--repo", "app:/work/app")
	if got := g.sh("box", "cat /work/app/README; git -C /work/app remote get-url origin"); got != "one\nhttps://git.warren.internal/app" {
		t.Errorf("the create cloned %q", got)
	}
	if got := g.sh("box", `curl -sS -o /dev/null -w '%{http_code}' https://git.warren.internal/app/info/refs?service=git-upload-pack; python3 -c 'import urllib.request as u; print(u.urlopen("https://git.warren.internal/app/info/refs?service=git-upload-pack").status)'`); got != "200200" {
		t.Errorf("curl and python get %q, want 200 from each, by TLS that they trust", got)
	}
	t.Run("push", func(t *testing.T) {
		if code, out := g.inGuest("box", commitLine+"git push -q origin HEAD:agent/box/fix"); code != 0 {
			t.Errorf("a push below agent/box/: status %d, %s", code, out)
		}
		code, out := g.inGuest("box", "git -C /work/app push -q origin HEAD:main")
		if code == 0 || !strings.Contains(out, "agent/box/") {
			t.Errorf("a push to main: status %d, %q, want a refusal that says where to push", code, out)
		}
		if got := g.branches(); got != "agent/box/fix main" {
			t.Errorf("the repository has the branches %q", got)
		}
	})
	t.Run("fork", func(t *testing.T) {
		g.ok("fork", "box", "-n", "1", "--name", "try")
		if code, out := g.inGuest("try-1", commitLine+"git push -q origin HEAD:agent/try-1/fix"); code != 0 {
			t.Errorf("a fork's push below its own name: status %d, %s", code, out)
		}
		if code, out := g.inGuest("try-1", "git -C /work/app push -q origin HEAD:agent/box/other"); code == 0 {
			t.Errorf("a fork pushed below its parent's name: %s", out)
		}
	})
	t.Run("asleep", func(t *testing.T) {
		g.ok("suspend", "box")
		if code, out := g.inGuest("box", "git -C /work/app fetch origin"); code != 0 {
			t.Errorf("a fetch after a sleep: status %d, %s", code, out)
		}
		g.killServer()
		g.serve()
		if code, out := g.inGuest("box", "git -C /work/app fetch origin"); code != 0 {
			t.Errorf("a fetch after the server was killed: status %d, %s", code, out)
		}
	})
	t.Run("secrets", func(t *testing.T) {
		g.noSecrets(t, "box")
	})
	t.Run("revoked", func(t *testing.T) {
		g.ok("repo", "revoke", "app", "--vm", "box")
		code, out := g.inGuest("box", "git -C /work/app fetch origin")
		if code == 0 || !strings.Contains(out, "403") {
			t.Errorf("a fetch after the revocation: status %d, %q, want 403", code, out)
		}
		if code, out := g.inGuest("try-1", "git -C /work/app fetch origin"); code != 0 {
			t.Errorf("the fork's fetch after its parent's right ended: status %d, %s", code, out)
		}
		g.ok("repo", "grant", "app", "--vm", "box")
		if code, out := g.inGuest("box", "git -C /work/app fetch origin && git -C /work/app push -q origin HEAD:agent/box/more"); code == 0 {
			t.Errorf("with the right to read it pushed: %s", out)
		}
		if code, out := g.inGuest("box", "git -C /work/app fetch origin"); code != 0 {
			t.Errorf("a fetch with the right to read: status %d, %s", code, out)
		}
	})
	t.Run("stranger", func(t *testing.T) {
		g.ok("up", "--name", "other")
		if code, out := g.inGuest("other", "git clone https://git.warren.internal/app"); code == 0 || !strings.Contains(out, "403") {
			t.Errorf("a VM without a grant: status %d, %q, want 403", code, out)
		}
		if code, out := g.inGuest("other", "getent hosts s3.example.warren.internal"); code == 0 {
			t.Errorf("a name that does not exist inside is answered: %s", out)
		}
	})
}

// noSecrets searches a guest's files and the environments of its processes for the keys of
// the host.
func (g *gitHost) noSecrets(t *testing.T, name string) {
	t.Helper()
	patterns := g.key + "\n"
	for _, file := range []string{"inside-ca.key", "ssh_host_ed25519_key"} {
		data, err := os.ReadFile(filepath.Join(g.data, file))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		patterns += lines[1] + "\n" // the first line of the key itself
	}
	// The patterns come by standard input, so that the search does not find itself.
	r := g.runIn("", []byte(patterns), "exec", "-i", name, "--", "sh", "-c",
		`cat > /dev/shm/patterns; grep -rlF -f /dev/shm/patterns / --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev 2>/dev/null; cat /proc/[0-9]*/environ | tr '\0' '\n' | grep -F -f /dev/shm/patterns; git -C /work/app config --list | grep -i -e credential -e extraheader -e '@git.warren'; rm /dev/shm/patterns; echo searched`)
	if got := strings.TrimSpace(r.stdout); r.code != 0 || got != "searched" {
		t.Errorf("the guest has secrets of the host: status %d, %s%s", r.code, got, r.stderr)
	}
}

// TestGitCreateRefused: a create whose clone fails leaves nothing.
func TestGitCreateRefused(t *testing.T) {
	g := newGitHost(t)
	for repo, want := range map[string]string{
		"nope":                              "no such repository",
		"https://git.example/r.git:/work/r": "the network policy is closed",
	} {
		r := g.run("up", "--name", "box", "--repo", repo)
		if r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("--repo %s: status %d, %q, want %q", repo, r.code, r.stderr, want)
		}
		if left := g.list(); len(left) > 0 {
			t.Errorf("--repo %s left %+v", repo, left)
		}
	}
}

// remotes are this computer's git and OpenSSH, with a configuration of their own.
type remotes struct {
	*openssh
	dir string
}

func newRemotes(t *testing.T) *remotes {
	t.Helper()
	s := newOpenSSH(t)
	home := t.TempDir()
	s.env = append(s.env, "HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_SSH_COMMAND=ssh -F "+s.config,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	return &remotes{openssh: s, dir: t.TempDir()}
}

// TestGitRemote: the machine is a remote of this computer's git.
//
// 000-38
func TestGitRemote(t *testing.T) {
	s := newRemotes(t)
	h := s.h
	h.ok("up", "--name", "box")
	h.sh("box", `mkdir -p /work/repo && cd /work/repo && git init -q -b main && git config user.name a && git config user.email a@b && git config core.compression 0 &&
		echo one > f && head -c 52428800 /dev/urandom > big && git add . && git commit -qm first && git gc -q`)
	sum := h.sh("box", "sha256sum < /work/repo/big")
	clone := filepath.Join(s.dir, "clone")
	s.must("git", "clone", "-q", "box.warren:/work/repo", clone)
	if out := s.must("sh", "-c", "sha256sum < "+filepath.Join(clone, "big")); strings.TrimSpace(out) != sum {
		t.Errorf("50 MB came as %s, want %s", out, sum)
	}
	s.must("sh", "-c", "cd "+clone+" && echo two > f && git commit -qam second && git push -q origin HEAD:from-host")
	if got := h.sh("box", "git -C /work/repo show from-host:f"); got != "two" {
		t.Errorf("the pushed branch has %q", got)
	}
	t.Run("abort", func(t *testing.T) {
		cmd := exec.Command("git", "clone", "-q", "box.warren:/work/repo", filepath.Join(s.dir, "cut"))
		cmd.Env = s.env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		h.eventually("the guest sends", func() bool { return h.run("exec", "box", "--", "pgrep", "-f", "git.upload-pack").code == 0 })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		h.eventually("the guest's side of an aborted clone ends", func() bool { return h.run("exec", "box", "--", "pgrep", "-f", "git.upload-pack").code == 1 })
		s.must("git", "-C", clone, "fetch", "-q", "origin")
	})
	t.Run("clone", func(t *testing.T) {
		s.env = without(s.env, "GIT_SSH_COMMAND=") // no setup at all
		own := filepath.Join(s.dir, "own")
		s.must(h.binary, "clone", "box:/work/repo", own)
		if got := strings.TrimSpace(s.must("git", "-C", own, "remote")); got != "box" {
			t.Errorf("the remotes are %q, want box", got)
		}
		h.sh("box", "cd /work/repo && git checkout -q -b later && echo three > f && git commit -qam third")
		s.must("git", "-C", own, "fetch", "-q", "box")
		if got := strings.TrimSpace(s.must("git", "-C", own, "show", "box/later:f")); got != "three" {
			t.Errorf("a later fetch brings %q", got)
		}
		s.must("git", "-C", own, "push", "-q", "box", "HEAD:pushed")
		if out := s.must("git", "-C", own, "config", "--list"); strings.Contains(out, s.key) {
			t.Error("the clone's configuration holds the API key")
		}
		if r := s.run(h.binary, "clone", "box:/work/repo", filepath.Join(s.dir, "clone")); r.code != 0 {
			t.Errorf("adding the remote to a repository: %s", r.stderr)
		}
	})
	t.Run("hostile", func(t *testing.T) {
		h.sh("box", `git init -q --bare /work/evil && cd /work/evil && b=$(echo x | git hash-object -w --stdin) &&
			t=$(printf '100644 blob %s\t.git\n' $b | git mktree) && c=$(git -c user.name=a -c user.email=a@b commit-tree -m x $t) && git update-ref refs/heads/main $c && git symbolic-ref HEAD refs/heads/main`)
		evil := filepath.Join(s.dir, "evil")
		r := s.run(h.binary, "clone", "box:/work/evil", evil)
		if r.code == 0 || !strings.Contains(r.stderr, "hasDotgit") {
			t.Errorf("a tree with .git in it: status %d, %q, want git's refusal", r.code, r.stderr)
		}
		if _, err := os.Lstat(evil); !os.IsNotExist(err) {
			t.Errorf("a refused clone left its directory: %v", err)
		}
	})
}

// without removes the variables with a prefix.
func without(env []string, prefix string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, prefix) {
			out = append(out, v)
		}
	}
	return out
}
