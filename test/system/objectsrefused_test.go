// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestObjectsPublishRefused: a publish of what is not there, is no file, has too many bytes
// or a secret is refused and stores nothing; a file that the scan refuses is stored for the
// account's owner only, and does not come back into a VM.
func TestObjectsPublishRefused(t *testing.T) {
	h := withS3(t)
	h.ok("bucket", "create", "made")
	h.ok("up", "--name", "box")
	h.sh("box", `mkdir -p /w/t /w/keys && cd /w && head -c 3000000 /dev/urandom >big && ln -s big link && mkfifo pipe && echo fine >t/fine
		ln -s ../../etc/shadow t/out && ln -s fine t/in && head -c 5000 /bin/ls >report.pdf
		printf 'aws_access_key_id = AKIA%s\n' Q3EGRVX7PLM2KDTA >keys/config && sync`)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{3, "no such file or directory", []string{"box:/w/none", "s3://made/x"}},
		{3, "no such", []string{"box:/w/big", "s3://none/x"}},
		{3, "no such VM", []string{"nobody:/w/big", "s3://made/x"}},
		{2, "it is a link to big", []string{"box:/w/link", "s3://made/x"}},
		{2, "neither a file nor a directory", []string{"box:/w/pipe", "s3://made/x"}},
		{2, "the whole disk", []string{"box:/", "s3://made/x"}},
		{8, "more than the limit", []string{"box:/w/big", "s3://made/x", "--max-bytes", "1M"}},
		{8, "more than the limit", []string{"box:/w", "s3://made/x", "--max-bytes", "1M"}},
		{4, "secret", []string{"box:/w/keys/config", "s3://made/x"}},
		{4, "secret", []string{"box:/w/keys", "s3://made/x"}},
		{2, "key", []string{"box:/w/big", "s3://made/a/../b"}},
	} {
		h.run(append([]string{"publish"}, c.args...)...).wants(t, c.code, c.says)
	}
	h.nothingOf("made")

	tree := decoded[vm.Published](t, h.ok("publish", "box:/w/t", "s3://made/", "--json"))
	if tree.Object.Key != "t.tar.zst" || !slices.Equal(tree.LeftOut, []vm.GuestPath{"/w/t/out"}) {
		t.Errorf("the tree is %s without %q, want t.tar.zst without the link that leads out", tree.Object.Key, tree.LeftOut)
	}
	h.ok("publish", "box:/w/keys", "s3://made/keys", "--allow-secret", "config")
	h.run("publish", "box:/w/t", "s3://made/t.tar.zst", "--new").wants(t, 5, "it exists")

	h.run("publish", "box:/w/report.pdf", "s3://made/").wants(t, 4, "it is an ELF program")
	if keys := h.keys("made"); !slices.Equal(keys, []string{"keys", "report.pdf", "t.tar.zst"}) {
		t.Errorf("the bucket has %q", keys)
	}
	h.run("artifact", "get", "s3://made/report.pdf", "-").wants(t, 4, "ELF")
	h.run("fetch", "s3://made/report.pdf", "box:/w/back").wants(t, 4, "ELF")
	h.run("fetch", "s3://made/none", "box:/w/back").wants(t, 3, "no such")
	h.run("fetch", "s3://made/t.tar.zst", "box:/w/t").wants(t, 5, "exists")
	h.run("fetch", "s3://made/t.tar.zst", "box:/w/back", "--max-bytes", "10").wants(t, 8, "limit")
	if got := h.sh("box", "ls -A /w"); got != "big\nkeys\nlink\npipe\nreport.pdf\nt" {
		t.Errorf("after refused fetches the VM has %q, want nothing of them", got)
	}
}

// nothingOf wants an empty bucket, and no half object on the disk.
func (h *s3Host) nothingOf(bucket string) {
	h.t.Helper()
	if keys := h.keys(bucket); len(keys) > 0 {
		h.t.Errorf("the bucket has %q, want nothing", keys)
	}
	h.noneIncoming()
}

// incoming is the directory of objects that are being written.
func (h *s3Host) incoming() string { return filepath.Join(h.data, "objects", ".incoming") }

// noneIncoming waits until no half object is on the disk.
func (h *s3Host) noneIncoming() {
	h.t.Helper()
	h.eventually("nothing half is left in "+h.incoming(), func() bool { left, err := os.ReadDir(h.incoming()); return err == nil && len(left) == 0 })
}

// halfway starts a command and returns once the fact holds.
func (h *s3Host) halfway(fact func() bool, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	h.t.Helper()
	cmd, stderr = exec.Command(h.binary, args...), &bytes.Buffer{}
	cmd.Env, cmd.Stderr = h.environ(), stderr
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	waitFor(h.t, strings.Join(args, " ")+" is at work", fact)
	return cmd, stderr
}

