// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TestStalling: an upload of which nothing comes any more ends with an error that says so.
func TestStalling(t *testing.T) {
	ended := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, stalling{http.NewResponseController(w), r.Body, 50 * time.Millisecond})
		ended <- err
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, vm.Timeout) {
		t.Errorf("a stalled upload ends with %v, want a time-out", err)
	}
}
