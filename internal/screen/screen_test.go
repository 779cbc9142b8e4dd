// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image/color"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// server is a VNC server of a test. It shows a blue screen with a red dot at 3,2.
type server struct {
	width, height uint16
	head          string                  // its greeting; "" = that of RFB 3.8
	secrets       []byte                  // its security types; nil = none
	update        func(ask []byte) []byte // answers a request for a picture; nil = the blue screen
	refuse        error                   // of each dial
	got           chan []byte             // keys and pointer, a message each
}

// DialPort connects to the server.
func (s *server) DialPort(context.Context, *vm.Call, string, uint16) (net.Conn, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	a, b := net.Pipe()
	go s.serve(b) // ends with the connection
	return a, nil
}

// ConnectPort connects to the server.
func (s *server) ConnectPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error) {
	return s.DialPort(ctx, c, ref, port)
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	send := func(b []byte) { _, _ = c.Write(b) }
	recv := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(c, b); err != nil {
			return nil
		}
		return b
	}
	head := s.head
	if head == "" {
		head = version
	}
	send([]byte(head))
	secrets := s.secrets
	if secrets == nil {
		secrets = []byte{noSecret}
	}
	if recv(12) == nil {
		return
	}
	send(append([]byte{byte(len(secrets))}, secrets...))
	if recv(1) == nil {
		return
	}
	send([]byte{0, 0, 0, 0})
	if recv(1) == nil {
		return
	}
	init := binary.BigEndian.AppendUint16(nil, s.width)
	init = binary.BigEndian.AppendUint16(init, s.height)
	init = append(init, make([]byte, 16)...)
	init = binary.BigEndian.AppendUint32(init, 3)
	send(append(init, "box"...))
	lengths := map[byte]int{toPixelFormat: 19, toEncodings: 7, toUpdate: 9, toKey: 7, toPointer: 5}
	for {
		kind := recv(1)
		if kind == nil {
			return
		}
		msg := append(kind, recv(lengths[kind[0]])...)
		switch {
		case kind[0] == toUpdate && s.update != nil:
			send(s.update(msg))
		case kind[0] == toUpdate:
			send(blue(msg))
		case s.got != nil && kind[0] >= toKey:
			s.got <- msg
		}
	}
}

// blue answers a request with a bell, a text, and the picture in two parts.
func blue(ask []byte) []byte {
	out := []byte{fromBell, fromCut, 0, 0, 0, 0, 0, 0, 2, 'h', 'i'}
	at := func(i int) uint16 { return binary.BigEndian.Uint16(ask[i:]) }
	x, y, w, h := at(2), at(4), at(6), at(8)
	out = append(out, fromUpdate, 0)
	out = binary.BigEndian.AppendUint16(out, 2)
	for _, part := range [][2]uint16{{y, h / 2}, {y + h/2, h - h/2}} {
		for _, v := range []uint16{x, part[0], w, part[1], 0, 0} {
			out = binary.BigEndian.AppendUint16(out, v)
		}
		for row := part[0]; row < part[0]+part[1]; row++ {
			for col := x; col < x+w; col++ {
				if row == 2 && col == 3 {
					out = append(out, 0, 0, 200, 9)
				} else {
					out = append(out, 200, 0, 0, 9)
				}
			}
		}
	}
	return out
}

func TestShot(t *testing.T) {
	img, err := New(&server{width: 8, height: 5}).Shot(t.Context(), &vm.Call{}, "box")
	if err != nil {
		t.Fatalf("the screen is not seen: %v", err)
	}
	if b := img.Bounds(); b.Dx() != 8 || b.Dy() != 5 {
		t.Errorf("the picture has the bounds %v, not 8 x 5", b)
	}
	if got := img.RGBAAt(0, 0); got != (color.RGBA{0, 0, 200, 255}) {
		t.Errorf("the ground is %v, not blue", got)
	}
	if got := img.RGBAAt(3, 2); got != (color.RGBA{200, 0, 0, 255}) {
		t.Errorf("the dot is %v, not red", got)
	}
}

