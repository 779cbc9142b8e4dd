// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Listener yields the streams of one session. Close ends the session.
type Listener struct {
	*yamux.Session
	key []byte
}

// Key returns the key that the host proved to hold for this session.
func (l *Listener) Key() []byte { return l.key }

// Guest serves sessions on the port until ctx ends or the port fails. For
// each host that synchronises it calls serve with a listener (a *Listener)
// and waits for it to return; serve must return soon after Accept fails.
// keys returns the acceptable keys and is asked again for each message. A new
// SYN in the stream ends the session before it; the port itself stays open.
// A host whose session this ends is told, if it listens.
func Guest(ctx context.Context, port *os.File, keys func() [][]byte, serve func(net.Listener) error) error {
	p, err := newPort(port)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.interrupt)
	defer stop()
	p.goodBye(keys()) // for a host that still talks to an agent before this one
	defer func() { p.goodBye(keys()) }()
	var left []byte
	for ctx.Err() == nil {
		m, rest, err := p.sync(ctx, left, keys)
		if err != nil {
			return err
		}
		left, err = p.session(ctx, m, rest, keys, serve)
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// sync answers SYNs until a GO fits the last of them. left are bytes that
// were read before; rest are the bytes after GO.
func (p *port) sync(ctx context.Context, left []byte, keys func() [][]byte) (syn message, rest []byte, err error) {
	var scan scanner
	var guest nonce
	buf := make([]byte, 4096)
	scan.feed(left)
	for {
		for {
			m, ok := scan.next(keys())
			if !ok {
				break
			}
			if m.key == nil { // of whoever holds another key
				if m.magic == magicSyn {
					p.send(nak(m))
				}
				continue
			}
			if m.magic == magicSyn {
				if m.host != syn.host {
					_, _ = rand.Read(guest[:])
				}
				syn = m
				p.send(encode(magicAck, m.host, guest, m.key))
			}
			if m.magic == magicGo && syn.magic != "" && m.host == syn.host && m.guest == guest {
				p.send(encode(magicReady, m.host, guest, m.key))
				return m, scan.rest(), nil
			}
		}
		n, err := p.read(buf, true)
		if ctx.Err() != nil {
			return syn, nil, context.Cause(ctx)
		}
		if err != nil {
			return syn, nil, fmt.Errorf("link: port: %w", err)
		}
		scan.feed(buf[:n])
	}
}

// session runs one multiplexer session. left are the bytes from the SYN on
// that ended it, if one did.
func (p *port) session(ctx context.Context, m message, rest []byte, keys func() [][]byte, serve func(net.Listener) error) (left []byte, err error) {
	c := &guestConn{port: p, rest: rest, keys: keys, look: lookout{magic: magicSyn}}
	s, err := yamux.Server(c, config())
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	_ = serve(&Listener{Session: s, key: m.key}) // how a session ended is the next one's business
	stop()
	_ = s.Close() // waits for yamux's reader and writer
	return c.syn, p.resume(ctx)
}

// errGone ends a session: the host went away or a new one has come.
var errGone = errors.New("link: the host is gone")

// sendPatience bounds a handshake message when the host does not read.
const sendPatience = 200 * time.Millisecond

// port is the guest's end of the virtio port. A read of nothing means that no
// host is connected at this moment; the port is then waited for, not closed.
type port struct {
	f   *os.File
	raw interface {
		Read(func(fd uintptr) bool) error
	}
}

func newPort(f *os.File) (*port, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("link: port: %w", err)
	}
	return &port{f: f, raw: raw}, nil
}

// interrupt ends blocked reads and writes until resume.
func (p *port) interrupt() { _ = p.f.SetDeadline(time.Unix(1, 0)) }

// resume makes the port usable after interrupt, unless ctx has ended.
func (p *port) resume(ctx context.Context) error {
	if err := p.f.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("link: port: %w", err)
	}
	if ctx.Err() != nil { // its interrupt may have come first
		p.interrupt()
	}
	return nil
}

// send writes a handshake message; a failure is made good by the host, which
// repeats what is not answered.
func (p *port) send(b []byte) {
	_ = p.f.SetWriteDeadline(time.Now().Add(sendPatience))
	_, _ = p.f.Write(b)
	_ = p.f.SetWriteDeadline(time.Time{})
}

// goodBye tells the host that the session it may have is over.
func (p *port) goodBye(keys [][]byte) {
	for _, k := range keys {
		p.send(encode(magicBye, nonce{}, nonce{}, k))
	}
}

// guestConn is the guest's end under one session's multiplexer. It has its
// own life, so that a late reader or writer of an old session cannot touch the
// port.
type guestConn struct {
	port *port
	rest []byte // read with the GO, not yet consumed
	keys func() [][]byte
	look lookout
	syn  []byte // the SYN that ended the session, and what followed it
	join joiner

	once sync.Once
	wmu  sync.Mutex
	dead bool // under wmu
}

// Read ends the session when no host is connected any more, and when a SYN
// shows up in the stream: a host that reconnects at once is often not noticed
// in any other way.
func (c *guestConn) Read(b []byte) (int, error) {
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	if n == 0 {
		var err error
		if n, err = c.port.read(b, false); err != nil {
			return 0, err
		}
	}
	if syn, ok := c.look.saw(b[:n], c.keys); ok {
		c.syn = syn
		return 0, errGone
	}
	return n, nil
}

// Write sends b unless the session is over.
func (c *guestConn) Write(b []byte) (int, error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.dead {
		return 0, errGone
	}
	return c.join.write(c.port.f.Write, b)
}

// Close ends the session: it interrupts a blocked read and write and refuses
// later ones.
func (c *guestConn) Close() error {
	c.once.Do(func() {
		c.port.interrupt()
		c.wmu.Lock()
		c.dead = true
		c.wmu.Unlock()
	})
	return nil
}
