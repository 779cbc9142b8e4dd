// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package house builds the rooms of one server on one ledger, in the order of their
// dependencies, and closes them again. It holds no state of its own.
package house

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/internal/backup"
	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/evidence"
	"github.com/warren-vm/warren/internal/handoff"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/job"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/internal/names"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/secret"
	"github.com/warren-vm/warren/internal/ship"
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

	Reader changes.DiskReader // of frozen disks; nil = none
	// Records reads all records for a backup; nil = this server makes none.
	Records backup.Records
	Version string // of Warren

	Scanner objects.Scanner // of uploads; nil = every upload is clean
	S3URL   string          // at which S3 clients reach the objects; "" = they do not
	Remote  objects.Remote  // another S3 for the bytes of objects; nil = the data directory

	AskWebhook asks.Webhook // where asks are announced
	AuditArgs  string       // which arguments of commands audit records have: vm.ArgsFull ("", too), vm.ArgsDigest or vm.ArgsNone

	Resolver       names.Resolver // for TXT records; nil = the system's
	PreviewDomains []string       // default: only warren.localhost
	// ReachPrivate are the private addresses to which imports and webhooks may connect.
	ReachPrivate []netip.Prefix
}

// House holds the rooms of one server.
type House struct {
	Ledger   *ledger.Ledger
	Journal  *journal.Journal
	Meter    *meter.Meter
	Vault    *vault.Vault
	Access   *access.Access
	Asks     *asks.Asks
	Engine   *engine.Engine
	Inside   *inside.Inside
	Names    *names.Names
	Policy   *policy.Policy
	Job      *job.Job
	Answers  *answers.Answers
	Repo     *repo.Repo
	Objects  *objects.Objects
	Changes  *changes.Changes
	Memories *changes.Memories
	Ship     *ship.Ship
	Backup   *backup.Backup
	Evidence *evidence.Evidence
	Handoff  *handoff.Handoff
	Secrets  *secret.Secrets

	opened []func(context.Context) error // closes what was opened, in the order of the opening
}

// Open loads the ledger and opens every room. Close the house once. Its errors have the
// kinds of engine.Open. After an error, all that was opened is closed.
func Open(ctx context.Context, c Config) (*House, error) {
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	c.Config = c.Config.WithDefaults()
	h := build(ctx, &c)
	if err := h.open(ctx, c); err != nil {
		if closeErr := h.Close(ctx); closeErr != nil {
			err = errors.Join(err, closeErr)
		}
		return nil, err
	}
	return h, nil
}