// TestObjectsPublishInterrupted: ^C and the death of the server in the middle of a publish
// and of a fetch leave nothing: no object, no file, no half of one. The same command
// succeeds afterwards.
func TestObjectsPublishInterrupted(t *testing.T) {
	h := withS3(t)
	h.ok("bucket", "create", "made")
	h.ok("bucket", "create", "given")
	h.ok("up", "--name", "box", "--disk", "8")
	h.ok("artifact", "put", h.file("big", random(t, 200<<20)), "s3://given/big")
	h.ok("fetch", "s3://given/big", "box:/w/big")
	h.sh("box", "sync")
	arrives := func() bool {
		left, _ := os.ReadDir(h.incoming()) // absent before the first
		for _, f := range left {
			if st, err := f.Info(); err == nil && st.Size() > 0 {
				return true
			}
		}
		return false
	}
	for _, how := range []string{"^C", "kill -9 of the server"} {
		cmd, stderr := h.halfway(arrives, "publish", "box:/w/big", "s3://made/big")
		if how == "^C" {
			_ = cmd.Process.Signal(syscall.SIGINT) // Wait tells
		} else {
			h.killServer()
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("after %s the publish has succeeded: %s", how, stderr)
		}
		if how != "^C" {
			h.serve()
		}
		h.nothingOf("made")
	}
	out := decoded[vm.Published](t, h.ok("publish", "box:/w/big", "s3://made/big", "--json"))
	if got := h.sh("box", "sha256sum </w/big | cut -c-64"); out.Object.SHA256 != got {
		t.Errorf("after interruptions the object has the digest %s, the file %s", out.Object.SHA256, got)
	}

	h.sh("box", "rm /w/big && mkdir /w/in")
	begun := func() bool { return h.sh("box", "find /w/in -type f -size +1M | wc -l") == "1" }
	cmd, stderr := h.halfway(begun, "fetch", "s3://given/big", "box:/w/in/big")
	_ = cmd.Process.Signal(syscall.SIGINT) // Wait tells
	if err := cmd.Wait(); err == nil {
		t.Errorf("after ^C the fetch has succeeded: %s", stderr)
	}
	h.eventually("nothing of the fetch is in the VM", func() bool { return h.sh("box", "ls -A /w/in") == "" })
	if log := h.ok("audit", "ls", "--json"); !strings.Contains(log, fmt.Sprintf("%q", vm.OpObjectFetch)) {
		t.Error("the audit log does not have the fetch that was interrupted")
	}
}

// TestObjectsCopiedOut: whatever leaves a VM is in the audit log with its digest and its
// place: on this computer for cp of a file and of a directory, and run --output; as a
// version of an object for publish; and on this computer for an object that is
// downloaded. `warren done` lists it.
//
// 003-44
func TestObjectsCopiedOut(t *testing.T) {
	h := withS3(t)
	h.ok("bucket", "create", "made")
	h.ok("up", "--name", "box")
	h.sh("box", `mkdir -p /w/tree/sub && cd /w && echo report >report && echo one >tree/one && echo two >'tree/sub/t w o' && ln tree/one tree/hard && sync`)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	record := func(what, op, to, name, digest string) {
		t.Helper()
		for _, r := range decoded[[]vm.AuditRecord](t, h.ok("audit", "ls", "--json", "--limit", "20")) {
			if string(r.Op) == op && fmt.Sprint(r.Detail["to"]) == to && fmt.Sprint(r.Detail[name]) == digest {
				return
			}
		}
		t.Errorf("%s: no audit record of %s has the place %s and the digest %s", what, op, to, digest)
	}
	digest := shaOf([]byte("report\n"))
	file := filepath.Join(dir, "report")
	h.ok("cp", "box:/w/report", file)
	record("cp of a file", "read", host+":"+file, "sha256", digest)

	tree := filepath.Join(dir, "tree")
	h.ok("cp", "-r", "box:/w/tree", tree)
	sums := onHost(t, "cd "+tree+" && find . -type f -exec sha256sum {} + | LC_ALL=C sort | sha256sum | cut -c-64")
	record("cp -r", "read", host+":"+tree, "treeSha256", strings.TrimSpace(string(sums)))

	out := decoded[vm.Published](t, h.ok("publish", "box:/w/report", "s3://made/", "--json"))
	record("publish", "publish", "s3://made/report", "sha256", digest)
	got := filepath.Join(dir, "got")
	h.ok("artifact", "get", "s3://made/report", got)
	record("artifact get", "object-read", host+":"+got, "sha256", digest)

	result := filepath.Join(dir, "result")
	h.ok("run", "--output", "/w/result:"+result, "--", "sh", "-c", "mkdir -p /w && echo report >/w/result")
	record("run --output", "read", host+":"+result, "sha256", digest)

	job := decoded[vm.Job](t, h.run("done", "box", "--rm", "--json").stdout)
	for to, want := range map[string]string{host + ":" + file: digest, host + ":" + tree: strings.TrimSpace(string(sums)), "s3://made/report@" + out.Object.Version: digest} {
		if !slices.ContainsFunc(job.Remains.Copies, func(c vm.Copy) bool { return c.To == to && c.SHA256 == want }) {
			t.Errorf("done does not list the copy at %s with the digest %s: %+v", to, want, job.Remains.Copies)
		}
	}
}
