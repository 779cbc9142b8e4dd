// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// LinuxUser describes a Linux user of the guest; "" is root.
func (c *Client) LinuxUser(ctx context.Context, name string) (vm.LinuxUser, error) {
	b, err := c.ask(ctx, "GET", "/user", url.Values{"user": {name}}, nil)
	if err != nil {
		return vm.LinuxUser{}, err
	}
	u, err := link.DecodeUser(b)
	return u, odd(err)
}

// DialSocket connects to a socket of the guest, or through its network. The
// context limits only the time to connect.
func (c *Client) DialSocket(ctx context.Context, s vm.SocketSpec) (net.Conn, error) {
	conn, _, err := c.stream(ctx, "/dial", socketQuery(s))
	return conn, err
}

func socketQuery(s vm.SocketSpec) url.Values {
	return url.Values{"user": {s.User}, "network": {s.Network}, "address": {s.Address}}
}

// stream sends a request whose answer becomes a stream of bytes, and returns
// the word in its head. The context limits only the request.
func (c *Client) stream(ctx context.Context, path string, q url.Values) (*Stream, string, error) {
	stream, err := c.dial(ctx)
	if err != nil {
		return nil, "", broken(ctx, err)
	}
	conn := newHeadReader(stream)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	in := bufio.NewReaderSize(conn, 32<<10)
	word, err := upgrade(conn, in, path+"?"+q.Encode(), nil)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, "", broken(ctx, err)
	}
	return &Stream{Conn: stream, in: in}, string(word), nil
}

// Stream is a connection in the guest.
type Stream struct {
	net.Conn
	in io.Reader
}

func (s *Stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// CloseWrite ends this direction; the other stays open.
func (s *Stream) CloseWrite() error {
	switch c := s.Conn.(type) {
	case interface{ CloseWrite() error }:
		return c.CloseWrite()
	case *yamux.Stream:
		return c.Close() // Close has that effect, too
	}
	return nil
}

// Listener accepts connections to a socket of the guest. It is closed when the
// context ends that it was made with.
type Listener struct {
	c       *Client
	conn    net.Conn
	id      string
	address string
	stop    func() bool
	life    context.Context
	end     context.CancelCauseFunc
}

// ListenSocket listens on a socket of the guest until ctx ends.
func (c *Client) ListenSocket(ctx context.Context, s vm.SocketSpec) (*Listener, error) {
	conn, word, err := c.stream(ctx, "/listen", socketQuery(s))
	if err != nil {
		return nil, err
	}
	l := &Listener{c: c, conn: conn}
	l.id, l.address, _ = strings.Cut(word, " ")
	l.life, l.end = context.WithCancelCause(ctx)
	l.stop = context.AfterFunc(l.life, func() { _ = conn.Close() })
	go func() { // ends with the connection, which Close and the context close
		_, err := conn.Read(make([]byte, 1))
		l.end(vm.Errorf(vm.GuestFault, l.address, "the guest no longer listens there: %w", err))
	}()
	return l, nil
}

// Address returns where it listens: IP:PORT or a path.
func (l *Listener) Address() string { return l.address }

// Accept waits for a connection and returns it with its origin.
func (l *Listener) Accept() (net.Conn, string, error) {
	conn, peer, err := l.c.stream(l.life, "/accept", url.Values{"id": {l.id}})
	return conn, peer, err
}

// Close stops listening. Connections stay open.
func (l *Listener) Close() error {
	l.end(net.ErrClosed)
	return nil
}
