// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package access authenticates callers and decides what they may do. It keeps accounts
// with their API keys, and identities with their tokens, SSH keys and permissions. When a
// right ends, it ends the sessions that depend on the right. Every door may use it.
//
// Access takes only its own locks, and holds none of them while it calls another room.
// Another room may call Lookup, Reaches, May and Valid while it holds its own lock.
package access

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Journal takes audit records and events.
type Journal interface {
	// Record durably writes the audit record of an action, before the action; end writes
	// the outcome, nil = success.
	Record(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (end func(outcome error, detail map[string]any), err error)
	// Emit stores an event.
	Emit(ev vm.Event)
}

// Clock is the source of time.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once d has passed, unless stop is called
	// first.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// Repositories are the git repositories that permissions may name.
type Repositories interface {
	// Repository finds a repository of any account by its id; kind NotFound.
	Repository(ctx context.Context, id string) (vm.Repository, error)
}

// VMs are the VMs that permissions may name.
type VMs interface {
	// Find returns the VM that ref names among those that the actor may see: ref is an
	// id, or a name that only one of them has. Kinds NotFound, Invalid and Denied.
	Find(a vm.Actor, ref string) (vm.VM, error)
	// VMOf returns the VM with an id, of any account.
	VMOf(id vm.ID) (vm.VM, bool)
	// ChangeRepos durably replaces the repositories of a VM by what change makes of a copy
	// of them. It may call change more than once.
	ChangeRepos(ctx context.Context, id vm.ID, change func([]vm.RepoGrant) ([]vm.RepoGrant, error)) (vm.VM, error)
}

// Rooms holds what access needs of rooms that open after it.
type Rooms struct {
	VMs          VMs
	Repositories Repositories // nil = there are none
	// Ask asks for the approval of a call and waits for it; an error = no. nil = every ask
	// is refused.
	Ask func(ctx context.Context, c *vm.Call, ask vm.Ask) (vm.Ask, error)
	// Empty deletes everything in an account. Without force it fails with kind Busy if
	// the account is not empty.
	Empty func(ctx context.Context, c *vm.Call, a vm.Account, force bool) error
	// Forget removes the remaining records of an empty account from other rooms.
	Forget []func(ctx context.Context, id vm.AccountID) error
}

// Config holds the dependencies of access.
type Config struct {
	Journal Journal
	Clock   Clock
	Log     *slog.Logger
}

// Access is the room. Its methods may be called concurrently.
type Access struct {
	cfg    Config
	rooms  Rooms              // set by Open
	cancel context.CancelFunc // ends the expiry task; set by Open
	tasks  sync.WaitGroup
	expiry chan struct{} // wakes the expiry task: tokens or rights have changed

	accounts   *ledger.Table[vm.AccountID, vm.Account]
	keys       *ledger.Table[vm.KeyID, vm.APIKey]
	identities *ledger.Table[vm.IdentityID, vm.Identity]
	tokens     *ledger.Table[vm.TokenID, vm.IdentityToken]
	sshKeys    *ledger.Table[vm.SSHKeyID, vm.IdentityKey]
	grants     *ledger.Table[string, vm.VMPermission]
	repos      *ledger.Table[string, vm.GitPermission]

	accountWrite sync.Mutex // held from the check of a new account's name until it is stored
	idWrite      sync.Mutex // held from a check until the record of an identity, or of its rights, is stored

	mu sync.Mutex // taken last
	// guarded by mu
	sessions map[*Guarded]bool
	noted    map[string]time.Time // uses of keys and tokens that their records do not show yet
}

// New returns the room with its tables in the ledger. Load the ledger next, then
// call Open.
func New(l *ledger.Ledger, cfg Config) *Access {
	a := &Access{
		cfg: cfg, cancel: func() {}, expiry: make(chan struct{}, 1), sessions: map[*Guarded]bool{}, noted: map[string]time.Time{},
	}
	a.addTables(l)
	return a
}

// Open removes records of identities and VMs that are gone, and starts the task that ends
// expired tokens. Call Close once.
func (a *Access) Open(ctx context.Context, rooms Rooms) error {
	a.rooms = rooms
	if err := a.prune(ctx); err != nil {
		return vm.WithOp(vm.OpServe, "permissions", err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.tasks.Go(func() { a.expire(life) }) // ends with Close
	return nil
}

// Close ends the room's task and waits for it until ctx ends.
func (a *Access) Close(ctx context.Context) error {
	a.cancel()
	done := make(chan struct{})
	go func() { // ends with the task
		a.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return vm.WithOp(vm.OpServe, "", vm.Errorf(vm.Timeout, "", "the expiry of tokens did not end: %w", context.Cause(ctx)))
	}
}

func (a *Access) now() time.Time { return a.cfg.Clock.Now().UTC() }

// record durably writes the audit record of an action, before the action. If that fails,
// the action is refused. It also refuses identities: only the owner of an account changes
// permissions.
func (a *Access) record(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (end func(error, map[string]any), err error) {
	if err := c.Actor.OwnerOnly(string(entry.VM)); err != nil {
		return nil, err
	}
	return a.cfg.Journal.Record(ctx, c, entry)
}

// Page is one page of a list. The zero value is all of it.
type Page struct {
	Limit  int // 0 = all
	Offset int
}

func page[T any](list []T, p Page) ([]T, error) {
	if p.Limit < 0 || p.Offset < 0 {
		return nil, (&vm.Error{Kind: vm.Invalid, Msg: "limit and offset must not be negative"}).WithCode("INVALID_REQUEST")
	}
	list = list[min(p.Offset, len(list)):]
	if p.Limit > 0 {
		list = list[:min(p.Limit, len(list))]
	}
	return list, nil
}
