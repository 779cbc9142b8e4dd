// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newObjectHost is a server with the buckets data and theirs, which have an object each.
func newObjectHost(t *testing.T, serveArgs ...string) *host {
	t.Helper()
	h := newHost(t, serveArgs...)
	for _, bucket := range []string{"data", "theirs"} {
		h.ok("bucket", "create", bucket)
		h.upload("s3://"+bucket+"/in/hello.txt", []byte("hello from "+bucket+"\n"))
	}
	return h
}

// upload writes an object from the host.
func (h *host) upload(to string, body []byte) {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "upload")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.ok("artifact", "put", file, to)
}

// guest runs a shell line in a VM and returns its status and all its output.
func (h *host) guest(name, line string) (int, string) {
	h.t.Helper()
	r := h.run("exec", name, "--", "sh", "-c", line)
	return r.code, r.stdout + r.stderr
}

const curlStatus = "curl -sS -o /dev/null -w '%{http_code}' https://s3.warren.internal/"

// TestObjectsInside: curl in a VM whose network is closed reads, writes and lists objects as
// the VM itself, without a key, as far as the VM was granted: also in a fork, after a sleep,
// and after the server was killed.
//
// 000-16, 001-18, 001-52
func TestObjectsInside(t *testing.T) {
	h := newObjectHost(t)
	h.ok("up", "--name", "box", "--net", "closed")
	if got := h.sh("box", curlStatus+"data/in/hello.txt"); got != "403" {
		t.Errorf("without a grant curl gets %s, want 403", got)
	}
	h.ok("bucket", "grant", "s3://data/in/", "--vm", "box")
	h.ok("bucket", "grant", "s3://data/out/", "--vm", "box", "--write")
	for _, scheme := range []string{"https", "http"} {
		if got := h.sh("box", "curl -sS "+scheme+"://s3.warren.internal/data/in/hello.txt"); got != "hello from data" {
			t.Errorf("%s: curl gets %q", scheme, got)
		}
	}
	for _, c := range [][2]string{
		{"data/in/hello.txt -X DELETE", "403"},
		{"data/in/new -T /etc/hostname", "403"},
		{"data/out/a%20b -T /etc/hostname", "200"},
		{"data/out/a%20b", "200"},
		{"data/other", "403"},
		{"data/in/hello.txt -H 'Host: S3.warren.internal:443'", "200"},
		{"theirs/in/hello.txt", "403"},
		{"nobodys/in/hello.txt", "404"},
		{"data?list-type=2", "403"},
		{"'data?list-type=2&prefix=out/'", "200"},
		{"data/in/hello.txt -H 'Range: bytes=0-1'", "206"},
		{"new -X PUT", "403"},
	} {
		if got := h.sh("box", curlStatus+c[0]); got != c[1] {
			t.Errorf("curl %s gets %s, want %s", c[0], got, c[1])
		}
	}
	if got := h.ok("artifact", "get", "s3://data/out/a b", "-"); strings.TrimSpace(got) != "box" {
		t.Errorf("what the VM wrote is %q outside, want its host name", got)
	}
	h.ok("fork", "box", "-n", "1", "--name", "try")
	if got := h.sh("try-1", curlStatus+"data/out/fork -T /etc/hostname"); got != "200" {
		t.Errorf("a fork with its parent's grants writes with %s, want 200", got)
	}
	h.ok("suspend", "box")
	if got := h.sh("box", "curl -sS https://s3.warren.internal/data/in/hello.txt"); got != "hello from data" {
		t.Errorf("after a sleep curl gets %q", got)
	}
	h.killServer()
	h.serve()
	if got := h.sh("box", "curl -sS https://s3.warren.internal/data/in/hello.txt"); got != "hello from data" {
		t.Errorf("after the server was killed curl gets %q", got)
	}
	h.ok("bucket", "revoke", "s3://data/in/", "--vm", "box")
	if got := h.sh("box", curlStatus+"data/in/hello.txt"); got != "403" {
		t.Errorf("after the grant ended curl gets %s, want 403", got)
	}
	if got := h.sh("try-1", curlStatus+"data/in/hello.txt"); got != "200" {
		t.Errorf("after the parent's grant ended its fork gets %s, want 200", got)
	}
	if code, out := h.guest("box", "grep -rlE 'WARREN[A-Z0-9]{14}' /run /etc /root /home 2>/dev/null; env | grep -i aws"); strings.TrimSpace(out) != "" {
		t.Errorf("the guest has keys: status %d, %s", code, out)
	}
}

