// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Scanner inspects uploads. It treats bytes and names as hostile.
type Scanner interface {
	// Quick judges an upload by its name, size and first bytes. The state Unscanned means
	// that the whole body must be read.
	Quick(ctx context.Context, u ScanInput) (Verdict, error)
	// Whole judges an upload by all of its bytes.
	Whole(ctx context.Context, u ScanInput, body io.ReaderAt) (Verdict, error)
}

// ScanInput is what a scanner is told of an upload.
type ScanInput struct {
	Key         string
	ContentType string // that the writer named
	Size        int64
	Head        []byte // the first bytes
}

// Verdict is what a scanner says.
type Verdict struct {
	State  vm.ScanState
	Reason string // why it was refused, or what was not looked at
}

// scans carries out the scans of uploads that are not judged by their first bytes, in the
// order of their writing.
type scans struct {
	wake chan struct{}
	done chan struct{} // closed when the task has ended

	mu   sync.Mutex
	told chan struct{} // closed and replaced when a scan has ended; guarded by mu
}

const (
	scanWait  = 30 * time.Second // how long a reader waits for a scan
	scanRetry = 10 * time.Second // after a scanner that failed
)

func (s *scans) init(o *Objects) {
	s.wake, s.done, s.told = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	s.nudge()
	go o.scanAll(s.done) // ends with o.life
}

// close waits for the task's end; there is none if the room did not open.
func (s *scans) close() {
	if s.done != nil {
		<-s.done
	}
}

func (s *scans) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *scans) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.told)
	s.told = make(chan struct{})
}

func (s *scans) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// judge sets the scan state of an upload before it is committed. If the scanner cannot say,
// the version is unscanned and is scanned later.
func (o *Objects) judge(ctx context.Context, b vm.Bucket, key string, s *stored, head []byte) {
	if o.cfg.Scanner == nil {
		s.Scan = vm.Clean
		return
	}
	v, err := o.cfg.Scanner.Quick(ctx, ScanInput{key, s.ContentType, s.Size, head})
	if err != nil {
		o.cfg.Log.Warn("an upload was not scanned yet", "bucket", b.Name, "err", err)
		v = Verdict{State: vm.Unscanned}
	}
	s.Scan, s.ScanReason = v.State, v.Reason
}

// awaitScan waits until a version is scanned.
func (o *Objects) awaitScan(ctx context.Context, c *vm.Call, w Which) (stored, error) {
	bounded, stop := context.WithTimeout(ctx, scanWait)
	defer stop()
	for {
		told := o.scans.next()
		s, b, err := o.lookup(c, w)
		if err != nil || s.Scan != vm.Unscanned {
			return s, err
		}
		select {
		case <-told:
		case <-bounded.Done():
			if err := context.Cause(ctx); err != nil {
				return s, err
			}
			return s, vm.Errorf(vm.Unavailable, shownKey(b.Name, w.Key), "it is not scanned yet").WithCode("OBJECT_UNSCANNED").WithHint("try again later")
		case <-o.life.Done():
			return s, closed()
		}
	}
}

// scanAll scans what is queued, until the room closes.
func (o *Objects) scanAll(done chan struct{}) {
	defer close(done)
	var retry *time.Timer
	defer func() {
		if retry != nil {
			retry.Stop()
		}
	}()
	for {
		select {
		case <-o.scans.wake:
		case <-o.life.Done():
			return
		}
		if err := o.scanQueue(); err != nil && o.life.Err() == nil {
			o.cfg.Log.Warn("uploads wait for their scan", "err", err)
			if retry != nil {
				retry.Stop()
			}
			retry = time.AfterFunc(scanRetry, o.scans.nudge)
		}
	}
}

// queued is an entry of the queue of scans.
type queued struct {
	seq    uint64
	bucket vm.Bucket
	stored
}

// scanQueue scans everything in the queue, one upload of each account in turn: an account
// with many does not keep the others waiting. It skips what fails, and returns the first
// error.
func (o *Objects) scanQueue() (first error) {
	failed, served := map[uint64]bool{}, map[vm.AccountID]bool{}
	for o.life.Err() == nil {
		var next *queued
		err := o.index.view(func(t *tx) (err error) {
			next, err = o.nextScan(t, failed, served)
			return err
		})
		switch {
		case err != nil:
			return err
		case next == nil && len(served) == 0:
			return first
		case next == nil:
			clear(served)
			continue
		}
		served[next.bucket.Account] = true
		if err := o.scanOne(*next); err != nil {
			failed[next.seq] = true
			if first == nil {
				first = err
			}
		}
		o.scans.ended()
	}
	return first
}

