// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/warren-vm/warren/internal/link"
)

var key = bytes.Repeat([]byte{7}, link.KeySize)

// linked returns the host's session with a guest that does with its end what play
// says. play gets the guest's session, and its end ends the guest's.
func linked(t *testing.T, play func(guest *yamux.Session)) *yamux.Session {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	port, other := os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "host")
	conn, err := net.FileConn(other)
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = link.Guest(ctx, port, link.Handler{Keys: func() [][]byte { return [][]byte{key} }, Serve: func(l net.Listener) error {
			own, ok := l.(*link.Listener)
			if !ok {
				return errors.New("not a session")
			}
			play(own.Session)
			return nil
		}})
	}()
	t.Cleanup(func() { cancel(); <-done; port.Close(); conn.Close() })
	hctx, hcancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer hcancel()
	s, err := link.Host(hctx, conn, nil, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestPushyGuest: a guest asks the host for nothing: a session in which it opens
// streams or pings ends, and nothing of them is kept.
func TestPushyGuest(t *testing.T) {
	for name, push := range map[string]func(guest *yamux.Session) error{
		"streams": func(guest *yamux.Session) error { _, err := guest.OpenStream(); return err },
		"data": func(guest *yamux.Session) error {
			s, err := guest.OpenStream()
			if err == nil {
				_, err = s.Write(make([]byte, 100<<10))
			}
			return err
		},
		"pings": func(guest *yamux.Session) error {
			go func() { _, _ = guest.Ping() }() // ends with the session
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := linked(t, func(guest *yamux.Session) {
				for range 2000 {
					if push(guest) != nil {
						return
					}
				}
				<-guest.CloseChan()
			})
			t0 := time.NewTimer(10 * time.Second)
			defer t0.Stop()
			select {
			case <-s.CloseChan():
			case <-t0.C:
				t.Errorf("the session lives on, with %d streams of the guest's", s.NumStreams())
			}
		})
	}
}

// TestOrderlyGuest: what an agent does passes, however the bytes fall.
func TestOrderlyGuest(t *testing.T) {
	s := linked(t, func(guest *yamux.Session) {
		for {
			c, err := guest.AcceptStream()
			if err != nil {
				return
			}
			go func() { // ends with the stream
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	})
	for i := range 40 {
		c, err := s.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		sent := bytes.Repeat([]byte{0, 1, 0, 1, byte(i)}, 1000*i+i) // as a header with a flag would be
		go func() { _, _ = c.Write(sent) }()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes: %v", len(sent), err)
		}
		if _, err := s.Ping(); err != nil { // the host may
			t.Fatal(err)
		}
		c.Close()
	}
}