func TestAct(t *testing.T) {
	pointer := func(buttons byte, x, y byte) string { return string([]byte{toPointer, buttons, 0, x, 0, y}) }
	key := func(down byte, sym uint32) string {
		return string(binary.BigEndian.AppendUint32([]byte{toKey, down, 0, 0}, sym))
	}
	for name, c := range map[string]struct {
		do   vm.ScreenAction
		want []string
	}{
		"move":         {vm.ScreenAction{Do: vm.ScreenMove, X: 7, Y: 4}, []string{pointer(0, 7, 4)}},
		"click":        {vm.ScreenAction{Do: vm.ScreenClick, X: 1, Y: 2}, []string{pointer(0, 1, 2), pointer(1, 1, 2), pointer(0, 1, 2)}},
		"right twice":  {vm.ScreenAction{Do: vm.ScreenClick, Button: 3, Count: 2}, []string{pointer(0, 0, 0), pointer(4, 0, 0), pointer(0, 0, 0), pointer(4, 0, 0), pointer(0, 0, 0)}},
		"scroll":       {vm.ScreenAction{Do: vm.ScreenScroll, Count: 1}, []string{pointer(0, 0, 0), pointer(16, 0, 0), pointer(0, 0, 0)}},
		"scroll up":    {vm.ScreenAction{Do: vm.ScreenScroll, Count: -1}, []string{pointer(0, 0, 0), pointer(8, 0, 0), pointer(0, 0, 0)}},
		"type":         {vm.ScreenAction{Do: vm.ScreenType, Text: "é\n€"}, []string{key(1, 0xe9), key(0, 0xe9), key(1, 0xff0d), key(0, 0xff0d), key(1, 0x10020ac), key(0, 0x10020ac)}},
		"several keys": {vm.ScreenAction{Do: vm.ScreenKey, Keys: "ctrl+F5"}, []string{key(1, 0xffe3), key(1, 0xffc2), key(0, 0xffc2), key(0, 0xffe3)}},
	} {
		s := &server{width: 8, height: 5, got: make(chan []byte, 100)}
		size, err := New(s).Act(t.Context(), &vm.Call{}, "box", c.do)
		if err != nil || size != (vm.ScreenSize{Width: 8, Height: 5}) {
			t.Errorf("%s: the screen has the size %v, %v", name, size, err)
		}
		close(s.got)
		var got []string
		for m := range s.got {
			got = append(got, string(m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the server got %q, not %q", name, got, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		do   vm.ScreenAction
		code string
	}{
		"outside":         {vm.ScreenAction{Do: vm.ScreenMove, X: 8}, "SCREEN_OUTSIDE"},
		"negative":        {vm.ScreenAction{Do: vm.ScreenClick, Y: -1}, "SCREEN_OUTSIDE"},
		"no such key":     {vm.ScreenAction{Do: vm.ScreenKey, Keys: "ctrl+nothing"}, "SCREEN_KEY_UNKNOWN"},
		"no key":          {vm.ScreenAction{Do: vm.ScreenKey}, "SCREEN_KEY_UNKNOWN"},
		"F25":             {vm.ScreenAction{Do: vm.ScreenKey, Keys: "F25"}, "SCREEN_KEY_UNKNOWN"},
		"no text":         {vm.ScreenAction{Do: vm.ScreenType}, "SCREEN_TEXT_INVALID"},
		"long text":       {vm.ScreenAction{Do: vm.ScreenType, Text: strings.Repeat("x", MaxText+1)}, "SCREEN_TEXT_INVALID"},
		"escape sequence": {vm.ScreenAction{Do: vm.ScreenType, Text: "\x1b[2J"}, "SCREEN_TEXT_INVALID"},
		"button 4":        {vm.ScreenAction{Do: vm.ScreenClick, Button: 4}, ""},
		"no steps":        {vm.ScreenAction{Do: vm.ScreenScroll}, ""},
		"nothing":         {vm.ScreenAction{}, ""},
	} {
		s := &server{width: 8, height: 5, got: make(chan []byte, 10)}
		_, err := New(s).Act(t.Context(), &vm.Call{}, "box", c.do)
		if vm.KindOf(err) != vm.Invalid || vm.AsError(err).Code != c.code {
			t.Errorf("%s: the error is %v with the code %q, want %q", name, err, vm.AsError(err).Code, c.code)
		}
		if len(s.got) > 0 {
			t.Errorf("%s: the server got %q", name, <-s.got)
		}
	}
	none := New(&server{refuse: vm.Errorf(vm.Unavailable, "box", "nothing listens")})
	if _, err := none.Shot(t.Context(), &vm.Call{}, "box"); vm.AsError(err).Code != "NO_SCREEN" {
		t.Errorf("without a server the error is %v, not NO_SCREEN", err)
	}
	if _, err := New(&server{refuse: vm.Errorf(vm.Denied, "box", "no")}).Shot(t.Context(), &vm.Call{}, "box"); vm.KindOf(err) != vm.Denied {
		t.Errorf("without a right the error is %v, not Denied", err)
	}
}

// rect is an update with one rectangle.
func rect(x, y, w, h uint16, encoding uint32, pixels int) []byte {
	out := []byte{fromUpdate, 0, 0, 1}
	for _, v := range []uint16{x, y, w, h} {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return append(binary.BigEndian.AppendUint32(out, encoding), make([]byte, 4*pixels)...)
}

func TestHostile(t *testing.T) {
	always := func(b []byte) func([]byte) []byte { return func([]byte) []byte { return b } }
	for name, s := range map[string]*server{
		"another protocol": {head: "SSH-2.0-x\r\n\n", width: 8, height: 5},
		"an old protocol":  {head: "RFB 003.003\n", width: 8, height: 5},
		"no pixels":        {width: 0, height: 5},
		"too wide":         {width: 9000, height: 5},
		"too large":        {width: 8000, height: 8000},
		"outside":          {width: 8, height: 5, update: always(rect(5, 0, 4, 1, 0, 4))},
		"encoding":         {width: 8, height: 5, update: always(rect(0, 0, 8, 5, 7, 0))},
		"message":          {width: 8, height: 5, update: always([]byte{99})},
		"long text":        {width: 8, height: 5, update: always([]byte{fromCut, 0, 0, 0, 0x7f, 0, 0, 0})},
		"bells":            {width: 8, height: 5, update: always(bytes.Repeat([]byte{fromBell}, maxRects+1))},
		"empty parts":      {width: 8, height: 5, update: always(bytes.Repeat(append([]byte{fromUpdate, 0, 0xff, 0xff}, make([]byte, 12*0xffff)...), 2))},
	} {
		if _, err := New(s).Shot(t.Context(), &vm.Call{}, "box"); vm.KindOf(err) != vm.GuestFault {
			t.Errorf("%s: the error is %v, not a fault of the guest", name, err)
		}
	}
	if _, err := New(&server{secrets: []byte{2}, width: 8, height: 5}).Shot(t.Context(), &vm.Call{}, "box"); vm.KindOf(err) != vm.Unsupported {
		t.Errorf("with a password the error is %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := New(&server{width: 8, height: 5, update: always(nil)}).Shot(ctx, &vm.Call{}, "box"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server leads to %v", err)
	}
}
