// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package house builds the rooms of one server on one ledger, in the order in
// which they need each other, and closes them again. It holds no state of its own.
package house

import (
	"context"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
)

// Config is what the rooms of a server work with.
type Config struct {
	engine.Config
	Audit   journal.Auditor
	Events  journal.EventLog
	Backend ledger.Backend
	HostID  string // of this server among those that share the backend
}

// House is the rooms of one server.
type House struct {
	Ledger  *ledger.Ledger
	Journal *journal.Journal
	Engine  *engine.Engine
}

// Open loads the ledger and opens every room. Close the house once. The kinds of
// its errors are those of engine.Open.
func Open(ctx context.Context, c Config) (*House, error) {
	h := &House{Ledger: ledger.New(c.Backend, c.HostID, c.Log)}
	h.Journal = journal.New(journal.Config{Audit: c.Audit, Events: c.Events, Clock: c.Clock, Log: c.Log, Dirs: []string{string(c.Dir), string(c.Run)}})
	c.Config.Journal, c.Config.Ledger = h.Journal, h.Ledger
	h.Engine = engine.New(c.Config)
	if err := h.Ledger.Load(ctx); err != nil {
		return nil, err
	}
	if err := h.Engine.Open(ctx); err != nil {
		h.Ledger.Close()
		return nil, err
	}
	return h, nil
}

// Close ends what the rooms do, at most as long as ctx. Machines go on.
func (h *House) Close(ctx context.Context) error {
	err := h.Engine.Close(ctx)
	h.Ledger.Close()
	return err
}
