// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	defaultSegment = 4 << 20 // bytes
	defaultKeep    = 16      // segments
	keepFor        = 30 * 24 * time.Hour
	maxEvent       = 64 << 10
	// maxUnsynced events may be lost when the power fails. After that, so many ids
	// are skipped, because a reader may have seen them.
	maxUnsynced = 1000
	// openFile holds the host's boot id while the log is open.
	openFile = "open"
)

// Log is the open event log of one host. Close it once.
type Log struct {
	dir          string
	segmentBytes int64
	keep         int

	mu sync.Mutex // guards the fields below
	// segments are the ids of the first events of the files, oldest first; there is
	// always one.
	segments []int64
	file     *os.File // the last segment
	size     int64    // of whole lines in it
	unsynced int      // events since the last fsync
	last     int64    // id of the last event
	next     int64    // id of the next one; larger than last+1 after a power cut
	grown    chan struct{}
	closed   bool
}

// Open opens the log in dir and creates it if needed. It cuts off a line that a
// crash left torn. Only one process at a time: the caller holds the lock of the
// data directory. Kinds: NoSpace, Corrupt, Internal.
func Open(dir string) (*Log, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fileError(dir, err)
	}
	return openWith(dir, defaultSegment, defaultKeep, strings.TrimSpace(string(boot)))
}

func openWith(dir string, segmentBytes int64, keep int, boot string) (_ *Log, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fileError(dir, err)
	}
	l := &Log{dir: dir, segmentBytes: segmentBytes, keep: keep, next: 1, grown: make(chan struct{})}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fileError(dir, err)
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".jsonl")
		first, err := strconv.ParseInt(base, 10, 64)
		if ok && err == nil && e.Name() == segmentName(first) {
			l.segments = append(l.segments, first)
		}
	}
	slices.Sort(l.segments)
	defer func() {
		if err != nil && l.file != nil {
			l.file.Close()
		}
	}()
	if len(l.segments) > 0 {
		if err := l.resume(); err != nil {
			return nil, err
		}
	}
	marker := filepath.Join(dir, openFile)
	before, err := os.ReadFile(marker)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fileError(marker, err)
	}
	if err == nil && string(before) != boot { // the host went down with the log open
		l.next += maxUnsynced
	}
	if len(l.segments) == 0 || l.next != l.last+1 {
		if err := l.rotateLocked(); err != nil {
			return nil, err
		}
	}
	l.dropLocked()
	if err := layout.WriteFile(marker, []byte(boot), 0o600); err != nil {
		return nil, fileError(marker, err)
	}
	return l, nil
}

func segmentName(first int64) string { return fmt.Sprintf("%016d.jsonl", first) }

func (l *Log) name(first int64) string { return filepath.Join(l.dir, segmentName(first)) }

// resume finds the last readable event and opens the last segment behind it; it
// cuts off what a power cut left after that.
func (l *Log) resume() error {
	first := l.segments[len(l.segments)-1]
	data, err := os.ReadFile(l.name(first))
	if err != nil {
		return fileError(l.dir, err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	l.last = first - 1
	lost := 0
	for len(whole) > 0 {
		tail := whole[:len(whole)-1]
		tail = tail[bytes.LastIndexByte(tail, '\n')+1:]
		var e vm.Event
		if err := json.Unmarshal(tail, &e); err == nil && e.ID >= first {
			l.last = e.ID
			break
		}
		whole = whole[:len(whole)-1-len(tail)]
		lost++
	}
	if l.next = l.last + 1; lost > 0 {
		l.next += max(maxUnsynced, int64(lost))
	}
	if l.file, err = os.OpenFile(l.name(first), os.O_WRONLY, 0o600); err != nil {
		return fileError(l.dir, err)
	}
	l.size = int64(len(whole))
	// What a killed process left with the kernel counts as synced for later losses.
	if err := errors.Join(l.file.Truncate(l.size), l.file.Sync()); err != nil {
		return fileError(l.dir, err)
	}
	return nil
}

// rotateLocked begins a new segment.
func (l *Log) rotateLocked() error {
	if err := l.syncLocked(); err != nil {
		return err
	}
	f, err := os.OpenFile(l.name(l.next), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fileError(l.dir, err)
	}
	if err := layout.SyncDir(l.dir); err != nil {
		return errors.Join(fileError(l.dir, err), f.Close())
	}
	if l.file != nil {
		l.file.Close() // it is synced
	}
	l.file, l.size = f, 0
	l.segments = append(l.segments, l.next)
	l.last = max(l.last, l.segments[0]-1)
	l.dropLocked()
	return nil
}

// dropLocked removes the oldest segments beyond the limit. A failed removal is
// repeated when the next segment begins.
func (l *Log) dropLocked() {
	for len(l.segments) > 1 {
		name := l.name(l.segments[0])
		st, err := os.Stat(name)
		old := err == nil && time.Since(st.ModTime()) > keepFor
		if len(l.segments) <= l.keep && !old {
			return
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return
		}
		l.segments = l.segments[1:]
	}
}

func (l *Log) syncLocked() error {
	if l.unsynced > 0 {
		if err := l.file.Sync(); err != nil {
			return fileError(l.dir, err)
		}
		l.unsynced = 0
	}
	return nil
}

// Append gives the event the next id, and a time if it has none, and writes it. On
// return the kernel has the event: a crash of this process does not lose it. A
// power cut may, but its id is not used again. Kinds: Unavailable (the log is
// closed), NoSpace, Limit (the event is too large).
func (l *Log) Append(e vm.Event) (vm.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return e, vm.Errorf(vm.Unavailable, "events", "the log is closed")
	}
	if l.size >= l.segmentBytes {
		if err := l.rotateLocked(); err != nil {
			return e, err
		}
	}
	e.ID = l.next
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	data, err := json.Marshal(e)
	if err != nil {
		return e, vm.Errorf(vm.Internal, e.Type, "event: %w", err)
	}
	if len(data) > maxEvent {
		return e, vm.Errorf(vm.Limit, e.Type, "an event of %d bytes, at most %d", len(data), maxEvent)
	}
	data = append(data, '\n')
	if _, err := l.file.WriteAt(data, l.size); err != nil {
		return e, fileError(l.dir, errors.Join(err, l.file.Truncate(l.size)))
	}
	l.size += int64(len(data))
	l.last, l.next = e.ID, e.ID+1
	if l.unsynced++; l.unsynced >= maxUnsynced {
		if err := l.syncLocked(); err != nil {
			return e, err
		}
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return e, nil
}

// Close closes the log; its streams end with kind Unavailable.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.grown)
	err := l.syncLocked()
	if err == nil { // otherwise the next start skips ids
		err = os.Remove(filepath.Join(l.dir, openFile))
	}
	return errors.Join(err, l.file.Close())
}

func fileError(name string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return vm.Errorf(vm.NoSpace, name, "no space for events: %w", err).WithHint("free disk space")
	}
	return vm.Errorf(vm.Internal, name, "event log: %w", err)
}
