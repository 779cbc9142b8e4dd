// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"context"
	"image"
	"net"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Port is the port of the guest at which the VNC server of its screen listens.
const Port = vm.ScreenPort

// Limits of one call.
const (
	MaxText  = 10_000 // bytes to type
	maxTimes = 100    // clicks, and steps of the wheel
	deadline = 60 * time.Second
)

// Dialer connects to ports of guests.
type Dialer interface {
	// DialPort connects to a port. It wakes the VM. Kind Unavailable if nothing listens.
	DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error)
	// ConnectPort is DialPort, but waits for an approval where the caller's right needs one.
	ConnectPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error)
}

// Screens are the screens of VMs. Each call makes a connection of its own.
type Screens struct{ dial Dialer }

// New returns the screens of the VMs behind a dialer.
func New(d Dialer) *Screens { return &Screens{dial: d} }

// Shot returns what the screen of a VM shows. Code NO_SCREEN if it has none.
func (s *Screens) Shot(ctx context.Context, c *vm.Call, ref string) (*image.RGBA, error) {
	ctx, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	conn, err := s.dial.DialPort(ctx, c, ref, Port)
	if err != nil {
		return nil, NoScreen(ref, err)
	}
	return within(ctx, conn, func(s *session) (*image.RGBA, error) {
		return s.picture(image.Rect(0, 0, s.width, s.height))
	})
}

// Act does what an action says, and returns the size of the screen when the guest's X
// server has taken it. Codes NO_SCREEN, SCREEN_OUTSIDE, SCREEN_KEY_UNKNOWN,
// SCREEN_TEXT_INVALID.
func (s *Screens) Act(ctx context.Context, c *vm.Call, ref string, a vm.ScreenAction) (vm.ScreenSize, error) {
	ctx, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	conn, err := s.dial.ConnectPort(ctx, c, ref, Port) // first: a caller without the right learns only that
	if err != nil {
		return vm.ScreenSize{}, NoScreen(ref, err)
	}
	do, err := plan(a)
	if err != nil {
		_ = conn.Close()
		return vm.ScreenSize{}, err
	}
	return within(ctx, conn, func(s *session) (vm.ScreenSize, error) {
		size := vm.ScreenSize{Width: s.width, Height: s.height}
		if err := do(s); err != nil {
			return size, err
		}
		return size, s.settle()
	})
}

// NoScreen says that a VM has no screen, if that is why its port refuses.
func NoScreen(ref string, err error) error {
	if vm.KindOf(err) != vm.Unavailable {
		return err
	}
	return vm.Errorf(vm.Unsupported, ref, "this VM has no screen: nothing listens on its port %d", Port).WithCode("NO_SCREEN").
		WithHint("make a VM of the image desktop: `warren up desktop`")
}

// plan checks an action, and returns what to do with it.
func plan(a vm.ScreenAction) (func(*session) error, error) {
	switch a.Do {
	case vm.ScreenMove:
		return func(s *session) error { return s.move(a) }, nil
	case vm.ScreenClick:
		button, times := a.Button, max(a.Count, 1)
		if button == 0 {
			button = 1
		}
		if button < 1 || button > 3 || times > maxTimes || a.Count < 0 {
			return nil, vm.Errorf(vm.Invalid, "click", "button %d, %d times: the buttons are 1 (left), 2 (middle) and 3 (right), and %d clicks are the maximum", a.Button, a.Count, maxTimes)
		}
		return func(s *session) error { return s.press(a, button, times) }, nil
	case vm.ScreenScroll:
		button, times := 5, a.Count
		if times < 0 {
			button, times = 4, -times
		}
		if times == 0 || times > maxTimes {
			return nil, vm.Errorf(vm.Invalid, "scroll", "%d steps: give 1 to %d, or negative ones to scroll up", a.Count, maxTimes)
		}
		return func(s *session) error { return s.press(a, button, times) }, nil
	case vm.ScreenType:
		return func(s *session) error { return s.typeText(a.Text) }, checkText(a.Text)
	case vm.ScreenKey:
		keys, err := parseKeys(a.Keys)
		return func(s *session) error { return s.chord(keys) }, err
	}
	return nil, vm.Errorf(vm.Invalid, string(a.Do), "is nothing that can be done with a screen")
}

// move moves the pointer, and refuses a place outside of the screen.
func (s *session) move(a vm.ScreenAction) error {
	if a.X < 0 || a.Y < 0 || a.X >= s.width || a.Y >= s.height {
		return vm.Errorf(vm.Invalid, "screen", "%d,%d is outside of the screen, which has %d x %d pixels", a.X, a.Y, s.width, s.height).
			WithCode("SCREEN_OUTSIDE", "width", s.width, "height", s.height).WithHint("0,0 is the upper left corner, and %d,%d the lower right one", s.width-1, s.height-1)
	}
	return s.pointer(0, a.X, a.Y)
}

// press moves the pointer, then presses and releases a button some times.
func (s *session) press(a vm.ScreenAction, button, times int) error {
	if err := s.move(a); err != nil {
		return err
	}
	for range times {
		if err := s.pointer(1<<(button-1), a.X, a.Y); err != nil {
			return err
		}
		if err := s.pointer(0, a.X, a.Y); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) typeText(text string) error {
	for _, r := range text {
		if err := s.chord([]uint32{runeSym(r)}); err != nil {
			return err
		}
	}
	return nil
}

// chord presses keys in order, and releases them in the opposite order.
func (s *session) chord(keys []uint32) error {
	for _, k := range keys {
		if err := s.key(k, true); err != nil {
			return err
		}
	}
	for i := range keys {
		if err := s.key(keys[len(keys)-1-i], false); err != nil {
			return err
		}
	}
	return nil
}
