// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// tlsHandshake is the first byte of a TLS connection.
const tlsHandshake = 0x16

// split sorts connections by their first byte.
type split struct {
	l             net.Listener
	config        *tls.Config
	secure, plain *queue
	near          neighbours
	done          chan struct{}
	once          sync.Once
}

// splitListener accepts at most most connections at once, and at most mostNear
// of them from one neighbourhood.
func splitListener(l net.Listener, most, mostNear int, config *tls.Config) *split {
	s := &split{l: netutil.LimitListener(l, most), config: config, done: make(chan struct{}), near: neighbours{most: mostNear, n: map[netip.Prefix]int{}}}
	s.secure = &queue{addr: l.Addr(), conns: make(chan net.Conn), done: s.done}
	s.plain = &queue{addr: l.Addr(), conns: make(chan net.Conn), done: s.done}
	return s
}

// run accepts until the listener is closed.
func (s *split) run() error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := s.l.Accept()
		if err != nil {
			s.close()
			return err
		}
		known, ok := s.near.enter(c)
		if !ok {
			_ = c.Close()
			continue
		}
		wg.Go(func() { s.sort(known) }) // ends at its deadline
	}
}

// sort waits a limited time for the first byte.
func (s *split) sort(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(headerTimeout))
	stop := make(chan struct{})
	go func() { // ends with sort
		select {
		case <-s.done:
			_ = c.SetReadDeadline(time.Now())
		case <-stop:
		}
	}()
	p := &peeked{Conn: c, r: bufio.NewReaderSize(c, 16)}
	first, err := p.r.Peek(1)
	close(stop)
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	q, out := s.plain, net.Conn(p)
	if first[0] == tlsHandshake {
		q, out = s.secure, tls.Server(p, s.config)
	}
	select {
	case q.conns <- out:
	case <-s.done:
		_ = c.Close()
	}
}

func (s *split) close() {
	s.once.Do(func() {
		close(s.done)
		_ = s.l.Close()
	})
}

// queue is a listener of sorted connections.
type queue struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

// Accept returns the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: split closes all connections.
func (q *queue) Close() error { return nil }

// Addr returns the address of the shared listener.
func (q *queue) Addr() net.Addr { return q.addr }

// peeked is a connection whose first bytes may be buffered.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

// Read returns the buffered bytes first.
func (p *peeked) Read(b []byte) (int, error) {
	if p.r.Buffered() > 0 {
		return p.r.Read(b)
	}
	return p.Conn.Read(b)
}

// neighbours counts connections by origin, so that one address cannot use up the limit for all.
type neighbours struct {
	most int

	mu sync.Mutex
	n  map[netip.Prefix]int
}

// enter counts a connection until it is closed. It returns false if its
// neighbourhood has too many.
func (n *neighbours) enter(c net.Conn) (net.Conn, bool) {
	from := neighbourhood(c.RemoteAddr())
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n[from] >= n.most {
		return nil, false
	}
	n.n[from]++
	return &neighbour{Conn: c, leave: sync.OnceFunc(func() { n.leave(from) })}, true
}

func (n *neighbours) leave(from netip.Prefix) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n[from]--; n.n[from] == 0 {
		delete(n.n, from)
	}
}

// neighbourhood returns the address prefix from which one machine can choose its addresses.
func neighbourhood(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // the prefix of an invalid address is invalid
	return p
}

// neighbour is a counted connection.
type neighbour struct {
	net.Conn
	leave func()
}

// Close closes the connection and uncounts it.
func (n *neighbour) Close() error {
	n.leave()
	return n.Conn.Close()
}
