// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Limits for the bodies of stored answers, in bytes.
const (
	maxAnswer         = 4 << 20   // of one
	maxAccountAnswers = 64 << 20  // of an account
	maxAnswers        = 512 << 20 // of all accounts
)

// SaveResult stores the answer, or the progress, of a background request for its account.
// The body is a file beside the record. Kind Limit when it is too large, or when there
// are too many.
func (e *Engine) SaveResult(ctx context.Context, c *vm.Call, r Result) error {
	r.Account = c.Actor.Account
	return fail(vm.OpGet, string(r.Request), e.storeResult(ctx, r))
}

func (e *Engine) storeResult(ctx context.Context, r Result) error {
	e.dropResults(ctx)
	body := r.Body
	r.Body, r.Bytes = nil, int64(len(body))
	if err := e.roomForAnswer(r); err != nil {
		return err
	}
	if r.Bytes > 0 { // before the record that names it
		if err := layout.MakeDir(e.cfg.Dir.Answers()); err != nil {
			return err
		}
		if err := layout.WriteFile(e.cfg.Dir.Answer(r.Request), body, 0o600); err != nil {
			return err
		}
	}
	if _, there := e.tables.results.Get(r.Request); there {
		_, err := e.tables.results.Change(ctx, r.Request, func(rec *Result) error {
			r.Created = rec.Created
			*rec = r
			return nil
		})
		return err
	}
	if r.Created.IsZero() {
		r.Created = e.now()
	}
	return e.tables.results.Create(ctx, r)
}

// roomForAnswer refuses an answer with a body that is too large.
func (e *Engine) roomForAnswer(r Result) error {
	if r.Bytes == 0 {
		return nil
	}
	own, all := r.Bytes, r.Bytes
	for _, old := range e.tables.results.All() {
		if old.Request == r.Request {
			continue
		}
		if all += old.Bytes; old.Account == r.Account {
			own += old.Bytes
		}
	}
	if r.Bytes > maxAnswer || own > maxAccountAnswers || all > maxAnswers {
		return vm.Errorf(vm.Limit, string(r.Request), "its answer of %d bytes cannot be stored: at most %d, and %d for all answers of an account", r.Bytes, maxAnswer, maxAccountAnswers).
			WithHint("request less at a time, or make the request in the foreground")
	}
	return nil
}

// dropResults removes expired answers.
func (e *Engine) dropResults(ctx context.Context) {
	for _, old := range e.tables.results.All() {
		if e.now().Sub(old.Created) <= e.cfg.Settings.ResultsKept {
			continue
		}
		err := e.tables.results.Drop(ctx, old.Request)
		if err == nil {
			err = os.Remove(e.cfg.Dir.Answer(old.Request))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.log.Warn("an expired answer could not be removed", "request", old.Request, "err", err)
		}
	}
}

// sweepAnswers removes the files of answers that have no record.
func (e *Engine) sweepAnswers() error {
	return orphans(e.cfg.Dir.Answers(), func(name string) error {
		if r, ok := e.tables.results.Get(vm.RequestID(name)); ok && r.Bytes > 0 {
			return nil
		}
		if err := os.Remove(filepath.Join(e.cfg.Dir.Answers(), name)); err != nil {
			e.log.Warn("the file of an answer without a record was not removed", "name", name, "err", err)
		}
		return nil
	})
}

// Result returns a stored answer. Kind NotFound when it has expired or belongs to another
// account.
func (e *Engine) Result(_ context.Context, c *vm.Call, id vm.RequestID) (Result, error) {
	r, ok := e.tables.results.Get(id)
	if !ok || r.Account != c.Actor.Account || e.now().Sub(r.Created) > e.cfg.Settings.ResultsKept {
		return Result{}, fail(vm.OpGet, string(id), vm.Errorf(vm.NotFound, string(id), "no such request").WithCode("NOT_FOUND"))
	}
	if r.Bytes > 0 {
		var err error
		if r.Body, err = os.ReadFile(e.cfg.Dir.Answer(id)); err != nil {
			return Result{}, fail(vm.OpGet, string(id), layout.Error(e.cfg.Dir.Answer(id), err))
		}
	}
	return r, nil
}
