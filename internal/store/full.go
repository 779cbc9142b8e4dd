// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/backend"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

const (
	// smallGrowth is by how many bytes the records of one change may grow while
	// the store is full: whoever makes room changes a record before it goes.
	smallGrowth = 1 << 10
	// reclaimAfter is after how many revisions old ones are removed again while the
	// file is as large as the quota.
	reclaimAfter = 64
	// countCommits is after how many commits, without an older reader, every page
	// that was freed before them is counted as free: the first one frees it, the
	// second one makes it usable, the third one counts it.
	countCommits = 3
	// countFor is how long a change waits for that at most.
	countFor = 2 * time.Second
)

// hardQuota is where etcd itself stops to write. It is above our own, so that
// changes which make room still go through.
func hardQuota(quota int64) int64 { return quota + quota/4 }

// fits refuses what the store has no room for: a record that is too large, and,
// when the records take their quota even without their old revisions, what
// grows. Old revisions are removed first.
func (s *Store) fits(ctx context.Context, ops []Op) error {
	large := slices.ContainsFunc(ops, func(o Op) bool { return len(o.value) > ledger.MaxRecord })
	full := s.large(ops) && s.crowded(ctx, reclaimAfter)
	if !large && !full {
		return nil
	}
	old, err := s.current(ctx, ops)
	if err != nil {
		return err
	}
	grows := 0
	for i, o := range ops {
		was := 0
		if old[i] != nil {
			was = len(old[i].Value)
		}
		if len(o.value) > ledger.MaxRecord && len(o.value) >= was {
			return vm.Errorf(vm.Limit, o.id, "the record in %s would have %d bytes, at most %d", o.kind, len(o.value), ledger.MaxRecord).
				WithCode("LIMIT_EXCEEDED", "limit", ledger.MaxRecord, "current", was, "requested", len(o.value)).
				WithHint("remove some of what belongs to it, or give shorter names and paths")
		}
		if was == 0 && !o.delete {
			grows += smallGrowth // a new record is no small change
		}
		grows += len(o.value) - was
	}
	if full && grows > smallGrowth && s.crowded(ctx, 1) && s.counted(ctx) >= s.quota {
		return vm.Errorf(vm.NoSpace, ops[0].id, "the records take %d MiB, as many as they may", s.quota>>20).
			WithHint("delete VMs, snapshots, volumes, tokens or keys that nobody needs; deleting still works, and nothing was lost")
	}
	return nil
}

// large reports whether the file of the embedded etcd is as large as the quota.
// etcd counts it when it commits, ten times a second or later: what has been
// written since its last commit is added, and much of it is committed first.
func (s *Store) large(ops []Op) bool {
	if s.server == nil {
		return false // the operator of a cluster looks after its quota
	}
	more := int64(0)
	for _, o := range ops {
		more += int64(len(o.path()) + len(o.value))
	}
	b := s.server.Server.Backend()
	if more = s.written.Add(more); b.Size()+more < s.quota {
		return false
	}
	if more > s.quota/64 {
		s.written.Store(0)
		b.ForceCommit()
	}
	return b.Size() >= s.quota
}

// current reads the records that ops are about; nil where there is none.
func (s *Store) current(ctx context.Context, ops []Op) ([]*mvccpb.KeyValue, error) {
	out := make([]*mvccpb.KeyValue, len(ops))
	for i, o := range ops {
		resp, err := call(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) { return s.client.Get(ctx, o.path()) })
		if err != nil {
			return nil, requestError(o.id, err)
		}
		if len(resp.Kvs) > 0 {
			out[i] = resp.Kvs[0]
		}
	}
	return out, nil
}

// crowded reports whether the records take their quota, after old revisions
// were removed if there are so many of them.
func (s *Store) crowded(ctx context.Context, revisions int64) bool {
	if err := s.reclaim(ctx, revisions); err != nil {
		s.log.Warn("old revisions of the records could not be removed", "err", err)
	}
	return s.server.Server.Backend().SizeInUse() >= s.quota
}

