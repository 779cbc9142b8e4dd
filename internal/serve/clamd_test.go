// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// fakeClamd answers INSTREAM as clamd does: FOUND for what has the word virus, an error for
// more bytes than it takes.
func fakeClamd(t *testing.T) clamd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clamd.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answerClamd(c)
		}
	}()
	return clamd(path)
}

func answerClamd(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	if command, err := r.ReadString(0); err != nil || command != "zINSTREAM\x00" {
		return
	}
	var all bytes.Buffer
	for {
		var n uint32
		if err := binary.Read(r, binary.BigEndian, &n); err != nil {
			return
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(&all, r, int64(n)); err != nil {
			return
		}
		if all.Len() > 1<<20 {
			_, _ = io.WriteString(c, "INSTREAM size limit exceeded. ERROR\x00")
			return
		}
	}
	said := "stream: OK\x00"
	if bytes.Contains(all.Bytes(), []byte("virus")) {
		said = "stream: Test.Virus-1 FOUND\x00"
	}
	_, _ = io.WriteString(c, said)
}

// TestClamd: what clamd finds is named, what it does not judge is no clean upload.
func TestClamd(t *testing.T) {
	c := fakeClamd(t)
	for body, want := range map[string]string{"text": "", "": "", strings.Repeat("x", 600<<10): "", strings.Repeat("x", 500<<10) + "virus": "Test.Virus-1"} {
		if got, err := c.scan(t.Context(), strings.NewReader(body)); err != nil || got != want {
			t.Errorf("clamd finds %q in %d bytes, %v, want %q", got, len(body), err, want)
		}
	}
	if got, err := c.scan(t.Context(), strings.NewReader(strings.Repeat("x", 4<<20))); !errors.Is(err, vm.Unavailable) {
		t.Errorf("an upload that is too large for clamd gives %q, %v, want kind %s", got, err, vm.Unavailable)
	}
	if _, err := clamd(filepath.Join(t.TempDir(), "none")).scan(t.Context(), strings.NewReader("")); !errors.Is(err, vm.Unavailable) {
		t.Errorf("a clamd that is not there gives %v, want kind %s", err, vm.Unavailable)
	}
}

// TestOtherS3Config: an address of another S3 names a bucket, without a key in it, and the
// file with the keys is closed to others.
func TestOtherS3Config(t *testing.T) {
	for text, want := range map[string]string{"https://s3.example.com/warren": "https://s3.example.com warren", "http://127.0.0.1:9000/a-b/": "http://127.0.0.1:9000 a-b"} {
		if address, bucket, err := splitEndpoint(text); err != nil || address+" "+bucket != want {
			t.Errorf("%s is %s %s, %v, want %s", text, address, bucket, err, want)
		}
	}
	for _, bad := range []string{"", "s3.example.com/warren", "https://s3.example.com", "https://key:secret@s3.example.com/warren", "https://s3.example.com/warren?x=1", "https://s3.example.com/a/b", "ftp://s3.example.com/warren"} {
		if _, _, err := splitEndpoint(bad); !errors.Is(err, vm.Invalid) {
			t.Errorf("%q gives %v, want kind %s", bad, err, vm.Invalid)
		}
	}
}
