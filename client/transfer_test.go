// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func digestOf(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// sendRaw answers as the server does, with what is told.
func sendRaw(w http.ResponseWriter, announced int, data []byte, digest string) {
	w.Header().Set(api.HeaderLength, strconv.Itoa(announced))
	w.Header().Set("Trailer", api.HeaderDigest)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(data)
	if digest != "" {
		w.Header().Set(api.HeaderDigest, digest)
	}
}

// The announced length and digest of a guest's file are checked against the data.
func TestGetRaw(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	flipped := bytes.Clone(data)
	flipped[len(flipped)/2] ^= 1
	for _, tc := range []struct {
		name      string
		announced int
		data      []byte
		digest    string
		abort     bool
		want      vm.Kind
	}{
		{name: "whole", announced: len(data), data: data, digest: digestOf(data)},
		{name: "empty", digest: digestOf(nil)},
		{name: "wrong digest", announced: len(data), data: flipped, digest: digestOf(data), want: vm.Corrupt},
		{name: "no digest", announced: len(data), data: data, want: vm.Corrupt},
		{name: "too short with its own digest", announced: len(data), data: data[:100], digest: digestOf(data[:100]), want: vm.Corrupt},
		{name: "longer than announced", announced: 100, data: data, digest: digestOf(data), want: vm.Corrupt},
		{name: "cut off", announced: len(data), data: data[:1000], abort: true, want: vm.Unavailable},
		{name: "cut off at the end", announced: len(data), data: data, abort: true, want: vm.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fake(t, func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI != "/v1/vms/box/raw/%2Fwork%2Fa%20b" {
					t.Errorf("asked for %s", r.RequestURI)
				}
				sendRaw(w, tc.announced, tc.data, tc.digest)
				if tc.abort {
					flush(t, w)
					panic(http.ErrAbortHandler)
				}
			})
			size, r, err := c.GetRaw(t.Context(), "box", "", "/work/a b", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if size != int64(tc.announced) || len(got) > tc.announced {
				t.Errorf("size %d, %d bytes came", size, len(got))
			}
			if vm.KindOf(err) != tc.want {
				t.Fatalf("ended with %v, want kind %q", err, tc.want)
			}
			if tc.want == "" && !bytes.Equal(got, tc.data) {
				t.Error("other bytes came")
			}
		})
	}
}

func TestGetRawLimit(t *testing.T) {
	query := ""
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		sendRaw(w, 101, make([]byte, 101), digestOf(make([]byte, 101)))
	})
	if _, _, err := c.GetRaw(t.Context(), "box", "", "/a", 100); !errors.Is(err, vm.Limit) {
		t.Errorf("a server that ignores the limit: %v", err)
	}
	if query != "maxBytes=100" {
		t.Errorf("asked with %q", query)
	}
	none := fake(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	if _, _, err := none.GetRaw(t.Context(), "box", "", "/a", 0); !errors.Is(err, vm.Unavailable) {
		t.Errorf("without a length: %v", err)
	}
}

func TestPutRaw(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 3<<20)
	for _, tc := range []struct {
		name   string
		size   int64
		data   []byte
		length int64
	}{
		{"sized", 5, []byte("hello"), 5},
		{"empty", 0, nil, 0},
		{"unknown size", -1, []byte("hello"), -1},
		{"large", int64(len(large)), large, int64(len(large))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fake(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != "PUT" || r.RequestURI != "/v1/vms/box/raw/%2Fa?mode=0755&parents=true" || r.ContentLength != tc.length {
					t.Errorf("%s %s, length %d", r.Method, r.RequestURI, r.ContentLength)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				answer(w, 200, api.WrittenFile{File: vm.FileInfo{Size: int64(len(body))}, Digest: digestOf(body)})
			})
			out, err := c.PutRaw(t.Context(), "box", "", "/a", 0o755, true, tc.size, bytes.NewReader(tc.data))
			if err != nil || out.File.Size != int64(len(tc.data)) {
				t.Errorf("the upload is answered with %+v (%v), want size %d", out, err, len(tc.data))
			}
		})
	}
}

func TestPutRawFaults(t *testing.T) {
	ok := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client stopped on its own
		}
		answer(w, 200, api.WrittenFile{Digest: digestOf(body)})
	}
	t.Run("another digest", func(t *testing.T) {
		c := fake(t, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 200, api.WrittenFile{Digest: digestOf([]byte("x"))})
		})
		if _, err := c.PutRaw(t.Context(), "box", "", "/a", 0, false, 5, strings.NewReader("hello")); !errors.Is(err, vm.Corrupt) {
			t.Errorf("an upload that is answered with another digest: %v, want corrupt", err)
		}
	})
	t.Run("source fails", func(t *testing.T) {
		broken := errors.New("disk is gone")
		src := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))
		if _, err := fake(t, ok).PutRaw(t.Context(), "box", "", "/a", 0, false, -1, src); !errors.Is(err, broken) {
			t.Errorf("an upload whose source breaks: %v, want the source's error", err)
		}
	})
	t.Run("source is shorter", func(t *testing.T) {
		if _, err := fake(t, ok).PutRaw(t.Context(), "box", "", "/a", 0, false, 50, strings.NewReader("hello")); err == nil {
			t.Error("no error")
		}
	})
	// A refusal reaches the caller although most of the body was not taken.
	for name, after := range map[string]int64{"refused at once": 0, "full on the way": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			c := fake(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.CopyN(io.Discard, r.Body, after); err != nil {
					t.Error(err)
				}
				answer(w, 503, api.EncodeError(vm.Errorf(vm.NoSpace, "/a", "the disk is full"), ""))
			})
			const size = 64 << 20
			src := io.LimitReader(endless{}, size)
			if _, err := c.PutRaw(t.Context(), "box", "", "/a", 0, false, size, src); !errors.Is(err, vm.NoSpace) {
				t.Errorf("an upload that the server refuses early: %v, want no-space", err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestGetTar(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mark  string
		abort bool
		want  vm.Kind
	}{
		{"whole", "ok", false, ""},
		{"without its mark", "", false, vm.Corrupt},
		{"with another mark", "failed", false, vm.Corrupt},
		{"cut off", "", true, vm.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Trailer", api.HeaderEnd)
				_, _ = io.WriteString(w, "tar bytes")
				flush(t, w)
				if tc.abort {
					panic(http.ErrAbortHandler)
				}
				if tc.mark != "" {
					w.Header().Set(api.HeaderEnd, tc.mark)
				}
			})
			r, err := c.GetTar(t.Context(), "box", "", "/d")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if string(got) != "tar bytes" || vm.KindOf(err) != tc.want {
				t.Errorf("the archive is %q with error %v, want all of it and kind %q", got, err, tc.want)
			}
		})
	}
}

func TestPutTar(t *testing.T) {
	var body []byte
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		if r.RequestURI != "/v1/vms/box/tar/%2Fd" || r.Header.Get(api.HeaderLinuxUser) != "me" {
			t.Errorf("the client asked for %s as %q, want the directory's archive as me", r.RequestURI, r.Header.Get(api.HeaderLinuxUser))
		}
		answer(w, 200, struct{}{})
	})
	if err := c.PutTar(t.Context(), "box", "me", "/d", strings.NewReader("tar")); err != nil || string(body) != "tar" {
		t.Errorf("the server got the archive %q (%v), want %q", body, err, "tar")
	}
}
