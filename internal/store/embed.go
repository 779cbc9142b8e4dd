// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

const (
	quota     = 2 << 30 // bytes that records may take; they are small, this is etcd's own advice
	maxSocket = 100     // bytes of a socket's path
	// segment is the size of a file of etcd's log. Two are set aside at once.
	segment = 8 << 20
	newRoom = 2*segment + createRoom
	// One change is of so many records at most, with so many bytes: the children of
	// one fork, 1,000 at most, are committed at once.
	maxChanges     = 2048
	maxChangeBytes = 8 << 20
	maxRecord      = 3 << 19 // bytes of one
)

// etcd's own 64 MB are for larger records than ours; it has no option for it.
func init() { wal.SegmentSizeBytes = segment }

func (s *Store) embed(ctx context.Context, o Options) error {
	if n := len(socketURL(o.SocketDir, "client").Path); n > maxSocket {
		return vm.Errorf(vm.Invalid, o.SocketDir, "the path of a socket in it would have %d bytes, at most %d", n, maxSocket).
			WithHint("choose a shorter data or run directory")
	}
	for _, dir := range []string{o.Dir, o.SocketDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return openError(dir, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return openError(dir, err)
		}
	}
	// etcd itself would wait for the other process's lock for ever.
	lock, err := os.OpenFile(o.Dir+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return openError(o.Dir, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return vm.Errorf(vm.Busy, o.Dir, "another process has the record store open").WithHint("stop the other `warren serve` first")
	}
	s.lock = lock
	err = s.checkFiles(lock)
	if err == nil {
		err = s.start(ctx, o)
	}
	if err != nil {
		if s.fail.get() == nil { // else it may still write
			lock.Close()
		}
		return err
	}
	_, err = lock.WriteAt([]byte(opened), 0)
	if err == nil {
		err = s.keepNames()
	}
	if err != nil {
		_ = s.shut() // the first error says more
		return openError(o.Dir, err)
	}
	return nil
}

// keepNames makes the names of the store's directories durable. etcd syncs what
// it writes to its files, and not where it has put them.
func (s *Store) keepNames() error {
	member := filepath.Join(s.dir, "member")
	for _, dir := range []string{filepath.Join(member, "snap"), filepath.Join(member, "wal"), member, s.dir, filepath.Dir(s.dir)} {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// opened stands in the lock file once there was a store.
const opened = "records were kept here\n"

// checkFiles refuses a store whose files are gone: etcd would begin an empty
// one in its place, and what VMs there are on disk would seem to be nobody's.
// It refuses a disk too small for a new one, too; one that exists opens on a
// disk that is nearly full, for records have to be changed to make room.
func (s *Store) checkFiles(lock *os.File) error {
	st, err := lock.Stat()
	if err != nil {
		return openError(s.dir, err)
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "member", "wal", "*.wal"))
	switch {
	case err != nil:
		return openError(s.dir, err)
	case len(logs) > 0:
		return s.room(s.changeRoom)
	case st.Size() == 0:
		return s.room(newRoom)
	}
	return vm.Errorf(vm.Corrupt, s.dir, "the record store is gone: it has no log any more").
		WithHint("restore the directory from a backup; to begin without any records instead, move it and %s aside", lock.Name())
}

func (s *Store) config(o Options) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = "warren", o.Dir
	client, peer := socketURL(o.SocketDir, "client"), socketURL(o.SocketDir, "peer")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 20, 200 // one member: an election is over at once
	cfg.QuotaBackendBytes = hardQuota(s.quota)
	cfg.MaxTxnOps, cfg.MaxRequestBytes = maxChanges, maxChangeBytes
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 1000, 100 // entries that are held in memory; nobody has to catch up
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModeRevision, "1000"
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(&core{log: o.Log}, zap.WithFatalHook(s.fail), zap.WithPanicHook(s.fail)))
	return cfg
}

// start brings the server up. etcd ends its goroutine when it finds its data
// damaged: the start has one of its own.
func (s *Store) start(ctx context.Context, o Options) error {
	type started struct {
		server *embed.Etcd
		err    error
	}
	c := make(chan started, 1)
	go func() {
		var out started
		defer func() {
			if p := recover(); p != nil { // etcd and bbolt panic on data they cannot read
				out.err = fmt.Errorf("corrupt: %v", p)
			}
			c <- out
		}()
		if out.err = checkLog(o.Dir); out.err == nil {
			out.server, out.err = embed.StartEtcd(s.config(o))
		}
	}()
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	var out started
	select {
	case out = <-c:
	case <-s.fail.happened: // perhaps in a goroutine that the start waits for
	case <-timer.C:
		s.fail.set(notReady(o.Dir))
	}
	switch {
	case s.fail.get() != nil:
		return s.fail.get()
	case out.err != nil:
		return openError(o.Dir, out.err)
	}
	var err error
	select {
	case <-out.server.Server.ReadyNotify():
		s.server = out.server
		s.client = v3client.New(out.server.Server)
		reserve(filepath.Join(o.Dir, "member", "snap", "db"))
		return nil
	case <-s.fail.happened:
		return s.fail.get()
	case err = <-out.server.Err():
		err = openError(o.Dir, err)
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = notReady(o.Dir)
	}
	s.abandon(out.server, err)
	return err
}

func notReady(dir string) error {
	return vm.Errorf(vm.Timeout, dir, "the record store is not ready after %s", openTimeout).
		WithHint("see whether the disk is slow; else its log does not fit its database: restore the directory from a backup")
}

// reserved is the space of the disk that the database file is given in advance.
const reserved = 32 << 20

// reserve gives the database file blocks beyond its end, which it grows into: a
// disk that fills up between the look at its room and a commit does not end the
// record store. Where the file system cannot, nothing is lost by it.
func reserve(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // nothing was written
	if st, err := f.Stat(); err == nil {
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, st.Size()+reserved)
	}
}

// abandon lets go of a server that did not come up. Closing one may never end:
// that is not waited for, and nothing else may use its directory meanwhile.
func (s *Store) abandon(server *embed.Etcd, err error) {
	s.fail.set(err)
	go server.Close()
}

func socketURL(dir, name string) url.URL {
	return url.URL{Scheme: "unix", Path: filepath.Join(dir, name+".sock")}
}

// room refuses what would leave less than that many bytes free.
func (s *Store) room(need uint64) error {
	if s.dir == "" {
		return nil // of a cluster
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return openError(s.dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < need {
		return vm.Errorf(vm.NoSpace, s.dir, "the disk of the record store has %d MiB left, %d are needed", free>>20, need>>20).
			WithHint("free disk space; nothing was lost")
	}
	return nil
}
