// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package answers keeps the answers of background requests for an hour: a record in
// the ledger, and the body in a file.
package answers

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Limits for the bodies of stored answers, in bytes.
const (
	maxBody    = 4 << 20   // of one answer
	maxAccount = 64 << 20  // of an account
	maxAll     = 512 << 20 // of all accounts
)

const kept = time.Hour // for one answer

// Config is what the room works with. Every field is required.
type Config struct {
	Dir layout.Dir
	Now func() time.Time
	Log *slog.Logger
}

// Answers is the room. All methods may be called at once from many goroutines.
type Answers struct {
	cfg   Config
	table *ledger.Table[vm.RequestID, Result]
}

// Result is the stored answer of a background request.
type Result struct {
	Request vm.RequestID `json:"id"`
	Account vm.AccountID `json:"account"`
	Done    bool         `json:"done"`
	Status  int          `json:"status,omitempty"` // HTTP status of the answer
	Body    []byte       `json:"body,omitempty"`   // stored in a file; an older warren stored it here
	Bytes   int64        `json:"bytes,omitempty"`  // of that file; 0 = there is none
	Logs    []ResultLog  `json:"logs,omitempty"`
	Created time.Time    `json:"created"`
	Host    string       `json:"host,omitempty"` // id of the server that wrote it; "" = an older warren
}

// ResultLog is one progress line of a background request.
type ResultLog struct {
	Timestamp time.Time `json:"timestamp"`
	Message   string    `json:"message"`
}

const byAccount = "account" // an index of the table

// Kind is the table of answers.
var Kind = ledger.Kind[vm.RequestID, Result]{
	Name:  "results",
	Key:   func(r *Result) vm.RequestID { return r.Request },
	Host:  func(r *Result) *string { return &r.Host },
	Index: map[string]func(*Result) []string{byAccount: func(r *Result) []string { return []string{string(r.Account)} }},
	Limit: ledger.Limit[Result]{
		Most: 500, Owner: func(r *Result) string { return string(r.Account) },
		What: "background requests of the last hour", Then: "wait for the answer instead",
	},
}

// New returns the room with its table in the ledger. Load the ledger next, then call
// Open.
func New(l *ledger.Ledger, cfg Config) *Answers {
	return &Answers{cfg: cfg, table: ledger.Add(l, Kind)}
}

// Open removes files that have no record: the server ended between the two writes.
func (a *Answers) Open() error {
	entries, err := os.ReadDir(a.cfg.Dir.Answers())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return vm.WithOp(vm.OpServe, "", layout.Error(a.cfg.Dir.Answers(), err))
	}
	for _, entry := range entries {
		if r, ok := a.table.Get(vm.RequestID(entry.Name())); ok && r.Bytes > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(a.cfg.Dir.Answers(), entry.Name())); err != nil {
			a.cfg.Log.Warn("the file of an answer without a record was not removed", "name", entry.Name(), "err", err)
		}
	}
	return nil
}

// SaveResult durably keeps the answer, or the progress, of a background request for
// the caller's account, in place of an earlier one. Kind Limit when the body is too
// large, or when there are too many.
func (a *Answers) SaveResult(ctx context.Context, c *vm.Call, r Result) error {
	r.Account = c.Actor.Account
	return vm.WithOp(vm.OpGet, string(r.Request), a.save(ctx, r))
}

func (a *Answers) save(ctx context.Context, r Result) error {
	a.dropOld(ctx)
	body := r.Body
	r.Body, r.Bytes = nil, int64(len(body))
	if err := a.fits(r); err != nil {
		return err
	}
	if r.Bytes > 0 { // before the record that names it
		if err := layout.MakeDir(a.cfg.Dir.Answers()); err != nil {
			return err
		}
		if err := layout.WriteFile(a.cfg.Dir.Answer(r.Request), body, 0o600); err != nil {
			return err
		}
	}
	if _, there := a.table.Get(r.Request); there {
		_, err := a.table.Change(ctx, r.Request, func(rec *Result) error {
			r.Created = rec.Created
			*rec = r
			return nil
		})
		return err
	}
	if r.Created.IsZero() {
		r.Created = a.cfg.Now().UTC()
	}
	return a.table.Create(ctx, r)
}

// fits refuses an answer with a body that is too large.
func (a *Answers) fits(r Result) error {
	if r.Bytes == 0 {
		return nil
	}
	own, all := r.Bytes, r.Bytes
	for _, old := range a.table.All() {
		if old.Request == r.Request {
			continue
		}
		if all += old.Bytes; old.Account == r.Account {
			own += old.Bytes
		}
	}
	if r.Bytes > maxBody || own > maxAccount || all > maxAll {
		return vm.Errorf(vm.Limit, string(r.Request), "its answer of %d bytes cannot be stored: at most %d, and %d for all answers of an account", r.Bytes, maxBody, maxAccount).
			WithHint("request less at a time, or make the request in the foreground")
	}
	return nil
}

// Result returns what SaveResult kept. Kind NotFound after an hour, and for the answer
// of another account.
func (a *Answers) Result(_ context.Context, c *vm.Call, id vm.RequestID) (Result, error) {
	r, ok := a.table.Get(id)
	if !ok || r.Account != c.Actor.Account || a.old(r) {
		return Result{}, vm.WithOp(vm.OpGet, string(id), vm.Errorf(vm.NotFound, string(id), "no such request").WithCode("NOT_FOUND"))
	}
	if r.Bytes > 0 {
		var err error
		if r.Body, err = os.ReadFile(a.cfg.Dir.Answer(id)); err != nil {
			return Result{}, vm.WithOp(vm.OpGet, string(id), layout.Error(a.cfg.Dir.Answer(id), err))
		}
	}
	return r, nil
}

// Forget removes the answers of an account that is deleted.
func (a *Answers) Forget(ctx context.Context, account vm.AccountID) error {
	for _, r := range a.table.By(byAccount, string(account)) {
		if err := a.drop(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// old reports whether an answer is no longer kept.
func (a *Answers) old(r Result) bool { return a.cfg.Now().Sub(r.Created) > kept }

// dropOld removes the answers that are no longer kept.
func (a *Answers) dropOld(ctx context.Context) {
	for _, r := range a.table.All() {
		if !a.old(r) {
			continue
		}
		if err := a.drop(ctx, r); err != nil {
			a.cfg.Log.Warn("an expired answer could not be removed", "request", r.Request, "err", err)
		}
	}
}

// drop removes the record of an answer, and then its file.
func (a *Answers) drop(ctx context.Context, r Result) error {
	if err := a.table.Drop(ctx, r.Request); err != nil {
		return err
	}
	if err := os.Remove(a.cfg.Dir.Answer(r.Request)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
