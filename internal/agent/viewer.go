// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// viewer is one client of a terminal. It reads the tape at its own pace. Output that it
// does not take costs nothing; if it falls too far behind, it gets the screen redrawn.
type viewer struct {
	t     *terminal
	c     *client
	input *input // nil = the program has ended
	wake  chan struct{}
	gone  chan struct{} // closed when the client has left

	// guarded by t.mu
	cols, rows int
	at         int64 // offset of the next byte to send
	redraw     bool
}

// attach adds a viewer, and first sends what the view asks for.
func (t *terminal) attach(c *client, view vm.TerminalView) *viewer {
	v := &viewer{t: t, c: c, wake: make(chan struct{}, 1), gone: make(chan struct{}), cols: view.Cols, rows: view.Rows}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, err := t.dup(); err == nil {
		v.input = newInput(f)
		go v.input.feed(c) // ends with the viewer
	}
	v.at, v.redraw = view.Since, view.Since < t.tape.start() || view.Since > t.tape.end
	if v.redraw {
		v.at = t.tape.end
	}
	t.viewers[v] = struct{}{}
	t.free = false
	t.fit()
	return v
}

// leave removes the viewer.
func (v *viewer) leave() {
	v.c.close()
	if v.input != nil {
		v.input.abandon()
	}
	v.t.mu.Lock()
	delete(v.t.viewers, v)
	v.t.fit()
	v.t.mu.Unlock()
	v.t.taken()
}

func (v *viewer) poke() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// taken tells the pump that a viewer has advanced or left.
func (t *terminal) taken() {
	select {
	case t.drained <- struct{}{}:
	default:
	}
}

// show sends output until the program ends or the client leaves.
func (v *viewer) show(replay bool) {
	buf := make([]byte, link.FrameHeader+16<<10)
	for {
		var err error
		t := v.t
		t.mu.Lock()
		over := t.info.ExitCode != nil
		switch {
		case v.redraw || v.at < t.tape.start():
			v.redraw, v.at, replay = false, t.tape.end, false
			screen := t.screen.Redraw()
			t.mu.Unlock()
			err = v.drawn(screen)
		case replay:
			replay = false
			head := vm.TerminalReplay{Bytes: int(t.tape.end - v.at), Offset: t.tape.end}
			t.mu.Unlock()
			err = v.c.sendFrame(link.FrameReplay, link.EncodeReplay(head))
		case v.at < t.tape.end:
			n := t.tape.read(buf[link.FrameHeader:], v.at)
			v.at += int64(n)
			t.free = false
			t.mu.Unlock()
			link.PutFrameHeader(buf, link.FrameStdout, n)
			err = v.c.send(buf[:link.FrameHeader+n])
			t.taken()
		case over:
			code := *t.info.ExitCode
			t.mu.Unlock()
			_ = v.c.sendFrame(link.FrameExit, link.EncodeExit(vm.ExitStatus{Code: code})) // the client may have left
			v.c.close()
			return
		default:
			t.mu.Unlock()
			select {
			case <-v.wake:
			case <-v.gone:
				return
			}
		}
		if err != nil {
			v.c.close()
			return
		}
	}
}

// drawn sends output that redraws the screen.
func (v *viewer) drawn(b []byte) error {
	v.t.mu.Lock()
	head := vm.TerminalReplay{Redraw: true, Bytes: len(b), Offset: v.at}
	v.t.mu.Unlock()
	if err := v.c.sendFrame(link.FrameReplay, link.EncodeReplay(head)); err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), link.MaxFrame)
		if err := v.c.sendFrame(link.FrameStdout, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	v.t.taken()
	return nil
}

// listen executes the client's frames until it leaves.
func (v *viewer) listen(frames *link.FrameReader) {
	defer close(v.gone)
	for {
		kind, b, err := frames.Next()
		if err != nil {
			return
		}
		if err := v.frame(kind, b); err != nil {
			_ = v.c.sendFrame(link.FrameError, link.EncodeError(err))
			return
		}
	}
}

func (v *viewer) frame(kind link.FrameType, b []byte) error {
	t := v.t
	switch kind {
	case link.FrameStdin:
		if v.input != nil && !v.input.add(b) {
			return vm.Errorf(vm.Invalid, t.info.ID, "more input than the window allows")
		}
	case link.FrameSignal:
		s := parseSignal(string(b))
		if s == 0 {
			return vm.Errorf(vm.Invalid, string(b), "no such signal")
		}
		t.kill(s, false)
	case link.FrameSize:
		cols, rows, err := link.DecodeSize(b)
		if err != nil {
			return err
		}
		t.mu.Lock()
		v.cols, v.rows = fitting(cols, rows)
		t.fit()
		t.mu.Unlock()
	default:
		return vm.Errorf(vm.Invalid, t.info.ID, "unexpected frame %d", kind)
	}
	return nil
}
