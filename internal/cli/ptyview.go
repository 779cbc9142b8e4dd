// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

const (
	// reattachFor is how long a lost connection is tried again.
	reattachFor   = 60 * time.Second
	reattachEvery = 500 * time.Millisecond
	// calm resets this program's terminal after a guest used it.
	calm = "\x18\x1b\\\x1b[<16u\x1b[?1049l\x1b[<16u\x1b[!p\x1b[?9;1000;1002;1003;1004;1005;1006;1015;1016;2004l\x1b[?7;25h\x1b[>4;0m\x1b>\x1b[r\x1b[m\x1b[999;1H\r\n"
)

// calmHere is calm for a program whose output stays on the screen: the cursor
// does not move.
const calmHere = "\x18\x1b\\\x1b[<16u\x1b[!p\x1b[?9;1000;1002;1003;1004;1005;1006;1015;1016;2004l\x1b[?7;25h\x1b[>4;0m\x1b>\x1b[m\x1b7\x1b[r\x1b8"

// calm returns the sequences that reset the terminal.
func (v *ptyView) calm() string {
	back := calm
	if v.inline && !v.out.alternate {
		back = calmHere
		if !v.out.steered {
			return ""
		}
	}
	if v.out.recoloured {
		return recolour + back
	}
	return back
}

// parseDetachKey returns the control character of a name such as "ctrl-]"; 0
// for none.
func parseDetachKey(name string) (byte, error) {
	if name == "none" || name == "" {
		return 0, nil
	}
	if k, err := parseKey(name); err == nil && len(k) == 1 && k[0] < ' ' && k[0] != 0 {
		return k[0], nil
	}
	return 0, usage("%s: not a control key", printable(name)).WithHint("give a key such as ctrl-], or none")
}

// size is that of this program's terminal; 0 when there is none.
func (s *streams) size() (cols, rows int) {
	if fd, ok := terminal(s.out); ok {
		if cols, rows, err := term.GetSize(fd); err == nil {
			return cols, rows
		}
	}
	return 0, 0
}

// ptyView connects this program's terminal with one in a guest.
type ptyView struct {
	app  *app
	c    *client.Client
	name string
	key  byte       // that detaches; 0 = none
	out  *ptyFilter // the state of this program's terminal before

	inline  bool // it runs one command: output begins at the cursor, without clearing the screen
	watches bool // input is not passed on, and ^C is, once
	ended   bool // the program has ended; set by run

	mu   sync.Mutex
	t    *client.Terminal
	left bool          // by the detach key or a signal
	news chan struct{} // closed and replaced when one of the two changes
}

// tell says that something has changed. v.mu is held.
func (v *ptyView) tell() {
	close(v.news)
	v.news = make(chan struct{})
}

func (v *ptyView) now() *client.Terminal {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.t
}

// leave detaches and does not attach again.
func (v *ptyView) leave() {
	v.mu.Lock()
	v.left = true
	v.tell()
	t := v.t
	v.mu.Unlock()
	_ = t.Detach()
}

func (v *ptyView) hasLeft() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.left
}

// run returns at the program's end, the detach key, or a signal.
func (v *ptyView) run(ctx context.Context) error {
	restore := func() {}
	if fd, ok := terminal(v.app.io.in); ok {
		var before *term.State
		if !v.watches {
			var err error
			if before, err = term.MakeRaw(fd); err != nil {
				return vm.Errorf(vm.Internal, "stdin", "the terminal cannot be set: %w", err)
			}
		}
		restore = sync.OnceFunc(func() {
			if v.app.io.outTTY {
				v.app.io.printf("%s", v.calm())
			}
			if before != nil {
				_ = term.Restore(fd, before) // it may be gone
			}
		})
	}
	defer restore()
	stop := v.watchSignals()
	defer stop()
	if !v.watches {
		// Nothing can interrupt a read of a terminal. This goroutine ends with the
		// input or with the program.
		go v.feed(v.app.io.in)
	}
	for {
		status, err := v.now().Run(v.out)
		id := v.now().Session().SessionID
		switch {
		case err == nil:
			v.ended = true
			restore()
			if status.Code != 0 {
				return exitStatus(status.Code)
			}
			return nil
		case v.hasLeft():
			restore()
			v.app.io.notef("warren: %s keeps running; `warren pty attach %s %s` attaches to it again", id, v.name, id)
			return nil
		case vm.KindOf(err) != vm.Unavailable || ctx.Err() != nil:
			return err
		}
		if v.asleep(ctx) {
			restore()
			v.app.io.notef("warren: %s is suspended, with its terminal %s; attaching again wakes it", v.name, id)
			return nil
		}
		if err := v.again(ctx, err); err != nil {
			return err
		}
	}
}

// asleep reports whether the VM is suspended. The viewer must not attach again
// by itself, because that would wake it.
func (v *ptyView) asleep(ctx context.Context) bool {
	m, err := v.c.Get(ctx, v.name)
	return err == nil && (m.State == vm.Suspended || m.State == vm.Suspending)
}

