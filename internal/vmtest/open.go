// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/vm"
)

// Site is everything of a simulated host that outlives an engine: open one
// engine after another on it.
type Site struct {
	World   *World
	Dir     layout.Dir
	Run     layout.RunDir
	Records engine.Records
	Audit   *Audit
	Events  *Events
	Clock   engine.Clock // nil = the system's
	Log     *slog.Logger

	Folders      *Folders            // of the host
	Repositories engine.Repositories // nil = there are none
	Resolver     engine.Resolver     // nil = the system's

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
		World: NewWorld(), Dir: d, Run: layout.RunDir(run), Records: NewRecords(), Audit: &Audit{}, Events: &Events{},
		Folders: &Folders{}, Log: slog.New(slog.DiscardHandler),
	}, nil
}

// Open opens an engine on the site.
func (s *Site) Open(ctx context.Context) (*engine.Engine, error) {
	return engine.Open(ctx, engine.Config{
		Dir: s.Dir, Run: s.Run, Records: s.Records, Audit: s.Audit, Events: s.Events,
		Machines: s.World.Machines(), Images: s.World.Images(), Host: s.World.Host(), Disk: storage.Measurer{Dir: s.Dir},
		Generations: s.World.Generations(s.Dir), Volumes: s.World.Volumes, Folders: s.Folders, Repositories: s.Repositories,
		Clock: s.Clock, Fault: s.Fault, Settings: s.Settings, Log: s.Log, Resolver: s.Resolver,
	})
}

// Admin makes the admin account of a fresh engine, and returns a call of it and
// the secret of its key.
func Admin(ctx context.Context, e *engine.Engine) (*vm.Call, string, error) {
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
