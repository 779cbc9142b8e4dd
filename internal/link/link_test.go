// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

// fakePort stands for QEMU: it carries bytes between the guest's port and the
// current host connection. As in QEMU, the guest does not learn that the host
// changed, and output without a host is dropped.
type fakePort struct {
	t     *testing.T
	guest *os.File // the guest's end
	qemu  *os.File

	mu  sync.Mutex
	cur net.Conn

	late time.Duration // how long the guest's bytes take

	writing sync.Mutex // held for each write to the guest
}

func newFakePort(t *testing.T) *fakePort {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &fakePort{t: t, guest: os.NewFile(uintptr(fds[0]), "port"), qemu: os.NewFile(uintptr(fds[1]), "qemu")}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := p.qemu.Read(buf)
			if err != nil {
				return
			}
			p.mu.Lock()
			c, late := p.cur, p.late
			p.mu.Unlock()
			time.Sleep(late)
			if c != nil {
				_, _ = c.Write(buf[:n])
			}
		}
	})
	t.Cleanup(func() {
		p.plug(nil)
		_ = p.qemu.Close()
		wg.Wait()
		_ = p.guest.Close()
	})
	return p
}

// plug makes c the host's connection and drops the one before it.
func (p *fakePort) plug(c net.Conn) {
	p.mu.Lock()
	old := p.cur
	p.cur = c
	p.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	if c == nil {
		return
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if !p.forward(c, buf[:n]) {
				return
			}
		}
	}()
}

// forward writes what came on c to the guest, unless c is no longer the host's connection. QEMU serves one connection at
// a time, too: the bytes of two are never mixed.
func (p *fakePort) forward(c net.Conn, b []byte) bool {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	current := p.cur == c
	p.mu.Unlock()
	if !current {
		return false
	}
	_, err := p.qemu.Write(b)
	return err == nil
}

// dial returns the host's end of a new connection.
func (p *fakePort) dial() net.Conn {
	a, b := socketpair(p.t)
	p.plug(b)
	return a
}

func socketpair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// serveEcho answers each stream: the first byte 'e' echoes, 'd' discards, 's'
// sends for ever.
func serveEcho(l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer c.Close()
			var k [1]byte
			if _, err := io.ReadFull(c, k[:]); err != nil {
				return
			}
			switch k[0] {
			case 'e':
				_, _ = io.Copy(c, c)
			case 'd':
				_, _ = io.Copy(io.Discard, c)
			case 's':
				b := make([]byte, 100<<10)
				_, _ = rand.Read(b)
				for {
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}
		})
	}
}

func startGuest(t *testing.T, p *fakePort, keys func() [][]byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Guest(ctx, p.guest, Handler{Keys: keys, Serve: serveEcho}) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Guest: %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Error("Guest did not end with its context")
		}
	})
}

func echo(t *testing.T, s *yamux.Session) {
	t.Helper()
	c, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	want := []byte("hello over the link")
	if _, err := c.Write(append([]byte("e"), want...)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("echo gave %q, %v", got, err)
	}
}

func host(t *testing.T, c net.Conn, key []byte) *yamux.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := Host(ctx, c, nil, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fixed(keys ...[]byte) func() [][]byte { return func() [][]byte { return keys } }

var (
	keyA = bytes.Repeat([]byte{1}, KeySize)
	keyB = bytes.Repeat([]byte{2}, KeySize)
)

func TestHandshake(t *testing.T) {
	p := newFakePort(t)
	startGuest(t, p, fixed(keyA))
	echo(t, host(t, p.dial(), keyA))
}

// TestHandshakeSlowGuest: a guest that always answers later than the host's first patience is
// reached, too.
func TestHandshakeSlowGuest(t *testing.T) {
	t.Parallel()
	key := []byte("key")
	p := newFakePort(t)
	p.late = restart + restart/10
	startGuest(t, p, fixed(key))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Host(ctx, p.dial(), nil, key)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

// All bytes before the handshake are skipped in both directions, even an
// incomplete message or one under another key.
func TestHandshakeStaleBytes(t *testing.T) {
	junk := make([]byte, 50<<10)
	_, _ = rand.Read(junk)
	for name, stale := range map[string][]byte{
		"random":        junk,
		"half a magic":  []byte(magicSyn[:5]),
		"half a SYN":    encode(magicSyn, nonce{1}, nonce{}, keyA)[:40],
		"foreign SYN":   encode(magicSyn, nonce{1}, nonce{}, keyB),
		"stale SYN":     encode(magicSyn, nonce{1}, nonce{}, keyA),
		"stale GO":      encode(magicGo, nonce{1}, nonce{2}, keyA),
		"lead bytes":    bytes.Repeat([]byte{lead}, 500),
		"magics":        bytes.Repeat([]byte(magicSyn), 50),
		"yamux garbage": {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 255, 255},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakePort(t)
			c := p.dial()
			if _, err := c.Write(stale); err != nil {
				t.Fatal(err)
			}
			if _, err := p.guest.Write(stale[:min(len(stale), 4096)]); err != nil {
				t.Fatal(err)
			}
			startGuest(t, p, fixed(keyA))
			echo(t, host(t, c, keyA))
		})
	}
}

