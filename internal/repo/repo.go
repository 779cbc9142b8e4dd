// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package repo hosts git repositories: it keeps their records and files, serves them by
// git's protocols, and changes and reads them for the API. Every way in asks the same
// function for the caller's right. Objects are written to a quarantine first and join
// the repository only when all checks have passed.
//
// Git is a program of the host and never runs hooks, filters or configuration of a
// repository; see git.go.
package repo

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

// Config is what the room works with. Fields are required unless they say otherwise.
type Config struct {
	Dir     layout.Dir
	Access  *access.Access
	Journal *journal.Journal
	Now     func() time.Time
	Log     *slog.Logger
	Net     *outside.Net // reaches the sources of imports and the endpoints of webhooks
	// DiskLeft returns how many more bytes an account may store; negative = no limit.
	DiskLeft func(ctx context.Context, account vm.AccountID) (int64, error)
	// Pushed is told each change of a ref, after it was made; nil = nobody wants to
	// know. It must not block.
	Pushed func(vm.Repository, Pushed)
}

// Pushed is the change of a ref.
type Pushed struct {
	Ref      string // its full name
	Old, New string // ids; 40 zeros = it did not exist, it was deleted
	Actor    vm.Actor
}

// Repo is the room. All methods may be called at once from many goroutines. In every
// method ref is the id or the name of a repository of the caller's account, or the id of
// a public one. A repository that the caller may not see gives kind NotFound, code
// REPOSITORY_NOT_FOUND; a right that the caller lacks, kind Denied, code
// REPOSITORY_ACCESS_DENIED.
type Repo struct {
	cfg    Config
	table  *ledger.Table[string, vm.Repository]
	git    string     // the program
	naming sync.Mutex // held from the check of a name until its record is stored

	triggers   *ledger.Table[string, vm.Trigger]
	deliveries *ledger.Table[string, vm.Delivery]
	hooks      *hooks
	packing    sync.Mutex // held while the files of a repository are packed, or must stay as they are

	mu sync.Mutex
	// guarded by mu
	places map[vm.AccountID]chan struct{} // of clients that are served at once, by the caller's account
	life   context.Context                // ends with Close; nil before Open
	end    context.CancelFunc
	tasks  sync.WaitGroup
	cats   map[string][]*cat       // idle readers of objects, by repository
	due    map[string]bool         // repositories to be measured and packed
	nudge  chan struct{}           // wakes the task that does it
	stored map[vm.AccountID]stored // which grows with the accounts that store something
}

const (
	byAccount = "account" // indexes of the table
	byName    = "name"
)

// Kind is the table of repositories.
var Kind = ledger.Kind[string, vm.Repository]{
	Name: "repositories",
	Key:  func(r *vm.Repository) string { return r.ID },
	Host: func(r *vm.Repository) *string { return &r.Host },
	Index: map[string]func(*vm.Repository) []string{
		byAccount: func(r *vm.Repository) []string { return []string{string(r.Account)} },
		byName: func(r *vm.Repository) []string {
			if r.Name == "" {
				return nil
			}
			return []string{string(r.Account) + "/" + r.Name}
		},
	},
	Limit: ledger.Limit[vm.Repository]{
		Most: 10_000, Owner: func(r *vm.Repository) string { return string(r.Account) },
		What: "repositories", Then: "remove one (`warren repo rm NAME`)", Code: "GIT_REPO_LIMIT_EXCEEDED",
	},
}

// New returns the room with its table in the ledger. Load the ledger next, then call
// Open.
func New(l *ledger.Ledger, cfg Config) *Repo {
	r := &Repo{
		triggers: ledger.Add(l, TriggerKind), deliveries: ledger.Add(l, DeliveryKind),
		cfg: cfg, table: ledger.Add(l, Kind), git: "git", places: map[vm.AccountID]chan struct{}{},
		cats: map[string][]*cat{}, due: map[string]bool{}, nudge: make(chan struct{}, 1), stored: map[vm.AccountID]stored{},
	}
	r.hooks = newHooks(r)
	return r
}

// Repository finds a repository of any account by its id. Kind NotFound.
func (r *Repo) Repository(_ context.Context, id string) (vm.Repository, error) {
	rec, ok := r.table.Get(id)
	if !ok {
		return rec, missing(id)
	}
	return rec, nil
}

func missing(ref string) *vm.Error {
	return vm.Errorf(vm.NotFound, ref, "no such repository").WithCode("REPOSITORY_NOT_FOUND", "repoId", ref).
		WithHint("`warren repo ls` lists repositories")
}
