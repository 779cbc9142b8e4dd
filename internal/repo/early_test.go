// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
)

// held is a request's body whose rest, after left bytes, is read once the answer has begun. It tells the end
// by a read of its own, as of a body that was sent in chunks.
type held struct {
	io.ReadCloser
	left  int64
	begun chan struct{}
}

func (b *held) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		if n > 0 && err == io.EOF {
			err = nil
		}
		return n, err
	}
	<-b.begun
	return b.ReadCloser.Read(p)
}

// beginning calls begun when the client has been sent the beginning of an answer.
type beginning struct {
	http.ResponseWriter
	begun func()
}

func (w beginning) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w beginning) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	w.begun()
	return n, err
}

// early serves git, and holds back what follows the first bytes of a request until its answer has begun. If
// left is 0, it holds back the end.
func (h *host) early(service string, left int64) {
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if filepath.Base(r.URL.Path) == service {
			begun := make(chan struct{})
			hold := left
			if hold == 0 {
				hold = r.ContentLength
			}
			r.Body = &held{r.Body, hold, begun}
			w = beginning{w, sync.OnceFunc(func() { close(begun) })}
		}
		h.door(w, r)
	}))
	h.Cleanup(door.Close)
	h.url = door.URL
}

// TestEarlyAnswer: a clone arrives whole when its answer begins before the end of the request was read.
func TestEarlyAnswer(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	tip := h.commit(owner, rec, "", "m", map[string]string{"a": "1"})
	h.early(repo.UploadPack, 0)
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	if have := g.git("rev-parse", "HEAD"); have != tip.SHA {
		t.Errorf("the clone is at %s, want %s", have, tip.SHA)
	}
}

// TestSlowPush: a push that takes so long that the server tells git that it is still there arrives whole.
func TestSlowPush(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	h.commit(owner, rec, "", "m", map[string]string{"a": "1"})
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	data := make([]byte, 2<<20)
	_, _ = rand.Read(data)
	if err := os.WriteFile(filepath.Join(g.dir, "big"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	pushed := g.change("b", "x")
	h.early(repo.ReceivePack, 64<<10)
	g.git("push", "-q", h.remote(rec, key), "HEAD:main")
	got, err := h.room.CommitAt(t.Context(), owner, rec.ID, "main")
	if err != nil || got.SHA != pushed {
		t.Errorf("main is at %s (%v), want %s", got.SHA, err, pushed)
	}
}
