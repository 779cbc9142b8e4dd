// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	defaultSegment = 4 << 20 // bytes
	defaultKeep    = 16      // segments
	maxEvent       = 64 << 10
)

// Log is the open event log of one host. Close it once.
type Log struct {
	dir          string
	segmentBytes int64
	keep         int

	mu sync.Mutex // guards the fields below
	// segments are the ids of the first events of the files, oldest first.
	segments []int64
	file     *os.File // the last segment
	size     int64    // of whole lines in it
	last     int64    // id of the last event
	grown    chan struct{}
	closed   bool
}

// Open opens the log in dir, making it first. A line that a crash left torn is
// cut off. Kinds: NoSpace, Corrupt, Internal.
func Open(dir string) (*Log, error) { return open(dir, defaultSegment, defaultKeep) }

func open(dir string, segmentBytes int64, keep int) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fileError(dir, err)
	}
	l := &Log{dir: dir, segmentBytes: segmentBytes, keep: keep, grown: make(chan struct{})}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fileError(dir, err)
	}
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok {
			first, err := strconv.ParseInt(base, 10, 64)
			if err != nil {
				continue // not ours
			}
			l.segments = append(l.segments, first)
		}
	}
	slices.Sort(l.segments)
	if len(l.segments) == 0 {
		return l, l.rotateLocked()
	}
	return l, l.resume()
}

func (l *Log) name(first int64) string { return filepath.Join(l.dir, fmt.Sprintf("%016d.jsonl", first)) }

// resume finds the last whole event and opens the last segment behind it.
func (l *Log) resume() error {
	first := l.segments[len(l.segments)-1]
	data, err := os.ReadFile(l.name(first))
	if err != nil {
		return fileError(l.dir, err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	l.last = first - 1
	if len(whole) > 0 {
		tail := whole[:len(whole)-1]
		tail = tail[bytes.LastIndexByte(tail, '\n')+1:]
		var e vm.Event
		if err := json.Unmarshal(tail, &e); err != nil {
			return vm.Errorf(vm.Corrupt, l.name(first), "its last event cannot be read: %w", err).
				WithHint("move the file aside: events are history, no VM needs them")
		}
		l.last = e.ID
	}
	if l.file, err = os.OpenFile(l.name(first), os.O_WRONLY, 0o600); err != nil {
		return fileError(l.dir, err)
	}
	l.size = int64(len(whole))
	if err := l.file.Truncate(l.size); err != nil {
		return fileError(l.dir, err)
	}
	return nil
}

// rotateLocked begins a new segment and drops the oldest beyond what is kept.
func (l *Log) rotateLocked() error {
	f, err := os.OpenFile(l.name(l.last+1), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fileError(l.dir, err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size = f, 0
	l.segments = append(l.segments, l.last+1)
	for len(l.segments) > l.keep {
		if err := os.Remove(l.name(l.segments[0])); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fileError(l.dir, err)
		}
		l.segments = l.segments[1:]
	}
	return nil
}

// Append gives the event the next id, and the time where it has none, and
// writes it. It is with the kernel when Append returns: a crash of this process
// keeps it, a power cut may not.
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
	e.ID = l.last + 1
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
	l.last = e.ID
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
	return errors.Join(l.file.Sync(), l.file.Close())
}

// Stream reads the log in order. It is not for two goroutines at once.
type Stream struct {
	log   *Log
	after int64 // id of the last event that was delivered
	file  *os.File
	read  *bufio.Reader
	first int64 // of the open segment
	off   int64 // bytes of whole lines read from it
}

// Subscribe returns a stream of the events with an id above after, and of those
// to come; after < 0 = only those to come. Kind NotFound, code EVENTS_GONE,
// when an event that is wanted is no longer kept. Close the stream.
func (l *Log) Subscribe(after int64) (*Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after < 0 || after > l.last {
		after = l.last
	}
	if after+1 < l.segments[0] {
		return nil, gone(after, l.segments[0])
	}
	return &Stream{log: l, after: after}, nil
}

func gone(after, first int64) error {
	return vm.Errorf(vm.NotFound, strconv.FormatInt(after, 10), "events this old are no longer kept").
		WithCode("EVENTS_GONE", "oldest", first).
		WithHint("list what is there now and follow from the newest event")
}

// Next returns the next event, waiting for it until ctx ends. Kinds: NotFound
// with code EVENTS_GONE (the reader was so slow that events were dropped),
// Unavailable (the log was closed).
func (s *Stream) Next(ctx context.Context) (vm.Event, error) {
	for {
		e, ok, err := s.read1()
		if ok || err != nil {
			return e, err
		}
		s.log.mu.Lock()
		grown, last, closed := s.log.grown, s.log.last, s.log.closed
		s.log.mu.Unlock()
		switch {
		case last > s.after:
			continue
		case closed:
			return vm.Event{}, vm.Errorf(vm.Unavailable, "events", "the log is closed")
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return vm.Event{}, ctx.Err()
		}
	}
}

// read1 reads one event that is in a file already; ok is false when there is none.
func (s *Stream) read1() (e vm.Event, ok bool, err error) {
	s.log.mu.Lock()
	last, segments := s.log.last, slices.Clone(s.log.segments)
	s.log.mu.Unlock()
	if last <= s.after {
		return e, false, nil
	}
	for {
		if s.file == nil {
			if err := s.openFor(s.after+1, segments); err != nil {
				return e, false, err
			}
		}
		raw, err := s.read.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// Either this segment is over, or a line was on its way when we read.
			if i := slices.Index(segments, s.first); i >= 0 && i+1 < len(segments) && segments[i+1] == s.after+1 {
				s.Close()
				continue
			}
			if _, err := s.file.Seek(s.off, io.SeekStart); err != nil {
				return e, false, fileError(s.log.dir, err)
			}
			s.read.Reset(s.file)
			return e, false, nil
		}
		if err != nil {
			return e, false, fileError(s.log.dir, err)
		}
		s.off += int64(len(raw))
		if err := json.Unmarshal(raw, &e); err != nil {
			return e, false, vm.Errorf(vm.Corrupt, s.log.name(s.first), "an event cannot be read: %w", err)
		}
		if e.ID > s.after {
			s.after = e.ID
			return e, true, nil
		}
		e = vm.Event{}
	}
}

func (s *Stream) openFor(id int64, segments []int64) error {
	i, found := slices.BinarySearch(segments, id)
	if !found {
		i--
	}
	if i < 0 {
		return gone(id-1, segments[0])
	}
	f, err := os.Open(s.log.name(segments[i]))
	if errors.Is(err, os.ErrNotExist) {
		return gone(id-1, segments[i])
	}
	if err != nil {
		return fileError(s.log.dir, err)
	}
	s.file, s.read, s.first, s.off = f, bufio.NewReader(f), segments[i], 0
	return nil
}

// Close lets go of the stream's file. It may be called twice.
func (s *Stream) Close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

func fileError(name string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return vm.Errorf(vm.NoSpace, name, "no space for events: %w", err).WithHint("free disk space")
	}
	return vm.Errorf(vm.Internal, name, "event log: %w", err)
}
