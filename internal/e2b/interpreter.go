// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/interpreter"
	"github.com/warren-vm/warren/vm"
)

const (
	interpreterWait   = 55 * time.Second // the SDKs give up after 60 s
	interpreterAnswer = 30 * time.Second
)

// interpreterState is what the door knows of the code interpreter of a sandbox.
type interpreterState struct {
	mu  sync.Mutex // held while it starts
	run string     // the run of the machine in which it was started; guarded by mu
}

// interpreter prepares a request to the code interpreter: it wants one of the sandbox's
// tokens, because the port runs code, and starts the server if it does not run.
func (d *Door) interpreter(r *http.Request, rec vm.VM) error {
	given, ok := []byte(r.Header.Get(headerToken)), false
	if len(given) == 0 {
		ok = subtle.ConstantTimeCompare([]byte(r.Header.Get(headerTraffic)), []byte(d.token(tokenTraffic, rec.ID))) == 1
	} else {
		ok = subtle.ConstantTimeCompare(given, []byte(d.token(tokenEnvd, rec.ID))) == 1
	}
	if !ok {
		d.brake.Wait(r.Context())
		return vm.Errorf(vm.Unauthenticated, "", "the access token is wrong or missing").WithHint("connect to the sandbox to get it")
	}
	d.mu.Lock()
	state := d.kernels[rec.ID]
	if state == nil {
		state = &interpreterState{}
		d.kernels[rec.ID] = state
	}
	d.mu.Unlock()
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.run != "" && state.run == rec.InstanceID && rec.State == vm.Running {
		return nil
	}
	c := &visitor{d: d, ctx: r.Context(), call: &vm.Call{Actor: actorOf(rec), Request: vm.NewRequestID()}, rec: rec, user: defaultUser}
	if err := c.startInterpreter(); err != nil {
		return err
	}
	state.run = rec.InstanceID
	return nil
}

// startInterpreter waits until the server listens, and tells it the sandbox's environment. It starts the server as the
// sandbox's user, unless it runs or the image has it as a service.
func (c *visitor) startInterpreter() error {
	err := c.findInterpreter()
	for i := 0; i < 2 && vm.KindOf(err) == vm.GuestFault; i++ { // a server that ends may still take a connection, or be among the processes
		err = c.findInterpreter()
	}
	return err
}

// findInterpreter is one attempt. An error of kind GuestFault may mean that a server was there and ended.
func (c *visitor) findInterpreter() error {
	if conn, err := c.d.Inside.DialPort(c.ctx, c.call, c.ref(), interpreter.Port); err == nil {
		return errors.Join(conn.Close(), c.tellInterpreter())
	}
	list, err := c.d.Inside.Processes(c.ctx, c.call, c.ref())
	if err != nil {
		return err
	}
	var p vm.Process
	ended := vm.Errorf(vm.GuestFault, c.ref(), "the code interpreter has ended")
	if i := slices.IndexFunc(list, func(p vm.Process) bool { return p.EndedAt == nil && slices.Contains(p.Argv, interpreter.Path) }); i >= 0 {
		p = list[i] // it may have been too slow for an earlier request
	} else if _, err := c.d.Inside.Stat(c.ctx, c.call, c.ref(), "", interpreter.Unit); errors.Is(err, vm.NotFound) {
		if p, err = c.interpreterProcess(); err != nil {
			return err
		}
		ended = vm.Errorf(vm.Unsupported, c.ref(), "the code interpreter ended after its start").WithHint("it needs python3 in the sandbox's image")
	} else if err != nil {
		return err
	} // else the service does not listen yet
	if err := c.awaitInterpreter(p, ended); err != nil {
		return err
	}
	return c.tellInterpreter()
}

// tellInterpreter tells the server the sandbox's environment, which a service of the image and a copy of a sandbox
// cannot know.
func (c *visitor) tellInterpreter() error {
	ctx, stop := context.WithTimeoutCause(c.ctx, interpreterAnswer, vm.Errorf(vm.Timeout, c.ref(), "the code interpreter does not answer within %v", interpreterAnswer))
	defer stop()
	body, err := json.Marshal(c.environment(nil))
	if err != nil {
		return vm.Errorf(vm.Internal, c.ref(), "the environment: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/environment", bytes.NewReader(body))
	if err != nil {
		return vm.Errorf(vm.Internal, c.ref(), "the request: %w", err)
	}
	transport := c.d.portTransport(c.call, c.ref(), interpreter.Port)
	transport.MaxResponseHeaderBytes = 64 << 10
	res, err := transport.RoundTrip(req)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return vm.Errorf(vm.GuestFault, c.ref(), "the code interpreter does not answer: %w", err)
	}
	res.Body.Close() // an answer of 204 has none, and another one is not read
	switch res.StatusCode {
	case http.StatusNoContent, http.StatusNotFound: // a server that an earlier Warren started has its environment, and not this route
		return nil
	default:
		return vm.Errorf(vm.Unsupported, c.ref(), "another program than the code interpreter listens on port %d", interpreter.Port).
			WithHint("let that program listen on another port")
	}
}

// interpreterProcess starts the server.
func (c *visitor) interpreterProcess() (vm.Process, error) {
	u, err := c.linux(c.user)
	if err != nil {
		return vm.Process{}, err
	}
	if _, err := c.d.Inside.WriteFile(c.ctx, c.call, c.ref(), "", interpreter.Path, vm.WriteOptions{Mode: 0o644, Parents: true, Size: int64(len(interpreter.Server))}, strings.NewReader(interpreter.Server)); err != nil {
		return vm.Process{}, err
	}
	argv := []string{"python3", interpreter.Path, itoa(interpreter.Port)}
	return c.d.Inside.StartProcess(c.ctx, c.call, c.ref(), vm.ExecSpec{Argv: argv, User: c.linuxName(), Cwd: u.Home})
}

// awaitInterpreter waits until the server listens. p is its process; without an ID, it is a service. It returns ended if
// the process ends before.
func (c *visitor) awaitInterpreter(p vm.Process, ended error) error {
	ctx, stop := context.WithTimeoutCause(c.ctx, interpreterWait, vm.Errorf(vm.Timeout, c.ref(), "the code interpreter does not listen after %v", interpreterWait))
	defer stop()
	for {
		conn, err := c.d.Inside.DialPort(ctx, c.call, c.ref(), interpreter.Port)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.ID == "" {
			// systemd starts it again when it ends
		} else if now, err := c.d.Inside.Process(ctx, c.call, c.ref(), p.ID); err == nil && now.EndedAt != nil {
			return ended
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// interpreterLost makes the next request look whether the code interpreter runs.
func (d *Door) interpreterLost(id vm.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kernels, id)
}

// interpreterBody is an answer of the code interpreter. One that breaks off means that the server has ended, or is about to:
// systemd may start another one at once, which must be told the environment.
type interpreterBody struct {
	io.ReadCloser
	lost func()
}

func (b *interpreterBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.lost()
	}
	return n, err //nolint:wrapcheck // a reader's error is its own
}
