// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Lease is a sign of life: records written under it go when it is released, or
// when its holder has not been heard of for its term.
type Lease struct {
	store *Store
	id    clientv3.LeaseID
	stop  context.CancelFunc
	lost  chan struct{}
}

// Lease takes a lease of that term, at least a second, and keeps it until it is
// released or ctx ends.
func (s *Store) Lease(ctx context.Context, term time.Duration) (*Lease, error) {
	return s.leaseFor(ctx, ctx, term)
}

// leaseFor takes a lease while ctx lasts and keeps it while life does.
func (s *Store) leaseFor(ctx, life context.Context, term time.Duration) (*Lease, error) {
	resp, err := call(ctx, s, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return s.client.Grant(ctx, max(1, int64(term/time.Second)))
	})
	if err != nil {
		return nil, requestError("lease", err)
	}
	life, stop := context.WithCancel(life)
	beats, err := s.client.KeepAlive(life, resp.ID)
	if err != nil {
		stop()
		return nil, requestError("lease", err)
	}
	l := &Lease{store: s, id: resp.ID, stop: stop, lost: make(chan struct{})}
	go func() {
		defer close(l.lost)
		for range beats { // closed when the lease is gone or life has ended
		}
	}()
	return l, nil
}

// Lost is closed when the lease is not kept any more. Its records may then be
// gone at any time.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release gives the lease up, and its records with it.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.lost
	_, err := call(ctx, l.store, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return l.store.client.Revoke(ctx, l.id)
	})
	if err != nil {
		return requestError("lease", err)
	}
	return nil
}
