// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// Records reads the records of a server.
type Records interface {
	// Dump calls f with every record, all as they are at one revision, and returns that
	// revision.
	Dump(ctx context.Context, f func(ledger.Entry) error) (revision int64, err error)
}

// Engine keeps the disks of VMs; *engine.Engine implements it.
type Engine interface {
	Preserve(ctx context.Context, c *vm.Call, progress func(name string), records func(context.Context) error) (*engine.Preserved, error)
}

// Repos keeps the files of repositories; *repo.Repo implements it.
type Repos interface {
	// Still calls f with a repository's directory. Until f returns nothing is removed
	// from it.
	Still(id string, f func(dir string) error) error
}

// Objects copies objects; *objects.Objects implements it.
type Objects interface {
	// Snapshot writes a copy of the index of one moment, and then calls body for all bytes
	// that the copy names, once for each.
	Snapshot(ctx context.Context, index io.Writer, body func(objects.Body) error) error
}

// Config is what the room works with. All fields are required, except Records.
type Config struct {
	Dir     layout.Dir
	Host    string  // id of the server
	Version string  // of Warren
	Records Records // nil = they are in a cluster, which has backups of its own
	Engine  Engine
	Repos   Repos
	Objects Objects
	Journal *journal.Journal
	Now     func() time.Time
	Log     *slog.Logger
}

// Backup is the room. Its methods may be called at once.
type Backup struct {
	cfg  Config
	busy sync.Mutex // held while a copy is made
}

// New returns the room.
func New(cfg Config) *Backup { return &Backup{cfg: cfg} }

// Kinds of entries.
const (
	kindRecords    = "records"
	kindLater      = "later-records"
	kindSecret     = "key or setting"
	kindLog        = "log"
	kindRepository = "repository"
	kindGeneration = "generation"
	kindImage      = "image"
	kindVolume     = "volume"
	kindAnswer     = "answer"
	kindVM         = "vm"
	kindObject     = "object"
)

// Paths of entries that are no files of the data directory; those are below dataPath.
const (
	recordsPath = "records.jsonl"
	laterPath   = "records-later.jsonl"
	dataPath    = "data/"
)

// Facts are the part of a manifest that only backups have.
type Facts struct {
	Revision     int64  `json:"revision"` // of the record store
	Records      int    `json:"records"`
	VMs          int    `json:"vms"`
	Generations  int    `json:"generations"`
	Repositories int    `json:"repositories"`
	Volumes      int    `json:"volumes"`
	Images       int    `json:"images"`
	Left         []Left `json:"left"` // what is not in it, or older than the rest
}

// Left is something that a backup lacks.
type Left struct {
	What string `json:"what"` // such as "vm 7kq2…"
	Why  string `json:"why"`
}

// record is one record in the archive.
type record struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Value   []byte `json:"value,omitempty"` // in base64: exactly the stored bytes
	Deleted bool   `json:"deleted,omitempty"`
}

// spool is a file without a name.
func spool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".tmp-")
	if err != nil {
		return nil, layout.Error(dir, err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // nothing was written
		return nil, layout.Error(f.Name(), err)
	}
	return f, nil
}
