//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Exit statuses of kinds.
const (
	exitDenied  = 4
	exitExists  = 5
	exitNoSpace = 8
	exitCorrupt = 13
)

// pushed makes a repository with one commit, and returns the commit's id.
func (h *host) pushed(name string) string {
	h.t.Helper()
	h.ok("repo", "create", name)
	dir := filepath.Join(h.t.TempDir(), name)
	h.ok("repo", "clone", name, dir)
	git := func(args ...string) string {
		h.t.Helper()
		return h.git(dir, args...)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept.txt"), []byte("kept\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	git("add", ".")
	git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "one")
	git("push", "-q", "origin", "HEAD:main")
	return strings.TrimSpace(git("rev-parse", "HEAD"))
}

// git runs git in a directory with the environment of the CLI.
func (h *host) git(dir string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, h.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// wipe ends every process of the data directory, as the loss of a host does, and removes
// the directory.
func (h *host) wipe() {
	h.t.Helper()
	h.killServer()
	for pid := range h.processes() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			h.t.Fatal(err)
		}
	}
	h.eventually("every process of the data directory has ended", func() bool { return len(h.processes()) == 0 })
	if err := os.RemoveAll(h.data); err != nil {
		h.t.Fatal(err)
	}
}

// backedUp is a backup of the server in a new directory.
func (h *host) backedUp() string {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), "server.tar.zst")
	out := h.ok("backup", "create", "-o", path)
	if !strings.Contains(out, "backup "+path+", verified") {
		h.t.Fatalf("backup create says %q", out)
	}
	return path
}

// TestBackup: a server is backed up while it works, ends with kill -9, and loses its whole
// data directory. Restored, it has its VMs: one that was suspended continues its program,
// one that ran boots from its disk with what had been written, synced or not; the
// repository has its commit, a volume that was mounted has its files, an S3 client finds
// both versions of its object with the key that it had, and the audit chain is whole.
//
// 001-22
func TestBackup(t *testing.T) {
	h := newHost(t)
	c := h.client(h.t)
	commit := h.pushed("code")
	h.ok("up", "--name", "runs")
	h.sh("runs", "echo synced > /root/synced; sync; echo written > /root/written")
	h.ok("up", "--name", "sleeps")
	h.count("sleeps")
	h.ok("suspend", "sleeps")
	h.ok("up", "--name", "stopped")
	h.sh("stopped", "echo halted > /root/halted")
	h.ok("stop", "stopped")
	h.ok("volume", "create", "notes", "--size", "64")
	h.ok("volume", "unlock", "notes")
	h.ok("volume", "mount", "runs", "--volume", "notes", "--guest", "/notes", "--rw")
	h.sh("runs", "echo in the volume > /notes/a; sync")
	versions := c.puts("reports", "june.txt", strings.Repeat("all is well\n", 5000), "all is better\n")
	path := h.backedUp()
	if st := h.find("runs").State; st != "running" {
		t.Errorf("the running VM is %s after the backup", st)
	}
	if got := h.sh("runs", "cat /root/written"); got != "written" {
		t.Errorf("the running VM has %q after the backup", got)
	}
	h.sh("runs", "echo later > /root/later")

	h.wipe()
	out := h.ok("backup", "restore", path)
	if !strings.Contains(out, "3 VMs, 1 repositories") {
		t.Errorf("the restore says %q", out)
	}
	h.serve()
	if st := h.find("runs").State; st != "stopped" {
		t.Errorf("the VM that ran is %s, want stopped", st)
	}
	h.goesOn("the suspended VM", "sleeps")
	h.ok("start", "runs")
	if got := h.sh("runs", "cat /root/synced /root/written"); got != "synced\nwritten" {
		t.Errorf("the VM that ran has the files %q", got)
	}
	if r := h.run("exec", "runs", "--", "cat", "/root/later"); r.code == 0 {
		t.Error("a file is there that was written after the backup")
	}
	h.ok("start", "stopped")
	if got := h.sh("stopped", "cat /root/halted"); got != "halted" {
		t.Errorf("the stopped VM has %q", got)
	}
	if log := h.ok("repo", "log", "code"); !strings.Contains(log, commit[:12]) {
		t.Errorf("the repository's log lacks the commit %s:\n%s", commit, log)
	}
	h.ok("volume", "unlock", "notes")
	h.ok("volume", "mount", "stopped", "--volume", "notes", "--guest", "/notes", "--rw")
	if got := h.sh("stopped", "cat /notes/a"); got != "in the volume" {
		t.Errorf("the volume has %q", got)
	}
	for i, want := range []string{strings.Repeat("all is well\n", 5000), "all is better\n"} {
		if got := c.gets("reports", "june.txt", versions[i]); got != want {
			t.Errorf("an S3 client reads %d bytes of version %d, which are not the %d that it stored", len(got), i+1, len(want))
		}
	}
	if got := h.ok("audit", "verify"); !strings.Contains(got, "the chain is intact") {
		t.Errorf("audit verify says %q", got)
	}
	if got := h.ok("audit", "ls"); !strings.Contains(got, "backup-restore") {
		t.Error("no audit record tells of the restore")
	}
}

