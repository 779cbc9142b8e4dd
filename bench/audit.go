// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/vm"
)

const (
	auditRate    = 5000            // records a second
	auditFor     = 4 * time.Second // of one run
	auditTick    = time.Millisecond
	auditRuns    = 5
	auditRecords = 100_000 // of the log that is verified
)

// auditLog measures the audit log in this process, on the disk of the data directory:
// appends that arrive at a fixed rate, whether or not the earlier ones are done, and the
// verification of a log. Beside the appends stands what the disk alone takes: 4 KiB are
// appended to a file and synced, one write after the other.
func (b *bench) auditLog(ctx context.Context) error {
	p99 := b.rep.series("audit: append at 5,000/s, 99th percentile", "ms", bound{Max: 1})
	p50 := b.rep.series("audit: append at 5,000/s, median", "ms", bound{})
	disk99 := b.rep.series("audit: write and sync of 4 KiB alone, 99th percentile", "ms", bound{})
	for range auditRuns {
		all, err := b.auditAppends(ctx, auditRate, auditFor)
		if err != nil {
			return err
		}
		p99.took(percentile(all, 99))
		p50.took(percentile(all, 50))
		alone, err := b.syncsAlone(1000)
		if err != nil {
			return err
		}
		disk99.took(percentile(alone, 99))
	}
	b.rep.ratio("audit append p99 / write and sync alone p99", p99, disk99, bound{})
	return b.auditVerify(ctx)
}

func percentile(all []time.Duration, p int) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*p/100)]
}

// auditEntry is a record of the size that exec has.
func auditEntry(i int) audit.Entry {
	return audit.Entry{
		Op: vm.OpExec, VM: "bench0000000000000000", Request: vm.RequestID(fmt.Sprintf("req-%020d", i)),
		Actor:  vm.Actor{Account: "6f0a2f3e-5d0e-4d9e-9a6b-3c9a5b0f1e2d", Identity: "7c1b3e5f-0a2d-4b8c-8e4f-1d2c3b4a5f60"},
		Detail: map[string]any{"command": "go test ./...", "user": "root", "generation": "gen-0123456789abcdef"},
	}
}

// auditAppends opens a log, appends to it at a rate, and returns the time of each append.
func (b *bench) auditAppends(ctx context.Context, rate int, d time.Duration) (all []time.Duration, err error) {
	dir, err := os.MkdirTemp(b.dir, "audit-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := audit.Open(ctx, filepath.Join(dir, "audit"), audit.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	n := int(float64(rate) * d.Seconds())
	all = make([]time.Duration, n)
	failed := make([]error, n)
	var wg sync.WaitGroup
	for sent, began := 0, time.Now(); sent < n; time.Sleep(auditTick) {
		for due := min(n, int(time.Since(began).Seconds()*float64(rate))); sent < due; sent++ {
			i, from := sent, time.Now()
			wg.Go(func() {
				id, err := l.Begin(ctx, auditEntry(i))
				all[i] = time.Since(from)
				if err == nil {
					err = l.End(id, nil, nil)
				}
				failed[i] = err
			})
		}
	}
	wg.Wait()
	return all, errors.Join(failed...)
}

// syncsAlone appends 4 KiB to a file and syncs it, n times in turn.
func (b *bench) syncsAlone(n int) (all []time.Duration, err error) {
	f, err := os.CreateTemp(b.dir, "syncs-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 4096)
	for range n {
		from := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		all = append(all, time.Since(from))
	}
	return all, nil
}

// auditVerify verifies a log of auditRecords lines.
func (b *bench) auditVerify(ctx context.Context) (err error) {
	rate := b.rep.series("audit: records verified", "1/s", bound{Min: 100_000})
	hashing := b.rep.series("audit: records of which the bytes are only hashed", "1/s", bound{})
	dir, err := os.MkdirTemp(b.dir, "audit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logs := filepath.Join(dir, "audit")
	l, err := audit.Open(ctx, logs, audit.Options{})
	if err != nil {
		return err
	}
	for at := 0; at < auditRecords; at += 1000 {
		batch := make([]audit.Entry, 1000)
		for i := range batch {
			batch[i] = auditEntry(at + i)
			batch[i].Outcome = "ok" // else it stays open
		}
		if err := l.Record(ctx, batch); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	for range auditRuns {
		began := time.Now()
		rep, err := audit.Verify(logs, "", audit.Head{})
		took := time.Since(began)
		if err != nil || rep.Problem != "" || rep.Records < auditRecords {
			return fmt.Errorf("verify: %+v, %w", rep, err)
		}
		rate.add(float64(rep.Records) / took.Seconds())
		began = time.Now()
		if err := hashFiles(logs); err != nil {
			return err
		}
		hashing.add(float64(rep.Records) / time.Since(began).Seconds())
	}
	return nil
}

// hashFiles reads and hashes the files of a directory, whole.
func hashFiles(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		sha256.Sum256(data)
	}
	return nil
}
