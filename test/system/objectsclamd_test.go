// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"archive/zip"
	"bytes"
	"encoding/hex"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// eicar is the text that virus scanners agreed on for tests. It is in two parts, so that a
// scanner does not take this file for one.
const eicar = `X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-` + `ANTIVIRUS-TEST-FILE!$H+H*`

// clamDaemon is ClamAV's daemon with one signature: that of eicar.
type clamDaemon struct {
	t      testing.TB
	dir    string
	socket string
	cmd    *exec.Cmd
}

func newClamDaemon(t testing.TB) *clamDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "warren-clamd-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &clamDaemon{t: t, dir: dir, socket: filepath.Join(dir, "s")}
	for name, text := range map[string]string{
		"test.ndb":   "Test.Eicar:0:*:" + hex.EncodeToString([]byte(eicar)) + "\n",
		"clamd.conf": "Foreground yes\nLocalSocket " + c.socket + "\nDatabaseDirectory " + dir + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.start()
	t.Cleanup(func() {
		if c.cmd != nil {
			c.stop()
		}
	})
	return c
}

// start starts the daemon and waits until it answers.
func (c *clamDaemon) start() {
	c.t.Helper()
	program, err := exec.LookPath("clamd")
	if err != nil {
		program = "/usr/sbin/clamd" // not in the path of everybody
	}
	c.cmd = exec.Command(program, "-c", filepath.Join(c.dir, "clamd.conf"))
	var said bytes.Buffer
	c.cmd.Stdout, c.cmd.Stderr = &said, &said
	if err := c.cmd.Start(); err != nil {
		c.t.Fatalf("clamd does not start, run deploy/install-deps.sh --tests: %v", err)
	}
	waitFor(c.t, "clamd answers", func() bool {
		conn, err := net.Dial("unix", c.socket)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

func (c *clamDaemon) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Error(err)
	}
}

// stop ends the daemon, also one that is paused.
func (c *clamDaemon) stop() {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("clamd ended: %v", err)
	}
	c.cmd = nil
}

// clamHost is a server whose uploads a real ClamAV judges, too, with a VM that has the bucket
// inbox mounted.
type clamHost struct {
	*s3Host
	clam *clamDaemon
	sdk  *s3.Client
}

func newClamHost(t *testing.T) *clamHost {
	t.Helper()
	clam := newClamDaemon(t)
	h := &clamHost{s3Host: &s3Host{host: newHost(t, "--clamd", clam.socket)}, clam: clam} // by default there is no scanner of viruses
	h.url = "http://" + h.gates[5]
	h.access, h.secret = h.s3Key()
	h.sdk = h.aws(h.access, h.secret)
	h.ok("bucket", "create", "inbox")
	h.ok("up", "--name", "box", "--net", "closed", "--mount", "s3://inbox:/inbox:ro")
	return h
}

func (h *clamHost) put(key string, body []byte) {
	h.t.Helper()
	call(h.t, "put of "+key, h.sdk.PutObject, &s3.PutObjectInput{Bucket: aws.String("inbox"), Key: &key, Body: bytes.NewReader(body)})
}

// get reads an object and asks once.
func (h *clamHost) get(c *s3.Client, key string) error {
	h.t.Helper()
	out, err := c.GetObject(h.t.Context(), &s3.GetObjectInput{Bucket: aws.String("inbox"), Key: &key}, once)
	if err == nil {
		read(h.t, out.Body)
	}
	return err
}

// once is an option of a request that the SDK does not repeat.
func once(o *s3.Options) { o.RetryMaxAttempts = 1 }

