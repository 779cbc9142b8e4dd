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

// Waking is what a host has a restored guest do before anything else: once, over
// however many connections and handshakes that takes. Its methods may be called by
// several goroutines.
type Waking struct {
	nonce nonce // tells a repeated WAKE from the next one

	mu     sync.Mutex // guards the fields below
	ask    func() []byte
	words  []byte
	answer []byte
	done   chan struct{} // closed when answer is set
}

// NewWaking returns a waking with the words that ask returns, at most 64 KiB. ask is
// called once, right before they are first sent.
func NewWaking(ask func() []byte) *Waking {
	w := &Waking{ask: ask, done: make(chan struct{})}
	_, _ = rand.Read(w.nonce[:]) // never fails
	return w
}

// Done is closed when the guest has answered.
func (w *Waking) Done() <-chan struct{} { return w.done }

// Answer returns what the guest answered; nil before Done is closed. The bytes are a
// guest's and not to be trusted.
func (w *Waking) Answer() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answer
}

// Wake has the guest do what wake says, and returns when it has answered, when ctx
// ends or when patience is over, which is no error: a guest of an older Warren does
// not answer, and a busy one may do so later. c and keys are those of Host, which
// comes after it on the same connection.
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

// messages renders the WAKE for each of the keys; nothing once it was answered.
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

// take keeps the answer, if m is one to this waking.
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
