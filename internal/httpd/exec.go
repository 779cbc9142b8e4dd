// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

const (
	captured = 8 << 20 // bytes that exec-await returns of each stream
	// awaitLimit ends an exec-await before the client gives up: fetch waits 300 s for an
	// answer.
	awaitLimit  = 290 * time.Second
	specLimit   = 4 << 20   // of the first WebSocket message: the command
	frameLimit  = 128 << 10 // of the other messages
	inputFrames = 32        // that may wait until a command reads them
	writeWithin = 60 * time.Second
)

// capture keeps the head of a stream and discards the rest, beyond captured bytes or when
// memory runs short.
type capture struct {
	mu      sync.Mutex // one command's streams may come from two goroutines
	buf     bytes.Buffer
	reserve func(bytes int64) error
	steps   int // reserved steps; the first is free
	room    int // bytes left before another step is reserved
	more    bool
}

// captureStep is how many bytes a capture reserves at a time.
const captureStep = 256 << 10

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more {
		return len(p), nil
	}
	keep := p[:min(len(p), captured-c.buf.Len())]
	for c.room < len(keep) {
		// The buffer, its text and their JSON exist at the same time.
		if c.steps > 0 && c.reserve(4*captureStep) != nil {
			keep = keep[:c.room]
			break
		}
		c.steps++
		c.room += captureStep
	}
	c.more = len(keep) < len(p)
	c.room -= len(keep)
	c.buf.Write(keep)
	return len(p), nil
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ToValidUTF8(c.buf.String(), "\uFFFD")
}

func (s *server) execAwait(q *request) error {
	var in api.ExecAwait
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.Command == "" {
		return vm.Errorf(vm.Invalid, "command", "no command is given").WithHint("send {\"command\": \"...\"}")
	}
	limit := awaitLimit
	if in.Timeout != nil {
		if *in.Timeout <= 0 {
			return vm.Errorf(vm.Invalid, "timeoutMs", "must be more than 0, or null")
		}
		limit = min(limit, time.Duration(*in.Timeout))
	}
	spec := vm.ExecSpec{Command: in.Command, User: q.user(), Timeout: vm.Millis(limit), Turn: in.Turn, Summary: in.Summary}
	around, err := s.before(q, &spec)
	if err != nil {
		return err
	}
	defer around.drop()
	x, err := s.Inside.Exec(q.Context(), q.call, q.ref(), spec)
	if err != nil {
		return err
	}
	out, errs := capture{reserve: q.reserve}, capture{reserve: q.reserve}
	status, err := x.Run(&out, &errs)
	if err != nil {
		return err
	}
	if status.TimedOut {
		return vm.Errorf(vm.Timeout, q.ref(), "the command ran longer than %s and was ended", limit).
			WithCode("EXEC_TIMED_OUT", "timeoutMs", limit.Milliseconds(), "stdout", out.text(), "stderr", errs.text()).
			WithHint("give a longer timeoutMs, or start it with POST /v1/vms/{id}/processes")
	}
	return q.ok(api.ExecResult{Stdout: out.text(), Stderr: errs.text(), StatusCode: status.Code, Truncated: out.more || errs.more, Turn: around.turn, Summary: around.after(q.Context(), x.Process().Cwd)})
}

// socket is the server's end of one exec WebSocket.
type socket struct {
	s    *server
	ctx  context.Context
	conn *websocket.Conn
	mu   sync.Mutex // serialises frames

	readers sync.WaitGroup // goroutines that handle the client's input
}

func (k *socket) write(kind websocket.MessageType, data []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.ctx, writeWithin)
	defer cancel()
	return k.conn.Write(ctx, kind, data)
}

func (k *socket) message(m api.ExecMessage) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return k.write(websocket.MessageText, data)
}

// channel writes one of the process's streams as frames.
type channel struct {
	*socket
	id  byte
	buf []byte
}

