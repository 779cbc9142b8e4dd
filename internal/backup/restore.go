// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Source is a backup in a file.
type Source struct {
	Path string
	Keys bundle.Keys // open an encrypted one
	// Trust is the fingerprint of the key that must have signed it; "" = any key.
	Trust string
	// Progress is told what is done, and how many bytes of the entries are. It may be nil.
	Progress func(step string, done, total int64)
	Now      func() time.Time
	Log      *slog.Logger
}

func (s Source) progress(step string, done, total int64) {
	if s.Progress != nil {
		s.Progress(step, done, total)
	}
}

// Open reads the seal and the manifest of a backup. The caller closes the file. Kinds:
// NotFound, Corrupt, Invalid (it is no backup of a server), Denied (its keys or its signer),
// and those of bundle.Open.
func (s Source) Open() (*bundle.Archive, *os.File, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, nil, layout.Error(s.Path, err)
	}
	a, err := s.archive(f)
	if err != nil {
		_ = f.Close() // it was only read
		return nil, nil, bundle.About(s.Path, err)
	}
	return a, f, nil
}

func (s Source) archive(f *os.File) (*bundle.Archive, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, layout.Error(s.Path, err)
	}
	r, size, err := bundle.Decrypt(f, st.Size(), s.Keys)
	if err != nil {
		return nil, err
	}
	a, err := bundle.Open(r, size, bundle.Own)
	if err != nil {
		return nil, err
	}
	if a.Manifest.Kind != bundle.OfServer {
		return nil, a.Manifest.WrongKind(s.Path)
	}
	if s.Trust != "" && s.Trust != a.Signer {
		return nil, vm.Errorf(vm.Denied, s.Path, "it is signed by %s, not by the key that --trust names", a.Signer).
			WithHint("ask the operator of the server that wrote it for its fingerprint")
	}
	return a, nil
}

// staging is the name of the directory in which a restore puts the files together. While
// it is there and the file named format is not, no server takes the data directory.
var staging = filepath.Base(layout.Dir("").Restoring())

// Restored says what a restore made.
type Restored struct {
	Manifest bundle.Manifest
	Facts    Facts
	Signer   string
}

// Restore verifies a backup and then makes a data directory of it. The directory must be
// absent or empty, and no server may use it. When it fails, the directory is empty again.
// What a crash leaves is no data directory: the next Restore removes it. Kinds: Exists
// (not empty), Busy (another restore), NoSpace, Corrupt, and those of Open.
func Restore(ctx context.Context, s Source, path string) (out Restored, err error) {
	a, f, err := s.Open()
	if err != nil {
		return out, err
	}
	defer f.Close()
	dir, unlock, err := claim(path)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s.progress("checking", 0, a.Manifest.Bytes())
	if err := each(ctx, s, "checking", a, func(bundle.Entry, io.Reader) error { return nil }); err != nil {
		return out, bundle.About(s.Path, err)
	}
	stage := layout.Dir(filepath.Join(string(dir), staging))
	defer func() {
		if err != nil {
			err = errors.Join(err, empty(dir))
		}
	}()
	if err := begin(stage, dir); err != nil {
		return out, err
	}
	facts, err := place(ctx, s, a, stage)
	if err != nil {
		return out, bundle.About(s.Path, err)
	}
	s.progress("syncing", 0, 0)
	if err := layout.SyncTree(string(stage)); err != nil {
		return out, err
	}
	if err := publish(stage, dir); err != nil {
		return out, err
	}
	return Restored{a.Manifest, facts, a.Signer}, nil
}

// claim makes sure that path is an empty directory, or one that a restore left, and keeps
// others from it until unlock is called.
func claim(path string) (dir layout.Dir, unlock func() error, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, vm.Errorf(vm.Invalid, path, "no such path: %w", err)
	}
	dir = layout.Dir(abs)
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", nil, layout.Error(abs, err)
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return "", nil, layout.Error(abs, err)
	}
	left := false
	for _, e := range entries {
		left = left || e.Name() == staging
	}
	_, noFormat := os.Stat(dir.Format())
	left = left && errors.Is(noFormat, fs.ErrNotExist)
	for _, e := range entries {
		if name := e.Name(); !left && name != "lost+found" && name != filepath.Base(dir.Lock()) {
			return "", nil, vm.Errorf(vm.Exists, abs, "the directory is not empty: it has %s", name).
				WithHint("a backup is restored into an empty directory only: stop the server, move the directory aside, and run this again")
		}
	}
	lock, err := layout.TryLock(dir.Lock())
	if errors.Is(err, vm.Busy) {
		return "", nil, vm.Errorf(vm.Busy, abs, "a server or another restore uses the directory").WithHint("stop it first")
	}
	if err != nil {
		return "", nil, err
	}
	if left {
		err = empty(dir)
	}
	if err == nil {
		err = layout.Error(abs, os.Chmod(abs, 0o700))
	}
	if err != nil {
		return "", nil, errors.Join(err, lock.Unlock())
	}
	return dir, lock.Unlock, nil
}

