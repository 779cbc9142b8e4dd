// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"
)

// Waking is the request that a restored guest executes before anything else: once,
// over any number of connections and handshakes. It is safe for concurrent use.
type Waking struct {
	nonce nonce // distinguishes a repeated WAKE from the next one

	mu     sync.Mutex // guards the fields below
	ask    func() []byte
	words  []byte
	answer []byte
	done   chan struct{} // closed when answer is set
}

// NewWaking returns a waking with the words that ask returns, at most 64 KiB. ask is
// called once, just before they are first sent.
func NewWaking(ask func() []byte) *Waking {
	w := &Waking{ask: ask, done: make(chan struct{})}
	_, _ = rand.Read(w.nonce[:]) // never fails
	return w
}

// Done returns a channel that is closed when the guest has answered.
func (w *Waking) Done() <-chan struct{} { return w.done }

// Answer returns the guest's answer; nil before Done is closed. The bytes come from
// the guest: do not trust them.
func (w *Waking) Answer() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answer
}

// Wake sends wake to the guest. It returns when the guest has answered, when ctx ends, or
// after patience without an error: a guest of an older Warren does not answer, and a busy
// one may answer later. c and keys are those of Host, which follows on the same connection.
func Wake(ctx context.Context, c net.Conn, wake *Waking, patience time.Duration, key []byte, others ...[]byte) error {
	keys := append([][]byte{key}, others...)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := hostSend(c, wake.messages(keys)); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var scan scanner
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		scan.feed(buf[:n])
		for m, ok := scan.next(keys); ok; m, ok = scan.next(keys) {
			wake.take(m)
		}
		if closed(wake.done) {
			break
		}
		if err != nil {
			if isTimeout(err) && ctx.Err() == nil {
				break
			}
			return fmt.Errorf("link: the guest's agent did not answer: %w", err)
		}
	}
	if !stop() {
		return fmt.Errorf("link: the guest's agent did not answer: %w", context.Cause(ctx))
	}
	return c.SetDeadline(time.Time{})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// messages encodes the WAKE for each of the keys, or nothing if it was answered.
func (w *Waking) messages(keys [][]byte) (b []byte) {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer != nil {
		return nil
	}
	if w.words == nil {
		w.words = w.ask()
	}
	for _, key := range keys {
		b = append(b, encodeWords(magicWake, w.nonce, w.words, key)...)
	}
	return b
}

// take stores the answer, if m answers this waking.
func (w *Waking) take(m message) {
	if w == nil || m.key == nil || m.magic != magicWoke || m.host != w.nonce {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer == nil {
		w.answer = bytes.Clone(m.words)
		close(w.done)
	}
}