func TestHandshakeWrongKey(t *testing.T) {
	p := newFakePort(t)
	startGuest(t, p, fixed(keyA))
	for _, others := range [][][]byte{nil, {bytes.Repeat([]byte{3}, KeySize)}} {
		if _, err := Host(t.Context(), p.dial(), nil, keyB, others...); !errors.Is(err, ErrRefused) {
			t.Fatalf("a host with a wrong key got %v", err)
		}
	}
	echo(t, host(t, p.dial(), keyA))
	s, err := Host(t.Context(), p.dial(), nil, keyB, bytes.Repeat([]byte{3}, KeySize), keyA) // one of them is right
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	echo(t, s)
}

// Two keys are acceptable during a rekey, and the listener says which was used.
func TestHandshakeSecondKey(t *testing.T) {
	p := newFakePort(t)
	used := make(chan []byte, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Guest(ctx, p.guest, Handler{Keys: fixed(keyA, keyB), Serve: func(l net.Listener) error {
			used <- l.(*Listener).Key()
			return serveEcho(l)
		}})
	}()
	echo(t, host(t, p.dial(), keyB))
	if k := <-used; !bytes.Equal(k, keyB) {
		t.Errorf("the session's key is %x", k)
	}
	cancel()
	<-done
}

// If a host dies during transfers in both directions, a new host that
// connects before the guest notices is served at once.
func TestReconnectInTransfer(t *testing.T) {
	p := newFakePort(t)
	startGuest(t, p, fixed(keyA))
	var worst time.Duration
	for range 20 {
		begin := time.Now()
		s := host(t, p.dial(), keyA)
		echo(t, s)
		worst = max(worst, time.Since(begin))
		down, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := down.Write([]byte("s")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, down, 3<<20); err != nil {
			t.Fatal(err)
		}
		up, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		_ = up.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := up.Write(append([]byte("d"), make([]byte, 900<<10)...)); err != nil {
			t.Fatal(err)
		}
		// No close of the session: the next dial cuts the connection.
	}
	if worst > 5*time.Second {
		t.Errorf("the worst reconnect took %v", worst)
	}
}

// A session whose host went silent is replaced without an end of file.
func TestDeadSession(t *testing.T) {
	p := newFakePort(t)
	startGuest(t, p, fixed(keyA))
	s := host(t, p.dial(), keyA)
	c, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("s")); err != nil { // fills every buffer on the way
		t.Fatal(err)
	}
	for range 3 {
		echo(t, host(t, p.dial(), keyA))
	}
}

// A host learns at once that its agent has ended or was replaced, although
// its connection to QEMU stays open.
func TestGoodBye(t *testing.T) {
	for _, how := range []string{"orderly", "killed"} {
		p := newFakePort(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Guest(ctx, p.guest, Handler{Keys: fixed(keyA, keyB), Serve: serveEcho}) }()
		s := host(t, p.dial(), keyB)
		echo(t, s)
		if how == "orderly" {
			cancel()
			<-done
		} else { // another agent begins on the port, in the middle of a frame
			if _, err := p.guest.Write([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 255, 0, 'x'}); err != nil {
				t.Fatal(err)
			}
			ctx2, cancel2 := context.WithCancel(t.Context())
			done2 := make(chan error, 1)
			go func() { done2 <- Guest(ctx2, p.guest, Handler{Keys: fixed(keyA, keyB), Serve: serveEcho}) }()
			defer func() { cancel2(); <-done2; cancel(); <-done }()
		}
		select {
		case <-s.CloseChan():
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the host's session lives on", how)
		}
		cancel()
	}
}

