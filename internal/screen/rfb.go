// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"net"

	"github.com/warren-vm/warren/vm"
)

// Limits of what a guest may send.
const (
	maxSide   = 8192     // pixels of a screen's width or height
	maxPixels = 16 << 20 // of a screen
	maxName   = 4 << 10  // bytes of a screen's name
	maxCut    = 16 << 20 // bytes of a text that a guest has copied
	maxRects  = 64 << 10 // rectangles of one picture, and messages before it is complete
)

// Types of messages from the server.
const (
	fromUpdate  = 0
	fromColours = 1
	fromBell    = 2
	fromCut     = 3
)

// Types of messages from the client.
const (
	toPixelFormat = 0
	toEncodings   = 2
	toUpdate      = 3
	toKey         = 4
	toPointer     = 5
	toCut         = 6
)

const (
	version  = "RFB 003.008\n"
	noSecret = 1 // the security type without authentication
)

// session is a connection to a screen, after the greeting.
type session struct {
	conn          io.ReadWriter
	in            *bufio.Reader
	width, height int
}

// faulty is a fault of the guest's server.
func faulty(format string, args ...any) error {
	return vm.Errorf(vm.GuestFault, "screen", "the VNC server in the VM "+format, args...)
}

// meet greets the server and asks for pictures of 32 bits a pixel.
func meet(conn io.ReadWriter) (*session, error) {
	s := &session{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	head, err := s.read(12)
	if err != nil {
		return nil, err
	}
	if string(head[:8]) != version[:8] || head[11] != '\n' || string(head) < version {
		return nil, faulty("speaks %q, not RFB 3.8", head)
	}
	if err := s.write([]byte(version)); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	head, err = s.read(24)
	if err != nil {
		return nil, err
	}
	s.width, s.height = int(binary.BigEndian.Uint16(head)), int(binary.BigEndian.Uint16(head[2:]))
	if err := checkSize(s.width, s.height); err != nil {
		return nil, err
	}
	if err := s.skip(binary.BigEndian.Uint32(head[20:]), maxName); err != nil {
		return nil, err
	}
	// 32 bits a pixel, 24 of colour, little-endian, true colour: blue, green, red, nothing.
	format := []byte{toPixelFormat, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0}
	raw := []byte{toEncodings, 0, 0, 1, 0, 0, 0, 0}
	return s, s.write(append(format, raw...))
}

// enter passes the server's question for a password, which it must not ask.
func (s *session) enter() error {
	n, err := s.read(1)
	if err != nil {
		return err
	}
	offered, err := s.read(int(n[0]))
	if err != nil {
		return err
	}
	free := false
	for _, o := range offered {
		free = free || o == noSecret
	}
	if !free {
		return vm.Errorf(vm.Unsupported, "screen", "the VNC server in the VM wants a password").
			WithHint("start it without one, on the loopback only: Xtigervnc -localhost -SecurityTypes None")
	}
	if err := s.write([]byte{noSecret}); err != nil {
		return err
	}
	result, err := s.read(4)
	if err != nil {
		return err
	}
	if binary.BigEndian.Uint32(result) != 0 {
		return faulty("refuses the connection")
	}
	return s.write([]byte{1}) // shared with others
}

func checkSize(width, height int) error {
	if width < 1 || height < 1 || width > maxSide || height > maxSide || width*height > maxPixels {
		return faulty("says that the screen has %d x %d pixels", width, height)
	}
	return nil
}

func (s *session) read(n int) ([]byte, error) {
	buf := make([]byte, n)
	if _, err := io.ReadFull(s.in, buf); err != nil {
		return nil, broken(err)
	}
	return buf, nil
}

func (s *session) write(b []byte) error {
	if _, err := s.conn.Write(b); err != nil {
		return broken(err)
	}
	return nil
}

// broken is the error for a connection that ended.
func broken(err error) error {
	if e := (*vm.Error)(nil); errors.As(err, &e) {
		return err
	}
	return faulty("closed the connection: %w", err)
}

// skip reads n bytes away, at most limit.
func (s *session) skip(n uint32, limit int64) error {
	if int64(n) > limit {
		return faulty("sends %d bytes, more than %d", n, limit)
	}
	if _, err := io.CopyN(io.Discard, s.in, int64(n)); err != nil {
		return broken(err)
	}
	return nil
}

// picture returns what a part of the screen shows now.
func (s *session) picture(part image.Rectangle) (*image.RGBA, error) {
	ask := []byte{toUpdate, 0}
	for _, v := range []int{part.Min.X, part.Min.Y, part.Dx(), part.Dy()} {
		ask = binary.BigEndian.AppendUint16(ask, uint16(v))
	}
	if err := s.write(ask); err != nil {
		return nil, err
	}
	img := image.NewRGBA(part)
	missing := part.Dx() * part.Dy()
	for rects := 0; missing > 0; {
		n, err := s.message()
		if err != nil {
			return nil, err
		}
		if rects += n + 1; rects > maxRects {
			return nil, faulty("sends more than %d parts of one picture", maxRects)
		}
		for range n {
			painted, err := s.paint(img)
			if err != nil {
				return nil, err
			}
			missing -= painted
		}
	}
	return img, nil
}

// message reads the head of the next message, and how many rectangles follow.
func (s *session) message() (rects int, err error) {
	kind, err := s.read(1)
	if err != nil {
		return 0, err
	}
	switch kind[0] {
	case fromUpdate:
		head, err := s.read(3)
		if err != nil {
			return 0, err
		}
		return int(binary.BigEndian.Uint16(head[1:])), nil
	case fromBell:
		return 0, nil
	case fromCut:
		head, err := s.read(7)
		if err != nil {
			return 0, err
		}
		return 0, s.skip(binary.BigEndian.Uint32(head[3:]), maxCut)
	case fromColours:
		head, err := s.read(5)
		if err != nil {
			return 0, err
		}
		return 0, s.skip(6*uint32(binary.BigEndian.Uint16(head[3:])), maxCut)
	}
	return 0, faulty("sends a message of the unknown type %d", kind[0])
}

// paint reads one rectangle into img, and returns how many pixels of it are in img.
func (s *session) paint(img *image.RGBA) (int, error) {
	head, err := s.read(12)
	if err != nil {
		return 0, err
	}
	at := func(i int) int { return int(binary.BigEndian.Uint16(head[i:])) }
	x, y, w, h := at(0), at(2), at(4), at(6)
	if enc := int32(binary.BigEndian.Uint32(head[8:])); enc != 0 {
		return 0, faulty("sends pixels in the encoding %d, for which it was not asked", enc)
	}
	if x+w > s.width || y+h > s.height {
		return 0, faulty("sends pixels outside of its screen")
	}
	line := make([]byte, 4*w)
	for row := y; row < y+h; row++ {
		if _, err := io.ReadFull(s.in, line); err != nil {
			return 0, broken(err)
		}
		for i := range w {
			if p := (image.Point{X: x + i, Y: row}); p.In(img.Rect) {
				o := img.PixOffset(p.X, p.Y)
				img.Pix[o], img.Pix[o+1], img.Pix[o+2], img.Pix[o+3] = line[4*i+2], line[4*i+1], line[4*i], 255
			}
		}
	}
	in := image.Rect(x, y, x+w, y+h).Intersect(img.Rect)
	return in.Dx() * in.Dy(), nil
}

// settle returns when the server has read all that was sent: it answers in order.
func (s *session) settle() error {
	_, err := s.picture(image.Rect(0, 0, 1, 1))
	return err
}

func (s *session) pointer(buttons byte, x, y int) error {
	msg := []byte{toPointer, buttons}
	msg = binary.BigEndian.AppendUint16(msg, uint16(x))
	return s.write(binary.BigEndian.AppendUint16(msg, uint16(y)))
}

func (s *session) key(sym uint32, down bool) error {
	msg := []byte{toKey, 0, 0, 0}
	if down {
		msg[1] = 1
	}
	return s.write(binary.BigEndian.AppendUint32(msg, sym))
}

// within runs f with a connection, which ends with ctx.
func within[T any](ctx context.Context, conn net.Conn, f func(s *session) (T, error)) (out T, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	s, err := meet(conn)
	if err == nil {
		out, err = f(s)
	}
	if err != nil && ctx.Err() != nil {
		return out, fmt.Errorf("%w", context.Cause(ctx))
	}
	return out, err
}
