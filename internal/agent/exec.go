// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// upgraded is the head of an answer that turns into a stream of frames.
const upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: warren-exec\r\n\r\n"

// exec runs a command with its client attached, until the command and the client have ended.
func (a *Agent) exec(w *answer, r *request) error {
	s, err := readSpec(r)
	if err != nil {
		return err
	}
	w.closing = true
	c := &client{w: w.conn}
	p, err := a.launch(r.ctx, s, c, func(p vm.Process) error {
		w.started = true
		started := link.EncodeProcess(p)
		b := make([]byte, len(upgraded)+link.FrameHeader, len(upgraded)+link.FrameHeader+len(started))
		copy(b, upgraded)
		link.PutFrameHeader(b[len(upgraded):], link.FrameStarted, len(started))
		return c.send(append(b, started...))
	})
	if err != nil {
		return err
	}
	frames := link.NewFrameReader(r.in)
	for {
		t, b, err := frames.Next()
		if err != nil {
			break // the client left; after the exit that is normal
		}
		if err := p.clientFrame(t, b); err != nil {
			_ = c.sendFrame(link.FrameError, link.EncodeError(err))
			break
		}
	}
	p.detach(c)
	return nil
}

// clientFrame executes a frame from the attached client.
func (p *process) clientFrame(t link.FrameType, b []byte) error {
	switch t {
	case link.FrameStdin:
		if p.input == nil {
			return vm.Errorf(vm.Invalid, p.info.ID, "input for a command that was started without stdin")
		}
		if !p.input.add(b) {
			return vm.Errorf(vm.Invalid, p.info.ID, "more input than the window allows")
		}
	case link.FrameStdinEOF:
		if p.input != nil {
			p.input.finish()
		}
	case link.FrameSignal:
		s := parseSignal(string(b))
		if s == 0 {
			return vm.Errorf(vm.Invalid, string(b), "no such signal")
		}
		_ = p.kill(s) // a signal to a process that has just ended is no error
	default:
		return vm.Errorf(vm.Invalid, p.info.ID, "unexpected frame %d", t)
	}
	return nil
}

// start runs a command in the background.
func (a *Agent) start(w *answer, r *request) error {
	s, err := readSpec(r)
	if err != nil {
		return err
	}
	s.Background, s.Stdin = true, false
	p, err := a.launch(r.ctx, s, nil, func(vm.Process) error { return nil })
	if err != nil {
		return err
	}
	return w.bytes(link.EncodeProcess(p.view()))
}

func readSpec(r *request) (vm.ExecSpec, error) {
	b, err := r.words()
	if err != nil {
		return vm.ExecSpec{}, err
	}
	s, err := link.DecodeExec(b)
	if err != nil {
		return s, vm.Errorf(vm.Invalid, "", "malformed command: %w", err)
	}
	return s, nil
}

// launch starts a command and adds it to the table. It calls announce before
// it reads any output; if announce fails, the client has already left.
func (a *Agent) launch(ctx context.Context, s vm.ExecSpec, c *client, announce func(vm.Process) error) (*process, error) {
	cmd, err := a.prepare(s)
	if err != nil {
		return nil, err
	}
	cmd.gone = ctx.Done()
	run, err := a.startCommand(cmd, s.Stdin)
	var bad *failed
	if err != nil && !errors.As(err, &bad) {
		return nil, err
	}
	p := newProcess(&a.procs, vm.Process{
		ID: a.procs.newID(), Argv: cmd.argv, User: cmd.user.name, Cwd: cmd.cwd, StartedAt: time.Now().UTC(),
	})
	p.client = c
	if run != nil {
		p.info.PID, p.signalOK = run.pid, true
		p.pidfd, p.outs = run.pidfd, [...]*os.File{run.out, run.err}
	}
	a.procs.add(p)
	if s.Background {
		p.mu.Lock()
		p.openLog(0)
		p.mu.Unlock()
	}
	gone := announce(p.info) != nil
	if bad != nil {
		p.neverStarted(bad)
		return p, nil
	}
	if s.Stdin {
		p.input = newInput(run.in)
		go p.input.feed(c) // ends with the process: see await
	}
	if s.Timeout > 0 {
		p.limit(time.Duration(s.Timeout))
	}
	p.run()
	if gone {
		p.detach(c)
	}
	return p, nil
}