// build makes the ledger and the rooms that have tables.
func build(ctx context.Context, c *Config) *House {
	h := &House{Ledger: ledger.New(c.Backend, c.HostID, c.Log)}
	if c.LeaveUnclaimed {
		h.Ledger.LeaveUnclaimed()
	}
	h.Journal = journal.New(journal.Config{Audit: c.Audit, Events: c.Events, Log: c.Log, Dirs: []string{string(c.Dir), string(c.Run)}})
	h.Meter = meter.New(h.Ledger, c.Clock, c.Log)
	h.Vault = vault.New(ctx, vault.Config{Ledger: h.Ledger, Files: c.Volumes, Journal: h.Journal, Clock: c.Clock, Log: c.Log})
	h.Access = access.New(h.Ledger, access.Config{Journal: h.Journal, Clock: c.Clock, Log: c.Log})
	c.Config.Journal, c.Config.Ledger, c.Config.Meter, c.Config.Vault, c.Config.Access = h.Journal, h.Ledger, h.Meter, h.Vault, h.Access
	h.Asks = asks.New(h.Ledger, asks.Config{Journal: h.Journal, Clock: c.Clock, Log: c.Log, Webhook: c.AskWebhook, Args: c.AuditArgs})
	h.Names = names.New(h.Ledger, names.Config{Journal: h.Journal, Now: c.Clock.Now, Resolver: c.Resolver, PreviewDomains: c.PreviewDomains, Log: c.Log})
	c.Config.Names = h.Names
	h.Policy = policy.New(h.Ledger, policy.Config{Journal: h.Journal, Clock: c.Clock, Log: c.Log})
	c.Config.Policies = h.Policy
	c.Config.Hosted = func(ctx context.Context, c *vm.Call, ref string) (vm.Repository, error) {
		return h.Repo.Get(ctx, c, ref)
	}
	c.Config.Repos = func() []vm.Repository { return h.Repo.All() }
	c.Config.BeforeSuspend = func(ctx context.Context, id vm.ID) { h.Memories.Flush(ctx, id) }
	c.Config.BeforeRemove = func(ctx context.Context, v vm.VM) { h.recordLeft(ctx, v, c.Log) }
	c.Config.Losses = func(ctx context.Context, v vm.VM, layers []string) (vm.OnlyHere, error) {
		return h.Changes.Losses(ctx, v, layers)
	}
	c.Config.Objects = objectGrants{h}
	h.Secrets = secret.New(h.Ledger, secret.Config{Dir: c.Dir, Journal: h.Journal, Net: outside.New(c.ReachPrivate), Now: c.Clock.Now, Log: c.Log})
	c.Config.Secrets = h.Secrets.Uses
	h.Engine = engine.New(c.Config)
	h.Answers = answers.New(h.Ledger, answers.Config{Dir: c.Dir, Now: c.Clock.Now, Log: c.Log})
	h.Repo = repo.New(h.Ledger, repo.Config{Dir: c.Dir, Access: h.Access, Journal: h.Journal, Now: c.Clock.Now, Log: c.Log, DiskLeft: h.Engine.DiskLeft, Net: outside.New(c.ReachPrivate)})
	h.Objects = objects.New(h.Ledger, objects.Config{
		Dir: c.Dir, Access: h.Access, Journal: h.Journal, Now: c.Clock.Now, Log: c.Log, DiskLeft: h.Engine.DiskLeft, VMAccount: h.accountOf, Scanner: c.Scanner, Remote: c.Remote, Endpoint: c.S3URL,
	})
	h.Changes = changes.New(changes.Config{Engine: h.Engine, Access: h.Access, Journal: h.Journal, Repo: h.Repo, Scratch: c.Dir.RepoIncoming(), Reader: c.Reader, Clock: c.Clock, Log: c.Log})
	h.Memories = changes.NewMemories(ctx, h.Ledger, changes.MemoryConfig{Engine: h.Engine, Repo: h.Repo, Journal: h.Journal, Changes: h.Changes, Now: c.Clock.Now, Log: c.Log})
	h.Ship = ship.New(ship.Config{Engine: h.Engine, Access: h.Access, Journal: h.Journal, Objects: h.Objects, Reader: c.Reader, Log: c.Log})
	h.Job = job.New(h.Ledger, job.Config{Engine: h.Engine, Access: h.Access, Vault: h.Vault, Meter: h.Meter, Journal: h.Journal, Secrets: h.Secrets, Now: c.Clock.Now, Ship: h.Ship, Object: h.object})
	h.Handoff = handoff.New(handoff.Config{Dir: c.Dir, Host: c.HostID, Version: c.Version, Engine: h.Engine, Repo: h.Repo, Objects: h.Objects, Published: h.publishedRefs, Journal: h.Journal, Now: c.Clock.Now, Log: c.Log})
	h.Backup = backup.New(backup.Config{Dir: c.Dir, Host: c.HostID, Version: c.Version, Records: c.Records, Engine: h.Engine, Repos: h.Repo, Objects: h.Objects, Journal: h.Journal, Now: c.Clock.Now, Log: c.Log})
	h.Journal.Know(journal.Facts{VM: h.Engine.VMOf, Right: h.Access.RightDigest})
	h.Evidence = evidence.New(evidence.Config{Dir: c.Dir, Journal: h.Journal, VM: h.Engine.VMOf, Locked: h.locked, Now: c.Clock.Now, Version: c.Version})
	h.opened = append(h.opened, ended(h.Ledger.Close), ended(h.Vault.Close))
	return h
}

// ended is a Close that cannot fail.
func ended(end func()) func(context.Context) error {
	return func(context.Context) error {
		end()
		return nil
	}
}

