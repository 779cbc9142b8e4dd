// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// attachment is a stream of frames to and from a program in the guest. One
// goroutine reads it; any may send. If it ends without an exit (Detach, the
// context, a broken link), the program keeps running in the guest.
type attachment struct {
	conn *headReader
	in   *bufio.Reader
	stop func() bool
	path string // of the request
	id   string // of the program

	wmu sync.Mutex // one frame at a time

	window
}

// attach sends a request whose answer is a stream of frames. It returns the stream and
// its first frame, which describes the started program. The context limits the start
// and the attachment. buffer is the size of the read buffer in bytes.
func (c *Client) attach(ctx context.Context, target string, body []byte, buffer int) (*attachment, []byte, error) {
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, nil, broken(ctx, err)
	}
	conn := newHeadReader(raw)
	s := &attachment{conn: conn, in: bufio.NewReaderSize(conn, buffer), window: newWindow()}
	s.path, _, _ = strings.Cut(target, "?")
	s.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	b, err := upgrade(conn, s.in, target, body)
	if err != nil {
		return nil, nil, s.giveUp(ctx, err)
	}
	return s, b, nil
}

// giveUp closes a stream whose start failed, and returns the reason.
func (s *attachment) giveUp(ctx context.Context, err error) error {
	s.stop()
	_ = s.conn.Close()
	return broken(ctx, err)
}

// upgrade sends a request whose answer is a stream, and returns the stream's first
// frame, which describes the started program.
func upgrade(conn *headReader, in *bufio.Reader, target string, body []byte) ([]byte, error) {
	path, _, _ := strings.Cut(target, "?")
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: agent\r\nConnection: Upgrade\r\nUpgrade: warren-exec\r\nContent-Length: %d\r\n\r\n", target, len(body))
	if _, err := conn.Write(append([]byte(head), body...)); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return nil, err
		}
		return nil, refusal(path, b)
	}
	conn.lift()
	t, b, err := link.NewFrameReader(in).Next()
	switch {
	case err != nil:
		return nil, err
	case t == link.FrameError:
		return nil, refusal(path, b)
	case t != link.FrameStarted:
		return nil, fault("frame %d before anything had started", t)
	}
	return b, nil
}

// Write sends input. It blocks while the program does not read; input that
// the program will never read is dropped.
func (s *attachment) Write(p []byte) (int, error) { return s.input(p, s.frame) }

// Signal sends a signal, named without SIG, to the process group of a command
// or to the root process of a terminal.
func (s *attachment) Signal(name string) error { return s.frame(link.FrameSignal, []byte(name)) }

// Detach ends the attachment; the program keeps running.
func (s *attachment) Detach() error {
	s.finish()
	return s.conn.Close()
}

func (s *attachment) frame(t link.FrameType, b []byte) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := link.WriteFrame(s.conn, t, b); err != nil {
		return &vm.Error{Kind: vm.GuestFault, Subject: s.id, Msg: "the link to the guest's agent broke", Err: err}
	}
	return nil
}

// run reads the stream until the program has ended, and closes it. on gets the output frames; its
// error ends the stream. lost is the error to return if the link breaks before the exit is known.
func (s *attachment) run(lost vm.Error, on func(link.FrameType, []byte) error) (vm.ExitStatus, error) {
	defer s.conn.Close()
	defer s.stop()
	defer s.finish()
	frames := link.NewFrameReader(s.in)
	for {
		t, b, err := frames.Next()
		if err != nil {
			lost.Kind, lost.Subject, lost.Err = vm.GuestFault, s.id, err
			return vm.ExitStatus{}, &lost
		}
		switch t {
		case link.FrameStdinAck:
			err = s.acknowledged(b)
		case link.FrameError:
			err = refusal(s.path, b)
		case link.FrameExit:
			st, err := link.DecodeExit(b)
			return st, odd(err)
		default:
			err = on(t, b)
		}
		if err != nil {
			return vm.ExitStatus{}, err
		}
	}
}
