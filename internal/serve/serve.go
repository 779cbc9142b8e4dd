// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/backup"
	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/events"
	"github.com/warren-vm/warren/internal/generation"
	"github.com/warren-vm/warren/internal/house"
	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/s3d"
	"github.com/warren-vm/warren/internal/sshd"
	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/volume"
	"github.com/warren-vm/warren/vm"
)

// scanDeadline bounds the scan of one uploaded archive.
const scanDeadline = 15 * time.Minute

// shutdownGrace is how long requests may take to end at shutdown.
const shutdownGrace = 10 * time.Second

// Run serves until ctx ends. VMs keep running afterwards. Kinds: Busy (another
// server has the data directory or the address), Unsupported (--require-kvm
// without it), Invalid (configuration), and those of what it opens.
func Run(ctx context.Context, dataDir string, flags Config, getenv func(string) string, out io.Writer) (err error) {
	dir, err := layout.Open(dataDir)
	if err != nil {
		return err
	}
	cfg, settings, err := LoadConfig(dir, flags, getenv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	lock, err := layout.TryLock(dir.Lock())
	if err != nil {
		if errors.Is(err, vm.Busy) {
			return vm.Errorf(vm.Busy, string(dir), "another server has this data directory").WithHint("stop it first, or choose another directory with --data")
		}
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	// The address first, so that nothing is opened if the server could not be reached.
	listener, err := listen(ctx, cfg.Listen, "--listen")
	if err != nil {
		return err
	}
	defer listener.Close()
	s := &stack{dir: dir, cfg: cfg, log: log, pace: access.NewPace(cfg.rate())}
	if s.host, err = openHost(dir, cfg.HostID); err != nil {
		return err
	}
	if cfg.Preview != "off" {
		if s.previews, err = listen(ctx, cfg.Preview, "--preview"); err != nil {
			return err
		}
		defer s.previews.Close()
	}
	if cfg.SSH != "off" {
		if s.sshListener, err = listen(ctx, cfg.SSH, "--ssh"); err != nil {
			return err
		}
		defer s.sshListener.Close()
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	announce(out, dir, cfg)
	return s.serve(ctx, listener, settings)
}

func listen(ctx context.Context, addr, flag string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, vm.Errorf(vm.Busy, addr, "something else listens there").WithHint("stop it, or choose another address with %s", flag)
	case err != nil:
		return nil, vm.Errorf(vm.Invalid, addr, "cannot listen there: %w", err).WithHint("choose another address with %s", flag)
	}
	return l, nil
}

func announce(out io.Writer, dir layout.Dir, cfg Config) {
	fmt.Fprintf(out, "warren %s: API on http://%s, data in %s, admin key in %s\n", api.Version, cfg.Listen, dir, dir.AdminKey())
	if cfg.SSH != "off" {
		fmt.Fprintf(out, "warren: SSH gateway on %s, host key in %s\n", cfg.SSH, dir.SSHHostKey())
	}
	if cfg.Preview != "off" {
		fmt.Fprintf(out, "warren: previews on %s, as https://PORT-NAME.%s; `warren preview NAME PORT` says which\n", cfg.Preview, strings.Join(cfg.PreviewDomain, " and PORT-NAME."))
	}
	if cfg.S3 != "off" {
		fmt.Fprintf(out, "warren: object storage for S3 clients on http://%s; `warren key create --s3` makes an access key\n", cfg.S3)
	}
}

// stack holds what a server has opened, in that order.
type stack struct {
	dir  layout.Dir
	cfg  Config
	log  *slog.Logger
	host hostFile
	pace *access.Pace // of the API and of the doors together

	store  *store.Store
	claim  *store.Claim
	audit  *audit.Log
	events *events.Log
	house  *house.House
	engine *engine.Engine

	previews    net.Listener // nil = off
	sshListener net.Listener // nil = it is off
	ssh         *sshd.Server
	s3          *s3d.Server
	s3Inside    *s3d.Inside     // for programs inside VMs
	scanner     *reader.Scanner // of uploads
	inside      net.Listener    // for the requests of programs inside VMs
	speaks      func(id vm.ID, pid int) bool
}

func (s *stack) open(ctx context.Context) error {
	run, err := s.dir.Run()
	if err != nil {
		return err
	}
	l, err := openLocal(s.dir, s.log)
	if err != nil {
		return err
	}
	if err := s.openInside(ctx, run, l.launcher); err != nil {
		return err
	}
	h := &host{dir: s.dir, probe: l.defaultPlatform}
	if err := s.checkAccel(ctx, h); err != nil {
		return err
	}
	if s.store, err = store.Open(ctx, store.Options{
		Dir: s.dir.Etcd(), SocketDir: run.Etcd(), Endpoints: s.cfg.EtcdEndpoints, Log: s.log,
	}); err != nil {
		return err
	}
	unclaimed, err := s.claimHost(ctx)
	if err != nil {
		return err
	}
	head := &auditHead{store.Backend{Store: s.store}, s.host.ID, unclaimed}
	if err := s.openAudit(ctx, head); err != nil {
		return err
	}
	if s.events, err = events.Open(s.dir.Events()); err != nil {
		return err
	}
	if _, err := image.Sweep(ctx, s.dir, false); err != nil {
		s.log.Warn("sweeping unfinished images", "err", err)
	}
	if have, err := (confine.Hierarchy{}).Divide(); err != nil {
		s.log.Debug("machines are bounded by rlimits alone", "why", err)
	} else {
		s.log.Info("machines are bounded by control groups", "controllers", have)
	}
	budget, share := s.cfg.budget()
	each, eachShare := s.cfg.accountDisk()
	reach, err := s.cfg.reachPrivate()
	if err != nil {
		return err
	}
	remote, err := s.cfg.remote(ctx)
	if err != nil {
		return err
	}
	hook, err := askWebhook(s.cfg.AskWebhook, s.dir)
	if err != nil {
		return err
	}
	s.scanner = reader.NewScanner(reader.Config{Binary: l.programs.Reader, Root: s.dir.ReaderRoot(), Log: s.log, Deadline: scanDeadline})
	w := &warmer{local: l, host: h, known: map[warmKey]vm.Manifest{}}
	s.house, err = house.Open(ctx, house.Config{
		Records: s.records(), Version: api.Version,
		Backend: store.Backend{Store: s.store}, HostID: s.host.ID, LeaveUnclaimed: !unclaimed,
		Reader: reader.New(reader.Config{Binary: l.programs.Reader, Root: s.dir.ReaderRoot(), Log: s.log}), Volumes: volume.Store{Dir: s.dir}, Audit: auditor{s.audit, s.dir.Audit(), head}, Events: eventLog{s.events},
		Resolver: s.resolver(), PreviewDomains: s.cfg.PreviewDomain, ReachPrivate: reach, AskWebhook: hook, S3URL: s.cfg.s3URL(), Remote: remote, Scanner: uploads{s.scanner, clamd(s.cfg.Clamd)}, AuditArgs: s.cfg.AuditArgs, Config: engine.Config{
			Dir: s.dir, Run: run,
			Machines: machines{l.launcher}, Images: &images{dir: s.dir, warm: w, log: s.log}, Host: h, Disk: storage.Measurer{Dir: s.dir},
			Generations: generation.Store{Dir: s.dir},
			Folders:     hostFolders(string(s.dir), string(run)),
			Settings: engine.Settings{
				DefaultNetwork: vm.NetworkMode(s.cfg.NetDefault), Pool: s.cfg.poolSize(),
				StorageBudget: budget, StoragePercent: share, AccountDisk: each, AccountPercent: eachShare,
			},
			Log: s.log,
		},
	})
	if err != nil {
		return err
	}
	s.engine = s.house.Engine
	if err := s.openS3(ctx, run); err != nil {
		return err
	}
	if s.ssh, err = newSSH(s.dir, s.house, s.log); err != nil {
		return err
	}
	secret, created, err := s.house.Access.EnsureAdmin(ctx)
	if err != nil {
		return err
	}
	if created {
		return layout.WriteFile(s.dir.AdminKey(), []byte(secret+"\n"), 0o600)
	}
	return nil
}

// records reads all records for a backup; nil with a cluster, which has backups of its own.
func (s *stack) records() backup.Records {
	if len(s.cfg.EtcdEndpoints) > 0 {
		return nil
	}
	return store.Backend{Store: s.store}
}

// checkAccel probes the accelerator if the operator requires KVM, and logs the result.
// Without an image no probe is possible; only --require-kvm makes that an error.
func (s *stack) checkAccel(ctx context.Context, h *host) error {
	p, err := h.Platform(ctx)
	switch {
	case err != nil && s.cfg.RequireKVM:
		return vm.Errorf(vm.Unsupported, "kvm", "KVM is required and cannot be probed: %w", err).WithHint("build an image first: `warren image build base`")
	case err != nil:
		s.log.Warn("no VM can be started yet", "err", err, "hint", vm.AsError(err).Hint)
	case p.Accel != vm.KVM && s.cfg.RequireKVM:
		return vm.Errorf(vm.Unsupported, "kvm", "KVM is required, and no guest boots with it on this host").
			WithHint("`warren doctor` shows what was tried; without --require-kvm guests are emulated, which is not an isolation boundary")
	case p.Accel != vm.KVM:
		s.log.Warn(vm.EmulatedWarning, "accel", p.Accel)
	}
	return nil
}

// maxConns bounds the open connections to the API: each takes a descriptor and memory
// before the client has authenticated.
const maxConns = 16384

// serve answers requests until ctx ends, then lets them finish.
func (s *stack) serve(ctx context.Context, l net.Listener, settings []Setting) error {
	lifetime, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	gate, err := s.gateway(lifetime)
	if err != nil {
		return err
	}
	forMCP, wire := s.openMCP(lifetime)
	door := httpd.New(httpd.Config{
		House: s.house, Log: s.log, HostNames: s.cfg.HostNames, WebOrigins: s.cfg.WebOrigins, Lifetime: lifetime, SSH: s.ssh, SSHAddress: address(s.sshListener), Previews: previewsOf(gate), MCP: forMCP,
		Settings: map[string]any{"data": string(s.dir), "settings": settings}, Pace: s.pace,
	})
	sandboxes, err := s.sandboxes(lifetime)
	if err != nil {
		return err
	}
	if gate != nil {
		gate.Sandboxes = sandboxes
	}
	current := s.current(lifetime)
	server := &http.Server{
		Handler:           withDoors(door, sandboxes, current),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	pruned := make(chan struct{})
	go func() { // ends with lifetime
		defer close(pruned)
		s.pruneAudit(lifetime)
	}()
	defer func() { end(); <-pruned }()
	endMCP := s.serveMCP(forMCP, wire, door)
	defer endMCP()
	shown := make(chan error, 1)
	go func() { shown <- s.show(lifetime, gate) }() // ends with lifetime
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(netutil.LimitListener(l, maxConns)) }() // ends with Shutdown below
	sshFailed, insideFailed := s.serveSSH(lifetime), s.serveInside(lifetime, door)
	var cause error
	select {
	case err := <-sshFailed:
		cause = err
	case err := <-insideFailed:
		cause = err
	case err := <-failed:
		return vm.Errorf(vm.Internal, s.cfg.Listen, "serving: %w", err)
	case cause = <-s.s3Failed():
	case err := <-shown:
		shown <- nil // it has ended
		cause = err
	case <-s.store.Failed():
		cause = vm.Errorf(vm.Unavailable, string(s.dir), "the record store has failed; VMs keep running: %w", s.store.Healthy(ctx)).
			WithHint("fix the record store, then start the server again")
	case <-s.claim.Lost():
		cause = s.claim.Err()
	case <-ctx.Done():
	}
	s.log.Info("stopping; VMs keep running")
	end()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		cause = errors.Join(cause, vm.Errorf(vm.Internal, s.cfg.Listen, "serving: %w", err))
	}
	endMCP()
	door.Wait()
	current.Wait()
	return errors.Join(cause, <-sshFailed, <-insideFailed, <-shown)
}

// s3Failed receives the error of a door for S3 clients that has ended by itself.
func (s *stack) s3Failed() <-chan error {
	if s.s3 == nil {
		return nil
	}
	return s.s3.Failed()
}

// close closes what is open, newest first.
func (s *stack) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	var errs []error
	if s.inside != nil {
		_ = s.inside.Close() // its server may have closed it
	}
	if s.s3 != nil {
		errs = append(errs, s.s3.Close())
	}
	if s.house != nil {
		errs = append(errs, s.house.Close(ctx))
	}
	if s.events != nil {
		errs = append(errs, s.events.Close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	if s.claim != nil && s.store.Healthy(ctx) == nil { // else it expires
		errs = append(errs, s.claim.Release(ctx))
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// DataDir returns the absolute data directory that the flag or the environment names.
func DataDir(flag string, getenv func(string) string, uid int) (string, error) {
	if flag == "" {
		return client.DataDir(getenv, uid)
	}
	abs, err := filepath.Abs(flag)
	if err != nil {
		return "", vm.Errorf(vm.Invalid, flag, "%w", err)
	}
	return abs, nil
}
