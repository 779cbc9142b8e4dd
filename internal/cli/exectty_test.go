// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/api"
)

// frame reads what the client sends: a text frame as it is, keys as data.
func frame(t *testing.T, ctx context.Context, conn *websocket.Conn) (m api.PtyMessage, data string) {
	t.Helper()
	kind, b, err := conn.Read(ctx)
	if err != nil {
		t.Error(err)
	}
	if kind == websocket.MessageText {
		if err := json.Unmarshal(b, &m); err != nil {
			t.Error(err)
		}
		return m, ""
	}
	return m, string(b)
}

func exits(ctx context.Context, conn *websocket.Conn, code int) {
	tell(ctx, conn, api.PtyMessage{Type: "exited", ExitCode: &code})
}

// deletes notes that the terminal is forgotten.
func (f *fake) deletes() { f.on("DELETE /v1/vms/{vm}/pty/sessions/work", api.ClosedPty{}) }

func (f *fake) forgot() bool {
	for _, r := range f.requests() {
		if strings.HasPrefix(r, "DELETE ") {
			return true
		}
	}
	return false
}

// atTerminal runs a command line at a terminal: stdin and stdout are one.
func atTerminal(t *testing.T, f *fake, during func(master *os.File), args ...string) (code int, shown, stderr string) {
	t.Helper()
	master, tty := openTerminal(t, 100)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"WARREN_API_KEY": "secret", "WARREN_API_URL": f.server.URL, "TOKEN": "s3"}
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(t.Context(), args, tty, tty, &errs, func(k string) string { return env[k] }, Local{})
	}()
	during(master)
	code = <-ended
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *after != *before {
		t.Errorf("%v leaves the terminal as %+v, it was %+v", args, after, before)
	}
	const end = "<end>"
	if _, err := tty.WriteString(end); err != nil {
		t.Fatal(err)
	}
	shown = shows(t, master, end)
	_ = tty.Close()
	_, _ = master.WriteString("\n") // ends the read that nothing can interrupt
	_ = master.Close()
	return code, strings.TrimSuffix(shown, end), errs.String()
}

// shows reads what a terminal shows, up to a text.
func shows(t *testing.T, master *os.File, end string) string {
	t.Helper()
	var out []byte
	buf := make([]byte, 1)
	for !bytes.HasSuffix(out, []byte(end)) {
		if _, err := master.Read(buf); err != nil {
			t.Fatalf("%v, after %q", err, out)
		}
		out = append(out, buf...)
	}
	return string(out)
}

// TestExecTerminal: the command's line, variables and size are sent, ^C is a key for the
// command, size changes follow, the status is the command's, and its output stays on the screen.
func TestExecTerminal(t *testing.T) {
	f := newFake(t)
	f.deletes()
	resized := make(chan struct{})
	f.terminals(`{}`, func(ctx context.Context, r *http.Request, conn *websocket.Conn) {
		if want := "/v1/vms/box/pty?cols=100&cwd=%2Fw&env=TOKEN%3Ds3&exec=exec+sh+-c+%27echo+%22%24TOKEN%22%27&rows=24"; r.RequestURI != want {
			t.Errorf("the client asked for %s\nwant %s", r.RequestURI, want)
		}
		if r.Header.Get(api.HeaderLinuxUser) != "dev" {
			t.Errorf("the client asked as %q, want dev", r.Header.Get(api.HeaderLinuxUser))
		}
		_ = conn.Write(ctx, websocket.MessageBinary, []byte("ready"))
		if _, data := frame(t, ctx, conn); data != "ab\x03\x1d\x10\x11" {
			t.Errorf("typed %q", data)
		}
		close(resized)
		if m, _ := frame(t, ctx, conn); m.Type != "resize" || m.Cols != 60 || m.Rows != 20 {
			t.Errorf("after the resize the client sent %+v, want 60 columns and 20 rows", m)
		}
		_ = conn.Write(ctx, websocket.MessageBinary, []byte("out\r\n"))
		exits(ctx, conn, 3)
	})
	code, shown, stderr := atTerminal(t, f, func(master *os.File) {
		shows(t, master, "ready")
		if _, err := master.WriteString("ab\x03\x1d\x10\x11"); err != nil {
			t.Error(err)
		}
		<-resized
		if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 60}); err != nil {
			t.Error(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil { // as the kernel does for the terminal's own programs
			t.Error(err)
		}
	}, "exec", "-it", "box", "--user", "dev", "--cwd", "/w", "-e", "TOKEN", "--", "sh", "-c", `echo "$TOKEN"`)
	if code != 3 || shown != "out\r\n" || stderr != "" {
		t.Errorf("exec -it: status %d, shown %q, stderr %q, want 3 and the output", code, shown, stderr)
	}
	if !f.forgot() {
		t.Error("the terminal is still listed")
	}
}

