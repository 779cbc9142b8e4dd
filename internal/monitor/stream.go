// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/warren-vm/warren/vm"
)

// streamUpgrade is the protocol name in the upgrade request of a raw stream through
// the monitor's socket.
const streamUpgrade = "warren-stream"

// spliceBuffer is large because file streams pass through it.
const spliceBuffer = 128 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, spliceBuffer); return &b }}

// lastWords bounds how long the far end of a stream may be silent after the
// client has finished sending.
const lastWords = time.Hour

// splice copies both ways between a client and a far end until both are done, and
// closes both. The end of one direction is passed on as a half close; a failure of
// one ends both.
func splice(client, far net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if copyStream(far, client) == nil {
			_ = far.SetReadDeadline(time.Now().Add(lastWords))
			closeWrite(far)
			return
		}
		client.Close()
		far.Close()
	})
	if copyStream(client, far) == nil {
		closeWrite(client)
	} else {
		client.Close()
		far.Close()
	}
	wg.Wait()
	client.Close()
	far.Close()
}

// closeWrite ends one direction. Close of a stream of the agent's link does exactly
// that.
func closeWrite(c net.Conn) {
	if h, ok := c.(*headed); ok {
		c = h.Conn
	}
	switch c := c.(type) {
	case interface{ CloseWrite() error }:
		_ = c.CloseWrite() // fails only when the other end is gone
	case *yamux.Stream:
		_ = c.Close() // fails only when the other end is gone
	}
}

func copyStream(dst, src net.Conn) error {
	buf, _ := buffers.Get().(*[]byte) // New returns only buffers
	defer buffers.Put(buf)
	// Without these wrappers io.CopyBuffer would use ReadFrom and WriteTo, which
	// have small buffers of their own.
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, *buf)
	return err
}

// serveStream answers an upgrade request with the connection that dial makes.
func (s *server) serveStream(w http.ResponseWriter, r *http.Request, dial func(context.Context) (net.Conn, error)) {
	if r.Header.Get("Upgrade") != streamUpgrade {
		writeError(w, vm.Errorf(vm.Invalid, r.URL.Path, "not an upgrade request"))
		return
	}
	far, err := dial(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	hj, ok := w.(http.Hijacker)
	if !ok {
		far.Close()
		writeError(w, vm.Errorf(vm.Internal, "", "connection cannot be taken over"))
		return
	}
	conn, rw, err := hj.Hijack()
	if err != nil {
		far.Close()
		s.m.log.Warn("stream", "err", err)
		return
	}
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + streamUpgrade + "\r\n\r\n"
	if _, err := io.WriteString(conn, answer); err != nil {
		conn.Close()
		far.Close()
		return
	}
	s.streams.add(conn)
	defer s.streams.remove(conn)
	splice(unread(conn, rw.Reader), far)
}

// unread returns conn preceded by the bytes that r has read beyond the response.
func unread(conn net.Conn, r *bufio.Reader) net.Conn {
	n := r.Buffered()
	if n == 0 {
		return conn
	}
	head, _ := r.Peek(n) // that many are buffered
	return &headed{Conn: conn, head: append([]byte(nil), head...)}
}

type headed struct {
	net.Conn
	head []byte
}

func (h *headed) Read(p []byte) (int, error) {
	if len(h.head) > 0 {
		n := copy(p, h.head)
		h.head = h.head[n:]
		return n, nil
	}
	return h.Conn.Read(p)
}

// CloseWrite ends this side's bytes.
func (h *headed) CloseWrite() error {
	closeWrite(h.Conn)
	return nil
}

// streams are the connections that were taken over from the HTTP server, which does
// not close them.
type streams struct {
	mu sync.Mutex // guards all
	m  map[net.Conn]struct{}
}

func (s *streams) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[net.Conn]struct{})
	}
	s.m[c] = struct{}{}
}

func (s *streams) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, c)
}

func (s *streams) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.m {
		_ = c.Close() // fails only when the other end is gone
	}
}

// dialStream is the client's side of serveStream.
func dialStream(ctx context.Context, socket, path string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, vm.Errorf(vm.Unavailable, "", "the VM's monitor does not answer: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	conn, err = upgrade(conn, path)
	if !stop() && err == nil {
		conn.Close()
		err = ctx.Err()
	}
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return conn, err
}

// upgrade owns conn when it fails.
func upgrade(conn net.Conn, path string) (net.Conn, error) {
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: monitor\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", path, streamUpgrade)
	if err != nil {
		conn.Close()
		return nil, vm.Errorf(vm.Unavailable, "", "the VM's monitor ended the connection: %w", err)
	}
	r := bufio.NewReaderSize(conn, 4<<10)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		conn.Close()
		return nil, vm.Errorf(vm.Unavailable, "", "the VM's monitor ended the connection: %w", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		defer resp.Body.Close()
		return nil, responseError(resp)
	}
	return unread(conn, r), nil
}

// responseError reads the error from an error response.
func responseError(resp *http.Response) error {
	var e vm.WireError
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&e); err != nil || e.Kind == "" {
		return vm.Errorf(vm.Internal, "", "the monitor answered %s", resp.Status)
	}
	return e.Error()
}
