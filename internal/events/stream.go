// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/warren-vm/warren/vm"
)

// Stream reads the log in order. It is not for concurrent use. It reads live events
// from the files, too: a slow reader costs no memory and delays nobody.
type Stream struct {
	log   *Log
	after int64 // id of the last event that was delivered
	file  *os.File
	read  *bufio.Reader
	first int64 // of the open segment
}

// Subscribe returns a stream of the events with an id above after, and of those to
// come; after < 0 = only those to come. Kind NotFound, code EVENTS_GONE, when the
// next event is no longer kept. Close the stream.
func (l *Log) Subscribe(after int64) (*Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Stream{log: l, after: after}
	if after < 0 || after >= l.last {
		s.after = l.last
		// Skip what is in the segment already.
		return s, s.open(l.segments[len(l.segments)-1], l.size)
	}
	if after+1 < l.segments[0] {
		return nil, gone(after, l.segments[0])
	}
	return s, nil
}

func gone(after, first int64) error {
	return vm.Errorf(vm.NotFound, strconv.FormatInt(after, 10), "events this old are no longer kept").
		WithCode("EVENTS_GONE", "oldest", first).
		WithHint("list what is there now and follow from the newest event")
}

// Next returns the next event, waiting for it until ctx ends. Kinds: NotFound
// with code EVENTS_GONE (the reader was so slow that events were dropped),
// Unavailable (the log was closed), Corrupt.
func (s *Stream) Next(ctx context.Context) (vm.Event, error) {
	for {
		s.log.mu.Lock()
		grown, last, closed := s.log.grown, s.log.last, s.log.closed
		segments := slices.Clone(s.log.segments)
		s.log.mu.Unlock()
		switch {
		case last > s.after:
			return s.stored(segments)
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

// stored reads the next event, which is in one of the segments.
func (s *Stream) stored(segments []int64) (vm.Event, error) {
	for {
		if s.file == nil {
			if err := s.find(segments); err != nil {
				return vm.Event{}, err
			}
		}
		raw, err := s.read.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if err := s.segmentEnd(segments); err != nil {
				return vm.Event{}, err
			}
			continue
		}
		if err != nil {
			return vm.Event{}, fileError(s.log.dir, err)
		}
		if id, ok := eventID(raw); ok && id <= s.after {
			continue
		}
		var e vm.Event
		if err := json.Unmarshal(raw, &e); err == nil && e.ID > s.after { // an unreadable event is lost
			s.after = e.ID
			return e, nil
		}
	}
}

// segmentEnd continues with the segment after the open one, which has ended: the
// caller has seen a later event in a file.
func (s *Stream) segmentEnd(segments []int64) error {
	i, found := slices.BinarySearch(segments, s.first)
	switch {
	case !found: // removed while it was read
		s.Close()
		return nil
	case i+1 < len(segments):
		s.Close()
		return s.open(segments[i+1], 0)
	}
	return vm.Errorf(vm.Corrupt, s.log.name(s.first), "event %d is no longer in it", s.after+1)
}

// eventID reads the id at the beginning of a line, faster than decoding all of it.
func eventID(raw []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"id":`))
	n := bytes.IndexByte(rest, ',')
	if !ok || n < 0 {
		return 0, false
	}
	id, err := strconv.ParseInt(string(rest[:n]), 10, 64)
	return id, err == nil
}

// find opens the segment that holds the event after the last delivered one.
func (s *Stream) find(segments []int64) error {
	i, found := slices.BinarySearch(segments, s.after+1)
	if !found {
		i--
	}
	if i < 0 {
		return gone(s.after, segments[0])
	}
	return s.open(segments[i], 0)
}

func (s *Stream) open(first, off int64) error {
	f, err := os.Open(s.log.name(first))
	if errors.Is(err, os.ErrNotExist) {
		return gone(s.after, first)
	}
	if err == nil {
		if _, err = f.Seek(off, io.SeekStart); err != nil {
			f.Close()
		}
	}
	if err != nil {
		return fileError(s.log.dir, err)
	}
	s.file, s.read, s.first = f, bufio.NewReader(f), first
	return nil
}

// Close lets go of the stream's file. It may be called twice.
func (s *Stream) Close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}
