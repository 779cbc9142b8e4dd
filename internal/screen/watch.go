// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"github.com/warren-vm/warren/vm"
)

// Messages from the client beyond those of RFB 3.8, which noVNC may send.
const (
	toContinuous = 150
	toFence      = 248
	toXVP        = 250
	toResize     = 251
	toQEMU       = 255
)

// maxEncodings is how many encodings a watcher may name.
const maxEncodings = 1024

// Watch copies what a viewer sends to the server of a screen, without what would change
// something there: keys, the pointer, texts that were copied, and a new size. It ends with an
// error at a message that it does not know. The viewer cannot end the sessions of others.
func Watch(server io.Writer, viewer io.Reader) error {
	w := &watcher{in: bufio.NewReader(viewer), out: server}
	err := w.greet()
	for err == nil {
		err = w.next()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type watcher struct {
	in  *bufio.Reader
	out io.Writer
}

// greet passes the version, the choice of no password, and the wish for a shared session.
func (w *watcher) greet() error {
	head, err := w.take(12)
	if err != nil {
		return err
	}
	if string(head) != version {
		return refused("it speaks %q, not RFB 3.8", head)
	}
	if err := w.pass(head); err != nil {
		return err
	}
	choice, err := w.take(1)
	if err != nil {
		return err
	}
	if choice[0] != noSecret {
		return refused("it chose the security type %d", choice[0])
	}
	if err := w.pass(choice); err != nil {
		return err
	}
	if _, err := w.take(1); err != nil {
		return err
	}
	return w.pass([]byte{1})
}

func refused(format string, args ...any) error {
	return vm.Errorf(vm.Denied, "screen", "a viewer who only watches is cut off: "+format, args...)
}

// next copies or drops one message.
func (w *watcher) next() error {
	kind, err := w.take(1)
	if err != nil {
		return err
	}
	switch kind[0] {
	case toPixelFormat:
		return w.copy(kind, 19)
	case toUpdate, toContinuous:
		return w.copy(kind, 9)
	case toEncodings:
		return w.encodings(kind)
	case toFence:
		return w.fence(kind)
	case toKey:
		return w.drop(7)
	case toPointer:
		return w.drop(5)
	case toCut:
		return w.cut()
	case toXVP:
		return w.drop(3)
	case toQEMU:
		return w.drop(11)
	case toResize:
		head, err := w.take(7)
		if err != nil {
			return err
		}
		return w.drop(16 * int64(head[5]))
	}
	return refused("it sent a message of the unknown type %d", kind[0])
}

func (w *watcher) encodings(kind []byte) error {
	head, err := w.take(3)
	if err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint16(head[1:]))
	if n > maxEncodings {
		return refused("it names %d encodings", n)
	}
	return w.copy(append(kind, head...), 4*n)
}

func (w *watcher) fence(kind []byte) error {
	head, err := w.take(8)
	if err != nil {
		return err
	}
	if head[7] > 64 {
		return refused("it sent a fence of %d bytes", head[7])
	}
	return w.copy(append(kind, head...), int(head[7]))
}

// cut drops a text. A negative length means the extended form, which has that many bytes.
func (w *watcher) cut() error {
	head, err := w.take(7)
	if err != nil {
		return err
	}
	n := int64(int32(binary.BigEndian.Uint32(head[3:])))
	if n < 0 {
		n = -n
	}
	return w.drop(n)
}

func (w *watcher) take(n int) ([]byte, error) {
	buf := make([]byte, n)
	_, err := io.ReadFull(w.in, buf)
	return buf, err
}

func (w *watcher) pass(b []byte) error {
	_, err := w.out.Write(b)
	return err
}

// copy passes a message whose head was read and that has n more bytes, at once.
func (w *watcher) copy(head []byte, n int) error {
	rest, err := w.take(n)
	if err != nil {
		return err
	}
	return w.pass(append(head, rest...))
}

func (w *watcher) drop(n int64) error {
	_, err := io.CopyN(io.Discard, w.in, n)
	return err
}
