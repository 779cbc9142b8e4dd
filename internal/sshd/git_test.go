// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// hosting is a gateway with one repository, and an identity with an SSH key.
type hosting struct {
	*door
	repo     vm.Repository
	identity vm.Identity
	token    string
	key      vm.IdentityKey
	keyFile  string
}

func newHosting(t *testing.T) *hosting {
	t.Helper()
	h := &hosting{door: newDoor(t)}
	h.identity, h.token = h.door.identity(nil)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	h.repo, err = h.engine.Repo.Create(t.Context(), h.call, repo.CreateRequest{Name: "app"})
	must(err)
	_, err = h.engine.Repo.Commit(t.Context(), h.call, "app", repo.CommitRequest{
		Message: "first", Files: []repo.FileEdit{{Path: "f", Size: 3, Open: repo.Bytes([]byte("one"))}},
	})
	must(err)
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	must(err)
	h.keyFile = filepath.Join(t.TempDir(), "key")
	must(os.WriteFile(h.keyFile, pem.EncodeToMemory(block), 0o600))
	line, err := ssh.NewPublicKey(pub)
	must(err)
	h.key, err = h.engine.AddSSHKey(t.Context(), h.call, string(h.identity.ID), "laptop", string(ssh.MarshalAuthorizedKey(line)), false)
	must(err)
	return h
}

func (h *hosting) grant(access vm.GitAccess, change bool) {
	h.t.Helper()
	if err := h.engine.GrantRepo(h.t.Context(), h.call, string(h.identity.ID), h.repo.ID, access, change); err != nil {
		h.t.Fatal(err)
	}
}

// run runs a program with OpenSSH as git's transport.
func (h *hosting) run(argv ...string) (string, error) {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), argv[0], argv[1:]...)
	transport := "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentitiesOnly=yes -i " + h.keyFile
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.t.TempDir(), "GIT_SSH_COMMAND=" + transport, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (h *hosting) url(user string) string { return "ssh://" + user + "@" + h.addr + "/app" }

