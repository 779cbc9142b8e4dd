// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	hostKind = "hosts" // one record for each server that runs
	// unclaimedID is the record that names the server to which the records without a
	// host belong. No host has such an id.
	unclaimedID = ".unclaimed"
	// claimTerm is how long a claim outlives a server that is gone.
	claimTerm  = 8 * time.Second
	claimGrace = 3 * time.Second // etcd removes an expired lease this late at most
	claimPoll  = 200 * time.Millisecond
	claimTry   = 5 * time.Second // of one try to claim
)

// Claimant is a server that claims a host id.
type Claimant struct {
	Host string
	// Process identifies its process, as JSON. Alive says whether the process that
	// another server's Process identifies runs; known = false where that cannot be
	// seen from here.
	Process json.RawMessage
	Alive   func(process json.RawMessage) (alive, known bool)
	Log     *slog.Logger
}

// claim is the stored form.
type claim struct {
	Host    string          `json:"host"`
	Process json.RawMessage `json:"process"`
	Since   time.Time       `json:"since"`
}

// Claim says in the store, for the life of a server, that it has a host id.
type Claim struct {
	store *Store
	who   Claimant
	value []byte
	stop  context.CancelFunc
	done  chan struct{} // closed when keep has ended
	lost  chan struct{} // closed when another server has the id
	err   error         // why; read after lost

	lease *Lease // belongs to keep
}

// Claim claims a host id. When there is a claim already, it depends on the process
// that made it: it is taken over when that has ended, and kind Busy is returned when
// it runs; when neither can be seen, Claim waits until the claim expires, 11 seconds
// at most, and returns kind Busy when it does not. An embedded store needs no claim:
// it is locked for one process.
func (s *Store) Claim(ctx context.Context, who Claimant) (*Claim, error) {
	value, err := json.Marshal(claim{who.Host, who.Process, time.Now().UTC()})
	if err != nil {
		return nil, vm.Errorf(vm.Internal, who.Host, "claim: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Claim{store: s, who: who, value: value, stop: stop, done: make(chan struct{}), lost: make(chan struct{})}
	if s.server != nil {
		close(c.done)
		return c, nil
	}
	for end := time.Now().Add(claimTerm + claimGrace); ; {
		wait, err := c.try(ctx, life)
		if err == nil {
			go c.keep(life)
			return c, nil
		}
		if !wait || time.Now().After(end) {
			stop()
			return nil, err
		}
		select {
		case <-ctx.Done():
			stop()
			return nil, context.Cause(ctx)
		case <-time.After(claimPoll):
		}
	}
}

// Lost is closed when another server has claimed the host id. Err says so then.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Err is why the claim was lost, of kind Busy; call it after Lost.
func (c *Claim) Err() error { return c.err }

// Release gives the claim up.
func (c *Claim) Release(ctx context.Context) error {
	c.stop()
	<-c.done
	if c.lease == nil {
		return nil
	}
	return c.lease.Release(ctx)
}

// keep claims the id again when the lease is lost, which it is after the cluster
// was out of reach for longer than the term. It ends when another server has it.
func (c *Claim) keep(life context.Context) {
	defer close(c.done)
	for {
		select {
		case <-c.lease.Lost():
		case <-life.Done():
			return
		}
		for err := error(vm.Unavailable); err != nil; {
			if life.Err() != nil {
				return
			}
			_, err = c.try(life, life)
			switch {
			case err == nil:
				c.who.Log.Warn("the claim of the host id had expired and was made again", "host", c.who.Host)
				continue
			case vm.KindOf(err) == vm.Busy:
				c.err = err
				close(c.lost)
				return
			}
			c.who.Log.Warn("the claim of the host id has expired and cannot be made again yet", "host", c.who.Host, "err", err)
			select {
			case <-life.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// try claims the id once, under a new lease that lives as long as life. Kind Busy
// when another server has it; wait = perhaps not for long.
func (c *Claim) try(ctx, life context.Context) (wait bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTry)
	defer cancel()
	b := Backend{c.store}
	o := Op{kind: hostKind, id: c.who.Host, value: c.value}
	old, err := b.Read(ctx, hostKind, c.who.Host)
	switch {
	case err == nil:
		if wait, err := c.taken(old.Value); err != nil {
			return wait, err
		}
		o.revision = old.Revision
	case vm.KindOf(err) != vm.NotFound:
		return false, err
	}
	lease, err := c.store.leaseFor(ctx, life, claimTerm)
	if err != nil {
		return false, err
	}
	if _, err := c.store.Txn(ctx, o.Under(lease)); err != nil {
		_ = lease.Release(ctx) // the first error says more, and it expires
		switch vm.KindOf(err) {
		case vm.Exists, vm.NotFound, vm.Busy:
			return true, vm.Errorf(vm.Busy, c.who.Host, "another server claims this host id now").WithHint("try again")
		}
		return false, err
	}
	c.lease = lease
	return false, nil
}

// taken returns an error of kind Busy when a stored claim may be of a server that
// runs; wait = or it may be of one that is gone.
func (c *Claim) taken(stored []byte) (wait bool, err error) {
	if string(stored) == string(c.value) {
		return false, nil
	}
	var other claim
	_ = json.Unmarshal(stored, &other) // a damaged one expires like another
	alive, known := c.who.Alive(other.Process)
	if known && !alive {
		return false, nil
	}
	return !known, vm.Errorf(vm.Busy, c.who.Host, "another server runs with this host id on this etcd, since %s", other.Since.Format(time.RFC3339)).
		WithHint("stop that server, or give this one a data directory and a --host-id of its own")
}

// TakeUnclaimed reports whether the records without a host, which an older warren
// wrote, belong to a host. They belong to the first one that asks for them. An
// embedded store has one host only.
func (s *Store) TakeUnclaimed(ctx context.Context, host string) (bool, error) {
	if s.server != nil {
		return true, nil
	}
	b := Backend{s}
	_, err := s.Txn(ctx, Op{kind: hostKind, id: unclaimedID, value: []byte(`{"host":"` + host + `"}`)})
	if vm.KindOf(err) != vm.Exists {
		return err == nil, err
	}
	e, err := b.Read(ctx, hostKind, unclaimedID)
	if err != nil {
		return false, err
	}
	var first claim
	if err := json.Unmarshal(e.Value, &first); err != nil {
		return false, vm.Errorf(vm.Corrupt, hostKind+"/"+unclaimedID, "it cannot be read: %w", err)
	}
	return first.Host == host, nil
}