func (c *channel) Write(p []byte) (int, error) {
	c.buf = append(append(c.buf[:0], c.id), p...)
	if err := c.socket.write(websocket.MessageBinary, c.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// execSocket runs a command over a WebSocket. If the client disconnects, the command
// keeps running in the background.
func (s *server) execSocket(q *request) error {
	if !strings.EqualFold(q.Header.Get("Upgrade"), "websocket") {
		return vm.Errorf(vm.Invalid, q.URL.Path, "is a WebSocket").WithHint("use POST for lines of JSON, or /exec-await")
	}
	conn, err := s.upgrade(q)
	if err != nil {
		return nil // Accept has answered
	}
	ctx, cancel := s.connected(q)
	k := &socket{s: s, ctx: ctx, conn: conn}
	defer k.readers.Wait()
	defer conn.CloseNow()
	defer cancel()
	conn.SetReadLimit(specLimit)
	if err := s.runSocket(ctx, q, k); err != nil {
		body := s.errorBody(q.Context(), err, q.call, q.ref())
		if k.message(api.ExecMessage{Type: "error", Error: &body}) == nil {
			_ = conn.Close(closeStatus(err), "")
		}
		return nil
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return nil
}

// closeStatus is the WebSocket status for an error. It tells the client whether to try
// again.
func closeStatus(err error) websocket.StatusCode {
	switch vm.KindOf(err) {
	case vm.Unauthenticated, vm.Denied:
		return websocket.StatusPolicyViolation
	}
	return websocket.StatusNormalClosure
}

// maxReason bounds the text of a close frame, which holds 123 bytes.
const maxReason = 120

// closeReason is the text of a close frame for an error.
func closeReason(err error) string {
	text := cmp.Or(vm.AsError(err).Msg, err.Error())
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

func (s *server) runSocket(ctx context.Context, q *request, k *socket) error {
	kind, data, err := k.conn.Read(ctx)
	if err != nil || kind != websocket.MessageText {
		return vm.Errorf(vm.Invalid, q.ref(), "the first frame must be the command as JSON text")
	}
	var spec vm.ExecSpec
	if err := json.Unmarshal(data, &spec); err != nil {
		return vm.Errorf(vm.Invalid, q.ref(), "the command is not what this route takes: %s", jsonFault(err))
	}
	if spec.User == "" {
		spec.User = q.user()
	}
	around, err := s.before(q, &spec)
	if err != nil {
		return err
	}
	defer around.drop()
	attached, detach := context.WithCancel(ctx)
	defer detach()
	// The client may leave while the command waits for an approval.
	k.conn.SetReadLimit(frameLimit)
	input, running := make(chan []byte, inputFrames), &atomic.Pointer[engine.Exec]{}
	k.readers.Go(func() { k.listen(attached, running, input); detach() }) // the client has disconnected or detached
	x, err := s.Inside.Exec(attached, q.call, q.ref(), spec)
	if err != nil {
		return err
	}
	running.Store(&x)
	p := x.Process()
	if err := k.message(api.ExecMessage{Type: "started", Process: &p, Turn: around.turn}); err != nil {
		return errors.Join(err, x.Detach())
	}
	k.readers.Go(func() { feed(attached, x, input) })
	status, err := x.Run(&channel{socket: k, id: api.ChannelStdout}, &channel{socket: k, id: api.ChannelStderr})
	if err == nil {
		err = k.message(api.ExecMessage{Type: "exit", Status: &status, Summary: around.after(attached, p.Cwd)})
	} else if attached.Err() != nil {
		err = nil // it keeps running in the background
	}
	return err
}

// feed writes the client's input to a command; an empty piece ends it. It runs beside
// listen, so that a signal overtakes input that the command does not read.
func feed(ctx context.Context, x engine.Exec, input <-chan []byte) {
	for {
		select {
		case data := <-input:
			if len(data) == 0 {
				_ = x.CloseStdin()
				return
			}
			if _, err := x.Write(data); err != nil {
				continue // not reading input is no error
			}
		case <-ctx.Done():
			return
		}
	}
}

// listen handles the client's frames until it disconnects or detaches. running is nil until
// the command has started.
func (k *socket) listen(ctx context.Context, running *atomic.Pointer[engine.Exec], input chan<- []byte) {
	give := func(data []byte) {
		select {
		case input <- data:
		case <-ctx.Done():
		}
	}
	for {
		kind, data, err := k.conn.Read(k.ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if len(data) > 1 && data[0] == api.ChannelStdin {
				give(data[1:])
			}
			continue
		}
		var m api.ExecMessage
		if json.Unmarshal(data, &m) != nil {
			continue // unknown frames are ignored
		}
		switch m.Type {
		case "stdinEof":
			give(nil)
		case "signal":
			err := error(vm.Errorf(vm.WrongState, m.Signal, "the command has not started yet"))
			if x := running.Load(); x != nil {
				err = (*x).Signal(m.Signal)
			}
			if err != nil {
				body := k.s.errorBody(ctx, err, &vm.Call{}, "")
				_ = k.message(api.ExecMessage{Type: "warning", Error: &body})
			}
		case "detach":
			return
		}
	}
}

// lines writes messages as lines of JSON.
type lines struct {
	mu sync.Mutex
	w  io.Writer
	f  http.Flusher
}

func (l *lines) message(m any) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(append(data, '\n')); err != nil {
		return err
	}
	l.f.Flush()
	return nil
}

// keepAlive writes a blank line now and then until ctx ends: clients give up connections on
// which nothing arrives.
func (l *lines) keepAlive(ctx context.Context) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.mu.Lock()
			_, err := l.w.Write([]byte{'\n'})
			l.f.Flush()
			l.mu.Unlock()
			if err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

type lineStream struct {
	*lines
	name string
}

func (s lineStream) Write(p []byte) (int, error) {
	if err := s.message(api.ExecMessage{Type: s.name, Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ndjson begins an answer of JSON lines.
func (q *request) ndjson() *lines {
	q.header("application/x-ndjson")
	q.w.WriteHeader(http.StatusOK)
	f := http.NewResponseController(q.w)
	return &lines{w: q.w, f: flusher{f}}
}

type flusher struct{ *http.ResponseController }

// Flush sends the buffer. If the caller has gone, the next write fails.
func (f flusher) Flush() { _ = f.ResponseController.Flush() }

// endWithin is how long ending a command that nobody waits for may take.
const endWithin = 15 * time.Second

// endOwned ends a command whose caller has left.
func (s *server) endOwned(ctx context.Context, q *request, user, process string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	err := s.Inside.SignalProcess(ctx, q.call, q.ref(), user, process, "KILL")
	if err != nil && !errors.Is(err, vm.NotFound) && !errors.Is(err, vm.WrongState) {
		s.Log.Warn("a command outlives its caller", "vm", q.ref(), "process", process, "err", err)
	}
}

func (s *server) execChunked(q *request) error {
	var in api.ExecChunked
	if err := q.decode(&in, maxFileBody); err != nil {
		return err
	}
	if in.User == "" {
		in.User = q.user()
	}
	in.Stdin = in.Stdin || len(in.Input) > 0
	around, err := s.before(q, &in.ExecSpec)
	if err != nil {
		return err
	}
	defer around.drop()
	ctx, cancel := s.streaming(q)
	defer cancel()
	x, err := s.Inside.Exec(ctx, q.call, q.ref(), in.ExecSpec)
	if err != nil {
		return err
	}
	l := q.ndjson()
	p := x.Process()
	if err := l.message(api.ExecMessage{Type: "started", Process: &p, Turn: around.turn}); err != nil {
		return errors.Join(err, x.Detach())
	}
	var fed sync.WaitGroup
	defer fed.Wait()
	fed.Go(func() { l.keepAlive(ctx) })
	defer cancel() // ends input that the command did not read
	if in.Stdin {
		fed.Go(func() {
			_, _ = x.Write(in.Input) // not reading input is no error
			_ = x.CloseStdin()
			in.Input = nil
			q.letGo()
		})
	}
	status, err := x.Run(lineStream{l, "stdout"}, lineStream{l, "stderr"})
	if err != nil && in.Owned {
		s.endOwned(ctx, q, in.User, p.ID)
	}
	if err != nil {
		body := s.errorBody(q.Context(), err, q.call, q.ref())
		_ = l.message(api.ExecMessage{Type: "error", Error: &body})
		return nil
	}
	_ = l.message(api.ExecMessage{Type: "exit", Status: &status, Summary: around.after(ctx, p.Cwd)})
	return nil
}
