// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the program inside a guest. It runs commands, copies files, watches
// directories, measures the machine, and gives a guest that was started from a generation an
// identity of its own. It is also the guest's first program (Boot) and its own supervisor
// (Supervise). Its verbs serve only the host, over package link; guest users cannot reach them.
// For guest users it has a command (Command) and a socket, which only pass requests on to what
// the guest's network answers at vm.PolicyHost. Its
// verbs have the same names as in package guest, the other end. Only cmd/warren-agent runs it.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Protocol is the version of the agent's verbs.
const Protocol = 1

// Features are what this agent can do in addition to the first version's verbs.
var Features = []string{"wake", "upgrade", "freeze", "terminals", "sync"}

// Config says where an agent works. Every field except Log may be zero; the
// default is what a real guest uses.
type Config struct {
	Version string // version of Warren that it came with
	Digest  string // hex SHA-256 of its binary, as the host sent it
	Key     []byte // initial link key; nil = from RunDir or the kernel's command line
	LogDir  string // process logs; "" = /var/log/warren
	RunDir  string // its own files; "" = /run/warren
	EtcDir  string // "" = /etc

	System System // nil = the kernel
	Log    *slog.Logger

	inherited *heritage // by an upgrade

	// Inside is where the network answers for PolicyHost; nil = as in a real guest.
	Inside *syscall.SockaddrInet4
}

// Agent serves one guest.
type Agent struct {
	cfg   Config
	log   *slog.Logger
	sys   System
	users userDB
	keys  keyring
	procs table
	terms terminals
	socks listeners
	door  policyDoor

	cgroup   execGroup
	freezer  freezer
	oom      oomShield
	nullOnce sync.Once
	null     int // /dev/null

	handlers sync.WaitGroup // requests in progress

	mu         sync.Mutex
	intro      vm.AgentHello // once the guest has booted; the zero value before
	next       string        // path of the binary to exec; "" = none
	nextDigest string
	stopRun    context.CancelFunc // ends Run's session loop
}

// New returns an agent. It reads what an earlier agent left in LogDir.
func New(cfg Config) (*Agent, error) {
	if cfg.LogDir == "" {
		cfg.LogDir = "/var/log/warren"
	}
	if cfg.RunDir == "" {
		cfg.RunDir = "/run/warren"
	}
	if cfg.EtcDir == "" {
		cfg.EtcDir = "/etc"
	}
	if cfg.System == nil {
		cfg.System = newKernel(cfg.RunDir)
	}
	if cfg.Log == nil {
		return nil, errors.New("agent: no logger")
	}
	if err := os.MkdirAll(cfg.RunDir, 0o755); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, log: cfg.Log, sys: cfg.System}
	a.users.etc = cfg.EtcDir
	if a.door.to = insideAddr; cfg.Inside != nil {
		a.door.to = *cfg.Inside
	}
	if err := a.keys.load(cfg.Key, filepath.Join(cfg.RunDir, "agent.key")); err != nil {
		return nil, err
	}
	a.freezer.init(cfg.System, cfg.RunDir)
	a.procs.init(cfg.LogDir, cfg.RunDir, cfg.Log, cfg.inherited)
	a.terms.init(filepath.Join(cfg.RunDir, "terminals"))
	if cfg.inherited != nil {
		if err := a.terms.inherit(cfg.inherited); err != nil {
			cfg.Log.Error("cannot take over the terminals of an earlier agent", "error", err)
		}
	}
	return a, nil
}

// Run serves sessions on the port until ctx ends, the port fails, or an
// upgrade replaces this process's program by the new agent.
func (a *Agent) Run(ctx context.Context, port *os.File) error {
	defer a.handlers.Wait()
	dctx, end := context.WithCancel(ctx)
	var door sync.WaitGroup
	defer door.Wait()
	defer end()
	door.Go(func() {
		if err := a.door.run(dctx, a.cfg.RunDir); err != nil && dctx.Err() == nil {
			a.log.Error("the socket for the guest's programs has failed", "error", err)
		}
	})
	for {
		rctx, stop := context.WithCancel(ctx)
		a.mu.Lock()
		a.stopRun = stop
		a.mu.Unlock()
		err := link.Guest(rctx, port, link.Handler{
			Keys:  a.keys.acceptable,
			Serve: func(l net.Listener) error { return a.serve(rctx, l) },
			Wake:  a.wakeWords,
		})
		stop()
		a.mu.Lock()
		next := a.next
		a.next = ""
		a.mu.Unlock()
		if next == "" || ctx.Err() != nil {
			return err
		}
		// become returns only on failure; this agent then continues.
		a.log.Error("upgrade failed", "error", a.become(next, port))
	}
}

// serve answers the requests of one session until its listener fails. It does
// not wait for requests in progress: they end when they next use their stream.
func (a *Agent) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if k, ok := l.(interface{ Key() []byte }); ok {
		a.keys.used(k.Key())
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		a.handlers.Go(func() { a.serveConn(ctx, c) })
	}
}
