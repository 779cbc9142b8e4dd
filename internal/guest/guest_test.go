// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// saying returns a client of a guest that answers every request with raw bytes
// and then closes the stream.
func saying(t *testing.T, raw string) *Client {
	t.Helper()
	c := New(func(context.Context) (net.Conn, error) {
		host, guest := net.Pipe()
		go func() {
			defer guest.Close()
			buf := make([]byte, 64<<10)
			if _, err := guest.Read(buf); err == nil {
				go func() { _, _ = io.Copy(io.Discard, guest) }()
				_, _ = io.WriteString(guest, raw)
			}
		}()
		return host, nil
	})
	t.Cleanup(c.Close)
	return c
}

func frame(t link.FrameType, payload string) string {
	var b strings.Builder
	_ = link.WriteFrame(&b, t, []byte(payload))
	return b.String()
}

// A guest that lies, sends garbage or leaves causes a fault of the guest:
// never a hang, a panic or a success.
func TestBadGuest(t *testing.T) {
	const upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: warren-exec\r\n\r\n"
	started := frame(link.FrameStarted, string(link.EncodeProcess(vm.Process{ID: "p1"})))
	for name, raw := range map[string]string{
		"nothing":            "",
		"empty answer":       "HTTP/1.1 204 No Content\r\n\r\n",
		"noise":              "\x00\xff noise",
		"not found, no body": "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
		"an error of HTML":   "HTTP/1.1 500 Oops\r\nContent-Length: 6\r\n\r\n<html>",
		"cut":                "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
		"nonsense":           "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"no process":         upgrade,
		"wrong frame":        upgrade + frame(link.FrameStdout, "x"),
		"bad process":        upgrade + frame(link.FrameStarted, "\xff"),
		"no exit":            upgrade + started + frame(link.FrameStdout, "x"),
		"bad exit":           upgrade + started + frame(link.FrameExit, "\xff"),
		"bad ack":            upgrade + started + frame(link.FrameStdinAck, "x"),
		"started twice":      upgrade + started + started,
		"overlong frame":     upgrade + started + "\x03\xff\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			c := saying(t, raw)
			calls := map[string]func() error{
				"hello":     func() error { _, err := c.Hello(ctx); return err },
				"processes": func() error { _, err := c.Processes(ctx); return err },
				"stat":      func() error { _, err := c.Stat(ctx, "", "/"); return err },
				"exec": func() error {
					e, err := c.Exec(ctx, vm.ExecSpec{Argv: []string{"x"}})
					if err == nil {
						_, err = e.Run(io.Discard, io.Discard)
					}
					return err
				},
				"open": func() error {
					_, r, err := c.Open(ctx, "", "/")
					if err == nil {
						_, err = io.Copy(io.Discard, r)
					}
					return err
				},
			}
			for verb, call := range calls {
				if err := call(); !errors.Is(err, vm.GuestFault) {
					t.Errorf("%s against a bad answer: %v, want guest-fault", verb, err)
				}
			}
		})
	}
}

// A caller that gives up gets its own reason, and a silent guest does not block it.
func TestSilentGuest(t *testing.T) {
	c := New(func(context.Context) (net.Conn, error) {
		host, guest := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, guest) }()
		return host, nil
	})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Hello(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hello: %v", err)
	}
	if _, err := c.Exec(ctx, vm.ExecSpec{Argv: []string{"x"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("exec: %v", err)
	}
	down := New(func(context.Context) (net.Conn, error) { return nil, errors.New("no monitor") })
	defer down.Close()
	if _, err := down.Hello(t.Context()); !errors.Is(err, vm.GuestFault) {
		t.Errorf("no stream: %v", err)
	}
}

// An upload whose source is stuck does not outlive its context or its link.
func TestStuckUpload(t *testing.T) {
	for name, c := range map[string]struct {
		client *Client
		want   error
	}{
		"context":     {New(func(context.Context) (net.Conn, error) { a, b := net.Pipe(); go drain(b); return a, nil }), context.DeadlineExceeded},
		"link":        {saying(t, ""), vm.GuestFault},
		"told before": {saying(t, "HTTP/1.1 400 Bad Request\r\nContent-Length: 19\r\n\r\n{\"kind\":\"no-space\"}"), vm.NoSpace},
	} {
		stuck, w := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := c.client.WriteFile(ctx, "", "/x", vm.WriteOptions{Size: 100}, stuck)
		if !errors.Is(err, c.want) {
			t.Errorf("a write that ends with %s: %v, want %v", name, err, c.want)
		}
		cancel()
		_ = w.Close()
		c.client.Close()
	}
}

func drain(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