// nextScan returns the first entry of an account that was not served yet; nil = there is
// none.
func (o *Objects) nextScan(t *tx, failed map[uint64]bool, served map[vm.AccountID]bool) (*queued, error) {
	buckets := map[string]vm.Bucket{}
	for _, b := range o.buckets.All() {
		buckets[b.ID] = b
	}
	cur := t.Bucket(inScans).Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		q := &queued{seq: binary.BigEndian.Uint64(k)}
		known := false
		if q.bucket, known = buckets[string(v[:min(len(v), bucketIDSize)])]; !known || failed[q.seq] || served[q.bucket.Account] {
			continue
		}
		at := versionKey(q.bucket.ID, string(v[bucketIDSize:len(v)-1]), q.seq)
		record := t.get(inVersions, at)
		if record == nil {
			continue
		}
		var err error
		q.stored, err = load(q.bucket, at, record)
		return q, err
	}
	return nil, nil
}

// scanOne reads a version whole, and writes what the scanner says and the digest.
func (o *Objects) scanOne(q queued) error {
	v, digest, err := o.inspect(q)
	if err != nil {
		return err
	}
	var end func(error, map[string]any)
	if v.State == vm.Refused {
		c := &vm.Call{Actor: vm.Actor{Account: q.bucket.Account, System: "scan"}}
		if end, err = o.begin(o.life, c, vm.OpObjectScan, shownKey(q.bucket.Name, q.Key), map[string]any{"version": q.Version, "refused": v.Reason}); err != nil {
			return err
		}
		o.emit(c, "object.refused", q.bucket, map[string]any{"key": q.Key, "version": q.Version, "reason": v.Reason})
	}
	err = o.index.update(func(t *tx) error {
		s, err := t.version(q.bucket, q.Key, q.Version)
		if vm.KindOf(err) == vm.NotFound {
			return t.drop(inScans, seqBytes(q.seq))
		}
		if err != nil {
			return err
		}
		s.Scan, s.ScanReason, s.SHA256 = v.State, v.Reason, digest
		if err := t.save(q.bucket, q.Key, s); err != nil {
			return err
		}
		return t.drop(inScans, seqBytes(q.seq))
	})
	if end != nil {
		end(err, nil)
	}
	return err
}

// inspect has a version judged, and computes its digest if it has none. The digest is that
// of the bytes that a reader gets.
func (o *Objects) inspect(q queued) (v Verdict, digest string, err error) {
	content, err := o.content(q.bucket, q.stored)
	if err != nil {
		return v, "", err
	}
	defer content.pin()()
	if digest = q.SHA256; digest == "" {
		body, err := content.Range(o.life, 0, -1)
		if err != nil {
			return v, "", err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, body)
		if err = errors.Join(err, body.Close()); err != nil {
			return v, "", err
		}
		digest = hex.EncodeToString(sum.Sum(nil))
	}
	if o.cfg.Scanner == nil {
		return Verdict{State: vm.Clean}, digest, nil
	}
	body := &randomReader{o.life, content}
	in := ScanInput{Key: q.Key, ContentType: q.ContentType, Size: q.Size, Head: make([]byte, min(headSize, q.Size))}
	if _, err := body.ReadAt(in.Head, 0); err != nil && len(in.Head) > 0 {
		return v, "", err
	}
	if v, err = o.cfg.Scanner.Quick(o.life, in); err == nil && v.State == vm.Unscanned {
		v, err = o.cfg.Scanner.Whole(o.life, in, body)
	}
	if err == nil && v.State == vm.Unscanned {
		err = vm.Errorf(vm.Internal, shownKey(q.bucket.Name, q.Key), "the scanner does not say what the upload is")
	}
	return v, digest, err
}

// randomReader reads ranges of a version.
type randomReader struct {
	ctx context.Context
	c   *Content
}

// ReadAt reads a range.
func (r *randomReader) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), r.c.Size-off)
	if off < 0 || n < 0 {
		return 0, io.EOF
	}
	body, err := r.c.Range(r.ctx, off, n)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	got, err := io.ReadFull(body, p[:n])
	if err == nil && n < int64(len(p)) {
		err = io.EOF
	}
	return got, err
}
