// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"math"

	"github.com/warren-vm/warren/vm"
)

// space is what one push, commit or import holds of the bytes that its account may still
// store. Those that are in progress at once are counted together. Release it once.
type space struct {
	r       *Repo
	account vm.AccountID
	limited bool
	// most is what the account may store beyond what it had when this began; all that
	// is in progress, and what joined since, counts against it.
	most int64
	held int64 // guarded by r.mu
}

// stored counts the bytes of an account's repositories that DiskLeft does not see yet.
type stored struct {
	coming int64 // held by what is in progress
	joined int64 // that became part of repositories since the server's start
}

// newSpace begins to count for an account.
func (r *Repo) newSpace(ctx context.Context, account vm.AccountID) (*space, error) {
	s := &space{r: r, account: account}
	if r.cfg.DiskLeft == nil {
		return s, nil
	}
	// Before DiskLeft: what joins meanwhile is counted twice rather than never.
	r.mu.Lock()
	before := r.stored[account].joined
	r.mu.Unlock()
	left, err := r.cfg.DiskLeft(ctx, account)
	if err != nil {
		return nil, err
	}
	s.limited, s.most = left >= 0, before+left
	return s, nil
}

// left is how many bytes may join the repositories of an account; negative = no limit.
func (r *Repo) left(ctx context.Context, account vm.AccountID) (int64, error) {
	s, err := r.newSpace(ctx, account)
	if err != nil || !s.limited {
		return -1, err
	}
	return s.left(math.MaxInt64), nil
}

// left is how many bytes may still come, at most limit.
func (s *space) left(limit int64) int64 {
	if !s.limited {
		return limit
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return max(0, min(limit, s.leftLocked()))
}

func (s *space) leftLocked() int64 {
	all := s.r.stored[s.account]
	return s.most - all.coming - all.joined
}

// take counts n more bytes. Kind Limit when the account may not store them.
func (s *space) take(n int64) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.limited && n > s.leftLocked() {
		return overQuota(max(0, s.leftLocked()))
	}
	s.addLocked(n)
	return nil
}

func (s *space) addLocked(n int64) {
	all := s.r.stored[s.account]
	all.coming += n
	s.r.stored[s.account] = all
	s.held += n
}

// become counts n bytes instead of those that were taken.
func (s *space) become(n int64) error {
	s.r.mu.Lock()
	n -= s.held
	s.r.mu.Unlock()
	return s.take(n)
}

// release ends the count. joined = the bytes belong to a repository now.
func (s *space) release(joined bool) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	all := s.r.stored[s.account]
	all.coming -= s.held
	if joined {
		all.joined += s.held
	}
	s.r.stored[s.account] = all
	s.held = 0
}
