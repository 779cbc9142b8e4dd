// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// TestMain lets the test binary be the monitor and a simulated QEMU as well:
// real processes, sockets and signals without a guest.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "-spec":
			os.Exit(monitorMain())
		case "-name":
			os.Exit(newFake(os.Args).run())
		}
	}
	os.Exit(m.Run())
}

func monitorMain() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	o := Options{
		Spec: os.Args[2], Attach: slices.Contains(os.Args, "-attach"), Status: os.NewFile(statusFD, "status"), Keys: os.NewFile(keysFD, "keys"),
		Log: slog.New(slog.NewTextHandler(LogOutput(os.Args[2]), nil)),
	}
	syscall.CloseOnExec(statusFD)
	syscall.CloseOnExec(keysFD)
	if err := Main(ctx, o); err != nil {
		o.Log.Error("monitor", "err", err)
		return 1
	}
	return 0
}

// fake is a QEMU with a guest whose behaviour is spelled in the name of its
// CPU model, as words joined by "+".
type fake struct {
	words    []string
	incoming bool
	quit     chan struct{}
	consoles chan net.Conn // who reads what the guest says
	once     sync.Once

	mu     sync.Mutex
	status string
	full   int // how often it must be resumed before there is room
	mon    net.Conn
	key    []byte
	before []byte // the key that a session may still begin with; nil = none
	digest string
	wakes  int

	plug  plugs
	disks disks
}

func newFake(args []string) *fake {
	f := &fake{quit: make(chan struct{}), consoles: make(chan net.Conn, 16), status: "running", digest: "old"}
	for i, a := range args {
		switch a {
		case "-cpu":
			f.words = strings.Split(args[i+1], "+")
		case "-object", "-device":
			f.disks.argument(args[i+1])
		case "-incoming":
			f.incoming, f.status = true, "inmigrate"
		case "-readconfig":
			config, err := os.ReadFile(args[i+1])
			if err != nil {
				panic(err)
			}
			_, hex, _ := strings.Cut(string(config), "warren.key=")
			fmt.Sscanf(hex, "%x", &f.key)
		}
	}
	if f.incoming {
		f.key = []byte(strings.Repeat("g", link.KeySize))
		if f.is("other-key") {
			f.key = []byte(strings.Repeat("o", link.KeySize))
		}
	}
	return f
}

// console waits for whoever keeps what the guest says.
func (f *fake) console() net.Conn { return <-f.consoles }

func (f *fake) is(word string) bool { return slices.Contains(f.words, word) }

// run is the process: its descriptors are those of package qemu.
func (f *fake) run() int {
	if f.is("refuse") {
		fmt.Fprintln(os.Stderr, "qemu-system-x86_64: this machine is refused")
		return 1
	}
	listeners := make([]net.Listener, 4)
	for i := range listeners {
		l, err := net.FileListener(os.NewFile(uintptr(3+i), "socket"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		listeners[i] = l
	}
	if f.is("full") {
		go f.fillOnSignal()
	}
	if f.is("prints") {
		flood("first", true)
		go func() {
			asked := make(chan os.Signal, 1)
			signal.Notify(asked, syscall.SIGUSR1)
			<-asked
			flood("second", false)
		}()
	}
	go serveAll(listeners[0], f.qmp)
	go f.agent(listeners[1])
	go serveAll(listeners[2], func(c net.Conn) {
		io.WriteString(c, "hello from the console\n")
		f.consoles <- c
		<-f.quit
	})
	go serveAll(listeners[3], func(c net.Conn) { io.Copy(io.Discard, c) })
	<-f.quit
	return 0
}

// flood prints 4 MiB. What nobody reads in time is lost, or, with patience,
// tried again.
func flood(word string, patience bool) {
	line := []byte(strings.Repeat(word+" ", 500) + "\n")
	for n := 0; n < 4<<20; {
		if k, err := syscall.Write(2, line); err == nil {
			n += k
		} else if !patience {
			n += len(line)
		}
	}
}

func serveAll(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		serve(c)
		c.Close()
	}
}

// fillOnSignal makes the machine one whose guest met a full disk, on SIGUSR1:
// it is paused until it was resumed twice.
func (f *fake) fillOnSignal() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		f.mu.Lock()
		f.full, f.status = 2, "io-error"
		fmt.Fprintln(f.mon, `{"event": "BLOCK_IO_ERROR", "data": {"device": "", "node-name": "disk0", "operation": "write", "action": "stop", "nospace": true}, "timestamp": {"seconds": 1, "microseconds": 0}}`)
		f.mu.Unlock()
	}
}

