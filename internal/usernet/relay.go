// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

var relayBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

type writeCloser interface{ CloseWrite() error }

// errTaken ends a relay whose guest connection something else serves from here on.
var errTaken = errors.New("the connection is served elsewhere")

// relay copies bytes both ways until both directions have ended. It passes the end
// of one direction on as a half-close, and a failure as a reset of both. src is
// where the guest's bytes are read; it may begin with bytes that were read before. If src
// fails with errTaken, the guest's connection stays open, and relay returns true.
func (n *Net) relay(f *flow, c *guestConn, src io.Reader, up net.Conn) (taken bool) {
	fail := sync.OnceFunc(func() {
		c.reset()
		if t, ok := up.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = up.Close()
	})
	var away atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		switch err := pump(up, n.scanned(f, src), f.sent); {
		case errors.Is(err, errTaken):
			away.Store(true)
			_ = up.Close()
		case err != nil || halfClose(up) != nil:
			fail()
		}
	}()
	if (pump(c, up, f.received) != nil || halfCloseUnless(&away, c) != nil) && !away.Load() {
		fail()
	}
	<-done
	_ = up.Close()
	if away.Load() {
		return true
	}
	_ = c.Close()
	return false
}

func halfCloseUnless(away *atomic.Bool, c net.Conn) error {
	if away.Load() {
		return nil
	}
	return halfClose(c)
}

func halfClose(c net.Conn) error {
	if w, ok := c.(writeCloser); ok {
		return w.CloseWrite()
	}
	return nil
}

// pump copies until the end of src and counts the bytes.
func pump(dst io.Writer, src io.Reader, count func(int) error) error {
	b := relayBuffers.Get().(*[]byte)
	defer relayBuffers.Put(b)
	for {
		k, err := src.Read(*b)
		if k > 0 {
			if err := count(k); err != nil {
				return err
			}
			if _, err := dst.Write((*b)[:k]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
