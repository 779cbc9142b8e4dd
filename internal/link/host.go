// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// resend is how long the host waits for an answer before it sends the first
	// message again. The wait doubles each time, up to resendMax. A guest that
	// was just restored is busy at first, and each message costs it time.
	resend    = 20 * time.Millisecond
	resendMax = 640 * time.Millisecond
	// listen limits one read, so it is how late a message may be sent again.
	listen = 20 * time.Millisecond
	// restart is how long a GO may stay unanswered before the handshake starts again.
	// It doubles each time, up to restartMax: a guest that is emulated inside an
	// emulated machine takes seconds.
	restart    = 2 * time.Second
	restartMax = 32 * time.Second
)

// ErrRefused says that the guest's agent holds another key.
var ErrRefused = errors.New("link: the guest's agent refuses the key")

// Host synchronises with the guest over c and returns a multiplexer on which streams are opened.
// c is a connection to the chardev of the VM's agent port on which nothing was sent yet, except
// wake. Host skips the remains of an earlier session. It blocks until the guest answers or ctx
// ends. An unanswered wake is repeated, and a late answer counts; nil means no wake. A guest of
// an older Warren synchronises but does not answer wake. Host tries the keys others, too. If the
// guest holds none of the keys, the error is ErrRefused; a guest of an older Warren sends
// nothing then. Closing the session closes c; on an error the caller must close it.
func Host(ctx context.Context, c net.Conn, wake *Waking, key []byte, others ...[]byte) (*yamux.Session, error) {
	keys := append([][]byte{key}, others...)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var rest []byte
	for restart := restart; ; restart = min(2*restart, restartMax) {
		var done bool
		var err error
		rest, done, err = hostOnce(ctx, c, wake, keys, restart)
		if errors.Is(err, ErrRefused) {
			return nil, err
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, fmt.Errorf("link: the guest's agent did not answer: %w", err)
		}
		if done {
			break
		}
	}
	if !stop() {
		return nil, fmt.Errorf("link: the guest's agent did not answer: %w", context.Cause(ctx))
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	return yamux.Client(&hostConn{Conn: c, rest: rest, look: lookout{magics: []string{magicBye}}, keys: keys}, config())
}

// guard checks the frames that a guest sends to the multiplexer. It refuses frames
// that no agent sends and for which the host would have to keep memory: streams
// that the guest opens, which nobody accepts, and pings, whose answers wait for a
// guest that does not read. The zero value is ready.
type guard struct {
	head [muxHeader]byte
	have int    // bytes of head received
	body uint32 // bytes of the frame's body still to come
}

// errPushy ends the session of a guest that opens streams or sends pings.
var errPushy = errors.New("link: the guest opens streams or pings")

// saw checks bytes in the order of their arrival.
func (g *guard) saw(b []byte) error {
	for len(b) > 0 {
		if g.body > 0 {
			n := min(uint64(len(b)), uint64(g.body))
			b, g.body = b[n:], g.body-uint32(n)
			continue
		}
		n := copy(g.head[g.have:], b)
		b, g.have = b[n:], g.have+n
		if g.have < muxHeader {
			return nil
		}
		g.have = 0
		if g.head[3]&muxSyn != 0 { // second byte of the flags
			return errPushy
		}
		if g.head[1] == muxData {
			g.body = binary.BigEndian.Uint32(g.head[8:])
		}
	}
	return nil
}

// hostOnce runs the handshake with one nonce. done is false if the guest
// acknowledged but did not become ready within restart. rest are the bytes after READY.
func hostOnce(ctx context.Context, c net.Conn, wake *Waking, keys [][]byte, restart time.Duration) (rest []byte, done bool, err error) {
	var host nonce
	_, _ = rand.Read(host[:]) // never fails
	var syn []byte
	asked := map[string]bool{} // HMACs of SYNs that were not refused
	for _, key := range keys {
		syn = append(syn, encode(magicSyn, host, nonce{}, key)...)
		asked[string(syn[len(syn)-sha256.Size:])] = true
	}
	var scan scanner
	buf := make([]byte, 64<<10)
	var acked time.Time
	again := resend
	for next := (time.Time{}); ; {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if now := time.Now(); acked.IsZero() && !now.Before(next) {
			if err := hostSend(c, append(wake.messages(keys), syn...)); err != nil {
				return nil, false, err
			}
			next, again = now.Add(again), min(2*again, resendMax)
		} else if !acked.IsZero() && now.Sub(acked) > restart {
			return nil, false, nil
		}
		_ = c.SetReadDeadline(time.Now().Add(listen))
		n, err := c.Read(buf)
		scan.feed(buf[:n])
		for {
			m, ok := scan.next(keys)
			if !ok {
				break
			}
			wake.take(m)
			if m.host != host {
				continue
			}
			if m.key == nil {
				if m.magic == magicNak && acked.IsZero() {
					delete(asked, string(m.sum))
				}
				if len(asked) == 0 {
					return nil, false, ErrRefused
				}
				continue
			}
			if m.magic == magicReady {
				return scan.rest(), true, nil
			}
			if m.magic == magicAck && acked.IsZero() {
				if err := hostSend(c, encode(magicGo, host, m.guest, m.key)); err != nil {
					return nil, false, err
				}
				acked = time.Now()
			}
		}
		if err != nil && !isTimeout(err) {
			return nil, false, err
		}
	}
}

// hostSend writes one message. It is no error if the guest does not read yet:
// the message is sent again.
func hostSend(c net.Conn, b []byte) error {
	n, err := c.Write(b)
	if err != nil && n == 0 && isTimeout(err) {
		return nil
	}
	return err
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// hostConn is the host's end under the multiplexer. It first returns the
// bytes that followed READY.
type hostConn struct {
	net.Conn
	rest []byte
	keys [][]byte
	look lookout
	gone bool // the guest has sent BYE
	seen guard
	join joiner
}

// Read ends the session when the guest's agent sends BYE. The connection to
// QEMU stays open all the time.
func (h *hostConn) Read(b []byte) (int, error) {
	if h.gone {
		return 0, errGone
	}
	n := copy(b, h.rest)
	h.rest = h.rest[n:]
	if n == 0 {
		var err error
		if n, err = h.Conn.Read(b); err != nil {
			return n, err
		}
	}
	if rest, ok := h.look.saw(b[:n], func() [][]byte { return h.keys }); ok {
		h.gone = true
		if n -= len(rest); n <= 0 {
			return 0, errGone
		}
	}
	if err := h.seen.saw(b[:n]); err != nil {
		return 0, err
	}
	return n, nil // an answer may precede the BYE
}

func (h *hostConn) Write(b []byte) (int, error) { return h.join.write(h.Conn.Write, b) }