// again attaches again after the connection broke, and continues the output
// at the same byte.
func (v *ptyView) again(ctx context.Context, lost error) error {
	late := time.NewTimer(reattachFor)
	defer late.Stop()
	old := v.now()
	s := old.Session()
	for {
		select {
		case <-late.C:
			return lost
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(reattachEvery):
		}
		if v.hasLeft() {
			return nil // Run says so
		}
		cols, rows := v.app.io.size()
		t, err := v.c.AttachTerminal(ctx, v.name, s.SessionID, vm.TerminalView{User: userOf(&s), Cols: cols, Rows: rows, Since: old.Offset()})
		switch {
		case err == nil:
			v.mu.Lock()
			v.t = t
			v.tell()
			if v.left {
				_ = t.Detach()
			}
			v.mu.Unlock()
			return nil
		case vm.KindOf(err) != vm.Unavailable && vm.KindOf(err) != vm.GuestFault:
			return err
		}
	}
}

// watchSignals forwards size changes, and detaches at SIGTERM, SIGHUP and ^C. A
// viewer without input detaches at the second ^C.
func (v *ptyView) watchSignals() (stop func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH, syscall.SIGHUP)
	ending, release := v.app.signals.take()
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		passed := false
		for {
			select {
			case s := <-changed:
				if s == syscall.SIGHUP {
					v.leave()
				} else if cols, rows := v.app.io.size(); cols > 0 {
					_ = v.now().Resize(cols, rows) // Run reports a broken connection
				}
			case s := <-ending:
				if s == os.Interrupt && v.watches && !passed {
					passed = true
					_ = v.now().Signal("SIGINT") // Run reports a broken connection
					continue
				}
				v.leave()
			case <-over:
				return
			}
		}
	})
	return func() {
		signal.Stop(changed)
		release()
		close(over)
		watching.Wait()
	}
}

// feed types standard input, until its end or the detach key.
func (v *ptyView) feed(in io.Reader) {
	d := detector{key: v.key}
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		keys, left := d.scan(buf[:n])
		if err != nil && !left {
			keys = append(keys, 0x04) // the end of a pipe is what ^D is on a keyboard
		}
		v.typeIn(keys)
		if left {
			v.leave()
		}
		if left || err != nil {
			return
		}
	}
}

// typeIn sends keys, and repeats them on the next connection if this one
// breaks.
func (v *ptyView) typeIn(keys []byte) {
	for len(keys) > 0 {
		t := v.now()
		n, err := t.Write(keys)
		if err == nil || v.hasLeft() || !v.replaced(t) {
			return
		}
		keys = keys[n:]
	}
}

// replaced waits until another connection replaces a broken one. It reports
// false if none will.
func (v *ptyView) replaced(old *client.Terminal) bool {
	late := time.NewTimer(reattachFor)
	defer late.Stop()
	for {
		v.mu.Lock()
		t, left, news := v.t, v.left, v.news
		v.mu.Unlock()
		if left || t != old {
			return !left
		}
		select {
		case <-news:
		case <-late.C:
			return false
		}
	}
}

// detector finds the keys that detach: the configured key, or Ctrl-P Ctrl-Q.
// It forwards Ctrl-P at once, so that Ctrl-P never waits for the next key.
type detector struct {
	key byte // 0 = none; Ctrl-P Ctrl-Q is then off, too
	p   bool // the last one was Ctrl-P
}

func (d *detector) scan(b []byte) (keys []byte, left bool) {
	if d.key == 0 {
		return b, false
	}
	for i, c := range b {
		if c == d.key || d.p && c == 0x11 {
			return b[:i], true
		}
		d.p = c == 0x10
	}
	return b, false
}

// keyNames are keys that have no character.
var keyNames = map[string]string{
	"enter": "\r", "tab": "\t", "esc": "\x1b", "space": " ", "backspace": "\x7f", "delete": "\x1b[3~", "insert": "\x1b[2~",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
	"pageup": "\x1b[5~", "pagedown": "\x1b[6~", "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS",
	"f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
}

// parseKey returns what a key sends: a character, a name, ctrl-X, alt-X.
func parseKey(name string) (string, error) {
	low := strings.ToLower(name)
	if s, ok := keyNames[low]; ok {
		return s, nil
	}
	if c, ok := strings.CutPrefix(low, "ctrl-"); ok && len(c) == 1 && strings.ContainsAny(c, "abcdefghijklmnopqrstuvwxyz[\\]^_@") {
		return string(rune(strings.ToUpper(c)[0] & 0x1f)), nil
	}
	if utf8.RuneCountInString(name) == 1 {
		return name, nil
	}
	if c, ok := strings.CutPrefix(name, "alt-"); ok && c != "" {
		return "\x1b" + c, nil
	}
	return "", usage("%s: no such key", printable(name)).WithHint("such as enter, tab, esc, up, pagedown, f1, ctrl-c, alt-x")
}
