// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// process is one command in a simulated guest.
type process struct {
	g       *guest
	stdin   *io.PipeReader
	input   *io.PipeWriter
	signals chan string
	done    chan struct{} // closed when it has ended

	mu sync.Mutex
	// guarded by mu
	info    vm.Process
	status  vm.ExitStatus
	chunks  []chunk
	changed chan struct{} // closed and replaced after each chunk of output
}

type chunk struct {
	stderr bool
	data   []byte
}

// signalNumbers of the signals that the simulator knows.
var signalNumbers = map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15}

// spawn starts a command.
func (g *guest) spawn(ctx context.Context, spec vm.ExecSpec, background bool) (*process, error) {
	if _, err := g.disk.uid(spec.User); err != nil {
		return nil, err
	}
	cwd, err := g.disk.begin(spec.User, spec.Cwd)
	if err != nil {
		return nil, err
	}
	argv := spec.Argv
	if spec.Command != "" {
		argv = []string{"/bin/bash", "-c", spec.Command}
	}
	user := spec.User
	if user == "" {
		user = "root"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seq++
	p := &process{
		g: g, signals: make(chan string, 8), done: make(chan struct{}), changed: make(chan struct{}),
		info: vm.Process{
			ID: "p" + strconv.Itoa(g.seq), PID: 100 + g.seq, Argv: argv, User: user, Cwd: cwd,
			StartedAt: time.Now().UTC(), Background: background,
		},
	}
	p.stdin, p.input = io.Pipe()
	if !spec.Stdin || background {
		_ = p.input.Close() // a pipe's close does not fail
	}
	g.procs[p.info.ID] = p
	go p.run(context.WithoutCancel(ctx), spec, cwd) // ends with the command, a signal or the machine
	return p, nil
}

// run carries out the command and records how it ended.
func (p *process) run(ctx context.Context, spec vm.ExecSpec, cwd string) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sh := &shell{
		disk: p.g.disk, user: spec.User, cwd: cwd, ctx: ctx, net: p.g.m.mode,
		env:   map[string]string{"HOME": home(spec.User), "HOSTNAME": p.g.m.spec.Reset.Hostname},
		stdin: p.stdin, stdout: streamWriter{p.write, false}, stderr: streamWriter{p.write, true},
	}
	maps.Copy(sh.env, spec.Env)
	result := make(chan int, 1)
	go func() { // ends with ctx at the latest
		defer sh.close()
		if spec.Command != "" {
			result <- sh.script(spec.Command)
		} else {
			result <- sh.program(spec.Argv)
		}
	}()
	var limit <-chan time.Time
	if spec.Timeout > 0 {
		t := time.NewTimer(time.Duration(spec.Timeout))
		defer t.Stop()
		limit = t.C
	}
	var st vm.ExitStatus
	select {
	case code := <-result:
		st.Code = code
	case sig := <-p.signals:
		st = vm.ExitStatus{Code: 128 + signalNumbers[sig], Signal: sig}
	case <-limit:
		st = vm.ExitStatus{Code: 137, Signal: "KILL", TimedOut: true}
	case <-p.g.m.gone:
		st = vm.ExitStatus{Code: 137, Signal: "KILL"}
	}
	_ = p.stdin.Close()
	p.finish(st)
}

func (p *process) finish(st vm.ExitStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now().UTC()
	p.status = st
	p.info.EndedAt, p.info.ExitCode = &now, &st.Code
	p.info.Signal, p.info.TimedOut = st.Signal, st.TimedOut
	close(p.done)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *process) write(stderr bool, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info.EndedAt != nil {
		return
	}
	p.chunks = append(p.chunks, chunk{stderr, bytes.Clone(data)})
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *process) snapshot() vm.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.info
	if out.Background {
		out.LogBytes = int64(len(p.logLocked()))
	}
	return out
}

func (p *process) logLocked() []byte {
	var b []byte
	for _, c := range p.chunks {
		b = append(b, c.data...)
	}
	return b
}

func (p *process) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info.Background = true
}

func (p *process) signal(name string) error {
	if signalNumbers[name] == 0 {
		return vm.Errorf(vm.Invalid, name, "no such signal")
	}
	select {
	case <-p.done:
		return vm.Errorf(vm.WrongState, p.info.ID, "the process has ended")
	case p.signals <- name:
		return nil
	default:
		return nil // a signal has killed it already
	}
}

// attached implements engine.Exec.
type attached struct {
	*process
	ctx context.Context
}

func (a *attached) Process() vm.Process         { return a.snapshot() }
func (a *attached) Write(b []byte) (int, error) { return a.input.Write(b) }
func (a *attached) CloseStdin() error           { return a.input.Close() }
func (a *attached) Signal(name string) error    { return a.signal(name) }
func (a *attached) Detach() error               { a.detach(); return nil }

