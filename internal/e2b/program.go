// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func itoa(n int) string { return strconv.Itoa(n) }

type programKey struct {
	vm  vm.ID
	pid int
}

const (
	maxChunk = 32 << 10         // bytes of output in one event
	backlog  = 16               // events that wait for one client; then the program waits
	exitKept = 30 * time.Second // how long a client may still learn of an exit
)

// program is a command or a terminal of a sandbox to which the door is attached. Its output
// goes to those who subscribe, and to nobody if there are none.
type program struct {
	config config
	tag    string
	pid    int
	id     string // of its process; "" = a terminal

	exec     engine.Exec     // nil = a terminal, or a process that was found again
	terminal engine.Terminal // nil = a command
	input    bool            // the command takes input
	typing   sync.Mutex      // serialises input

	mu    sync.Mutex
	subs  map[*subscriber]bool
	ended chan struct{} // closed when end and err are set
	end   endEvent
	err   error
}

// subscriber is one client that follows a program.
type subscriber struct {
	events chan event
	gone   chan struct{}
	once   sync.Once
}

// enrol adds a program to the door, with a first subscriber.
func (d *Door) enrol(id vm.ID, p *program) *subscriber {
	p.subs, p.ended = map[*subscriber]bool{}, make(chan struct{})
	sub := p.join()
	d.mu.Lock()
	defer d.mu.Unlock()
	key := programKey{id, p.pid}
	d.programs[key] = p
	go func() { // ends with the program, or the server
		select {
		case <-p.ended:
		case <-d.Lifetime.Done():
			return
		}
		timer := time.NewTimer(exitKept)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.Lifetime.Done():
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.programs[key] == p {
			delete(d.programs, key)
		}
	}()
	return sub
}

func (p *program) join() *subscriber {
	s := &subscriber{events: make(chan event, backlog), gone: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subs[s] = true
	return s
}

func (p *program) leave(s *subscriber) {
	s.once.Do(func() { close(s.gone) })
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subs, s)
}

// publish hands an event to every subscriber. It waits for slow ones, so that none loses
// output.
func (p *program) publish(ev event) {
	p.mu.Lock()
	list := make([]*subscriber, 0, len(p.subs))
	for s := range p.subs {
		list = append(list, s)
	}
	p.mu.Unlock()
	for _, s := range list {
		select {
		case s.events <- ev:
		case <-s.gone:
		}
	}
}

// output publishes what is written to it.
type output struct {
	p    *program
	wrap func([]byte) dataEvent
}

func (o output) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), maxChunk)
		data := o.wrap(append([]byte(nil), rest[:n]...))
		o.p.publish(event{Data: &data})
		rest = rest[n:]
	}
	return len(b), nil
}

func (p *program) stdout() io.Writer {
	return output{p, func(b []byte) dataEvent { return dataEvent{Stdout: b} }}
}

func (p *program) stderr() io.Writer {
	return output{p, func(b []byte) dataEvent { return dataEvent{Stderr: b} }}
}

func (p *program) screen() io.Writer {
	return output{p, func(b []byte) dataEvent { return dataEvent{PTY: b} }}
}

// run copies the program's output until it ends.
func (p *program) run(d *Door) {
	var st vm.ExitStatus
	var err error
	if p.terminal != nil {
		st, err = p.terminal.Run(func(vm.TerminalReplay) error { return nil }, p.screen())
	} else {
		st, err = p.exec.Run(p.stdout(), p.stderr())
	}
	p.over(st, err)
}

// over records the end of the program.
func (p *program) over(st vm.ExitStatus, err error) {
	if err == nil && st.TimedOut {
		err = vm.Errorf(vm.Timeout, "", "the command ran longer than its time-out and was ended")
	}
	p.end, p.err = ended(st), err
	close(p.ended)
}

func (p *program) noInput() error {
	return vm.Errorf(vm.Internal, itoa(p.pid), "stdin of the process is not open")
}