// TestObjectsClamd: with a real ClamAV, what it finds is refused, also inside of an archive,
// and only a key of the account reads it. While ClamAV does not run, uploads stay unscanned
// and nobody gets their bytes in any way: not by S3, a copy, a link, the command, or a mount.
//
// 001-24, 001-32
func TestObjectsClamd(t *testing.T) {
	t.Parallel() // it mostly waits
	h := newClamHost(t)
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	w, err := z.Create("invoice.txt")
	if err == nil {
		_, err = w.Write([]byte(eicar))
	}
	if err != nil || z.Close() != nil {
		t.Fatalf("the archive was not made: %v", err)
	}
	h.put("plain.txt", []byte("text"))
	if err := h.get(h.sdk, "plain.txt"); err != nil {
		t.Errorf("what ClamAV finds clean is not read: %v", err)
	}
	if got := h.sh("box", "cat /inbox/plain.txt"); got != "text" {
		t.Errorf("in a mount, what ClamAV finds clean is %q", got)
	}
	h.ok("identity", "create", "agent")
	h.ok("bucket", "grant", "inbox", "--identity", "agent", "--write")
	agent := h.aws(h.s3Key("--identity", "agent"))
	for key, body := range map[string][]byte{"invoice.txt": []byte(eicar), "invoice.zip": packed.Bytes()} {
		h.put(key, body)
		refused(t, "get of "+key, h.get(h.sdk, key), "AccessDenied")
		refused(t, "an identity's get of "+key, h.get(agent, key), "AccessDenied")
		if r := h.run("artifact", "get", "s3://inbox/"+key, "-"); r.code == 0 || !strings.Contains(r.stderr, "clamd has found Test.Eicar") {
			t.Errorf("artifact get of %s: status %d, %s", key, r.code, r.stderr)
		}
		if r := h.run("artifact", "get", "--refused", "s3://inbox/"+key, "-"); r.stdout != string(body) {
			t.Errorf("artifact get --refused of %s by its account: status %d, %s", key, r.code, r.stderr)
		}
	}
	h.clam.stop()
	h.put("late.txt", []byte("the bytes"))
	h.put("late-invoice.txt", []byte(eicar))
	if out := h.ok("artifact", "ls", "s3://inbox"); strings.Count(out, "unscanned") != 2 {
		t.Errorf("while ClamAV does not run the list has\n%s", out)
	}
	h.nobodyReads("late.txt")
	h.clam.start()
	if err := h.get(h.sdk, "late.txt"); err != nil {
		t.Errorf("get after ClamAV was started again: %v", err)
	}
	refused(t, "get of a late finding", h.get(h.sdk, "late-invoice.txt"), "AccessDenied")
	for line, want := range map[string]string{"cat /inbox/late.txt": "the bytes", "cat /inbox/late-invoice.txt": "Permission denied"} {
		if _, got := h.guest("box", line); !strings.Contains(got, want) {
			t.Errorf("after ClamAV was started again, %s in the VM gives %q, want %s", line, got, want)
		}
	}
}

// nobodyReads wants every way to an upload that is not scanned to wait and then fail.
func (h *clamHost) nobodyReads(key string) {
	h.t.Helper()
	link := strings.TrimSpace(h.ok("artifact", "sign", "s3://inbox/"+key, "-q"))
	var wg sync.WaitGroup
	wg.Go(func() { refused(h.t, "get while ClamAV does not run", h.get(h.sdk, key), "SlowDown") })
	wg.Go(func() {
		_, err := h.sdk.CopyObject(h.t.Context(), &s3.CopyObjectInput{Bucket: aws.String("inbox"), Key: aws.String("copy.txt"), CopySource: aws.String("inbox/" + key)}, once)
		refused(h.t, "a copy while ClamAV does not run", err, "SlowDown")
	})
	wg.Go(func() {
		if status, body := fetch(h.t, "GET", link, ""); status != 503 || !strings.Contains(body, "not scanned yet") {
			h.t.Errorf("a signed link while ClamAV does not run gives %d %s", status, body)
		}
	})
	wg.Go(func() {
		if r := h.run("artifact", "get", "--refused", "s3://inbox/"+key, "-"); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, "not scanned yet") {
			h.t.Errorf("artifact get --refused while ClamAV does not run: status %d, %q, %s", r.code, r.stdout, r.stderr)
		}
	})
	wg.Go(func() {
		if code, out := h.guest("box", "ls /inbox/"+key+" && cat /inbox/"+key); code == 0 || !strings.HasPrefix(out, "/inbox/"+key) || !strings.Contains(out, "Input/output error") {
			h.t.Errorf("in a mount while ClamAV does not run: status %d, %q", code, out)
		}
	})
	wg.Wait()
}
