// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package reader reads frozen disks of guests in a program of its own, warren-reader,
// which is confined: it has no network and no file but the layers that it inherits as
// open descriptors, and its memory and time are bounded. The disks are hostile, and one
// may have taken over the program: its answers are limited and checked, too.
package reader

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Config is what a Reader works with.
type Config struct {
	Binary string // absolute path of warren-reader
	// Root is an empty directory, over which each run mounts its own root. It is made
	// if it is missing.
	Root string
	Log  *slog.Logger

	Deadline time.Duration // of one run, without the wait for its turn; 0 = two minutes
}

// Reader starts the confined program, at most one for each CPU at a time.
type Reader struct {
	cfg  Config
	turn chan struct{} // has a place for each run
}

// New returns a reader.
func New(cfg Config) *Reader {
	if cfg.Deadline == 0 {
		cfg.Deadline = 2 * time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{cfg: cfg, turn: make(chan struct{}, runtime.NumCPU())}
}

// Options say what a comparison holds.
type Options = review.Options

// maxAnswer bounds the JSON of a comparison in bytes.
const maxAnswer = 64 << 20

// Diff compares two disks, each given by its layers, the top first. The result lacks From
// and To, and what the guests reported. Kinds: Corrupt, Unsupported (encrypted,
// unknown file system, changed geometry), Limit, Timeout, Cancelled, Internal. A
// comparison that failed is never an empty result.
func (r *Reader) Diff(ctx context.Context, from, to []string, o Options) (*vm.Diff, error) {
	request := review.Request{Verb: review.VerbDiff, Options: o}
	files := newFiles()
	defer files.close()
	var err error
	if request.From, err = files.add(from); err != nil {
		return nil, err
	}
	if request.To, err = files.add(to); err != nil {
		return nil, err
	}
	var d *vm.Diff
	err = r.run(ctx, request, files, func(answer io.Reader) error {
		d, err = decode(answer)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, check(d, o)
}

// decode reads the JSON of a comparison, and the answer to its end: an error may follow
// what looks complete.
func decode(answer io.Reader) (*vm.Diff, error) {
	bounded := &io.LimitedReader{R: answer, N: maxAnswer}
	in := json.NewDecoder(bounded)
	var d vm.Diff
	err := in.Decode(&d)
	if err == nil {
		_, err = io.Copy(io.Discard, in.Buffered())
	}
	if err == nil {
		_, err = io.Copy(io.Discard, bounded)
	}
	switch e := (*vm.Error)(nil); {
	case errors.As(err, &e):
		return nil, e
	case bounded.N == 0:
		return nil, vm.Errorf(vm.Limit, "", "the difference has more than %d MiB", maxAnswer>>20).WithHint("name a PATH to compare only what is below it")
	case err != nil:
		return nil, distrust("it is no JSON of a difference")
	}
	return &d, nil
}

// TarOptions bound the content that is read.
type TarOptions struct {
	Entries int   // files, directories and links; 0 = 100,000
	Bytes   int64 // content of files, with their holes; 0 = 1 GiB
}

// Tar writes paths of a disk, and what is below them, to w as a tar, in the order of the
// paths: files, directories and links, with modes, owners, times and extended attributes,
// without sockets. Names in it are the paths without the leading slash. Whoever reads it
// must treat it as hostile. Kinds: those of Diff, and NotFound for a path that is not
// there. After an error w has a part of the tar.
func (r *Reader) Tar(ctx context.Context, layers []string, paths []vm.GuestPath, o TarOptions, w io.Writer) error {
	request := review.Request{Verb: review.VerbTar, Options: review.Options{Paths: paths}, Entries: o.Entries, Bytes: o.Bytes}
	files := newFiles()
	defer files.close()
	var err error
	if request.To, err = files.add(layers); err != nil {
		return err
	}
	if o.Bytes == 0 {
		o.Bytes = 1 << 30
	}
	return r.patient(o.Bytes).run(ctx, request, files, func(answer io.Reader) error {
		bounded := &io.LimitedReader{R: answer, N: o.Bytes + tarOverhead}
		_, err := io.Copy(w, bounded)
		if err == nil && bounded.N == 0 {
			err = vm.Errorf(vm.Limit, "", "the files have more bytes than the limit")
		}
		return err
	})
}

// mostPatient is the longest time of a run beyond the reader's deadline.
const mostPatient = time.Hour

// patient is the reader with more time: a second for each 8 MiB that the answer may have.
func (r *Reader) patient(bytes int64) *Reader {
	out := *r
	out.cfg.Deadline += min(mostPatient, time.Duration(bytes>>23)*time.Second)
	return &out
}

// tarOverhead is what a tar may have beside the content of files.
const tarOverhead = 1 << 30