// Run copies output until the command ends. If the context ends first, the command keeps
// running in the background.
func (a *attached) Run(stdout, stderr io.Writer) (vm.ExitStatus, error) {
	for next := 0; ; {
		a.mu.Lock()
		chunks, changed, ended := a.chunks[next:], a.changed, a.info.EndedAt != nil
		a.mu.Unlock()
		next += len(chunks)
		for _, c := range chunks {
			w := stdout
			if c.stderr {
				w = stderr
			}
			if w == nil {
				continue
			}
			if _, err := w.Write(c.data); err != nil {
				a.detach()
				return vm.ExitStatus{}, fmt.Errorf("output: %w", err)
			}
		}
		if ended && len(chunks) == 0 {
			return a.over()
		}
		if ended {
			continue
		}
		select {
		case <-changed:
		case <-a.ctx.Done():
			a.detach()
			return vm.ExitStatus{}, context.Cause(a.ctx)
		}
	}
}

// over returns the exit status, or an error if the link broke first.
func (a *attached) over() (vm.ExitStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.g.m.alive() {
		return vm.ExitStatus{}, vm.Errorf(vm.GuestFault, a.info.ID, "the link broke before an exit status came")
	}
	return a.status, nil
}

func (g *guest) Exec(ctx context.Context, spec vm.ExecSpec) (engine.Exec, error) {
	if err := g.enter(ctx, "exec"); err != nil {
		return nil, err
	}
	p, err := g.spawn(ctx, spec, false)
	if err != nil {
		return nil, err
	}
	return &attached{p, ctx}, nil
}

func (g *guest) Start(ctx context.Context, spec vm.ExecSpec) (vm.Process, error) {
	if err := g.enter(ctx, "start"); err != nil {
		return vm.Process{}, err
	}
	p, err := g.spawn(ctx, spec, true)
	if err != nil {
		return vm.Process{}, err
	}
	return p.snapshot(), nil
}

func (g *guest) Processes(ctx context.Context) ([]vm.Process, error) {
	if err := g.enter(ctx, "processes"); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []vm.Process{}
	for _, p := range g.procs {
		list = append(list, p.snapshot())
	}
	slices.SortFunc(list, func(a, b vm.Process) int { return cmp.Compare(a.PID, b.PID) })
	return list, nil
}

func (g *guest) find(ctx context.Context, verb, id string) (*process, error) {
	if err := g.enter(ctx, verb); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.procs[id]
	if p == nil {
		return nil, vm.Errorf(vm.NotFound, id, "no such process").WithCode("NOT_FOUND")
	}
	return p, nil
}

func (g *guest) Process(ctx context.Context, id string) (vm.Process, error) {
	p, err := g.find(ctx, "process", id)
	if err != nil {
		return vm.Process{}, err
	}
	return p.snapshot(), nil
}

func (g *guest) Wait(ctx context.Context, id string) (vm.Process, error) {
	p, err := g.find(ctx, "wait", id)
	if err != nil {
		return vm.Process{}, err
	}
	select {
	case <-p.done:
		return p.snapshot(), nil
	case <-ctx.Done():
		return vm.Process{}, context.Cause(ctx)
	}
}

func (g *guest) Signal(ctx context.Context, id, name string) error {
	p, err := g.find(ctx, "signal", id)
	if err != nil {
		return err
	}
	return p.signal(name)
}

func (g *guest) Forget(ctx context.Context, id string) error {
	p, err := g.find(ctx, "forget", id)
	if err != nil {
		return err
	}
	if p.snapshot().EndedAt == nil {
		return vm.Errorf(vm.Busy, id, "the process is running")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.procs, id)
	return nil
}

func (g *guest) Log(ctx context.Context, id string, from int64, follow bool) (io.ReadCloser, int64, error) {
	p, err := g.find(ctx, "log", id)
	if err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	from = min(from, int64(len(p.logLocked())))
	return &logReader{p: p, ctx: ctx, at: from, follow: follow}, from, nil
}

type logReader struct {
	p      *process
	ctx    context.Context
	at     int64
	follow bool
}

func (r *logReader) Read(b []byte) (int, error) {
	for {
		r.p.mu.Lock()
		data, changed, ended := r.p.logLocked()[r.at:], r.p.changed, r.p.info.EndedAt != nil
		r.p.mu.Unlock()
		if len(data) > 0 {
			n := copy(b, data)
			r.at += int64(n)
			return n, nil
		}
		if ended || !r.follow {
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		}
	}
}

func (r *logReader) Close() error { return nil }

// streamWriter writes to one of a process's two outputs.
type streamWriter struct {
	out    func(stderr bool, data []byte)
	stderr bool
}

func (w streamWriter) Write(p []byte) (int, error) {
	w.out(w.stderr, p)
	return len(p), nil
}
