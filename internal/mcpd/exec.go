// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// Limits of output, in bytes of each stream.
const (
	outputDefault = 32 << 10
	outputMost    = 256 << 10
)

// execIn are the arguments of exec.
type execIn struct {
	Machine    string            `json:"machine" jsonschema:"name or id of the machine; a sleeping one wakes"`
	Command    string            `json:"command" jsonschema:"a command line for bash, such as 'make test 2>&1 | tail'"`
	Cwd        string            `json:"cwd,omitempty" jsonschema:"directory in which it runs; default the machine's working directory, else the user's home"`
	User       string            `json:"user,omitempty" jsonschema:"Linux user; default root"`
	Env        map[string]string `json:"env,omitempty" jsonschema:"further variables"`
	Stdin      string            `json:"stdin,omitempty" jsonschema:"the whole standard input; default none"`
	Timeout    int               `json:"timeout_seconds,omitempty" jsonschema:"ends the command after this time; default 600, at most 86400"`
	Background bool              `json:"background,omitempty" jsonschema:"return at once with the id of the process, which keeps running with a log: see the tool processes"`
	Turn       string            `json:"turn,omitempty" jsonschema:"first mark a turn with this note, to which undo returns"`
	MaxOutput  int               `json:"max_output_bytes,omitempty" jsonschema:"how much of each stream is returned, its beginning and its end; default 32768, at most 262144"`
}

// execOut is the answer of exec.
type execOut struct {
	ExitCode  *int    `json:"exit_code,omitempty" jsonschema:"absent for a command in the background"`
	Signal    string  `json:"signal,omitempty" jsonschema:"the signal that ended it"`
	TimedOut  bool    `json:"timed_out,omitempty" jsonschema:"the time limit ended it"`
	Stdout    string  `json:"stdout"`
	Stderr    string  `json:"stderr"`
	Truncated bool    `json:"truncated,omitempty" jsonschema:"the middle of a stream was left out"`
	Process   string  `json:"process" jsonschema:"id of the process"`
	Seconds   float64 `json:"seconds"`
	Turn      int     `json:"turn,omitempty" jsonschema:"number of the turn that was marked before"`
}

const (
	timeDefault = 10 * time.Minute
	timeMost    = 24 * time.Hour
)

func (s *Server) addExec() {
	add(s, &mcp.Tool{
		Name: "exec", Annotations: runs("Run a command"),
		Description: "Run a command line in a machine and return its exit code and output. A failed command is an answer, not an error. Cancelling the call ends the command. Long output is cut in the middle: send it to a file and read parts of that.",
	}, s.exec)
	add(s, &mcp.Tool{
		Name: "processes", Annotations: runs("Background commands"),
		Description: "Commands that exec started, running or ended: list them, read the output of one, wait for its end, or send it a signal.",
	}, s.processes)
}

func (s *Server) exec(ctx context.Context, k *call, in execIn) (execOut, error) {
	limit := time.Duration(in.Timeout) * time.Second
	switch {
	case in.Command == "":
		return execOut{}, vm.Errorf(vm.Invalid, "command", "no command is given")
	case in.Timeout < 0 || limit > timeMost:
		return execOut{}, vm.Errorf(vm.Invalid, "timeout_seconds", "%d is not between 1 and %d", in.Timeout, int(timeMost.Seconds()))
	case in.Background && in.Stdin != "":
		return execOut{}, vm.Errorf(vm.Invalid, "stdin", "a command in the background gets no input").WithHint("write a file and read from that")
	case limit == 0 && !in.Background:
		limit = timeDefault
	}
	spec := vm.ExecSpec{Command: in.Command, Cwd: in.Cwd, User: in.User, Env: in.Env, Timeout: vm.Millis(limit), Turn: in.Turn}
	began := time.Now()
	if in.Background {
		p, err := k.c.StartProcess(ctx, in.Machine, spec)
		return execOut{Process: p.ID, Turn: number(p.Turn), Seconds: time.Since(began).Seconds()}, err
	}
	most := min(in.MaxOutput, outputMost)
	if most <= 0 {
		most = outputDefault
	}
	out, errs := &clip{most: most}, &clip{most: most}
	stop := k.progress(ctx, func() string { return lastLine(out, errs) })
	defer stop()
	proc, turn, status, err := s.runOwned(ctx, k.c, in.Machine, spec, []byte(in.Stdin), out, errs)
	if err != nil {
		return execOut{}, err
	}
	return execOut{
		ExitCode: &status.Code, Signal: status.Signal, TimedOut: status.TimedOut, Stdout: out.text(), Stderr: errs.text(),
		Truncated: out.cut() || errs.cut(), Process: proc.ID, Seconds: time.Since(began).Seconds(), Turn: number(turn),
	}, nil
}