// TestObjectsInsideBoto: boto3 in a VM, with credentials that nobody made, uploads in parts
// with checksums, reads, lists and removes.
//
// 000-16, 001-18
func TestObjectsInsideBoto(t *testing.T) {
	h := newObjectHost(t)
	h.ok("up", "--name", "box", "--net", "closed", "--bucket", "data")
	r := h.runIn("", guestBoto(t), "exec", "-i", "box", "--", "tar", "-xzC", "/opt")
	if r.code != 0 {
		t.Fatalf("boto3 is not installed: %s", r.stderr)
	}
	script, err := os.ReadFile("testdata/objectsinside/boto.py")
	if err != nil {
		t.Fatal(err)
	}
	body := random(t, 20<<20)
	h.upload("s3://data/in/big", body)
	sum := sha256.Sum256(body)
	for _, endpoint := range []string{"https://s3.warren.internal", "http://s3.warren.internal"} {
		r = h.runIn("", script, "exec", "-i", "box", "--", "env", "PYTHONPATH=/opt/boto", "AWS_ENDPOINT_URL="+endpoint, "AWS_CA_BUNDLE=/run/warren-ca.pem",
			"AWS_ACCESS_KEY_ID=anything", "AWS_SECRET_ACCESS_KEY=goes", "AWS_DEFAULT_REGION=eu-central-1", "python3", "-", hex.EncodeToString(sum[:]))
		if r.code != 0 || strings.TrimSpace(r.stdout) != "done" {
			t.Errorf("boto3 at %s: status %d\n%s%s", endpoint, r.code, r.stdout, r.stderr)
			continue
		}
		if got := h.ok("artifact", "get", "s3://data/out/big", "-"); got != string(body) {
			t.Errorf("what boto3 uploaded at %s has %d other bytes", endpoint, len(got))
		}
	}
}

// TestObjectsInsideAttack: root in a guest gets no further than its VM's grants, whatever it
// writes on the wire, and 10,000 connections stop neither the VM nor its server.
//
// 001-52
func TestObjectsInsideAttack(t *testing.T) {
	h := newObjectHost(t)
	h.ok("up", "--name", "box", "--net", "closed", "--bucket", "data")
	h.ok("up", "--name", "other", "--net", "closed", "--bucket", "theirs/:ro", "--bucket", "theirs/in/")
	script, err := os.ReadFile("testdata/objectsinside/attack.py")
	if err != nil {
		t.Fatal(err)
	}
	r := h.runIn("", script, "exec", "-i", "box", "--", "python3", "-", h.find("other").ID)
	if r.code != 0 || !strings.HasSuffix(strings.TrimSpace(r.stdout), "done") {
		t.Errorf("the attacks: status %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if out := h.ok("artifact", "ls", "s3://theirs/", "--json"); strings.Contains(out, "smuggled") {
		t.Errorf("the other VM's bucket has an object of the attacker: %s", out)
	}
	if got := h.sh("other", curlStatus+"theirs/in/hello.txt"); got != "200" {
		t.Errorf("after the attacks the other VM gets %s, want 200", got)
	}
	if got := h.sh("box", curlStatus+"data/in/hello.txt"); got != "200" {
		t.Errorf("after the attacks the VM itself gets %s, want 200", got)
	}
}

// guestBoto is an archive of boto3 for the guest's python, without the descriptions of
// other services than S3.
func guestBoto(t *testing.T) []byte {
	t.Helper()
	dir := filepath.Join(userCacheDir(), "warren-test-boto3-guest-1.44.5")
	if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
		onHost(t, "rm -rf "+dir+" && mkdir -p "+dir+" && python3 -m pip install -q --no-compile --target "+dir+"/boto boto3==1.44.5 botocore==1.44.5 && cd "+dir+"/boto/botocore/data && ls | grep -vxE 's3|partitions.json|endpoints.json|_retry.json|sdk-default-configuration.json|.*[.]gz' | xargs rm -rf && touch "+dir+"/done")
	}
	return onHost(t, "tar -czC "+dir+" boto")
}

// onHost runs a line on the host and returns what it prints.
func onHost(t *testing.T, line string) []byte {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		t.Fatalf("the host runs %s: %v: %s", line, err, bad.String())
	}
	return out.Bytes()
}

// userCacheDir is the user's cache directory.
func userCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return os.TempDir()
	}
	return dir
}