func (f *fake) qmp(c net.Conn) {
	if f.is("mute-qmp") {
		<-f.quit
	}
	f.mu.Lock()
	f.mon = c
	f.mu.Unlock()
	fmt.Fprintln(c, `{"QMP": {"version": {"qemu": {"micro": 0, "minor": 0, "major": 99}, "package": ""}, "capabilities": []}}`)
	dec := json.NewDecoder(bufio.NewReader(c))
	for {
		var q struct {
			Execute, ID string
			Arguments   map[string]any
		}
		if dec.Decode(&q) != nil {
			return
		}
		answer := "{}"
		switch q.Execute {
		case "query-status":
			f.mu.Lock()
			answer = fmt.Sprintf(`{"status": %q}`, f.status)
			f.mu.Unlock()
		case "stop":
			f.mu.Lock()
			f.status = "paused"
			f.mu.Unlock()
		case "cont":
			f.mu.Lock()
			if f.full--; f.full <= 0 {
				f.status = "running"
			}
			f.mu.Unlock()
		case "migrate-incoming":
			if f.is("bad-state") {
				if f.is("late") { // as on a busy host: the connection is closed before the words are read
					c.Close()
					time.Sleep(300 * time.Millisecond)
				}
				fmt.Fprintln(os.Stderr, "qemu-system-x86_64: load of migration failed: Invalid argument")
				os.Exit(1)
			}
			f.mu.Lock()
			f.status = "running"
			f.mu.Unlock()
		}
		disk, refusal, known := f.disks.qmp(q.Execute, q.Arguments)
		if known {
			answer = disk
		} else if plug, known := f.plug.qmp(q.Execute, q.Arguments); known {
			answer = plug
		}
		if refusal != "" {
			class := map[bool]string{true: refusal, false: "GenericError"}[refusal == "DeviceNotFound"]
			fmt.Fprintf(c, "{\"error\": {\"class\": %q, \"desc\": %q}, \"id\": %q}\n", class, refusal, q.ID)
			continue
		}
		if f.is("full") && q.Execute == "device_add" {
			fmt.Fprintf(c, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no room\"}, \"id\": %q}\n", q.ID)
			continue
		}
		fmt.Fprintf(c, "{\"return\": %s, \"id\": %q}\n", answer, q.ID)
		switch q.Execute {
		case "migrate-incoming":
			fmt.Fprintln(c, `{"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 0}}`)
		case "device_del":
			fmt.Fprintf(c, "{\"event\": \"DEVICE_DELETED\", \"data\": {\"device\": %q}, \"timestamp\": {\"seconds\": 1, \"microseconds\": 0}}\n", q.Arguments["id"])
		case "quit":
			f.end("host-qmp-quit")
		}
	}
}

// end is a shutdown of the machine for that reason.
func (f *fake) end(reason string) {
	f.once.Do(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.mon != nil {
			fmt.Fprintf(f.mon, "{\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": %q}, \"timestamp\": {\"seconds\": 1, \"microseconds\": 0}}\n", reason)
		}
		close(f.quit)
	})
}

// agent connects a guest to the socket: like QEMU's port it shows the guest
// nothing of who comes and goes.
func (f *fake) agent(l net.Listener) {
	if f.is("no-agent") {
		return
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	port, inner := os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "inner")
	h := link.Handler{Serve: f.serveAgent, Keys: func() [][]byte {
		f.mu.Lock()
		defer f.mu.Unlock()
		keys := [][]byte{f.key}
		if f.before != nil {
			keys = append(keys, f.before)
		}
		return keys
	}}
	if !f.is("older-agent") {
		h.Wake = func(key, words []byte) ([]byte, func()) { return f.wake(key, words), func() {} }
	}
	go link.Guest(context.Background(), port, h)
	var mu sync.Mutex
	var host net.Conn
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := inner.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			if host != nil {
				host.Write(buf[:n])
			}
			mu.Unlock()
		}
	}()
	serveAll(l, func(c net.Conn) {
		mu.Lock()
		host = c
		mu.Unlock()
		io.Copy(struct{ io.Writer }{inner}, struct{ io.Reader }{c})
		mu.Lock()
		host = nil
		mu.Unlock()
	})
}

// hello is what the agent says of itself, with the report of its resets.
func (f *fake) hello(report vm.ResetReport) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return link.EncodeWake(vm.AgentHello{Protocol: 1, Digest: f.digest, Booted: true}, report)
}

// wake is the agent's, asked for with key or, where that is nil, in a session.
func (f *fake) wake(key, words []byte) []byte {
	if f.is("silent") {
		<-f.quit
	}
	if f.is("dies") {
		os.Exit(1)
	}
	if f.is("panics") {
		fmt.Fprint(f.console(), "[    1.0] Kernel panic - not syncing: no \x1b\x07init\n[    1.1] Rebooting\n")
		f.end("guest-reset")
		select {}
	}
	if f.is("reboots") {
		f.end("guest-reset")
		select {} // no answer any more
	}
	reset, err := link.DecodeReset(words)
	report := vm.ResetReport{}
	for _, name := range vm.Resets {
		report[name] = "ok"
	}
	if err != nil || len(reset.Entropy) != 64 || reset.Time.IsZero() {
		report[vm.ResetRNG] = fmt.Sprint("malformed reset: ", err)
	}
	if f.is("bad-hostname") {
		report[vm.ResetHostname] = "read-only file system"
	}
	f.mu.Lock()
	f.wakes++
	late := f.wakes > 1 && f.is("resets-once") || f.status == "paused"
	f.mu.Unlock()
	if f.is("no-rng") || late {
		delete(report, vm.ResetRNG)
	}
	f.mu.Lock()
	f.before, f.key = key, reset.LinkKey
	f.mu.Unlock()
	return f.hello(report)
}

func (f *fake) serveAgent(l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) {
		if f.is("deaf") {
			<-f.quit
		}
		w.Write(f.hello(nil))
	})
	mux.HandleFunc("/wake", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(f.wake(nil, body))
	})
	mux.HandleFunc("/grow", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if f.is("unwilling") || !f.plug.grown(q.Get("cpus"), q.Get("mem")) {
			w.WriteHeader(http.StatusBadRequest)
			w.Write(link.EncodeError(vm.Errorf(vm.GuestFault, "", "the kernel has found nothing")))
		}
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if f.is("no-room") {
			w.WriteHeader(http.StatusInsufficientStorage)
			w.Write(link.EncodeError(vm.Errorf(vm.NoSpace, "/run/warren/agent.new", "no space left on device")))
			return
		}
		f.mu.Lock()
		f.digest = "new"
		f.mu.Unlock()
	})
	mux.HandleFunc("/poweroff", func(http.ResponseWriter, *http.Request) {
		if !f.is("stubborn") {
			go f.end("guest-shutdown")
		}
	})
	return http.Serve(l, mux)
}