// TestGit: git over OpenSSH reaches a repository with the rights of the key's identity.
func TestGit(t *testing.T) {
	h := newHosting(t)
	dir := filepath.Join(t.TempDir(), "clone")
	if out, err := h.run("git", "clone", h.url("git"), dir); err == nil || !strings.Contains(out, "no permission") {
		t.Fatalf("a clone without a permission: %v, %q", err, out)
	}
	h.grant(vm.GitRead, false)
	if out, err := h.run("git", "clone", h.url("git")+".git", dir); err != nil {
		t.Fatalf("clone: %v, %s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "one" {
		t.Errorf("the clone has %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := h.run("git", "-C", dir, "commit", "-qam", "second"); err != nil {
		t.Fatalf("commit: %v, %s", err, out)
	}
	if out, err := h.run("git", "-C", dir, "push", "origin", "HEAD:agent/x"); err == nil || !strings.Contains(out, "only read") {
		t.Errorf("a push with the right to read: %v, %q", err, out)
	}
	h.grant(vm.GitWrite, true)
	if out, err := h.run("git", "-C", dir, "push", "origin", "HEAD:agent/x"); err != nil {
		t.Errorf("a push below agent/: %v, %s", err, out)
	}
	if out, err := h.run("git", "-C", dir, "push", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "agent/") {
		t.Errorf("a push to main: %v, %q, want a refusal that says where to push", err, out)
	}
	if b, err := h.engine.Repo.Branch(t.Context(), h.call, "app", "agent/x"); err != nil || b.Commit == "" {
		t.Errorf("the branch in the repository: %+v, %v", b, err)
	}
	again := filepath.Join(t.TempDir(), "again")
	if out, err := h.run("git", "clone", h.url("git,"+h.token), again); err != nil {
		t.Errorf("clone with a token: %v, %s", err, out)
	}
}

// TestGitOnly: the user name git opens no shell, no files and no forwarding.
func TestGitOnly(t *testing.T) {
	h := newHosting(t)
	h.grant(vm.GitWrite, false)
	for _, command := range []string{"", "id", "git-upload-archive 'app'", "git-upload-pack 'app' --x", "git-upload-pack app;id", "git-shell"} {
		c := h.enter("git:" + h.token)
		s := h.session(c)
		var errs strings.Builder
		s.Stderr = &errs
		err := s.Run(command)
		if err == nil || !strings.Contains(errs.String(), "warren:") {
			t.Errorf("%q: %v, %q, want a refusal", command, err, errs.String())
		}
	}
	c := h.enter("git:" + h.token)
	if err := h.session(c).RequestSubsystem("sftp"); err == nil {
		t.Error("sftp is let in")
	}
	if _, err := c.Dial("tcp", "127.0.0.1:22"); err == nil {
		t.Error("a forwarding is let in")
	}
	if _, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("a listener is let in")
	}
	if c := h.enter("git:" + h.secret); c == nil {
		t.Error("the account's key is refused")
	}
	for _, user := range []string{"git:wrong", "git+root:" + h.token} { // there is no VM of this name
		if _, _, err := h.dial(user); err == nil {
			t.Errorf("%s is let in", user)
		}
	}
}

// TestGitRevoked: a session ends when the key is removed, and when the permission is.
func TestGitRevoked(t *testing.T) {
	h := newHosting(t)
	h.grant(vm.GitRead, false)
	signer := ssh.PublicKeys(func() ssh.Signer {
		data, err := os.ReadFile(h.keyFile)
		if err != nil {
			t.Fatal(err)
		}
		k, err := ssh.ParsePrivateKey(data)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}())
	for _, right := range []struct {
		what   string
		revoke func() error
	}{
		{"permission", func() error { return h.engine.RevokeRepo(t.Context(), h.call, string(h.identity.ID), h.repo.ID) }},
		{"key", func() error { // last: nothing enters without it
			return h.engine.RemoveSSHKey(t.Context(), h.call, string(h.identity.ID), string(h.key.ID))
		}},
	} {
		what, revoke := right.what, right.revoke
		if what == "key" && h.engine.GrantRepo(t.Context(), h.call, string(h.identity.ID), h.repo.ID, vm.GitRead, false) != nil {
			h.grant(vm.GitRead, true)
		}
		c := h.enter("git", signer)
		s := h.session(c)
		in, err := s.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("git-upload-pack '/app'"); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadByte(); err != nil {
			t.Fatalf("%s: the fetch did not begin: %v", what, err)
		}
		if err := revoke(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Wait() }()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s: the fetch ended as if all were well", what)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the fetch outlives its right", what)
		}
		if what == "key" {
			if _, _, err := h.dial("git", signer); err == nil {
				t.Error("a removed key still opens a connection")
			}
		}
	}
}

// An aborted transfer leaves the repository whole and the gateway free.
func TestGitAborted(t *testing.T) {
	h := newHosting(t)
	h.grant(vm.GitWrite, false)
	for i := range 3 {
		conn, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		sc, chans, reqs, err := ssh.NewClientConn(conn, h.addr, &ssh.ClientConfig{User: "git:" + h.token, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err != nil {
			t.Fatal(err)
		}
		s := h.session(ssh.NewClient(sc, chans, reqs))
		in, err := s.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("git-receive-pack 'app'"); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(in, "%04x%s %s refs/heads/agent/%d\x00report-status\n0000PACK", 4+40+1+40+1+len("refs/heads/agent/0")+1+len("report-status")+1, strings.Repeat("0", 40), strings.Repeat("a", 40), i)
		_ = conn.Close()
	}
	branches, err := h.engine.Repo.Branches(t.Context(), h.call, "app")
	if err != nil || len(branches) != 1 {
		t.Errorf("after aborted pushes there are %+v, %v, want main alone", branches, err)
	}
	if out, err := h.run("git", "ls-remote", h.url("git")); err != nil || !strings.Contains(out, "refs/heads/main") {
		t.Errorf("ls-remote: %v, %s", err, out)
	}
}