func (h *House) open(ctx context.Context, c Config) error {
	if err := h.Ledger.Load(ctx); err != nil {
		return err
	}
	h.opened = append(h.opened, h.Access.Close, h.Meter.Close)
	if err := h.Engine.Open(ctx); err != nil {
		return err
	}
	for _, v := range h.Engine.VMsWhere(func(*vm.VM) bool { return true }) {
		h.recordLeft(ctx, v, c.Log)
	}
	h.Secrets.Open(h.Engine)
	h.Inside = inside.New(ctx, inside.Config{Engine: h.Engine, Access: h.Access, Journal: h.Journal, Clock: c.Clock, Settings: c.Settings, Dir: c.Dir, AuditArgs: c.AuditArgs})
	h.Changes.Open(h.Inside, h.Memories)
	h.Changes.OpenObjects(h.published)
	h.Ship.Open(h.Inside)
	h.opened = append(h.opened, h.Engine.Close, h.Inside.Close)
	h.Policy.Open(ctx, h.Engine)
	h.opened = append(h.opened, h.Policy.Close)
	err := h.Access.Open(ctx, access.Rooms{
		VMs: h.Engine, Repositories: h.Repo, Empty: h.emptyAccount, Ask: h.Asks.Call,
		Forget: []func(context.Context, vm.AccountID) error{h.Repo.Forget, h.Objects.Forget, h.Memories.Forget, h.Names.Forget, h.Policy.Forget, h.Job.Forget, h.Answers.Forget, h.Meter.Forget, h.Asks.Forget, h.Secrets.Forget},
	})
	if err == nil {
		h.opened = append(h.opened, h.Asks.Close)
		err = h.Asks.Open(ctx, h.Engine, h.Policy)
	}
	if err == nil {
		err = h.Answers.Open()
	}
	if err == nil {
		h.opened = append(h.opened, h.Repo.Close)
		err = h.Repo.Open(ctx)
	}
	if err == nil {
		h.opened = append(h.opened, h.Objects.Close)
		err = h.Objects.Open(ctx)
	}
	if err == nil {
		h.opened = append(h.opened, h.Memories.Close)
		err = h.Memories.Open(ctx)
	}
	if err != nil {
		return err
	}
	return h.Names.Open(ctx, h.Engine, h.Access)
}

// objectGrants are the rights of VMs in the room of objects, which opens after the engine.
type objectGrants struct{ h *House }

func (g objectGrants) Inherit(ctx context.Context, from, to vm.ID) error {
	return g.h.Objects.Inherit(ctx, from, to)
}

func (g objectGrants) LetRead(ctx context.Context, c *vm.Call, id vm.ID, bucket, prefix string) (func(context.Context) error, error) {
	return g.h.Objects.LetRead(ctx, c, id, bucket, prefix)
}

func (g objectGrants) DropVM(ctx context.Context, id vm.ID) error {
	return g.h.Objects.DropVM(ctx, id)
}

// recordLeft records the connections that a VM's monitors left in a file. What fails is logged.
func (h *House) recordLeft(ctx context.Context, v vm.VM, log *slog.Logger) {
	if err := h.Evidence.RecordLeft(ctx, v); err != nil {
		log.Error("connections of a guest, made while the server was away, are not recorded", "vm", v.ID, "err", err)
	}
}

// accountOf returns the account of a VM.
func (h *House) accountOf(id vm.ID) (vm.AccountID, bool) {
	v, ok := h.Engine.VMOf(id)
	return v.Account, ok
}

// emptyAccount deletes everything in an account. Without force it fails with kind Busy
// if the account has repositories, buckets or what the engine names. Forget removes the
// repositories and buckets.
func (h *House) emptyAccount(ctx context.Context, c *vm.Call, a vm.Account, force bool) error {
	if n := h.Repo.Owned(a.ID); n > 0 && !force {
		return vm.Errorf(vm.Busy, a.Name, "the account has %d repositories", n).WithHint("remove them first, or use --force")
	}
	if n := h.Objects.Owned(a.ID); n > 0 && !force {
		return vm.Errorf(vm.Busy, a.Name, "the account has %d buckets", n).WithHint("remove them first, or use --force")
	}
	return h.Engine.EmptyAccount(ctx, c, a, force)
}

// Close closes what was opened, the last first. The rooms end their tasks, and Close
// waits for them until ctx ends. Machines keep running.
func (h *House) Close(ctx context.Context) error {
	var errs []error
	for _, end := range slices.Backward(h.opened) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

// systemClock is the host's clock.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now().UTC() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