// counted returns how many bytes the records take, after every freed page is
// counted. etcd counts at a commit, and counts the pages that a commit frees
// only at a later one, which comes with the next write. counted makes these
// commits itself. Pages that a reader may still look at are not free: it waits
// for the readers, for countFor at most.
func (s *Store) counted(ctx context.Context) int64 {
	s.reclaiming.Lock()
	defer s.reclaiming.Unlock()
	b := s.server.Server.Backend()
	rev := s.server.Server.KV().Rev()
	if rev == s.countedAt {
		return b.SizeInUse() // nothing was written since
	}
	end := time.Now().Add(countFor)
	for n := 0; n < countCommits && b.SizeInUse() >= s.quota; {
		b.ForceCommit()
		if b.OpenReadTxN() <= 1 { // its own, of the state that was just committed
			n++
			continue
		}
		n = 0
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return b.SizeInUse()
		}
		if time.Now().After(end) {
			return b.SizeInUse()
		}
	}
	s.countedAt = rev
	return b.SizeInUse()
}

// reclaim removes the revisions that nobody reads any more, if there are at
// least so many, and gives the pages that are free then back, if they are many;
// with 0 in any case. Then it disarms etcd's alarm, which refuses every write.
func (s *Store) reclaim(ctx context.Context, revisions int64) error {
	s.reclaiming.Lock()
	defer s.reclaiming.Unlock()
	b := s.server.Server.Backend()
	now := s.server.Server.KV().Rev()
	if now-s.compacted < revisions {
		return nil
	}
	if now != s.compacted {
		_, err := call(ctx, s, func(ctx context.Context) (*clientv3.CompactResponse, error) {
			return s.client.Compact(ctx, now, clientv3.WithCompactPhysical())
		})
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return requestError("records", err)
		}
		s.compacted = now
		b.ForceCommit()
		b.ForceCommit() // counts most of the freed pages; counted counts them all
	}
	// etcd may count freed pages only later. Where the file is so large that etcd refuses to
	// write, it is defragmented even if no page counts as free.
	if free := b.Size() - b.SizeInUse(); free > s.quota/8 || revisions == 0 && (free > 0 || b.Size() >= hardQuota(s.quota)) {
		if err := s.shrink(b); err != nil {
			return err
		}
	}
	if b.Size() >= hardQuota(s.quota) {
		return nil // etcd would raise it again
	}
	return s.disarm(ctx)
}

// shrink gives free pages of the file back. It blocks the store meanwhile:
// milliseconds at our sizes.
func (s *Store) shrink(b backend.Backend) error {
	if err := s.room(createRoom + uint64(b.SizeInUse())); err != nil { // it makes a copy
		return err
	}
	if err := b.Defrag(); err != nil {
		return requestError("records", err)
	}
	return nil
}

// alarmed reports whether etcd refuses to write for want of space.
func (s *Store) alarmed() bool {
	return slices.ContainsFunc(s.server.Server.Alarms(), func(a *etcdserverpb.AlarmMember) bool {
		return a.Alarm == etcdserverpb.AlarmType_NOSPACE // another one tells of damage
	})
}

// disarm ends that, if it is so.
func (s *Store) disarm(ctx context.Context) error {
	if !s.alarmed() {
		return nil
	}
	_, err := call(ctx, s, func(ctx context.Context) (*clientv3.AlarmResponse, error) {
		return s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: uint64(s.server.Server.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE})
	})
	if err != nil {
		return requestError("records", err)
	}
	s.log.Warn("the record store had reached its limit of space and takes changes again")
	return nil
}

// committed makes a transaction. Where etcd has no space for it, old revisions
// are removed and it is tried once more.
func (s *Store) committed(ctx context.Context, ops []Op, commit func(context.Context) (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	resp, err := call(ctx, s, commit)
	if s.server == nil || !errors.Is(err, rpctypes.ErrNoSpace) {
		return resp, err
	}
	if rerr := s.reclaim(ctx, 0); rerr != nil {
		return nil, rerr
	}
	// etcd says so, too, of one that it made and that raised the alarm.
	if rev, rerr := s.made(ctx, ops); rerr != nil || rev > 0 {
		return &clientv3.TxnResponse{Succeeded: true, Header: &etcdserverpb.ResponseHeader{Revision: rev}}, rerr
	}
	return call(ctx, s, commit)
}

// made returns the revision at which all of ops were made as one; 0 = they were
// not.
func (s *Store) made(ctx context.Context, ops []Op) (rev int64, err error) {
	now, err := s.current(ctx, ops)
	if err != nil {
		return 0, err
	}
	for i, o := range ops {
		switch kv := now[i]; {
		case o.delete && kv != nil, !o.delete && (kv == nil || kv.ModRevision == o.revision || string(kv.Value) != string(o.value)):
			return 0, nil
		case !o.delete && rev != 0 && kv.ModRevision != rev:
			return 0, nil
		case !o.delete:
			rev = kv.ModRevision
		}
	}
	return rev, nil
}