func number(t *vm.Turn) int {
	if t == nil {
		return 0
	}
	return t.Number
}

// runOwned runs a command for a caller. If the caller leaves or cancels, the command is ended.
func (s *Server) runOwned(ctx context.Context, c *client.Client, machine string, spec vm.ExecSpec, input []byte, out, errs *clip) (vm.Process, *vm.Turn, vm.ExitStatus, error) {
	type ended struct {
		status vm.ExitStatus
		err    error
	}
	// The request outlives the caller until it is known which process has to be ended.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	started, done := make(chan *client.Streamed, 1), make(chan ended, 1)
	s.cleaning.Go(func() {
		defer stop()
		x, err := c.Stream(life, machine, api.ExecChunked{ExecSpec: spec, Input: input, Owned: true})
		if err != nil {
			close(started)
			done <- ended{err: err}
			return
		}
		started <- x
		status, err := x.Run(out, errs)
		done <- ended{status, err}
	})
	left := func(x *client.Streamed) {
		s.cleaning.Go(func() {
			defer stop()
			limit, cancel := context.WithTimeout(life, endWithin)
			defer cancel()
			if x == nil {
				select {
				case x = <-started:
				case <-limit.Done():
				}
			}
			if x != nil {
				_ = c.SignalProcess(limit, machine, x.Process().ID, "KILL") // it may have ended by itself
			}
		})
	}
	cancelled := vm.Errorf(vm.Cancelled, machine, "the call was cancelled, and its command is ended")
	var x *client.Streamed
	select {
	case x = <-started:
	case <-ctx.Done():
		left(nil)
		return vm.Process{}, nil, vm.ExitStatus{}, cancelled
	}
	select {
	case e := <-done:
		if x == nil {
			return vm.Process{}, nil, vm.ExitStatus{}, e.err
		}
		return x.Process(), x.Turn(), e.status, e.err
	case <-ctx.Done():
		left(x)
		return vm.Process{}, nil, vm.ExitStatus{}, cancelled
	}
}

// clip keeps the beginning and the end of a stream.
type clip struct {
	most int

	mu    sync.Mutex
	head  []byte
	tail  []byte
	total int64
}

// Write never fails.
func (c *clip) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	if room := c.most/2 - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	c.tail = append(c.tail, p...)
	if keep := c.most - c.most/2; len(c.tail) > 2*keep {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keep:]...)
	}
	return n, nil
}

// end returns what is kept of the end. The caller holds mu.
func (c *clip) end() []byte {
	return c.tail[max(0, len(c.tail)-(c.most-c.most/2)):]
}

func (c *clip) cut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total > int64(len(c.head)+len(c.end()))
}

func (c *clip) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.end()
	left := c.total - int64(len(c.head)+len(end))
	var b strings.Builder
	b.Write(c.head)
	if left > 0 {
		fmt.Fprintf(&b, "\n[%d bytes left out]\n", left)
	}
	b.Write(end)
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// lastLine is the newest line of output, for progress.
func lastLine(streams ...*clip) string {
	for _, c := range streams {
		c.mu.Lock()
		all := c.end()
		if len(all) == 0 {
			all = c.head
		}
		lines := bytes.Split(bytes.TrimRight(all, "\r\n"), []byte("\n"))
		last := string(bytes.TrimSpace(lines[len(lines)-1]))
		c.mu.Unlock()
		if last != "" {
			return vm.Clip(strings.ToValidUTF8(last, "\uFFFD"), 200)
		}
	}
	return "the command runs"
}

