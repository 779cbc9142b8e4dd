// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// SaveResult keeps the answer, or the progress, of a background request for
// its account.
func (e *Engine) SaveResult(ctx context.Context, c *vm.Call, r Result) error {
	r.Account = c.Actor.Account
	if r.Created.IsZero() {
		r.Created = e.now()
	}
	list, err := e.cfg.Records.Results.List(ctx)
	if err != nil {
		return fail(vm.OpGet, string(r.Request), err)
	}
	ctx, stop := durable(ctx)
	defer stop()
	for _, old := range list {
		if old.Request == r.Request {
			r.Revision, r.Created = old.Revision, old.Created
			_, err := e.cfg.Records.Results.Update(ctx, r)
			return fail(vm.OpGet, string(r.Request), err)
		}
		if e.now().Sub(old.Created) > e.cfg.Settings.ResultsKept {
			if err := e.cfg.Records.Results.Delete(ctx, old); err != nil {
				e.log.Warn("an old answer was not removed", "request", old.Request, "err", err)
			}
		}
	}
	_, err = e.cfg.Records.Results.Create(ctx, r)
	return fail(vm.OpGet, string(r.Request), err)
}

// Result returns what SaveResult kept; kind NotFound after an hour, and for
// another account's.
func (e *Engine) Result(ctx context.Context, c *vm.Call, id vm.RequestID) (Result, error) {
	list, err := e.cfg.Records.Results.List(ctx)
	if err != nil {
		return Result{}, fail(vm.OpGet, string(id), err)
	}
	for _, r := range list {
		if r.Request == id && r.Account == c.Actor.Account && e.now().Sub(r.Created) <= e.cfg.Settings.ResultsKept {
			return r, nil
		}
	}
	return Result{}, fail(vm.OpGet, string(id), vm.Errorf(vm.NotFound, string(id), "no such request").WithCode("NOT_FOUND"))
}
