// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package reader reads frozen disks of guests in a program of its own, warren-reader,
// which is confined: it has no network and no file but the layers that it inherits as
// open descriptors, and its memory and time are bounded. The disks are hostile, and the
// program may have been taken over by one: its answers are limited and checked, too.
package reader

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Config is what a Reader works with.
type Config struct {
	Binary  string // absolute path of warren-reader
	Scratch string // a directory in which runs make directories of their own
	Log     *slog.Logger

	Deadline time.Duration // of one run; 0 = two minutes
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

// Options of a comparison.
type Options struct {
	Workdir string         // of the machine; "" = none
	Paths   []vm.GuestPath // only these and what is below them; none = everything
	Hunks   bool           // with changed lines
	All     bool           // also the files that are else only counted
	// Was and Now are what ran at the captures; nil = not recorded.
	Was, Now *vm.GuestState
}

// Diff compares two disks, each given by its layers, the top first. The result lacks From
// and To. Kinds: Corrupt, Unsupported (encrypted, unknown file system, changed geometry),
// Limit, Timeout, Cancelled, Internal. A comparison that failed is never an empty result.
func (r *Reader) Diff(ctx context.Context, from, to []string, o Options) (*vm.Diff, error) {
	return nil, vm.Errorf(vm.Unsupported, "", "the reader is not built yet")
}

// TarOptions bound the content that is read.
type TarOptions struct {
	Entries int   // files, directories and links; 0 = 100,000
	Bytes   int64 // content of files, with their holes; 0 = 1 GiB
}

// Tar writes paths of a disk, and what is below them, to w as a tar, in the order of the
// paths: files, directories and links, with modes, owners, times and extended attributes.
// Names in it are the paths without the leading slash. Kinds: those of Diff, and NotFound
// for a path that is not there. After an error w has a part of the tar.
func (r *Reader) Tar(ctx context.Context, layers []string, paths []vm.GuestPath, o TarOptions, w io.Writer) error {
	return vm.Errorf(vm.Unsupported, "", "the reader is not built yet")
}
