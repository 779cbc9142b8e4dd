// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/house"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/job"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/internal/names"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/ship"
	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// Site is everything on a simulated host that outlives an engine. Tests open one engine
// after another on it.
type Site struct {
	World   *World
	Dir     layout.Dir
	Run     layout.RunDir
	Backend *Backend // of the ledger
	Host    string   // id of the server
	// LeaveUnclaimed says that records without a host belong to another server.
	LeaveUnclaimed bool

	Audit  *Audit
	Events *Events
	Clock  engine.Clock // nil = the system's
	Log    *slog.Logger

	Folders  *Folders       // of the host
	Resolver names.Resolver // nil = the system's

	PreviewDomains []string // default: only warren.localhost
	ReachPrivate   []netip.Prefix
	AskWebhook     asks.Webhook
	AuditArgs      string          // as in house.Config
	Scanner        objects.Scanner // of uploads; nil = every upload is clean
	Remote         objects.Remote  // another S3 for the bytes of objects; nil = files
	S3URL          string          // in signed links; "" = there are none

	Settings engine.Settings
	Fault    func(label string) error
}

// NewSite makes a site with its files below dir, which exists.
func NewSite(dir string) (*Site, error) {
	d, err := layout.Open(filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	run := filepath.Join(dir, "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return nil, err
	}
	return &Site{
		World: NewWorld(), Dir: d, Run: layout.RunDir(run), Backend: NewBackend(), Host: "here", Audit: &Audit{}, Events: &Events{},
		Folders: &Folders{}, Log: slog.New(slog.DiscardHandler),
	}, nil
}

// House holds the rooms of a server as one value, so that a test can call every verb on
// it.
type House struct {
	*engine.Engine
	*access.Access
	*journal.Journal
	*meter.Meter
	*inside.Inside
	*vault.Vault
	*names.Names
	*job.Job
	*answers.Answers
	*changes.Changes
	Asks   *asks.Asks
	Policy *policy.Policy
	Repo   *repo.Repo
	Ship   *ship.Ship
	Rooms  *house.House
}

// Open opens a server's rooms on the site.
func (s *Site) Open(ctx context.Context) (*House, error) {
	h, err := house.Open(ctx, house.Config{Backend: s.Backend, Records: s.Backend, Version: "test", Volumes: s.World.Volumes, HostID: s.Host, Reader: s.World.Reader(), LeaveUnclaimed: s.LeaveUnclaimed, Audit: s.Audit, Events: s.Events, Resolver: s.Resolver, PreviewDomains: s.PreviewDomains, ReachPrivate: s.ReachPrivate, AskWebhook: s.AskWebhook, AuditArgs: s.AuditArgs, Scanner: s.Scanner, Remote: s.Remote, S3URL: s.S3URL, Config: engine.Config{
		Dir: s.Dir, Run: s.Run,
		Machines: s.World.Machines(), Images: s.World.Images(), Host: s.World.Host(), Disk: storage.Measurer{Dir: s.Dir},
		Generations: s.World.Generations(s.Dir), Folders: s.Folders,
		Clock: s.Clock, Fault: s.Fault, Settings: s.Settings, Log: s.Log,
	}})
	if err != nil {
		return nil, err
	}
	return &House{Engine: h.Engine, Access: h.Access, Journal: h.Journal, Meter: h.Meter, Vault: h.Vault, Inside: h.Inside, Names: h.Names, Policy: h.Policy, Asks: h.Asks, Job: h.Job, Answers: h.Answers, Changes: h.Changes, Repo: h.Repo, Ship: h.Ship, Rooms: h}, nil
}

// Close closes the rooms.
func (h *House) Close(ctx context.Context) error { return h.Rooms.Close(ctx) }

// Admin makes the admin account of a fresh engine, and returns a call by it and its key's
// secret.
func Admin(ctx context.Context, e *House) (*vm.Call, string, error) {
	secret, _, err := e.EnsureAdmin(ctx)
	if err != nil {
		return nil, "", err
	}
	a, err := e.Authenticate(ctx, secret)
	if err != nil {
		return nil, "", err
	}
	return &vm.Call{Actor: a, Request: vm.NewRequestID()}, secret, nil
}