// neverStarted ends a process that could not be started, with the exit status
// that a shell would return.
func (p *process) neverStarted(f *failed) {
	text := make([]byte, link.FrameHeader, link.FrameHeader+len(f.text)+16)
	text = append(append(append(text, "warren: "...), f.text...), '\n')
	p.emit(link.FrameStderr, text)
	p.mu.Lock()
	now := time.Now().UTC()
	p.info.EndedAt, p.info.ExitCode = &now, &f.code
	c := p.client
	p.client = nil
	if p.log != nil {
		p.save()
		p.log.close()
	}
	p.notify()
	close(p.ended)
	p.mu.Unlock()
	if c != nil {
		_ = c.sendFrame(link.FrameExit, link.EncodeExit(vm.ExitStatus{Code: f.code}))
		c.close()
	}
	p.table.trim()
}

func (a *Agent) processes(w *answer, r *request) error {
	views := []vm.Process{}
	for _, p := range a.procs.list() {
		views = append(views, p.view())
	}
	return w.json(views, nil)
}

func (a *Agent) process(w *answer, r *request) error {
	p, err := a.procs.find(r.query.Get("id"))
	if err != nil {
		return err
	}
	return w.json(p.view(), nil)
}

// wait answers when a process has ended.
func (a *Agent) wait(w *answer, r *request) error {
	p, err := a.procs.find(r.query.Get("id"))
	if err != nil {
		return err
	}
	ctx, stop := r.untilGone(w)
	defer stop()
	select {
	case <-p.ended:
		return w.json(p.view(), nil)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal sends a signal to a process group.
func (a *Agent) signal(w *answer, r *request) error {
	p, err := a.procs.find(r.query.Get("id"))
	if err != nil {
		return err
	}
	name := r.query.Get("name")
	s := parseSignal(name)
	if s == 0 {
		return vm.Errorf(vm.Invalid, name, "no such signal").WithHint("use a name such as TERM, KILL or INT")
	}
	return w.done(p.kill(s))
}

// forget removes an ended process and its log.
func (a *Agent) forget(w *answer, r *request) error {
	p, err := a.procs.find(r.query.Get("id"))
	if err != nil {
		return err
	}
	if !p.over() {
		return vm.Errorf(vm.WrongState, p.info.ID, "the process, or a child that holds its output, still runs").
			WithHint("signal it first")
	}
	a.procs.forget(p)
	return w.done(nil)
}

// readLog sends a log from an absolute offset; with follow it continues until
// the process has ended.
func (a *Agent) readLog(w *answer, r *request) error {
	p, err := a.procs.find(r.query.Get("id"))
	if err != nil {
		return err
	}
	from, err := r.number("from")
	if err != nil {
		return err
	}
	p.mu.Lock()
	l := p.log
	p.mu.Unlock()
	if l == nil {
		return vm.Errorf(vm.NotFound, p.info.ID, "the process has no log: its output goes or went to an attached client")
	}
	first, end := l.bounds()
	if from < 0 {
		from += end
	}
	from = min(max(from, first), end)
	ctx, stop := r.untilGone(w)
	defer stop()
	if err := w.head(-1, "Warren-Offset: "+strconv.FormatInt(from, 10)+"\r\n"); err != nil {
		return err
	}
	out := &chunkWriter{w: w.conn}
	buf := make([]byte, 64<<10)
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		over := isClosed(p.ended)
		n, at, err := l.readAt(buf, from)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
			from = at + int64(n)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if over || !r.flag("follow") {
			return out.end()
		}
		select {
		case <-changed:
		case <-p.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// terminate sends a signal to every running process.
func (t *table) terminate(s syscall.Signal) {
	for _, p := range t.list() {
		_ = p.kill(s) // processes that have ended are skipped
	}
}

// userPath returns the request's user and the absolute path.
func (a *Agent) userPath(q url.Values, name string) (linuxUser, string, error) {
	u, err := a.users.find(q.Get("user"))
	if err != nil {
		return u, "", err
	}
	if u.rules, err = decodeRules(q.Get("rules")); err != nil {
		return u, "", err
	}
	p, err := u.abs(q.Get(name))
	return u, p, err
}
