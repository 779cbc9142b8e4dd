// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"github.com/warren-vm/warren/vm"
)

// Options say where the records are.
type Options struct {
	Dir       string   // data directory of the embedded etcd
	SocketDir string   // directory of its sockets, made 0700; the paths stay below 100 bytes
	Endpoints []string // an existing cluster; then Dir and SocketDir are not used
	Log       *slog.Logger
}

// Store is an open set of records. Close it once, after its last user.
type Store struct {
	client *clientv3.Client
	server *embed.Etcd // nil with an existing cluster
	lock   *os.File    // held while the embedded server runs
	log    *slog.Logger

	stop context.CancelFunc // ends the defragmenter
	done chan struct{}      // closed when it has ended
}

const (
	openTimeout = 60 * time.Second
	quota       = 2 << 30 // bytes; records are small, this is etcd's own advice
	// defragEvery bounds the file's growth; it takes milliseconds at our sizes.
	defragEvery = 6 * time.Hour
)

// Open starts the embedded etcd, or connects to the cluster. It blocks until
// records can be read and written, some 0.1 s. Kinds: Busy (another process has
// the directory), Corrupt, NoSpace, Unavailable (no answer from the cluster).
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{log: o.Log, done: make(chan struct{})}
	var err error
	if len(o.Endpoints) > 0 {
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
		s.shut()
		return nil, err
	}
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.defragment(lifetime)
	return s, nil
}

func (s *Store) embed(ctx context.Context, o Options) error {
	for _, dir := range []string{o.Dir, o.SocketDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return vm.Errorf(vm.Internal, dir, "%w", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return vm.Errorf(vm.Internal, dir, "%w", err)
		}
	}
	// etcd itself would wait for the other process's lock for ever.
	lock, err := os.OpenFile(o.Dir+".lock", os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return vm.Errorf(vm.Internal, o.Dir, "%w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return vm.Errorf(vm.Busy, o.Dir, "another process has the record store open").WithHint("stop the other `warren serve` first")
	}
	s.lock = lock
	if err := s.start(ctx, o); err != nil {
		lock.Close()
		return err
	}
	return nil
}

func (s *Store) start(ctx context.Context, o Options) error {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = "warren", o.Dir
	client, peer := socketURL(o.SocketDir, "client"), socketURL(o.SocketDir, "peer")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 20, 200 // one member: an election is over at once
	cfg.QuotaBackendBytes = quota
	cfg.SnapshotCount = 5000
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModeRevision, "1000"
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapInto(o.Log))
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return openError(o.Dir, err)
	}
	s.server = server
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		server.Close()
		return openError(o.Dir, err)
	case <-ctx.Done():
		server.Close()
		return ctx.Err()
	case <-timer.C:
		server.Close()
		return vm.Errorf(vm.Timeout, o.Dir, "the record store is not ready after %s", openTimeout)
	}
	s.client = v3client.New(server.Server)
	return nil
}

func socketURL(dir, name string) url.URL {
	return url.URL{Scheme: "unix", Path: filepath.Join(dir, name+".sock")}
}

// Healthy reads through the quorum. Kind Unavailable when it does not answer.
func (s *Store) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := s.client.Get(ctx, prefix+"health"); err != nil {
		return vm.Errorf(vm.Unavailable, "records", "the store does not answer: %w", err)
	}
	return nil
}

// Close ends the store. Acknowledged writes are on disk already.
func (s *Store) Close() error {
	s.stop()
	<-s.done
	return s.shut()
}

func (s *Store) shut() error {
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

// defragment gives freed pages back now and then.
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
		case <-tick.C:
			if err := s.server.Server.Backend().Defrag(); err != nil {
				s.log.Warn("defragmenting the record store", "err", err)
			}
		}
	}
}
