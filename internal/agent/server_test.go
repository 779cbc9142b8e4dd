// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"testing"
)

func TestReadRequest(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		ok   bool
		body string
	}{
		"plain":         {"GET /stat?path=%2Fa%20b HTTP/1.1\r\nHost: x\r\n\r\n", true, ""},
		"length":        {"POST /stat?path=/a%20b HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcREST", true, "abc"},
		"chunks":        {"PUT /stat?path=/a%20b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nREST", true, "abc0123456789"},
		"cut length":    {"POST /stat HTTP/1.1\r\nContent-Length: 4\r\n\r\nabc", false, ""},
		"cut chunk":     {"PUT /stat HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", false, ""},
		"no last chunk": {"PUT /stat HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", false, ""},
		"bad chunk":     {"PUT /stat HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, ""},
		"negative":      {"POST /stat HTTP/1.1\r\nContent-Length: -1\r\n\r\n", false, ""},
		"old protocol":  {"GET /stat HTTP/1.0\r\n\r\n", false, ""},
		"no path":       {"GET stat HTTP/1.1\r\n\r\n", false, ""},
		"no colon":      {"GET /stat HTTP/1.1\r\nHost\r\n\r\n", false, ""},
		"endless head":  {"GET /stat HTTP/1.1\r\nA: " + strings.Repeat("x", maxHead) + "\r\n\r\n", false, ""},
		"cut head":      {"GET /stat HTTP/1.1\r\nA: b", false, ""},
		"other coding":  {"PUT /stat HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", false, ""},
	} {
		r, err := readRequest(bufio.NewReader(strings.NewReader(c.raw)))
		var b []byte
		if err == nil {
			b, err = io.ReadAll(r.body)
		}
		if (err == nil) != c.ok || c.ok && string(b) != c.body {
			t.Errorf("the request %s has the body %q (%v), want %q, ok %t", name, b, err, c.body, c.ok)
		}
		if c.ok && (r.path != "/stat" || r.query.Get("path") != "/a b") {
			t.Errorf("the request %s is read as %+v, want /stat of /a b", name, r)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte("POST /stat?path=/a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("PUT /tar HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		if n, err := io.Copy(io.Discard, r.body); n > int64(len(raw)) || err == nil && r.size >= 0 && n != r.size {
			t.Fatalf("%d bytes of body in %d, %v", n, len(raw), err)
		}
	})
}

// The standard library can read what the agent writes.
func TestChunkWriter(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	for _, how := range []string{"write", "read from"} {
		var b bytes.Buffer
		c := &chunkWriter{w: &b}
		if how == "write" {
			_, _ = c.Write(want)
		} else if n, err := c.ReadFrom(bytes.NewReader(want)); err != nil || n != int64(len(want)) {
			t.Fatal(n, err)
		}
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(httputil.NewChunkedReader(&b))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", how, len(got), err)
		}
	}
	var b bytes.Buffer
	w := &answer{conn: writeOnly{Writer: &b}}
	_ = w.bytes([]byte("hi"))
	resp, err := http.ReadResponse(bufio.NewReader(&b), nil)
	if err != nil || resp.ContentLength != 2 {
		t.Errorf("the answer is %+v (%v), want a length of 2", resp, err)
	}
}

// writeOnly is a connection that only takes bytes.
type writeOnly struct {
	net.Conn
	io.Writer
}

func (w writeOnly) Write(p []byte) (int, error) { return w.Writer.Write(p) }

func TestRing(t *testing.T) {
	var r ring
	var all []byte
	for i, n := range []int{0, 1, 1000, ringSize - 1001, 5, ringSize, 3 * ringSize, 70, ringSize - 1, 2} {
		part := bytes.Repeat([]byte{byte('a' + i)}, n)
		all = append(all, part...)
		r.write(part)
		c := r
		c.buf = bytes.Clone(r.buf)
		if got, want := c.take(), all[max(0, len(all)-ringSize):]; !bytes.Equal(got, want) {
			t.Fatalf("after %d bytes the ring is wrong", len(all))
		}
	}
}

func TestParseAddr(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:0016": "[::1]:22",
		"0000000000000000FFFF00000100007F:0050": "[::ffff:127.0.0.1]:80",
	} {
		if got, ok := parseAddr(in); !ok || got != netip.MustParseAddrPort(want) {
			t.Errorf("the address %s is %v, %v, want %s", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "01:zz", "0100007F", "010000:0016"} {
		if got, ok := parseAddr(in); ok {
			t.Errorf("%q gave %v", in, got)
		}
	}
}