// TestExecTerminalCalmed: the terminal's modes are reset after a program that
// changed them; the alternate screen is left, too.
func TestExecTerminalCalmed(t *testing.T) {
	for out, want := range map[string]string{
		"\x1b[31mred\x1b[?25l":                 "\x1b[31mred\x1b[?25l" + calmHere,
		"\x1b[?1049hvim":                       "\x1b[?1049hvim" + calm,
		"\x1b[?25;1049hvim\x1b[?1049l\x1b[?7h": "\x1b[?25;1049hvim\x1b[?1049l\x1b[?7h" + calmHere,
	} {
		f := newFake(t)
		f.deletes()
		f.terminals(`{}`, func(ctx context.Context, _ *http.Request, conn *websocket.Conn) {
			_ = conn.Write(ctx, websocket.MessageBinary, []byte(out))
			exits(ctx, conn, 0)
		})
		code, shown, _ := atTerminal(t, f, func(*os.File) {}, "exec", "-it", "box", "--", "cmd")
		if code != 0 || strings.ReplaceAll(shown, "\r\n", "\n") != strings.ReplaceAll(want, "\r\n", "\n") {
			t.Errorf("exec -it: status %d, shown %q, want 0 and %q", code, shown, want)
		}
	}
}

// TestExecTerminalWatched: -t alone passes no input and needs no terminal
// here; ^C is passed on once.
func TestExecTerminalWatched(t *testing.T) {
	f := newFake(t)
	f.deletes()
	f.terminals(`{}`, func(ctx context.Context, r *http.Request, conn *websocket.Conn) {
		_ = conn.Write(ctx, websocket.MessageBinary, []byte("ready"))
		if r.URL.Query().Get("cols") == "80" { // nobody is at a terminal
			exits(ctx, conn, 4)
			return
		}
		if m, data := frame(t, ctx, conn); m.Type != "signal" || m.Signal != "SIGINT" {
			t.Errorf("the client sent %+v %q, want signal SIGINT", m, data)
		}
		exits(ctx, conn, 130)
	})
	env := map[string]string{"WARREN_API_KEY": "secret", "WARREN_API_URL": f.server.URL}
	in, out := strings.NewReader("not passed on"), &bytes.Buffer{}
	alone := Main(t.Context(), []string{"exec", "-t", "box", "--", "cmd"}, in, out, io.Discard, func(k string) string { return env[k] }, Local{})
	if alone != 4 || out.String() != "ready" || !f.forgot() {
		t.Errorf("exec -t without a terminal: status %d, output %q, want 4, the output and no session left", alone, out)
	}
	if in.Len() != len("not passed on") {
		t.Errorf("%d bytes of input were read", len("not passed on")-in.Len())
	}
	code, _, _ := atTerminal(t, f, func(master *os.File) {
		shows(t, master, "ready")
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}, "exec", "-t", "box", "--", "cmd")
	if code != 130 {
		t.Errorf("the interrupted command ended with status %d, want 130", code)
	}
}
