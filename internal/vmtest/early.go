// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// EarlyAnswer checks that a proxy passes on the whole of an answer whose beginning the client has before the proxy
// read the end of the request. forward is given the server behind the proxy, and returns the proxy. The request is
// a POST to path.
func EarlyAnswer(t *testing.T, path string, forward func(behind http.Handler) http.Handler) {
	t.Helper()
	seen, read := make(chan struct{}), make(chan struct{})
	hasSeen := sync.OnceFunc(func() { close(seen) })
	proxy := forward(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, r.ContentLength))
		fmt.Fprint(w, "first ")
		w.(http.Flusher).Flush()
		select {
		case <-read:
			fmt.Fprint(w, "last")
		case <-r.Context().Done():
		}
	}))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &lateEnd{ReadCloser: r.Body, left: r.ContentLength, seen: seen, read: read}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	defer hasSeen() // the front closes when its request has ended
	resp, err := http.Post(front.URL+path, "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	begin := make([]byte, len("first "))
	if n, err := io.ReadFull(resp.Body, begin); err != nil {
		t.Fatalf("the answer begins with %q: %v", begin[:n], err)
	}
	hasSeen()
	if rest, err := io.ReadAll(resp.Body); string(rest) != "last" {
		t.Errorf("the rest of the answer is %q, %v, want all of it", rest, err)
	}
}

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
