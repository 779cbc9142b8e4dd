// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// pool measures create -> first result with a machine from the pool, compared with
// the ordinary create of the same VM on a server without a pool.
func (b *bench) pool(ctx context.Context) (err error) {
	pooled := b.rep.series("create from the pool -> first exec result", "ms", bound{Max: 60})
	created := b.rep.series("create from the pool, until it answers", "ms", bound{})
	plain := b.rep.series("create without the pool -> first exec result", "ms", bound{Max: 250})
	plainCreated := b.rep.series("create without the pool, until it answers", "ms", bound{})

	id, err := timeCreate(ctx, b.server, "base", nil, nil) // may build the warm generation
	if err != nil {
		return err
	}
	if err := b.server.remove(ctx, id); err != nil {
		return err
	}
	s, err := startServer(ctx, b.binary, filepath.Join(b.dir, "pooled"), b.server.dir.Images(), 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	n := min(b.n, 7)
	for i := range n + 1 {
		if err := s.fullPool(ctx); err != nil {
			return err
		}
		if i == 0 { // the server's own first create
			id, err = timeCreate(ctx, s, "base", nil, nil)
		} else {
			id, err = timeCreate(ctx, s, "base", created, pooled)
		}
		if err != nil {
			return err
		}
		if err := s.remove(ctx, id); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if id, err = timeCreate(ctx, b.server, "base", plainCreated, plain); err != nil {
			return err
		}
		if err := b.server.remove(ctx, id); err != nil {
			return err
		}
	}
	b.rep.ratio("create without the pool / from it -> first exec", plain, pooled, bound{})
	at, err := s.poolState(ctx)
	if err == nil && at.Hits != n+1 {
		err = fmt.Errorf("%d of %d creates were served by the pool", at.Hits, n+1)
	}
	return err
}

// poolState is a server's report about its pool.
type poolState struct{ Ready, Hits int }

func (s *server) poolState(ctx context.Context) (poolState, error) {
	var host struct{ Pool poolState }
	err := s.call(ctx, "GET", "/v1/host", nil, &host)
	return host.Pool, err
}

// fullPool waits until the pool's machine is there.
func (s *server) fullPool(ctx context.Context) error {
	var failed error
	err := s.tick(ctx, 2*time.Minute, func() bool {
		var at poolState
		at, failed = s.poolState(ctx)
		return failed != nil || at.Ready > 0
	})
	return errors.Join(err, failed)
}
