// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Anchor is a place outside of the log's directory that keeps checkpoints.
type Anchor interface {
	// Name names the place for people, without secrets.
	Name() string
	// Put stores a checkpoint; line is its JSON with a line end. It blocks until ctx ends
	// at most.
	Put(ctx context.Context, c vm.Checkpoint, line []byte) error
}

const (
	outsideDeadline = 20 * time.Second
	outsideRetry    = 10 * time.Second
)

// outsideAnchor hands checkpoints to one place, the newest of those that wait.
type outsideAnchor struct {
	to   Anchor
	log  *slog.Logger
	wake chan struct{}
	quit chan struct{}

	mu    sync.Mutex // guards the fields below
	next  *vm.Checkpoint
	since time.Time // of the first failure without a success after it; zero = it works
	err   error
}

func (l *Log) startOutside(lifetime context.Context, list []Anchor) {
	for _, a := range list {
		o := &outsideAnchor{to: a, log: l.log, wake: make(chan struct{}, 1), quit: make(chan struct{})}
		l.outside = append(l.outside, o)
		l.told.Go(func() { o.run(lifetime) })
	}
}

// tell hands a checkpoint to the places outside.
func (l *Log) tell(c vm.Checkpoint) {
	for _, o := range l.outside {
		o.mu.Lock()
		o.next = &c
		o.mu.Unlock()
		wake(o.wake)
	}
}

// end makes run end after one more attempt.
func (o *outsideAnchor) end() { close(o.quit) }

func (o *outsideAnchor) run(lifetime context.Context) {
	retry := time.NewTimer(outsideRetry)
	defer retry.Stop()
	for over := false; !over; {
		select {
		case <-o.wake:
		case <-retry.C:
		case <-o.quit:
			over = true
		}
		retry.Reset(outsideRetry)
		o.put(lifetime)
	}
}

func (o *outsideAnchor) put(lifetime context.Context) {
	o.mu.Lock()
	c, failing := o.next, o.err != nil
	o.mu.Unlock()
	if c == nil {
		return
	}
	data, err := json.Marshal(c)
	if err == nil {
		ctx, stop := context.WithTimeout(lifetime, outsideDeadline)
		err = o.to.Put(ctx, *c, append(data, '\n'))
		stop()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.err, o.since = nil, time.Time{}
		if o.next == c {
			o.next = nil
		}
	case !failing:
		o.since = time.Now().UTC()
		o.log.Error("a checkpoint of the audit log could not be stored outside", "anchor", o.to.Name(), "record", c.Seq, "err", err)
		fallthrough
	default:
		o.err = err
	}
}

// Outside says of each place outside what does not work there; "" = it works.
func (l *Log) Outside() map[string]string {
	out := map[string]string{}
	for _, o := range l.outside {
		o.mu.Lock()
		out[o.to.Name()] = ""
		if o.err != nil {
			out[o.to.Name()] = "has no checkpoint since " + o.since.Format(time.RFC3339) + ": " + o.err.Error()
		}
		o.mu.Unlock()
	}
	return out
}

// File is an anchor that appends to a file, which is best on another disk.
type File string

// Name names the file.
func (f File) Name() string { return "file:" + string(f) }

// Put appends the line and waits for the disk.
func (f File) Put(_ context.Context, _ vm.Checkpoint, line []byte) error {
	return appendTo(string(f), line)
}

// ParseCheckpoints reads checkpoints, one a line, as an anchor has them. Kind Invalid.
func ParseCheckpoints(data []byte) (list []vm.Checkpoint, err error) {
	for i, raw := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		c, err := parseCheckpoint(raw)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, "anchors", "line %d is no checkpoint", i+1).WithHint("give the file that `warren serve --audit-anchor` wrote")
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, vm.Errorf(vm.Invalid, "anchors", "there is no checkpoint in it").WithHint("give the file that `warren serve --audit-anchor` wrote")
	}
	return list, nil
}

// ReadCheckpoints reads the file of an anchor.
func ReadCheckpoints(name string) ([]vm.Checkpoint, error) {
	data, err := os.ReadFile(strings.TrimPrefix(name, "file:"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, vm.Errorf(vm.NotFound, name, "there is no such file of anchors")
	}
	if err != nil {
		return nil, fileError(name, err)
	}
	return ParseCheckpoints(data)
}
