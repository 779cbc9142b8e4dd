// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// interpreterCode is the server of the code interpreter. It needs Python's own library only.
//
//go:embed interpreter.py
var interpreterCode string

const (
	interpreterPath = "/usr/local/lib/warren-code-interpreter.py"
	interpreterWait = 55 * time.Second // the SDKs give up after 60 s
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

// startInterpreter starts the server as the sandbox's user, unless it runs, and waits until
// it listens.
func (c *visitor) startInterpreter() error {
	list, err := c.d.Inside.Processes(c.ctx, c.call, c.ref())
	if err != nil {
		return err
	}
	var p vm.Process
	if i := slices.IndexFunc(list, func(p vm.Process) bool { return p.EndedAt == nil && slices.Contains(p.Argv, interpreterPath) }); i >= 0 {
		p = list[i] // it may have been too slow for an earlier request
	} else if p, err = c.interpreterProcess(); err != nil {
		return err
	}
	return c.awaitInterpreter(p)
}

// interpreterProcess starts the server.
func (c *visitor) interpreterProcess() (vm.Process, error) {
	u, err := c.linux(c.user)
	if err != nil {
		return vm.Process{}, err
	}
	if _, err := c.d.Inside.WriteFile(c.ctx, c.call, c.ref(), "", interpreterPath, vm.WriteOptions{Mode: 0o644, Parents: true, Size: int64(len(interpreterCode))}, strings.NewReader(interpreterCode)); err != nil {
		return vm.Process{}, err
	}
	argv := []string{"python3", interpreterPath, itoa(interpreterPort)}
	return c.d.Inside.StartProcess(c.ctx, c.call, c.ref(), vm.ExecSpec{Argv: argv, User: c.linuxName(), Cwd: u.Home, Env: c.environment(nil)})
}

// awaitInterpreter waits until the server listens.
func (c *visitor) awaitInterpreter(p vm.Process) error {
	ctx, stop := context.WithTimeoutCause(c.ctx, interpreterWait, vm.Errorf(vm.Timeout, c.ref(), "the code interpreter does not listen after %v", interpreterWait))
	defer stop()
	for {
		conn, err := c.d.Inside.DialPort(ctx, c.call, c.ref(), interpreterPort)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if now, err := c.d.Inside.Process(ctx, c.call, c.ref(), p.ID); err == nil && now.ExitCode != nil {
			return vm.Errorf(vm.Unsupported, c.ref(), "the code interpreter ended with status %d", *now.ExitCode).WithHint("it needs python3 in the sandbox's image")
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
