// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Messages of process.Process.
type (
	config struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args,omitempty"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  string            `json:"cwd,omitempty"`
	}
	size struct {
		Cols int `json:"cols"`
		Rows int `json:"rows"`
	}
	ptySize struct {
		Size *size `json:"size"`
	}
	startMessage struct {
		Process *config  `json:"process"`
		PTY     *ptySize `json:"pty"`
		Tag     string   `json:"tag"`
		Stdin   *bool    `json:"stdin"` // absent = true
	}
	selector struct {
		PID int    `json:"pid"`
		Tag string `json:"tag"`
	}
	selectMessage struct {
		Process selector `json:"process"`
	}
	inputMessage struct {
		Process selector `json:"process"`
		Input   struct {
			Stdin []byte `json:"stdin"`
			PTY   []byte `json:"pty"`
		} `json:"input"`
	}
	signalMessage struct {
		Process selector `json:"process"`
		Signal  string   `json:"signal"`
	}
	updateMessage struct {
		Process selector `json:"process"`
		PTY     *ptySize `json:"pty"`
	}
	empty       struct{}
	processInfo struct {
		Config config `json:"config"`
		PID    int    `json:"pid"`
		Tag    string `json:"tag,omitempty"`
	}
	processList struct {
		Processes []processInfo `json:"processes"`
	}
)

// Events of a program.
type (
	event struct {
		Start     *startEvent `json:"start,omitempty"`
		Data      *dataEvent  `json:"data,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		Keepalive *empty      `json:"keepalive,omitempty"`
	}
	eventMessage struct {
		Event event `json:"event"`
	}
	startEvent struct {
		PID int `json:"pid"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		PTY    []byte `json:"pty,omitempty"`
	}
	endEvent struct {
		ExitCode int    `json:"exitCode"`
		Exited   bool   `json:"exited"`
		Status   string `json:"status"`
		Error    string `json:"error,omitempty"`
	}
)

// defaults are what the sandbox has of its template.
func (c *visitor) defaults() vm.SandboxDefaults {
	if c.rec.Sandbox.Defaults == nil {
		return vm.SandboxDefaults{}
	}
	return *c.rec.Sandbox.Defaults
}

// environment is what every command of a sandbox has, and what one adds.
func (c *visitor) environment(more map[string]string) map[string]string {
	env := map[string]string{"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": c.ref(), "E2B_TEMPLATE_ID": c.rec.Sandbox.Template}
	maps.Copy(env, c.defaults().Env)
	maps.Copy(env, c.rec.Sandbox.Env)
	maps.Copy(env, more)
	return env
}

// start runs a program and streams its events.
func (d *Door) start(w http.ResponseWriter, r *http.Request, c *visitor) {
	var in startMessage
	err := readFrame(w, r, &in)
	var p *program
	var sub *subscriber
	if err == nil {
		p, sub, err = c.begin(&in, deadline(r))
	}
	if err != nil {
		newStream(w).end(d, err)
		return
	}
	defer p.leave(sub)
	d.follow(w, r, c, p, sub)
}

// begin starts the program of a message. The caller is its first subscriber.
func (c *visitor) begin(in *startMessage, limit time.Duration) (*program, *subscriber, error) {
	if in.Process == nil || in.Process.Cmd == "" {
		return nil, nil, invalid("process", "no command is given")
	}
	u, err := c.linux(c.user)
	if err != nil {
		return nil, nil, err
	}
	cwd := cmp.Or(c.defaults().Workdir, u.Home)
	if in.Process.Cwd != "" {
		if cwd, err = c.path(in.Process.Cwd); err != nil {
			return nil, nil, err
		}
	}
	if in.PTY != nil {
		return c.beginTerminal(in, cwd, limit)
	}
	spec := vm.ExecSpec{
		Argv: append([]string{in.Process.Cmd}, in.Process.Args...), User: c.linuxName(), Cwd: cwd, Env: c.environment(in.Process.Envs),
		Timeout: vm.Millis(limit), Stdin: in.Stdin == nil || *in.Stdin,
	}
	x, err := c.d.Inside.Exec(c.d.Lifetime, c.call, c.ref(), spec)
	if err != nil {
		return nil, nil, c.notStarted(cwd, err)
	}
	p := &program{config: *in.Process, tag: in.Tag, pid: x.Process().PID, id: x.Process().ID, exec: x, input: spec.Stdin}
	sub := c.d.enrol(c.rec.ID, p)
	go p.run(c.d) // ends with the command, or with its machine
	return p, sub, nil
}

// linuxName is the Linux user as the guest's verbs name it.
func (c *visitor) linuxName() string {
	if c.user == "root" && c.rec.User == "" { // the default, unless the image has another one
		return ""
	}
	return c.user
}

// notStarted converts the error of a program that did not start.
func (c *visitor) notStarted(cwd string, err error) error {
	if vm.AsError(err).Code == "FILE_NOT_FOUND" {
		return invalid(vm.Clip(cwd, 200), "cwd does not exist, or the program is missing")
	}
	return err
}

// attach streams the further events of a program.
func (d *Door) attach(w http.ResponseWriter, r *http.Request, c *visitor) {
	var in selectMessage
	err := readFrame(w, r, &in)
	var p *program
	if err == nil {
		p, err = c.find(in.Process)
	}
	if err != nil {
		newStream(w).end(d, err)
		return
	}
	sub := p.join()
	defer p.leave(sub)
	if limit := deadline(r); limit > 0 {
		ctx, stop := context.WithTimeoutCause(r.Context(), limit, vm.Errorf(vm.Timeout, "", "the deadline of the call has passed"))
		defer stop()
		r = r.WithContext(ctx)
	}
	d.follow(w, r, c, p, sub)
}