// write types into the program. It waits until the program takes the input, or ctx ends.
func (p *program) write(ctx context.Context, data []byte) error {
	var w io.Writer = p.terminal
	if p.terminal == nil {
		if p.exec == nil || !p.input {
			return p.noInput()
		}
		w = p.exec
	}
	done := make(chan error, 1)
	go func() { // ends when the program takes the input, or ends
		p.typing.Lock()
		defer p.typing.Unlock()
		_, err := w.Write(data)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-p.ended:
		return noProcess(p.pid)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signal sends a signal to the program.
func (p *program) signal(c *visitor, name string) error {
	select {
	case <-p.ended:
		return noProcess(p.pid)
	default:
	}
	if p.terminal != nil {
		return p.terminal.Signal(name)
	}
	err := c.d.Inside.SignalProcess(c.ctx, c.call, c.ref(), "", p.id, name)
	if err == nil && name == "KILL" { // the client may look at once whether it is gone
		timer := time.NewTimer(killWait)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
		case <-c.ctx.Done():
		}
	}
	return err
}

// killWait is how long a kill waits for the end of its program.
const killWait = 2 * time.Second

func noProcess(pid int) error {
	return vm.Errorf(vm.NotFound, "", "process with pid %d not found", pid)
}

// find returns the program that a client selects. One that the door is not attached to, such
// as after a resume, is attached to again: a command then shows its further output as stdout
// and takes no input.
func (c *visitor) find(s selector) (*program, error) {
	d := c.d
	d.mu.Lock()
	p := d.programs[programKey{c.rec.ID, s.PID}]
	for k, other := range d.programs {
		if s.PID == 0 && s.Tag != "" && k.vm == c.rec.ID && other.tag == s.Tag {
			p = other
		}
	}
	d.mu.Unlock()
	if p != nil && !p.lost() {
		return p, nil
	}
	return c.findAgain(s.PID)
}

// lost reports whether the attachment to the program broke.
func (p *program) lost() bool {
	select {
	case <-p.ended:
		return p.err != nil
	default:
		return false
	}
}

func (c *visitor) findAgain(pid int) (*program, error) {
	list, err := c.d.Inside.Processes(c.ctx, c.call, c.ref())
	if err != nil {
		return nil, err
	}
	for _, proc := range list {
		if proc.PID == pid && pid > 0 && proc.EndedAt == nil && len(proc.Argv) > 0 {
			return c.followAgain(proc)
		}
	}
	terminals, err := c.d.Inside.Terminals(c.ctx, c.call, c.ref())
	if err != nil {
		return nil, err
	}
	for _, t := range terminals {
		if t.PID == pid && t.Running() {
			return c.attachAgain(t)
		}
	}
	return nil, noProcess(pid)
}

// followAgain follows a process by its log.
func (c *visitor) followAgain(proc vm.Process) (*program, error) {
	d, life := c.d, c.d.Lifetime
	p := &program{config: config{Cmd: proc.Argv[0], Args: proc.Argv[1:], Cwd: proc.Cwd}, pid: proc.PID, id: proc.ID}
	body, _, err := d.Inside.ProcessLog(life, c.call, c.ref(), "", proc.ID, proc.LogBytes, true)
	if err != nil {
		return nil, err
	}
	p.leave(d.enrol(c.rec.ID, p))
	go func() { // ends with the process, or its machine
		defer body.Close()
		_, err := io.Copy(p.stdout(), body)
		var last vm.Process
		if err == nil {
			last, err = d.Inside.WaitProcess(life, c.call, c.ref(), proc.ID)
		}
		st := vm.ExitStatus{Signal: last.Signal, TimedOut: last.TimedOut}
		if last.ExitCode != nil {
			st.Code = *last.ExitCode
		}
		p.over(st, err)
	}()
	return p, nil
}

// attachAgain attaches to a terminal.
func (c *visitor) attachAgain(t vm.TerminalSession) (*program, error) {
	user := t.User
	if user == "root" {
		user = ""
	}
	term, err := c.d.Inside.AttachTerminal(c.d.Lifetime, c.call, c.ref(), t.ID, vm.TerminalView{User: user, Since: t.End})
	if err != nil {
		return nil, err
	}
	p := &program{config: config{Cmd: t.Command}, pid: t.PID, terminal: term}
	p.leave(c.d.enrol(c.rec.ID, p))
	go p.run(c.d) // ends with the terminal, or its machine
	return p, nil
}

// beginTerminal starts a program on a new terminal.
func (c *visitor) beginTerminal(in *startMessage, cwd string, limit time.Duration) (*program, *subscriber, error) {
	words := append([]string{in.Process.Cmd}, in.Process.Args...)
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	spec := vm.TerminalSpec{Command: "exec " + strings.Join(words, " "), User: c.linuxName(), Cwd: cwd, Env: c.environment(in.Process.Envs), Cols: vm.TerminalCols, Rows: vm.TerminalRows}
	if in.PTY.Size != nil {
		spec.Cols, spec.Rows = in.PTY.Size.Cols, in.PTY.Size.Rows
	}
	t, err := c.d.Inside.OpenTerminal(c.d.Lifetime, c.call, c.ref(), spec)
	if err != nil {
		return nil, nil, c.notStarted(cwd, err)
	}
	p := &program{config: *in.Process, tag: in.Tag, pid: t.Session().PID, terminal: t}
	sub := c.d.enrol(c.rec.ID, p)
	go p.run(c.d) // ends with the terminal, or its machine
	if limit > 0 {
		timer := time.AfterFunc(limit, func() { _ = t.Signal("KILL") }) // it may have ended
		go func() {                                                     // ends with the program
			<-p.ended
			timer.Stop()
		}()
	}
	return p, sub, nil
}
