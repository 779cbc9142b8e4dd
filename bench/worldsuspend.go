// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/warren-vm/warren/vm"
)

// worldSuspend measures suspend and resume, and QEMU alone on the suspended
// generation, with its files in the host's page cache and without.
func (b *bench) worldSuspend(ctx context.Context) (err error) {
	id, err := b.world(ctx, 512)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	for _, c := range []struct {
		cache string
		max   float64
		n     int
		empty func() error
	}{
		{"warm cache", 200, b.n, func() error { return nil }},
		{"cold cache", 400, max(5, b.n/2), dropCaches},
	} {
		if err := c.empty(); err != nil { // only root can
			b.rep.note("no figures with a %s: %v", c.cache, err)
			continue
		}
		verb := "resume, " + c.cache
		answer := b.rep.series(verb+" -> first answer", "ms", bound{Max: c.max})
		first := b.rep.series(verb+" -> first exec result", "ms", bound{})
		alone := b.floor(verb)
		for range c.n {
			if err := b.resume(ctx, id, c.empty, answer, first, alone); err != nil {
				return err
			}
		}
		alone.beside(verb, answer, first)
	}
	return nil
}

// resume suspends a VM and resumes it, after QEMU alone did the same on the
// generation. The host's cache is emptied before each, or not.
func (b *bench) resume(ctx context.Context, id string, empty func() error, answer, first *series, alone *floor) error {
	suspend := b.rep.series("suspend returns, durable", "ms", bound{Max: 250})
	var out struct {
		Generation vm.GenerationID `json:"snapshotLayerId"`
	}
	began := time.Now()
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/suspend", map[string]any{}, &out); err != nil {
		return err
	}
	suspend.took(time.Since(began))
	if err := errors.Join(empty(), b.aloneOn(ctx, id, out.Generation, alone), empty()); err != nil {
		return err
	}
	began = time.Now()
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/start", map[string]any{}, nil); err != nil {
		return err
	}
	answer.took(time.Since(began))
	if err := b.server.exec(ctx, id, "true"); err != nil {
		return err
	}
	first.took(time.Since(began))
	return pause(ctx, time.Second)
}
