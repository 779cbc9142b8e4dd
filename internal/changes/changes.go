// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package changes is the room of what changed in a machine: it compares frozen states of
// disks. It reads them with the confined reader, and changes VMs and generations only
// through the engine.
package changes

import (
	"context"
	"io"
	"log/slog"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// DiskReader reads frozen disks; reader.Reader implements it.
type DiskReader interface {
	Diff(ctx context.Context, from, to []string, o reader.Options) (*vm.Diff, error)
	Tar(ctx context.Context, layers []string, paths []vm.GuestPath, o reader.TarOptions, w io.Writer) error
	Project(ctx context.Context, layers []string, o review.ProjectOptions, w io.Writer) error
	Truth(ctx context.Context, d reader.Disks, workdir string, each func(review.TruthLine) error) error
}

// Config is what the room works with.
type Config struct {
	Engine  *engine.Engine
	Access  *access.Access
	Journal *journal.Journal
	Repo    *repo.Repo
	Scratch string     // a directory for contents between a disk and a repository
	Reader  DiskReader // nil = this server has none: kind Unsupported
	Clock   engine.Clock
	Log     *slog.Logger
}

// Guests runs commands in guests; inside.Inside implements it.
type Guests interface {
	Exec(ctx context.Context, c *vm.Call, ref string, spec vm.ExecSpec) (engine.Exec, error)
	Connections(ctx context.Context, c *vm.Call, ref string) ([]vm.Connection, error)
}

// Changes is the room. All methods may be called at once from many goroutines.
type Changes struct {
	cfg      Config
	guests   Guests
	readings readings
	memory   func(ctx context.Context, c *vm.Call, ref string) (vm.Memory, error) // of a VM
	// published lists what was published from a VM; nil = this server has no object storage.
	published func(ctx context.Context, c *vm.Call, of vm.ID) ([]Published, error)
}

// Published is an object version that was made from a path of a VM's generation, and that
// is still stored.
type Published struct {
	Object     vm.DataCopy // with Bucket, Key and Version
	Path       vm.GuestPath
	Generation vm.GenerationID
}

// OpenObjects gives the room what object storage knows of a VM, the newest first: only
// versions that the caller may read. Call it before the first use.
func (x *Changes) OpenObjects(published func(ctx context.Context, c *vm.Call, of vm.ID) ([]Published, error)) {
	x.published = published
}

// Open gives the room the calls into guests, which open after it, and the memories.
func (x *Changes) Open(g Guests, m *Memories) { x.guests, x.memory = g, m.Memory }

// New returns the room. Open the engine before its first use.
func New(cfg Config) *Changes {
	if cfg.Reader == nil {
		cfg.Reader = noReader{}
	}
	return &Changes{cfg: cfg}
}

// noReader is the reader of a server that has none.
type noReader struct{}

func (noReader) Diff(context.Context, []string, []string, reader.Options) (*vm.Diff, error) {
	return nil, errNoReader
}

func (noReader) Tar(context.Context, []string, []vm.GuestPath, reader.TarOptions, io.Writer) error {
	return errNoReader
}

func (noReader) Project(context.Context, []string, review.ProjectOptions, io.Writer) error {
	return errNoReader
}

var errNoReader = vm.Errorf(vm.Unsupported, "warren-reader", "this server cannot read disks").WithHint("build warren with `make build`")

func (noReader) Truth(context.Context, reader.Disks, string, func(review.TruthLine) error) error {
	return errNoReader
}
