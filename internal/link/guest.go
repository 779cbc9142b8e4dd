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
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"
)

// Listener yields the streams of one session. Close ends the session.
type Listener struct {
	*yamux.Session
	key []byte
}

// Key returns the key that the host used for this session.
func (l *Listener) Key() []byte { return l.key }

// Handler has the guest's side of the link.
type Handler struct {
	// Keys returns the accepted keys. It is called again for each message.
	Keys func() [][]byte
	// Serve is called with the listener (a *Listener) of each session. It
	// returns soon after Accept fails.
	Serve func(net.Listener) error
	// Wake executes the words of a WAKE and returns the words of the answer, at most 64 KiB. key
	// is the one that the host used. It is called once for each WAKE, however often the host
	// repeats it; sent is called while the answer is sent. A guest with a nil Wake ignores WAKEs.
	Wake func(key, words []byte) (answer []byte, sent func())
}

// Guest serves sessions on the port, one after the other, until ctx ends or the
// port fails. A new SYN in the stream ends the previous session; the port stays
// open. The host of an ended session gets a BYE, if it still reads.
func Guest(ctx context.Context, port *os.File, h Handler) error {
	p, err := newPort(port)
	if err != nil {
		return err
	}
	p.Handler = h
	keys := h.Keys
	stop := context.AfterFunc(ctx, p.interrupt)
	defer stop()
	p.goodBye(keys()) // for a host that still talks to a previous agent
	defer func() { p.goodBye(keys()) }()
	var left []byte
	for ctx.Err() == nil {
		m, rest, err := p.sync(ctx, left)
		if err != nil {
			return err
		}
		left, err = p.session(ctx, m, rest)
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// sync answers WAKEs and SYNs until a GO matches the last SYN. left are bytes
// that were already read; rest are the bytes after GO.
func (p *port) sync(ctx context.Context, left []byte) (syn message, rest []byte, err error) {
	var scan scanner
	var guest nonce
	buf := make([]byte, 4096)
	scan.feed(left)
	for {
		for {
			m, ok := scan.next(p.Keys())
			if !ok {
				break
			}
			if m.key == nil { // from a host with another key
				if m.magic == magicSyn {
					p.send(nak(m))
				}
				continue
			}
			if m.magic == magicWake {
				p.wake(m)
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

// session runs one multiplexer session. left are the bytes from the SYN that
// ended it, if one did.
func (p *port) session(ctx context.Context, m message, rest []byte) (left []byte, err error) {
	c := &guestConn{port: p, rest: rest, look: lookout{magics: []string{magicSyn, magicWake}}}
	s, err := yamux.Server(c, config())
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	_ = p.Serve(&Listener{Session: s, key: m.key}) // the end of a session needs no report: the next one follows
	stop()
	_ = s.Close() // waits for yamux's reader and writer
	return c.syn, p.resume(ctx)
}

// errGone ends a session: the host left or a new one connected.
var errGone = errors.New("link: the host is gone")

// sendPatience limits the send of a handshake message while the host does not read.
const sendPatience = 200 * time.Millisecond

// port is the guest's end of the virtio port. An empty read means that no
// host is connected now; the port then waits for one and stays open.
type port struct {
	Handler
	f   *os.File
	raw interface {
		Read(func(fd uintptr) bool) error
		Control(func(fd uintptr)) error
	}

	woken nonce  // of the last WAKE
	woke  []byte // the answer to it, as sent; nil = none
}

// wake executes a WAKE and answers it. A repeated WAKE is only answered: its
// host did not get the answer.
func (p *port) wake(m message) {
	if p.Wake == nil {
		return
	}
	if p.woke == nil || p.woken != m.host {
		answer, sent := p.Wake(m.key, m.words)
		defer sent()
		p.woken, p.woke = m.host, encodeWords(magicWoke, m.host, answer, m.key)
	}
	p.send(p.woke)
}

func newPort(f *os.File) (*port, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("link: port: %w", err)
	}
	return &port{f: f, raw: raw}, nil
}

// interrupt aborts blocked reads and writes until resume.
func (p *port) interrupt() { _ = p.f.SetDeadline(time.Unix(1, 0)) }

// resume makes the port usable after interrupt, unless ctx has ended.
func (p *port) resume(ctx context.Context) error {
	if err := p.f.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("link: port: %w", err)
	}
	if ctx.Err() != nil { // its interrupt may have come before the resume
		p.interrupt()
	}
	return nil
}

// send writes a handshake message. It ignores a failure, because the host repeats unanswered
// messages. It avoids the runtime's timers, whose code a restored guest has not run yet.
func (p *port) send(b []byte) {
	deadline := time.Now().Add(sendPatience)
	_ = p.raw.Control(func(fd uintptr) {
		for len(b) > 0 {
			n, err := syscall.Write(int(fd), b)
			switch {
			case n > 0:
				b = b[n:]
			case err == syscall.EAGAIN && time.Now().Before(deadline):
				full := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
				_, _ = unix.Poll(full, int(sendPatience.Milliseconds()))
			case err != syscall.EINTR:
				return
			}
		}
	})
}

// goodBye tells the host that its session, if it has one, is over.
func (p *port) goodBye(keys [][]byte) {
	for _, k := range keys {
		p.send(encode(magicBye, nonce{}, nonce{}, k))
	}
}

// guestConn is the guest's end under the multiplexer of one session. It is separate
// from the port, so that a late reader or writer of an old session cannot use the port.
type guestConn struct {
	port *port
	rest []byte // read together with the GO, not yet consumed
	look lookout
	syn  []byte // the SYN that ended the session, and the bytes after it
	join joiner

	roomy bool // makeRoom was called; used only by the reader

	once sync.Once
	wmu  sync.Mutex
	dead bool // guarded by wmu
}

// first answers a WAKE at the beginning of b, and returns the bytes after it. A
// guest that was just restored answers before it closes its old session,
// because that runs much code for the first time.
func (p *port) first(b []byte) []byte {
	m, _, ok := decode(b, p.Keys())
	if !ok || m.magic != magicWake || m.key == nil {
		return b
	}
	p.wake(m)
	return b[m.size():]
}

// makeRoom grows the stack of the calling goroutine now, not when the goroutine
// answers a WAKE: then it would run 300 blocks of code for the first time. The
// agent's runtime is set not to shrink stacks.
//
//go:noinline
func makeRoom() {
	var room [16 << 10]byte
	room[len(room)-1] = 1
	runtime.KeepAlive(&room)
}

// Read ends the session when no host is connected, and when a SYN appears in
// the stream: often only the SYN shows that a host has reconnected.
func (c *guestConn) Read(b []byte) (int, error) {
	if !c.roomy {
		c.roomy = true
		makeRoom()
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	if n == 0 {
		var err error
		if n, err = c.port.read(b, false); err != nil {
			return 0, err
		}
	}
	if syn, ok := c.look.saw(b[:n], c.port.Keys); ok {
		c.syn = c.port.first(syn)
		return 0, errGone
	}
	return n, nil
}

// Write sends b unless the session has ended.
func (c *guestConn) Write(b []byte) (int, error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.dead {
		return 0, errGone
	}
	return c.join.write(c.port.f.Write, b)
}

// Close ends the session: it aborts blocked reads and writes and refuses later ones.
func (c *guestConn) Close() error {
	c.once.Do(func() {
		c.port.interrupt()
		c.wmu.Lock()
		c.dead = true
		c.wmu.Unlock()
	})
	return nil
}
