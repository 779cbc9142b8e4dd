// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/warren-vm/warren/internal/link"
)

// window limits how much input may be sent before the guest has taken some.
type window struct {
	mu    sync.Mutex
	room  int           // bytes of input that may be sent
	roomy chan struct{} // closed and replaced when room grows
	over  bool          // no further acknowledgement will come
}

func newWindow() window { return window{room: link.StdinWindow, roomy: make(chan struct{})} }

// input sends p in frames, each as soon as the window has room for it.
func (w *window) input(p []byte, frame func(link.FrameType, []byte) error) (sent int, err error) {
	for sent < len(p) {
		n, err := w.takeRoom(min(len(p)-sent, link.MaxFrame))
		if err != nil {
			return sent, err
		}
		if err := frame(link.FrameStdin, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// takeRoom waits until at least one byte may be sent and takes up to n.
func (w *window) takeRoom(n int) (int, error) {
	for {
		w.mu.Lock()
		if w.over {
			w.mu.Unlock()
			return 0, io.ErrClosedPipe
		}
		if w.room > 0 {
			n = min(n, w.room)
			w.room -= n
			w.mu.Unlock()
			return n, nil
		}
		wait := w.roomy
		w.mu.Unlock()
		<-wait // finish closes it in the end
	}
}

// acknowledged processes an acknowledgement frame.
func (w *window) acknowledged(b []byte) error {
	if len(b) != 4 {
		return odd(errors.New("malformed acknowledgement"))
	}
	if n := binary.BigEndian.Uint32(b); n > 0 && n <= link.StdinWindow {
		w.ack(int(n))
	}
	return nil
}

// ack adds acknowledged bytes to the room.
func (w *window) ack(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.room += n
		close(w.roomy)
		w.roomy = make(chan struct{})
	}
}

// finish wakes writers that wait for room, because no further acknowledgement will come.
func (w *window) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.over = true
		close(w.roomy)
	}
}
