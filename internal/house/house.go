// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package house builds the rooms of one server on one ledger, in the order of their
// dependencies, and closes them again. It holds no state of its own.
package house

import (
	"context"
	"errors"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/internal/names"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// Config holds the dependencies of a server's rooms. Clock defaults to the system's.
type Config struct {
	engine.Config
	Audit   journal.Auditor
	Events  journal.EventLog
	Backend ledger.Backend
	Volumes vault.Files
	HostID  string // of this server among those that share the backend
	// LeaveUnclaimed says that records without a host, which an older Warren wrote,
	// belong to another server.
	LeaveUnclaimed bool
	// Repositories are the git repositories that permissions may name; nil = none.
	Repositories access.Repositories

	Resolver       names.Resolver // for TXT records; nil = the system's
	PreviewDomains []string       // default: only warren.localhost
}

// House holds the rooms of one server.
type House struct {
	Ledger  *ledger.Ledger
	Journal *journal.Journal
	Meter   *meter.Meter
	Vault   *vault.Vault
	Access  *access.Access
	Engine  *engine.Engine
	Inside  *inside.Inside
	Names   *names.Names
}

// Open loads the ledger and opens every room. Close the house once. Its errors have the
// kinds of engine.Open.
func Open(ctx context.Context, c Config) (*House, error) {
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	c.Config = c.Config.WithDefaults()
	h := &House{Ledger: ledger.New(c.Backend, c.HostID, c.Log)}
	if c.LeaveUnclaimed {
		h.Ledger.LeaveUnclaimed()
	}
	h.Journal = journal.New(journal.Config{Audit: c.Audit, Events: c.Events, Clock: c.Clock, Log: c.Log, Dirs: []string{string(c.Dir), string(c.Run)}})
	h.Meter = meter.New(h.Ledger, c.Clock, c.Log)
	h.Vault = vault.New(ctx, vault.Config{Ledger: h.Ledger, Files: c.Volumes, Journal: h.Journal, Clock: c.Clock, Log: c.Log})
	h.Access = access.New(h.Ledger, access.Config{Journal: h.Journal, Clock: c.Clock, Repositories: c.Repositories, Log: c.Log})
	c.Config.Journal, c.Config.Ledger, c.Config.Meter, c.Config.Vault, c.Config.Access = h.Journal, h.Ledger, h.Meter, h.Vault, h.Access
	h.Names = names.New(h.Ledger, names.Config{Journal: h.Journal, Now: c.Clock.Now, Resolver: c.Resolver, PreviewDomains: c.PreviewDomains, Log: c.Log})
	c.Config.Names = h.Names
	h.Engine = engine.New(c.Config)
	if err := h.Ledger.Load(ctx); err != nil {
		return nil, err
	}
	if err := h.Engine.Open(ctx); err != nil {
		_ = h.Meter.Close(ctx)
		h.Vault.Close()
		h.Ledger.Close()
		return nil, err
	}
	h.Inside = inside.New(ctx, inside.Config{Engine: h.Engine, Access: h.Access, Journal: h.Journal, Clock: c.Clock, Settings: c.Settings, Dir: c.Dir})
	err := h.Access.Open(ctx, access.Rooms{
		VMs: h.Engine, Empty: h.Engine.EmptyAccount,
		Forget: []func(context.Context, vm.AccountID) error{h.Names.Forget, h.Engine.ForgetAccount},
	})
	if err == nil {
		err = h.Names.Open(ctx, h.Engine, h.Access)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

// Close ends the rooms' tasks and waits for them until ctx ends. Machines keep running.
func (h *House) Close(ctx context.Context) error {
	err := errors.Join(h.Inside.Close(ctx), h.Engine.Close(ctx), h.Meter.Close(ctx), h.Access.Close(ctx))
	h.Vault.Close()
	h.Ledger.Close()
	return err
}

// systemClock is the host's clock.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now().UTC() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
