// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

// Create writes a copy of the server's state to w, which is an archive of package bundle,
// and returns its manifest. When it fails, what w got is incomplete, and no reader takes
// it for whole. begin is called before the first byte, when the captures are done; an
// error of it ends the copy. Only admins may. Kinds: Busy while another copy is made,
// Unsupported when the records are in a cluster, and those of the captures and of w.
func (b *Backup) Create(ctx context.Context, c *vm.Call, w io.Writer, begin func() error) (m bundle.Manifest, err error) {
	if !c.Actor.Admin {
		return m, vm.Errorf(vm.Denied, "backup", "only an admin may copy the server's state").WithHint("use the key in DATA/admin.key")
	}
	if b.cfg.Records == nil {
		return m, vm.Errorf(vm.Unsupported, "backup", "the records are in an etcd cluster, which this server does not copy").
			WithHint("save the cluster with `etcdctl snapshot save`, and this server's data directory while it is stopped")
	}
	if !b.busy.TryLock() {
		return m, vm.Errorf(vm.Busy, "backup", "another backup is being made").WithHint("wait for its end")
	}
	defer b.busy.Unlock()
	receipt, err := b.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpBackup})
	if err != nil {
		return m, err
	}
	defer func() {
		err = vm.WithOp(vm.OpBackup, "", err)
		receipt.End(err, map[string]any{"entries": len(m.Entries), "bytes": m.Bytes()})
	}()
	key, err := seal.SigningKey(b.cfg.Dir)
	if err != nil {
		return m, err
	}
	k := &copying{b: b, left: []Left{}, made: b.cfg.Now().UTC()}
	if k.spool, err = spool(b.cfg.Dir.Cache()); err != nil {
		return m, err
	}
	defer k.spool.Close()
	p, err := b.cfg.Engine.Preserve(ctx, c, func(string) {}, k.dump)
	if err != nil {
		return m, err
	}
	defer p.Release()
	k.p = p
	for id, why := range p.Left {
		k.leave("vm "+string(id), why)
	}
	if err := begin(); err != nil {
		return m, err
	}
	k.w, err = bundle.NewWriter(w, bundle.Manifest{Kind: bundle.OfServer, Server: b.cfg.Host, Warren: b.cfg.Version, At: k.made}, key)
	if err != nil {
		return m, err
	}
	defer k.w.Abort()
	if err := k.all(ctx); err != nil {
		return m, err
	}
	return k.w.Close(k.facts)
}

// copying is one copy being made.
type copying struct {
	b     *Backup
	p     *engine.Preserved
	w     *bundle.Writer
	spool *os.File // the records
	facts Facts
	left  []Left
	made  time.Time

	vms   []vm.VM
	gens  []vm.Generation
	repos []string
	vols  []string
	later []record // records that replace those of the moment
}

func (k *copying) leave(what, why string) { k.left = append(k.left, Left{what, why}) }

// dump writes the records to the spool, and notes what they name.
func (k *copying) dump(ctx context.Context) (err error) {
	out := bufio.NewWriterSize(k.spool, 1<<20)
	enc := json.NewEncoder(out)
	k.made = k.b.cfg.Now().UTC()
	k.facts.Revision, err = k.b.cfg.Records.Dump(ctx, func(e ledger.Entry) error {
		k.facts.Records++
		k.note(e)
		return layout.Error("records", enc.Encode(record{Kind: e.Kind, ID: e.ID, Value: e.Value}))
	})
	if err != nil {
		return err
	}
	return layout.Error("records", out.Flush())
}

// note keeps what the files of a record are found by. A record that cannot be read is
// copied like another.
func (k *copying) note(e ledger.Entry) {
	switch e.Kind {
	case "vms":
		var rec vm.VM
		if json.Unmarshal(e.Value, &rec) == nil {
			k.vms = append(k.vms, rec)
			k.facts.VMs++
		}
	case "generations":
		var g vm.Generation
		if json.Unmarshal(e.Value, &g) == nil && !g.Gone {
			k.gens = append(k.gens, g)
			k.facts.Generations++
		}
	case "repositories":
		k.repos = append(k.repos, e.ID)
		k.facts.Repositories++
	case "volumes":
		k.vols = append(k.vols, e.ID)
		k.facts.Volumes++
	}
}

