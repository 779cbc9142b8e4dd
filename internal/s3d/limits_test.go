// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/s3d"
)

// dial connects to the door itself, as a client without any key.
func (b *bench) dial() net.Conn {
	b.t.Helper()
	c, err := net.Dial("unix", b.socket)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// answer is what the door says to a request of which the head is sent, and 8 KiB of the body.
func (b *bench) answer(method, path string, headers ...string) string {
	b.t.Helper()
	c := b.dial()
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%8192d", method, path, strings.Join(headers, "\r\n"), 0)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		b.t.Fatalf("%s %s got no answer: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// zeros is a body of any length.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A body that is no upload would be read into memory: one that is too long is refused
// before any of it is read.
func TestLargeBodyOfASmallRequestIsRefused(t *testing.T) {
	b := newBench(t)
	for what, path := range map[string]string{
		"the tags of a bucket": "/data?tagging", "the tags of an object": "/data/in/hello?tagging", "a bucket": "/new",
		"a bucket with slashes": "/new%2f%2f", "an unknown verb of an object": "/data/in/hello?nothing",
	} {
		if text := b.answer(http.MethodPut, path, "Content-Length: 5000000"); !strings.Contains(text, "EntityTooLarge") {
			t.Errorf("5 MB for %s gave: %s", what, text)
		}
		if text := b.answer(http.MethodPut, path, "Transfer-Encoding: chunked"); !strings.Contains(text, "MissingContentLength") {
			t.Errorf("a body of unknown length for %s gave: %s", what, text)
		}
	}
}

// A page that an uploader wrote runs no scripts in the origin of the door, and nothing else
// is taken for a page.
func TestStoredPagesAreDisarmed(t *testing.T) {
	b := newBench(t)
	s := b.as(b.box)
	for kind, sandboxed := range map[string]bool{"text/html": true, "image/svg+xml": true, "application/xhtml+xml": true, "text/javascript": true, "Text/HTML; charset=utf-8": true, "image/png": false, "application/pdf": false, "text/plain": false} {
		if _, err := b.room.Put(t.Context(), b.call, objects.PutRequest{Bucket: "data", Key: "page", Size: 1, ContentType: kind}, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/data/page", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Security-Policy") == "sandbox"; resp.StatusCode != http.StatusOK || got != sandboxed {
			t.Errorf("%s is answered with status %d, sandboxed: %v, want %v", kind, resp.StatusCode, got, sandboxed)
		}
		if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s is answered with X-Content-Type-Options %q", kind, got)
		}
	}
}

// A client that is silent or trickles does not keep a connection.
func TestUploadThatTricklesEnds(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	body := s3d.Paced(server, time.Now().Add(-time.Hour))
	if _, err := body.Read(make([]byte, 10)); err == nil || !strings.Contains(err.Error(), "IncompleteBody") {
		t.Errorf("reading a body that has brought nothing for an hour gave %v", err)
	}
}

// A request has to come within a time.
func TestDoorHasDeadlines(t *testing.T) {
	header, idle, err := s3d.Deadlines(newBench(t).door)
	if err != nil || header <= 0 || header > time.Minute || idle <= 0 || idle > 5*time.Minute {
		t.Errorf("the door waits %s for a request and %s between two (%v)", header, idle, err)
	}
}

// A list of parts may be as long as S3 allows.
func TestSmallRequestOfFourMiBIsRead(t *testing.T) {
	b := newBench(t)
	status, text := b.ask(b.as(b.box), http.MethodPut, "/data/in/hello?tagging", strings.Repeat(" ", 4<<20))
	if status != http.StatusBadRequest || strings.Contains(text, "EntityTooLarge") {
		t.Errorf("a body of 4 MiB gave status %d: %s", status, text)
	}
}

// A form is refused before its signature is known, whoever sends it: its files would go to
// the disk, and its fields into memory.
func TestFormLeavesNothing(t *testing.T) {
	b := newBench(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		c := b.dial()
		fmt.Fprintf(c, "%s /data HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: %d\r\n\r\n", method, 1<<40)
		fmt.Fprint(c, "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n")
		done := make(chan struct{})
		go func() { // ends with the connection
			defer close(done)
			_, _ = io.Copy(c, io.LimitReader(zeros{}, 64<<20))
		}()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("the %s of a form without end got no answer: %v", method, err)
		}
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("the %s of a form gave status %d", method, resp.StatusCode)
		}
		_ = c.Close()
		<-done
		left, err := os.ReadDir(os.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("the %s of a form left %v on the disk", method, left)
		}
	}
}
