// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// waker is a guest that notes what it was woken with.
type waker struct {
	mu    sync.Mutex
	words []string
}

func (w *waker) wake(_, words []byte) ([]byte, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.words = append(w.words, string(words))
	return []byte("did " + string(words)), func() {}
}

func (w *waker) heard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.words...)
}

func startWaker(t *testing.T, p *fakePort, keys func() [][]byte) *waker {
	t.Helper()
	w := &waker{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Guest(ctx, p.guest, Handler{Keys: keys, Serve: serveEcho, Wake: w.wake}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Guest: %v", err)
		}
	})
	return w
}

func say(words string) *Waking { return NewWaking(func() []byte { return []byte(words) }) }

// A guest in a session answers a WAKE, and then accepts a new session.
func TestWake(t *testing.T) {
	p := newFakePort(t)
	guest := startWaker(t, p, fixed(keyA, keyB))
	echo(t, host(t, p.dial(), keyB))
	c := p.dial()
	w := say("one")
	if err := Wake(t.Context(), c, w, 5*time.Second, keyB); err != nil {
		t.Fatal(err)
	}
	if got := string(w.Answer()); got != "did one" {
		t.Errorf("the guest answered %q", got)
	}
	s, err := Host(t.Context(), c, w, keyB)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	echo(t, s)
	if got := guest.heard(); len(got) != 1 {
		t.Errorf("the guest was woken by %q", got)
	}
}

// A host that did not get the answer repeats the WAKE, and the guest does not execute it twice.
func TestWakeOnce(t *testing.T) {
	p := newFakePort(t)
	guest := startWaker(t, p, fixed(keyA))
	w := say("one")
	lost := &Waking{nonce: w.nonce, ask: w.ask, done: make(chan struct{})}
	for _, w := range []*Waking{lost, w} {
		if err := Wake(t.Context(), p.dial(), w, 5*time.Second, keyA); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(w.Answer()); got != "did one" {
		t.Errorf("the second answer is %q", got)
	}
	if got := guest.heard(); len(got) != 1 {
		t.Errorf("the guest was woken by %q", got)
	}
}

// A new waking is executed even if its words are the same.
func TestWakeAgain(t *testing.T) {
	p := newFakePort(t)
	guest := startWaker(t, p, fixed(keyA))
	for range 2 {
		if err := Wake(t.Context(), p.dial(), say("one"), 5*time.Second, keyA); err != nil {
			t.Fatal(err)
		}
	}
	if got := guest.heard(); len(got) != 2 {
		t.Errorf("the guest was woken by %q", got)
	}
}

// A guest of an older Warren does not answer, but accepts a session.
func TestWakeOlderGuest(t *testing.T) {
	p := newFakePort(t)
	startGuest(t, p, fixed(keyA))
	c, w := p.dial(), say("one")
	if err := Wake(t.Context(), c, w, 50*time.Millisecond, keyA); err != nil {
		t.Fatal(err)
	}
	s, err := Host(t.Context(), c, w, keyA)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	echo(t, s)
	if w.Answer() != nil {
		t.Errorf("the guest answered %q", w.Answer())
	}
}

// An answer after the host's patience has ended still counts.
func TestWakeLate(t *testing.T) {
	p := newFakePort(t)
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Guest(ctx, p.guest, Handler{Keys: fixed(keyA), Serve: serveEcho, Wake: func(_, words []byte) ([]byte, func()) {
			<-release
			return words, func() {}
		}})
	}()
	defer func() { cancel(); <-done }()
	c, w := p.dial(), say("one")
	if err := Wake(t.Context(), c, w, 10*time.Millisecond, keyA); err != nil {
		t.Fatal(err)
	}
	if w.Answer() != nil {
		t.Fatal("there is an answer already")
	}
	close(release)
	s, err := Host(t.Context(), c, w, keyA)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := string(w.Answer()); got != "one" {
		t.Errorf("the answer is %q", got)
	}
}

// A WAKE with another key has no effect.
func TestWakeWrongKey(t *testing.T) {
	p := newFakePort(t)
	guest := startWaker(t, p, fixed(keyA))
	c, w := p.dial(), say("one")
	if err := Wake(t.Context(), c, w, 50*time.Millisecond, keyB); err != nil {
		t.Fatal(err)
	}
	if _, err := Host(t.Context(), c, w, keyB); !errors.Is(err, ErrRefused) {
		t.Errorf("a session: %v", err)
	}
	if got := guest.heard(); len(got) != 0 {
		t.Errorf("the guest was woken by %q", got)
	}
}

// Words that were changed in transit are ignored, and the message after them is found.
func TestWordsForged(t *testing.T) {
	forged := encodeWords(magicWake, nonce{1}, []byte("harmless"), keyA)
	forged[messageSize] ^= 1
	long := encode(magicWake, nonce{2}, nonce{0xff, 0xff, 0xff, 0xff}, keyA)
	s := scanner{buf: append(append(forged, long...), encode(magicSyn, nonce{3}, nonce{}, keyA)...)}
	m, ok := s.next(fixed(keyA)())
	if !ok || m.magic != magicSyn || m.host != (nonce{3}) {
		t.Errorf("found %+v", m)
	}
}

// The reader waits for words only if the head of the message is authentic.
func TestWordsAnnounced(t *testing.T) {
	whole := encodeWords(magicWake, nonce{1}, make([]byte, 3000), keyA)
	for name, c := range map[string]struct {
		key  []byte
		more bool
	}{"true": {keyA, true}, "of another key": {keyB, false}} {
		if _, more, ok := decode(whole[:1000], [][]byte{c.key}); ok || more != c.more {
			t.Errorf("%s: a message: %v, to be waited for: %v", name, ok, more)
		}
	}
}
