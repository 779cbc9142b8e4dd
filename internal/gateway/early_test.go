// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// lateEnd is a body whose end is read when seen is closed. Then it closes read.
type lateEnd struct {
	io.ReadCloser
	left       int64
	seen, read chan struct{}
	once       sync.Once
}

func (b *lateEnd) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		return n, err
	}
	<-b.seen
	n, err := b.ReadCloser.Read(p)
	b.once.Do(func() { close(b.read) })
	return n, err
}

// TestEarlyAnswer: an answer whose beginning the client has before the end of the request was read arrives whole.
func TestEarlyAnswer(t *testing.T) {
	seen, read := make(chan struct{}), make(chan struct{})
	hasSeen := sync.OnceFunc(func() { close(seen) })
	s := newStand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, r.ContentLength))
		fmt.Fprint(w, "first ")
		w.(http.Flusher).Flush()
		select {
		case <-read:
			fmt.Fprint(w, "last")
		case <-r.Context().Done():
		}
	}))
	site, _ := s.e.PreviewSite("box", 3000)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &lateEnd{ReadCloser: r.Body, left: r.ContentLength, seen: seen, read: read}
		s.g.proxy.serve(w, r, boxHost, site, false)
	}))
	defer front.Close()
	defer hasSeen() // the front closes when its request has ended
	resp, err := http.Post(front.URL, "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	begin := make([]byte, len("first "))
	if _, err := io.ReadFull(resp.Body, begin); err != nil {
		t.Fatal(err)
	}
	hasSeen()
	if rest, err := io.ReadAll(resp.Body); string(rest) != "last" {
		t.Errorf("the rest of the answer is %q, %v, want all of it", rest, err)
	}
}