// all writes every entry. What may grow comes after the records, so that it has at least
// what they name.
func (k *copying) all(ctx context.Context) error {
	steps := []func(context.Context) error{
		k.records, k.settings, k.repositories, k.objects, k.generations, k.images, k.volumes, k.logs, k.laterRecords,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	slices.SortFunc(k.left, func(a, b Left) int { return strings.Compare(a.What, b.What) })
	k.facts.Left = k.left
	return nil
}

func (k *copying) records(context.Context) error {
	size, err := k.spool.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = k.spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return layout.Error("records", err)
	}
	return k.w.Add(bundle.Entry{Path: recordsPath, Kind: kindRecords, Mode: 0o600, Size: size}, k.spool)
}

func (k *copying) laterRecords(context.Context) error {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	for _, r := range k.later {
		if err := enc.Encode(r); err != nil {
			return vm.Errorf(vm.Internal, laterPath, "%w", err)
		}
	}
	return k.w.Add(bundle.Entry{Path: laterPath, Kind: kindLater, Mode: 0o600, Size: int64(out.Len())}, strings.NewReader(out.String()))
}

// notCopied are the files of the data directory that belong to one run of a server.
var notCopied = []string{"lock", "etcd.lock"}

// settings copies the files directly in the data directory: keys and settings.
func (k *copying) settings(ctx context.Context) error {
	root := string(k.b.cfg.Dir)
	entries, err := os.ReadDir(root)
	if err != nil {
		return layout.Error(root, err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !layout.IsTemp(e.Name()) && !slices.Contains(notCopied, e.Name()) {
			if err := k.file(ctx, filepath.Join(root, e.Name()), dataPath+e.Name(), kindSecret); err != nil {
				return err
			}
		}
	}
	return k.tree(ctx, k.b.cfg.Dir.Certificates(), kindSecret)
}

// repositories copies each repository: its refs first, so that every object that they
// need is copied after them.
func (k *copying) repositories(ctx context.Context) error {
	for _, id := range k.repos {
		err := k.b.cfg.Repos.Still(id, func(dir string) error {
			if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
				k.leave("repository "+id, "it has no files, or was removed meanwhile")
				return nil
			}
			if err := k.treeBut(ctx, dir, kindRepository, "objects"); err != nil {
				return err
			}
			return k.tree(ctx, filepath.Join(dir, "objects"), kindRepository)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// objects copies the index of one moment, and the bytes that it names.
func (k *copying) objects(ctx context.Context) error {
	dir := k.b.cfg.Dir
	index, err := spool(dir.Cache())
	if err != nil {
		return err
	}
	defer index.Close()
	err = k.b.cfg.Objects.Snapshot(ctx, index, func(b objects.Body) error {
		r, err := b.Open(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		place := k.place(dir.ObjectBody(b.Account, b.ID))
		return k.w.Add(bundle.Entry{Path: place, Kind: kindObject, Mode: 0o600, Size: b.Size}, reader{ctx, r})
	})
	if err != nil {
		return err
	}
	if _, err := index.Seek(0, io.SeekStart); err != nil {
		return layout.Error(dir.ObjectIndex(), err)
	}
	return k.open(ctx, index, k.place(dir.ObjectIndex()), kindObject)
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

func (k *copying) generations(ctx context.Context) error {
	for _, g := range k.gens {
		files, now, err := k.p.Open(g.ID)
		if err != nil {
			k.leave("generation "+string(g.ID), "its files are gone")
			continue
		}
		if now.Sealed != g.Sealed {
			data, err := json.Marshal(now)
			if err != nil {
				return vm.Errorf(vm.Internal, string(g.ID), "%w", err)
			}
			k.later = append(k.later, record{Kind: "generations", ID: string(g.ID), Value: data})
		}
		for i, f := range files {
			if err == nil {
				err = k.open(ctx, f, k.place(f.Name()), kindGeneration)
			}
			_ = files[i].Close() // it was only read
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// images copies the images that VMs and generations stand on, with those of their warm
// generations that are part of a disk.
func (k *copying) images(ctx context.Context) error {
	warm := map[vm.ImageID]map[string]bool{}
	use := func(id vm.ImageID) {
		if id != "" && warm[id] == nil {
			warm[id] = map[string]bool{}
		}
	}
	for _, rec := range k.vms {
		use(rec.Image)
	}
	for _, g := range k.gens {
		use(g.Image)
		layers, err := k.p.Layers(g.ID)
		if err != nil {
			continue // its disk is damaged: a verification reports it
		}
		for _, path := range layers {
			dir := filepath.Dir(path) // images/ID/warm/KEY of a warm layer
			if filepath.Base(filepath.Dir(dir)) == filepath.Base(layout.ImageDir("").WarmRoot()) {
				id := vm.ImageID(filepath.Base(filepath.Dir(filepath.Dir(dir))))
				use(id)
				warm[id][filepath.Base(dir)] = true
			}
		}
	}
	for id, keys := range warm {
		dir := layout.ImageDir(k.b.cfg.Dir.Image(id))
		if _, err := os.Stat(dir.Manifest()); err != nil {
			k.leave("image "+string(id), "it has no manifest")
			continue
		}
		k.facts.Images++
		if err := k.treeBut(ctx, string(dir), kindImage, filepath.Base(dir.WarmRoot())); err != nil {
			return err
		}
		for key := range keys {
			if err := k.tree(ctx, dir.Warm(key), kindImage); err != nil {
				return err
			}
		}
	}
	return nil
}

// volumes copies each volume that nobody writes to.
func (k *copying) volumes(ctx context.Context) error {
	for _, id := range k.vols {
		dir := layout.VolumeDir(k.b.cfg.Dir.Volume(vm.VolumeID(id)))
		before, err := os.Stat(dir.Disk())
		if err != nil {
			k.leave("volume "+id, "it has no disk")
			continue
		}
		if err := k.tree(ctx, string(dir), kindVolume); err != nil {
			return err
		}
		after, err := os.Stat(dir.Disk())
		if err != nil || !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
			k.leave("volume "+id, "a VM wrote to it meanwhile: its content in the backup may be damaged")
		}
	}
	return nil
}

// logs copies what only grows: the audit chain with its signatures first, the events, and
// the logs of VMs.
func (k *copying) logs(ctx context.Context) error {
	dir := k.b.cfg.Dir
	for _, part := range []func(name string) bool{audit.Signatures, func(name string) bool { return !audit.Signatures(name) }} {
		if err := k.some(ctx, dir.Audit(), kindLog, part); err != nil {
			return err
		}
	}
	if err := k.tree(ctx, dir.Events(), kindLog); err != nil {
		return err
	}
	for _, rec := range k.vms {
		if err := k.tree(ctx, dir.Logs(rec.ID), kindVM); err != nil {
			return err
		}
	}
	return k.tree(ctx, dir.Answers(), kindAnswer)
}

// place is the path in the archive of a file of the data directory.
func (k *copying) place(path string) string {
	rel, err := filepath.Rel(string(k.b.cfg.Dir), path)
	if err != nil {
		return path // no entry may have it
	}
	return dataPath + filepath.ToSlash(rel)
}

func (k *copying) tree(ctx context.Context, dir, kind string) error {
	return k.treeBut(ctx, dir, kind, "")
}

// some copies the files directly in a directory whose names are wanted.
func (k *copying) some(ctx context.Context, dir, kind string, wanted func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return layout.Error(dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type().IsRegular() && !layout.IsTemp(e.Name()) && wanted(e.Name()) {
			if err := k.file(ctx, path, k.place(path), kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// treeBut copies the regular files below a directory, in the order of their names, except
// those in one directory of it. A directory that does not exist is empty, and a file that
// is removed meanwhile is left out.
func (k *copying) treeBut(ctx context.Context, dir, kind, but string) error {
	root := dir
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		root = real // the operator may have moved the images elsewhere
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return layout.Error(path, err)
		case d.IsDir() && but != "" && path == filepath.Join(root, but):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || layout.IsTemp(d.Name()) || strings.HasSuffix(d.Name(), ".lock"):
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return vm.Errorf(vm.Internal, path, "%w", err)
		}
		err = k.file(ctx, path, k.place(filepath.Join(dir, rel)), kind)
		if vm.KindOf(err) == vm.NotFound {
			return nil
		}
		return err
	})
}

// file copies one file as long as it is when it is opened.
func (k *copying) file(ctx context.Context, path, place, kind string) error {
	f, err := os.Open(path)
	if err != nil {
		return layout.Error(path, err)
	}
	defer f.Close()
	return k.open(ctx, f, place, kind)
}

func (k *copying) open(ctx context.Context, f *os.File, place, kind string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	st, err := f.Stat()
	if err != nil {
		return layout.Error(f.Name(), err)
	}
	return k.w.Add(bundle.Entry{Path: place, Kind: kind, Mode: uint32(st.Mode().Perm()), Size: st.Size()}, f)
}