// s3Client is AWS's SDK with an access key of a server.
type s3Client struct {
	t testing.TB
	*s3.Client
}

// client makes an access key and a client that uses it.
func (h *host) client(t testing.TB) s3Client {
	t.Helper()
	door := &s3Host{host: h, url: "http://" + h.gates[slices.Index(h.gates, "--s3")+1]}
	return s3Client{t, door.aws(door.s3Key())}
}

// puts makes a bucket and versions of a key, and returns their ids.
func (c s3Client) puts(bucket, key string, bodies ...string) (versions []string) {
	c.t.Helper()
	if _, err := c.CreateBucket(c.t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		c.t.Fatal(err)
	}
	for _, body := range bodies {
		out, err := c.PutObject(c.t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body)})
		if err != nil {
			c.t.Fatal(err)
		}
		versions = append(versions, *out.VersionId)
	}
	return versions
}

// gets reads a version of an object; "" = the newest.
func (c s3Client) gets(bucket, key, version string) string {
	c.t.Helper()
	in := &s3.GetObjectInput{Bucket: &bucket, Key: &key}
	if version != "" {
		in.VersionId = &version
	}
	out, err := c.GetObject(c.t.Context(), in)
	if err != nil {
		c.t.Errorf("an S3 client cannot read s3://%s/%s: %v", bucket, key, err)
		return ""
	}
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	if err != nil {
		c.t.Error(err)
	}
	return string(data)
}

// TestBackupRefused: a backup is not restored onto a server's directory, nor from a file
// with a flipped bit, and a disk that fills in the middle keeps nothing of a backup or of
// a restore. A volume to which a VM writes while it is copied is named.
func TestBackupRefused(t *testing.T) {
	needRoot(t)
	h := newHost(t)
	h.ok("up", "--name", "box") // its image does not fit the small disk
	h.ok("volume", "create", "busy", "--size", "512")
	h.ok("volume", "unlock", "busy")
	h.ok("volume", "mount", "box", "--volume", "busy", "--guest", "/busy", "--rw")
	h.sh("box", "head -c 150M /dev/zero > /busy/large; sync")
	// Past the guest's page cache each block reaches the volume at once, so no copy ends before the next write.
	h.ok("exec", "box", "-d", "--", "sh", "-c", "while true; do dd if=/dev/zero of=/busy/log bs=4k count=1000 oflag=direct conv=notrunc 2>/dev/null; done")
	h.eventually("the program writes to the volume", func() bool { return h.run("exec", "box", "--", "test", "-s", "/busy/log").code == 0 })
	path := h.backedUp()
	if out := h.ok("backup", "inspect", path, "--json"); !strings.Contains(out, "a VM wrote to it meanwhile") {
		t.Errorf("the backup does not name the volume to which a VM wrote meanwhile: %s", out)
	}
	if r := h.run("backup", "restore", path); r.code != exitExists || !strings.Contains(r.stderr, "not empty") {
		t.Errorf("a restore onto the server's own directory: %v", r)
	}
	h.sh("box", "true")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	bad := filepath.Join(t.TempDir(), "bad.tar.zst")
	if err := os.WriteFile(bad, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := h.run("backup", "verify", bad); r.code != exitCorrupt {
		t.Errorf("a flipped bit in the middle: %v", r)
	}
	if out := h.ok("backup", "inspect", bad); !strings.Contains(out, "unverified copy") {
		t.Errorf("the damaged file is called %q", out)
	}
	to := filepath.Join(t.TempDir(), "new")
	if r := h.run("--data", to, "backup", "restore", bad); r.code != exitCorrupt {
		t.Errorf("a restore of it: %v", r)
	}
	h.keepsNothing("a refused restore", to)

	small, err := mountImage(t, 64<<20, "mkfs.ext4", "-q", "-F", "-m", "0")
	if err != nil {
		t.Fatal(err)
	}
	if r := h.run("backup", "create", "--no-verify", "-o", small); r.code != exitNoSpace {
		t.Errorf("a backup onto a disk that fills up: %v", r)
	}
	h.keepsNothing("a backup onto a full disk", small)
	if r := h.run("--data", small, "backup", "restore", path); r.code != exitNoSpace {
		t.Errorf("a restore onto a disk that fills up: %v", r)
	}
	h.keepsNothing("a restore onto a full disk", small)
}

// keepsNothing wants a directory without files, except those that a lock or a new file
// system needs.
func (h *host) keepsNothing(what, dir string) {
	h.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains([]string{"lost+found", "lock"}, e.Name()) {
			h.t.Errorf("%s left %s", what, e.Name())
		}
	}
}