func TestHostConnectionLost(t *testing.T) {
	a, b := socketpair(t)
	_ = b.Close()
	if _, err := Host(t.Context(), a, nil, keyA); err == nil {
		t.Fatal("Host succeeded on a closed connection")
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	for _, n := range []int{0, 1, 5000, MaxFrame} {
		if err := WriteFrame(&b, FrameStdout, bytes.Repeat([]byte{7}, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFrame(&b, FrameStdin, make([]byte, MaxFrame+1)); err == nil {
		t.Error("an overlong frame was written")
	}
	r := NewFrameReader(&b)
	for _, n := range []int{0, 1, 5000, MaxFrame} {
		ft, p, err := r.Next()
		if err != nil || ft != FrameStdout || len(p) != n {
			t.Fatalf("got type %d, %d bytes, %v; want %d bytes", ft, len(p), err, n)
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for name, raw := range map[string][]byte{
		"cut header":  {byte(FrameStdout), 0, 0},
		"cut payload": {byte(FrameStdout), 0, 0, 0, 4, 'a'},
		"no payload":  {byte(FrameStdout), 0, 0, 0, 4},
		"overlong":    {byte(FrameStdout), 0, 1, 0, 1},
		"type 0":      {0, 0, 0, 0, 0},
		"type 14":     {14, 0, 0, 0, 0},
	} {
		if _, _, err := NewFrameReader(bytes.NewReader(raw)).Next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("the frame %q: %v, want an error that is not the end of the stream", name, err)
		}
	}
}

// Joined writes have the same bytes in fewer pieces.
func TestJoiner(t *testing.T) {
	var got []byte
	writes := 0
	out := func(b []byte) (int, error) { writes++; got = append(got, b...); return len(b), nil }
	var j joiner
	var want []byte
	put := func(b []byte) {
		want = append(want, b...)
		if n, err := j.write(out, b); n != len(b) || err != nil {
			t.Fatalf("write of %d bytes: %d, %v", len(b), n, err)
		}
	}
	hdr := func(kind byte, n uint32) []byte {
		return []byte{0, kind, 0, 0, 0, 0, 0, 1, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	}
	put(hdr(muxData, 5))
	put([]byte("hello"))
	put(hdr(1, 5)) // a window update has no body
	put(hdr(muxData, 0))
	put(hdr(muxData, 100<<10))
	put(bytes.Repeat([]byte("x"), 100<<10))
	if !bytes.Equal(got, want) {
		t.Error("the bytes differ")
	}
	if writes != 5 {
		t.Errorf("%d writes, want 5", writes)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 1, 'x', 7, 0, 0, 0, 0})
	f.Add([]byte{3, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewFrameReader(bytes.NewReader(in))
		used := 0
		for {
			_, p, err := r.Next()
			if err != nil {
				break
			}
			if used += FrameHeader + len(p); used > len(in) || len(p) > MaxFrame {
				t.Fatalf("%d bytes of frames from %d bytes", used, len(in))
			}
		}
	})
}

// However the stream is cut into reads, a SYN in it is found, once, whatever precedes it.
func FuzzScanner(f *testing.F) {
	f.Add([]byte("junk"), uint8(3))
	f.Add([]byte(magicSyn), uint8(1))
	f.Add(encode(magicSyn, nonce{9}, nonce{}, keyB)[:50], uint8(7))
	f.Add(encodeWords(magicWake, nonce{9}, []byte("words"), keyB), uint8(7))
	f.Add(encode(magicWake, nonce{9}, nonce{0, 1}, keyB), uint8(9))
	f.Fuzz(func(t *testing.T, junk []byte, step uint8) {
		keys := [][]byte{keyA}
		syn := encode(magicSyn, nonce{4}, nonce{5}, keyA)
		stream := append(append(append([]byte(nil), junk...), syn...), "after"...)
		var s scanner
		l := lookout{magics: []string{magicSyn}}
		var kept []byte
		found, ended := 0, false
		for i := 0; i < len(stream); i += int(step) + 1 {
			part := stream[i:min(len(stream), i+int(step)+1)]
			s.feed(part)
			for {
				m, ok := s.next(keys)
				if !ok {
					break
				}
				if m.magic == magicSyn && m.host == (nonce{4}) {
					found++
				}
			}
			if rest, ok := l.saw(part, fixed(keyA)); ok && !ended {
				ended, kept = true, rest
			}
		}
		if found != 1 || !ended {
			t.Fatalf("found %d SYNs, session ended: %v", found, ended)
		}
		if !bytes.HasPrefix(kept, syn) {
			t.Fatalf("the session kept %x", kept)
		}
	})
}