// follow sends the events of a program until its end. If the machine has gone, it cuts the
// connection, by which the SDKs know.
func (d *Door) follow(w http.ResponseWriter, r *http.Request, c *visitor, p *program, sub *subscriber) {
	s := newStream(w)
	if s.send(eventMessage{event{Start: &startEvent{p.pid}}}) != nil {
		return
	}
	tick := time.NewTicker(pingInterval(r))
	defer tick.Stop()
	for {
		select {
		case ev := <-sub.events:
			if s.send(eventMessage{ev}) != nil {
				return
			}
		case <-tick.C:
			if s.send(eventMessage{event{Keepalive: &empty{}}}) != nil {
				return
			}
		case <-p.ended:
			for more := true; more; {
				select {
				case ev := <-sub.events:
					more = s.send(eventMessage{ev}) == nil
				default:
					more = false
				}
			}
			if p.err != nil && vm.KindOf(p.err) != vm.Timeout {
				if _, ok := d.alive(c.rec.ID); !ok {
					panic(http.ErrAbortHandler)
				}
			}
			if p.err == nil {
				_ = s.send(eventMessage{event{End: &p.end}})
			}
			s.end(d, p.err)
			return
		case <-r.Context().Done():
			if err := context.Cause(r.Context()); errors.Is(err, vm.Timeout) {
				s.end(d, err)
			}
			return
		case <-d.Lifetime.Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// ended describes how a program has ended, as Go's os/exec does.
func ended(st vm.ExitStatus) endEvent {
	if st.Signal != "" {
		word := signalWords[st.Signal]
		if word == "" {
			word = strings.ToLower(st.Signal)
		}
		return endEvent{ExitCode: -1, Status: "signal: " + word, Error: "signal: " + word}
	}
	out := endEvent{ExitCode: st.Code, Exited: true, Status: "exit status " + itoa(st.Code)}
	if st.Code != 0 {
		out.Error = out.Status
	}
	return out
}

var signalWords = map[string]string{
	"KILL": "killed", "TERM": "terminated", "INT": "interrupt", "HUP": "hangup", "QUIT": "quit", "ABRT": "aborted", "SEGV": "segmentation fault",
	"PIPE": "broken pipe", "ALRM": "alarm clock", "BUS": "bus error", "FPE": "floating point exception", "ILL": "illegal instruction", "TRAP": "trace/breakpoint trap",
}

// processes lists what runs and was started by a call.
func (d *Door) processes(c *visitor, _ *empty) (*processList, error) {
	out := &processList{Processes: []processInfo{}}
	list, err := d.Inside.Processes(c.ctx, c.call, c.ref())
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.ExitCode == nil && p.EndedAt == nil && p.PID > 0 && len(p.Argv) > 0 {
			out.Processes = append(out.Processes, d.describe(c.rec.ID, p.PID, config{Cmd: p.Argv[0], Args: p.Argv[1:], Cwd: p.Cwd}))
		}
	}
	terminals, err := d.Inside.Terminals(c.ctx, c.call, c.ref())
	if err != nil {
		return nil, err
	}
	for _, t := range terminals {
		if t.Running() {
			out.Processes = append(out.Processes, d.describe(c.rec.ID, t.PID, config{Cmd: t.Command}))
		}
	}
	return out, nil
}

// describe prefers what the client has said of a program.
func (d *Door) describe(id vm.ID, pid int, as config) processInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.programs[programKey{id, pid}]; p != nil {
		return processInfo{p.config, pid, p.tag}
	}
	return processInfo{as, pid, ""}
}

func (d *Door) sendInput(c *visitor, in *inputMessage) (*empty, error) {
	p, err := c.find(in.Process)
	if err != nil {
		return nil, err
	}
	data := in.Input.Stdin
	if p.terminal != nil {
		data = append(in.Input.PTY, data...)
	}
	return &empty{}, p.write(c.ctx, data)
}

func (d *Door) closeStdin(c *visitor, in *selectMessage) (*empty, error) {
	p, err := c.find(in.Process)
	if err != nil {
		return nil, err
	}
	if p.exec == nil || !p.input {
		return nil, p.noInput()
	}
	return &empty{}, p.exec.CloseStdin()
}

func (d *Door) sendSignal(c *visitor, in *signalMessage) (*empty, error) {
	name := strings.TrimPrefix(in.Signal, "SIGNAL_SIG")
	if name != "KILL" && name != "TERM" {
		return nil, invalid(vm.Clip(in.Signal, 40), "not SIGNAL_SIGKILL or SIGNAL_SIGTERM")
	}
	p, err := c.find(in.Process)
	if err != nil {
		return nil, err
	}
	return &empty{}, p.signal(c, name)
}

func (d *Door) update(c *visitor, in *updateMessage) (*empty, error) {
	if in.PTY == nil || in.PTY.Size == nil {
		return &empty{}, nil
	}
	p, err := c.find(in.Process)
	if err != nil {
		return nil, err
	}
	if p.terminal == nil {
		return nil, invalid(itoa(p.pid), "is no terminal")
	}
	return &empty{}, p.terminal.Resize(in.PTY.Size.Cols, in.PTY.Size.Rows)
}