// processesIn are the arguments of processes.
type processesIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine"`
	Action  string `json:"action" jsonschema:"list, output, wait or signal"`
	Process string `json:"process,omitempty" jsonschema:"id of the process, such as p3; needed except for list"`
	User    string `json:"user,omitempty" jsonschema:"Linux user that owns it; default root"`
	From    int64  `json:"from,omitempty" jsonschema:"output: offset of the first byte; default 0. Continue at next_offset"`
	Signal  string `json:"signal,omitempty" jsonschema:"signal: its name, such as TERM, INT or KILL; default TERM"`
	Timeout int    `json:"timeout_seconds,omitempty" jsonschema:"wait: how long; default 60, at most 3600. The process keeps running"`
}

// processInfo is one process.
type processInfo struct {
	ID        string `json:"id"`
	Command   string `json:"command"`
	User      string `json:"user"`
	StartedAt string `json:"started_at"`
	EndedAt   string `json:"ended_at,omitempty"`
	ExitCode  *int   `json:"exit_code,omitempty"`
}

// processesOut is the answer of processes.
type processesOut struct {
	Processes  []processInfo `json:"processes,omitempty" jsonschema:"of list: all; else the one that was named"`
	Output     string        `json:"output,omitempty"`
	NextOffset int64         `json:"next_offset,omitempty" jsonschema:"offset after the returned output"`
	Running    bool          `json:"running" jsonschema:"whether the named process still runs"`
}

func infoOf(p vm.Process) processInfo {
	out := processInfo{ID: p.ID, Command: vm.Clip(strings.Join(p.Argv, " "), 500), User: p.User, StartedAt: p.StartedAt.Format(time.RFC3339), ExitCode: p.ExitCode}
	if p.EndedAt != nil {
		out.EndedAt = p.EndedAt.Format(time.RFC3339)
	}
	return out
}

// listMost is how many entries a list has at most.
const listMost = 500

func (s *Server) processes(ctx context.Context, k *call, in processesIn) (out processesOut, err error) {
	if in.Action == "list" {
		l, err := k.c.Processes(ctx, in.Machine)
		for _, p := range l[max(0, len(l)-listMost):] {
			out.Processes = append(out.Processes, infoOf(p))
		}
		return out, err
	}
	if in.Process == "" {
		return out, vm.Errorf(vm.Invalid, "process", "no process is named").WithHint("action list shows the ids")
	}
	switch in.Action {
	case "output":
		out.Output, out.NextOffset, err = processOutput(ctx, k.c, in)
	case "signal":
		if in.Signal == "" {
			in.Signal = "TERM"
		}
		err = k.c.SignalProcess(ctx, in.Machine, in.Process, strings.TrimPrefix(in.Signal, "SIG"))
	case "wait":
		if in.Timeout <= 0 {
			in.Timeout = 60
		}
		limit, cancel := context.WithTimeout(ctx, time.Duration(min(in.Timeout, 3600))*time.Second)
		defer cancel()
		defer k.doing(ctx, "waiting for "+in.Process)()
		if _, err = k.c.WaitProcess(limit, in.Machine, in.Process); limit.Err() != nil && ctx.Err() == nil {
			err = nil // the answer says that it runs
		}
	default:
		err = unknownAction(in.Action, "list, output, wait or signal")
	}
	if err != nil {
		return out, err
	}
	p, err := k.c.Process(ctx, in.Machine, in.Process)
	out.Processes, out.Running = []processInfo{infoOf(p)}, p.EndedAt == nil
	return out, err
}

func unknownAction(action, all string) error {
	return vm.Errorf(vm.Invalid, "action", "%q is not an action", vm.Clip(action, 40)).WithHint("use %s", all)
}

// processOutput reads a part of a process's log.
func processOutput(ctx context.Context, c *client.Client, in processesIn) (string, int64, error) {
	r, offset, err := c.ProcessLog(ctx, in.Machine, in.Process, in.From, false)
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	data, err := readUpTo(r, outputMost)
	return strings.ToValidUTF8(string(data), "\uFFFD"), offset + int64(len(data)), err
}

// last returns the newest bytes as text.
func (c *clip) last(most int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(append([]byte{}, c.head...), c.end()...)
	return strings.ToValidUTF8(string(all[max(0, len(all)-most):]), "\uFFFD")
}