// empty removes what a restore made, the staging directory last: without it, what is left
// would be taken for something else's.
func empty(dir layout.Dir) error {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return layout.Error(string(dir), err)
	}
	for _, e := range entries {
		if name := e.Name(); name != staging && name != "lost+found" && name != filepath.Base(dir.Lock()) {
			if err := os.RemoveAll(filepath.Join(string(dir), name)); err != nil {
				return layout.Error(string(dir), err)
			}
		}
	}
	return layout.Error(string(dir), os.RemoveAll(filepath.Join(string(dir), staging)))
}

// begin makes the staging directory. From then on no server takes the directory, not even
// after a power cut.
func begin(stage, dir layout.Dir) error {
	if err := os.Mkdir(string(stage), 0o700); err != nil {
		return layout.Error(string(stage), err)
	}
	if err := layout.SyncDir(string(dir)); err != nil {
		return err
	}
	if err := layout.SyncDir(filepath.Dir(string(dir))); err != nil && vm.KindOf(err) != vm.Denied { // a directory of others: without read permission it cannot be synced
		return err
	}
	return nil
}

// publish moves what was restored to its place, the file named format last: with it the
// directory is a data directory. The staging directory goes when that is durable: without
// it, what a power cut leaves would be taken for something else's.
func publish(stage, dir layout.Dir) error {
	entries, err := os.ReadDir(string(stage))
	if err != nil {
		return layout.Error(string(stage), err)
	}
	format := filepath.Base(dir.Format())
	move := func(name string) error {
		return layout.Error(name, os.Rename(filepath.Join(string(stage), name), filepath.Join(string(dir), name)))
	}
	for _, e := range entries {
		if e.Name() != format {
			if err := move(e.Name()); err != nil {
				return err
			}
		}
	}
	if err := layout.SyncDir(string(dir)); err != nil {
		return err
	}
	if err := move(format); err != nil {
		return err
	}
	if err := layout.SyncDir(string(dir)); err != nil {
		return err
	}
	if err := os.RemoveAll(string(stage)); err != nil {
		return layout.Error(string(stage), err)
	}
	return layout.SyncDir(string(dir))
}

// each is Each of an archive with progress.
func each(ctx context.Context, s Source, step string, a *bundle.Archive, f func(bundle.Entry, io.Reader) error) error {
	total, done := a.Manifest.Bytes(), int64(0)
	return a.Each(ctx, func(e bundle.Entry, r io.Reader) error {
		s.progress(step, done, total)
		done += e.Size
		return f(e, r)
	})
}

// place writes the files of an archive below dir, restores the records, and gives each VM
// a disk.
func place(ctx context.Context, s Source, a *bundle.Archive, dir layout.Dir) (Facts, error) {
	var facts Facts
	if err := decodeFacts(a.Manifest, &facts); err != nil {
		return facts, err
	}
	recs, later := filepath.Join(string(dir), "."+recordsPath), filepath.Join(string(dir), "."+laterPath)
	var x bundle.Extractor
	err := each(ctx, s, "copying", a, func(e bundle.Entry, r io.Reader) error {
		switch rel, data := strings.CutPrefix(e.Path, dataPath); {
		case data && allowed(rel):
			return x.Write(filepath.Join(string(dir), filepath.FromSlash(rel)), e, r)
		case e.Path == recordsPath:
			return x.Write(recs, e, r)
		case e.Path == laterPath:
			return x.Write(later, e, r)
		}
		return vm.Errorf(vm.Invalid, e.Path, "a backup has no such entry").WithHint("use the warren that made it, or a newer one")
	})
	if err != nil {
		return facts, err
	}
	if _, err := os.Stat(dir.Format()); err != nil {
		return facts, vm.Errorf(vm.Invalid, a.Manifest.Kind, "the backup has no file named format")
	}
	for _, sub := range []string{dir.Images(), dir.Generations(), dir.VMs(), dir.Audit(), dir.Events(), dir.Repos(), dir.Cache()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return facts, layout.Error(sub, err)
		}
	}
	s.progress("restoring records", 0, 0)
	if err := restoreRecords(ctx, s, a, dir, recs, later); err != nil {
		return facts, err
	}
	for _, path := range []string{recs, later} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return facts, layout.Error(path, err)
		}
	}
	return facts, nil
}

// allowed reports whether a backup may contain a file with this path in the data
// directory.
func allowed(rel string) bool {
	top, _, _ := strings.Cut(rel, "/")
	switch top {
	case staging, "etcd", "lock", "etcd.lock", "bin", "cache":
		return false
	}
	return !strings.HasPrefix(top, ".")
}
