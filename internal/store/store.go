// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/warren-vm/warren/vm"
)

// Options say where the records are.
type Options struct {
	Dir       string   // data directory of the embedded etcd
	SocketDir string   // directory of its sockets, made 0700; at most 88 bytes long
	Endpoints []string // an existing cluster; then Dir and SocketDir are not used
	// Quota is how many bytes the embedded etcd's records may take; 0 = 2 GiB.
	Quota int64
	Log   *slog.Logger
}

// Store is an open set of records. Close it once, after its last user.
type Store struct {
	client *clientv3.Client
	server *embed.Etcd // nil with an existing cluster
	dir    string      // of the embedded server
	lock   *os.File    // held while the embedded server runs
	log    *slog.Logger
	fail   *failure

	createRoom, changeRoom uint64 // free bytes below which nothing is written

	quota      int64        // bytes that the records may take
	written    atomic.Int64 // bytes since etcd's last commit that was asked for
	reclaiming sync.Mutex   // held while old revisions are removed; guards what follows
	compacted  int64        // the revision below which there are none
	countedAt  int64        // the revision at which all freed pages were counted

	stop context.CancelFunc // ends the defragmenter
	done chan struct{}      // closed when it has ended
}

const (
	openTimeout = 40 * time.Second
	// defragEvery bounds the file's growth; it takes milliseconds at our sizes.
	defragEvery = 6 * time.Hour
	// What a write leaves free on the embedded server's disk: etcd cannot continue
	// after a write of its own failed. Changes get more than new records, for
	// they are how a person makes room.
	createRoom = 32 << 20
	changeRoom = 4 << 20
)

// Open starts the embedded etcd, or connects to the cluster. It blocks until
// records can be read and written, some 0.1 s. Kinds: Busy (another process has
// the directory), Corrupt, NoSpace, Invalid (the sockets' path is too long),
// Unavailable (no answer from the cluster).
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{
		dir: o.Dir, log: o.Log, done: make(chan struct{}), fail: newFailure(o.Dir), createRoom: createRoom, changeRoom: changeRoom,
		quota: cmp.Or(o.Quota, quota),
	}
	var err error
	if len(o.Endpoints) > 0 {
		s.dir = "" // it looks after its own disks
		s.client, err = clientv3.New(clientv3.Config{
			Endpoints: o.Endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		})
		if err != nil {
			return nil, vm.Errorf(vm.Unavailable, o.Endpoints[0], "etcd: %w", err).WithHint("check --etcd-endpoints")
		}
	} else if err = s.embed(ctx, o); err != nil {
		return nil, err
	}
	if err := s.Healthy(ctx); err != nil {
		_ = s.shut() // the first error says more
		return nil, err
	}
	if s.server != nil && (s.server.Server.Backend().Size() >= s.quota || s.alarmed()) {
		if err := s.reclaim(ctx, 0); err != nil { // what makes room may go through anyway
			o.Log.Warn("the record store is full, and old revisions could not be removed", "err", err)
		}
	}
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.defragment(lifetime)
	return s, nil
}

// Healthy reads through the quorum. Kind Unavailable when it does not answer,
// NoSpace or Corrupt when the embedded server has failed for that.
func (s *Store) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := call(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, prefix+"health")
	})
	if err != nil && s.fail.get() == nil {
		return vm.Errorf(vm.Unavailable, "records", "the store does not answer: %w", err)
	}
	return err
}

// Failed is closed when the embedded server cannot continue: its disk failed, or
// its data did. Every call then fails with the reason, which Healthy tells too.
// What was acknowledged is on disk; only a new process can open it.
func (s *Store) Failed() <-chan struct{} { return s.fail.happened }

// Close ends the store. Acknowledged writes are on disk already.
func (s *Store) Close() error {
	s.stop()
	<-s.done
	return s.shut()
}

func (s *Store) shut() error {
	if err := s.fail.get(); err != nil {
		return err // its goroutines are gone or stuck; the process is to end
	}
	err := s.client.Close()
	if s.server != nil {
		s.server.Close()
		s.lock.Close()
	}
	if errors.Is(err, context.Canceled) { // an embedded client ends with its server
		return nil
	}
	return err
}

// defragment gives freed pages back when they are most of the file.
func (s *Store) defragment(lifetime context.Context) {
	defer close(s.done)
	if s.server == nil {
		return // somebody else's cluster
	}
	tick := time.NewTicker(defragEvery)
	defer tick.Stop()
	for {
		select {
		case <-lifetime.Done():
			return
		case <-s.fail.happened:
			return
		case <-tick.C:
			if err := s.defragmentOnce(); err != nil {
				s.log.Warn("defragmenting the record store", "err", err)
			}
		}
	}
}

func (s *Store) defragmentOnce() error {
	b := s.server.Server.Backend()
	if b.SizeInUse() > b.Size()/2 {
		return nil
	}
	s.reclaiming.Lock()
	defer s.reclaiming.Unlock()
	return s.shrink(b)
}

// call runs one request. A request to an embedded server that fails meanwhile
// may never come back: it is left behind.
func call[R any](ctx context.Context, s *Store, f func(context.Context) (R, error)) (R, error) {
	if s.server == nil {
		return f(ctx)
	}
	type result struct {
		r   R
		err error
	}
	c := make(chan result, 1)
	go func() {
		r, err := f(ctx)
		c <- result{r, err}
	}()
	select {
	case out := <-c:
		if out.err != nil && s.fail.get() != nil {
			out.err = s.fail.get()
		}
		return out.r, out.err
	case <-s.fail.happened:
		var none R
		return none, s.fail.get()
	}
}
