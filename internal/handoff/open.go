// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

// OpenOptions say how a bundle is opened.
type OpenOptions struct {
	Name  string   // of the VM; "" = as it was, or another if that is taken
	Trust []string // fingerprints of signers that are trusted, in addition to this server's own
}

// Opened is what was made from a bundle.
type Opened struct {
	VM           *vm.VM // nil = the bundle has no machine
	Repositories []vm.Repository
	Bucket       string // a new one, with the objects, and the receipts in receipts.json
	Objects      int    // versions of objects in it
	Receipts     int    // audit records of the other server; they are not added to this server's
	Server       string
	Signer       string
	Notes        []string // what differs from what was packed
}

// Limits of what is read of an uploaded bundle.
const (
	maxEntries  = 10_000
	maxManifest = 4 << 20
	maxRepos    = 1000
)

// Signer is the fingerprint of the key with which this server signs.
func (h *Handoff) Signer() (string, error) {
	key, err := seal.SigningKey(h.cfg.Dir)
	if err != nil {
		return "", err
	}
	return bundle.FingerprintOf(key), nil
}

// Open makes the repositories, the objects and the VM of a bundle in the caller's account. It first
// stores the whole bundle and verifies it; when anything fails, what was made is removed. An
// account opens one bundle at a time, and waits while two others' are unpacked.
// Kinds: Corrupt, Denied (an unknown signer), Invalid, Limit, NoSpace, Busy, Unsupported,
// and those of engine.Unpack.
func (h *Handoff) Open(ctx context.Context, c *vm.Call, body io.Reader, o OpenOptions) (out Opened, err error) {
	defer func() { err = vm.WithOp(vm.OpBundleOpen, o.Name, err) }()
	if err := c.Actor.OwnerOnly(o.Name); err != nil {
		return out, err
	}
	end, err := h.begin(c.Actor.Account)
	if err != nil {
		return out, err
	}
	defer end()
	receipt, err := h.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpBundleOpen, Subject: o.Name})
	if err != nil {
		return out, err
	}
	defer func() {
		receipt.End(err, map[string]any{"signer": out.Signer, "server": out.Server, "repositories": len(out.Repositories), "bucket": out.Bucket, "objects": out.Objects})
	}()
	room, err := h.cfg.Engine.DiskLeft(ctx, c.Actor.Account)
	if err != nil {
		return out, err
	}
	tmp, err := layout.Temp(h.cfg.Dir.Generations()) // a start removes what a crash leaves there
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, layout.Error(tmp, os.RemoveAll(tmp))) }()
	a, f, err := h.receive(tmp, body, room)
	if err != nil {
		return out, err
	}
	defer f.Close()
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	out.Server, out.Signer = a.Manifest.Server, a.Signer
	own, err := h.Signer()
	if err != nil {
		return out, err
	}
	if a.Signer != own && !slices.Contains(o.Trust, a.Signer) {
		return out, vm.Errorf(vm.Denied, "bundle", "it is signed by %s, which this server does not know", a.Signer).
			WithHint("ask who made it for the fingerprint (`warren bundle signer` there); if it is the same, use --trust %s", a.Signer)
	}
	if err := a.Verify(ctx); err != nil {
		return out, err
	}
	u := &unpacking{h: h, c: c, o: o, dir: tmp, out: &out}
	if err := u.all(ctx, a); err != nil {
		if undoErr := u.undo(context.WithoutCancel(ctx)); undoErr != nil {
			err = errors.Join(err, undoErr)
		}
		return out, err
	}
	return out, nil
}

// receive stores an upload of at most room bytes, and reads its seal and manifest.
func (h *Handoff) receive(dir string, body io.Reader, room int64) (*bundle.Archive, *os.File, error) {
	path := filepath.Join(dir, "upload")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, layout.Error(path, err)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(body, room+1), make([]byte, 1<<20))
	var a *bundle.Archive
	switch {
	case err != nil:
		err = layout.Error("bundle", err)
	case n > room:
		err = vm.Errorf(vm.Limit, "bundle", "the account may store %d MiB more, and the bundle is larger", room>>20).
			WithHint("delete VMs or snapshots, or ask an admin for more: `warren account quota`")
	default:
		a, err = bundle.Open(f, n, bundle.Limits{Entries: maxEntries, Manifest: maxManifest, Bytes: room})
	}
	if err == nil && a.Manifest.Kind != bundle.OfVM {
		err = a.Manifest.WrongKind("bundle")
	}
	if err != nil {
		_ = f.Close() // it is removed
		return nil, nil, err
	}
	return a, f, nil
}

// unpacking is one bundle that is being opened.
type unpacking struct {
	h   *Handoff
	c   *vm.Call
	o   OpenOptions
	dir string // of the entries' files
	out *Opened

	is contents
}

// path is where an entry was written.
func (u *unpacking) path(entry string) string {
	return filepath.Join(u.dir, "entries", filepath.FromSlash(entry))
}

func (u *unpacking) all(ctx context.Context, a *bundle.Archive) error {
	var x bundle.Extractor
	err := a.Each(ctx, func(e bundle.Entry, r io.Reader) error {
		if e.Path == vmPath && e.Size > maxContents {
			return vm.Errorf(vm.Limit, vmPath, "it has %d bytes, at most %d are read", e.Size, maxContents)
		}
		if e.Mode = 0o600; strings.HasPrefix(e.Path, imageDir) {
			e.Mode = 0o644 // as in other images: they are public
		}
		return x.Write(u.path(e.Path), e, r)
	})
	if err != nil {
		return err
	}
	data, err := os.ReadFile(u.path(vmPath))
	if err != nil {
		return vm.Errorf(vm.Invalid, vmPath, "the bundle does not contain it")
	}
	if err := json.Unmarshal(data, &u.is); err != nil {
		return vm.Errorf(vm.Invalid, vmPath, "it cannot be read: %w", err)
	}
	facts, err := FactsOf(a.Manifest)
	if err != nil {
		return err
	}
	u.out.Receipts = max(0, facts.Receipts)
	if len(u.is.Repos) > maxRepos {
		return vm.Errorf(vm.Limit, vmPath, "it has %d repositories, at most %d", len(u.is.Repos), maxRepos)
	}
	if err := u.image(); err != nil {
		return err
	}
	grants, err := u.repos(ctx)
	if err != nil {
		return err
	}
	if err := u.objects(ctx); err != nil || u.is.Machine == nil {
		return err
	}
	return u.machine(ctx, grants)
}

// repos makes the repositories, and returns what the VM may do with them.
func (u *unpacking) repos(ctx context.Context) (grants []vm.RepoGrant, err error) {
	for _, e := range u.is.Repos {
		rec, err := u.repo(ctx, e)
		if err != nil {
			return nil, err
		}
		u.out.Repositories = append(u.out.Repositories, rec)
		if rec.Name != e.Name {
			u.note("the repository " + strconv.Quote(vm.Clip(e.Name, 100)) + " is named " + rec.Name)
		}
		for _, pattern := range e.Protected {
			if _, err := u.h.cfg.Repo.Protect(ctx, u.c, rec.ID, pattern); err != nil {
				return nil, err
			}
		}
		if g := e.Grant; g != nil && (g.Access == vm.GitRead || g.Access == vm.GitWrite) && len(g.Branches) <= 100 {
			for _, pattern := range g.Branches {
				if err := repo.CheckPattern(pattern); err != nil {
					return nil, err
				}
			}
			grants = append(grants, vm.RepoGrant{Repo: rec.ID, Access: g.Access, Branches: g.Branches, GrantedAt: u.h.cfg.Now().UTC()})
		}
	}
	return grants, nil
}

// repo makes one repository, under another name if its own is taken.
func (u *unpacking) repo(ctx context.Context, e repoEntry) (rec vm.Repository, err error) {
	req := repo.CreateRequest{Name: e.Name, DefaultBranch: e.DefaultBranch}
	for n := 2; n < 100; n++ {
		rec, err = u.create(ctx, e, req)
		if vm.AsError(err).Code != "REPO_ALREADY_EXISTS" {
			return rec, err
		}
		req.Name = e.Name + "-" + strconv.Itoa(n)
	}
	return rec, err
}

func (u *unpacking) create(ctx context.Context, e repoEntry, req repo.CreateRequest) (vm.Repository, error) {
	if e.Empty {
		return u.h.cfg.Repo.Create(ctx, u.c, req)
	}
	if strings.ContainsAny(e.ID, "/\\") || e.ID == "" {
		return vm.Repository{}, vm.Errorf(vm.Invalid, vmPath, "a repository has no valid id")
	}
	f, err := os.Open(u.path(reposDir + e.ID + ".bundle"))
	if err != nil {
		return vm.Repository{}, vm.Errorf(vm.Invalid, vmPath, "the bundle does not contain a repository that it names")
	}
	defer f.Close()
	return u.h.cfg.Repo.CreateFromBundle(ctx, u.c, req, f)
}

func (u *unpacking) note(text string) { u.out.Notes = append(u.out.Notes, text) }

// machine makes the VM.
func (u *unpacking) machine(ctx context.Context, grants []vm.RepoGrant) error {
	m := u.is.Machine
	if err := qcow.CheckExtents(m.Disk, m.DiskSize); err != nil {
		return err
	}
	if int64(m.Manifest.Size.DiskMiB)<<20 != m.DiskSize {
		return vm.Errorf(vm.Invalid, vmPath, "the disk has %d bytes, the VM's size says %d MiB", m.DiskSize, m.Manifest.Size.DiskMiB)
	}
	bytes := qcow.DataBytes(m.Disk)
	for _, path := range []string{ramPath, devicePath} {
		st, err := os.Stat(u.path(path))
		if m.Memory && err != nil {
			return vm.Errorf(vm.Invalid, vmPath, "the bundle does not contain the memory that it names")
		}
		if m.Memory {
			bytes += st.Size()
		}
	}
	rec, notes, err := u.h.cfg.Engine.Unpack(ctx, u.c, engine.Unpacking{
		VM: u.is.VM, Name: u.o.Name, Image: u.is.Image, Memory: m.Memory, Manifest: m.Manifest, Bytes: bytes, Repos: grants, Fill: u.fill,
	})
	if err != nil {
		return err
	}
	u.out.VM = &rec
	for _, n := range notes {
		u.note(n)
	}
	return nil
}

// fill makes the files of the VM's generation.
func (u *unpacking) fill(ctx context.Context, dir layout.GenerationDir, below string, memory bool) error {
	m := u.is.Machine
	data, err := os.Open(u.path(diskPath))
	if err != nil {
		return vm.Errorf(vm.Invalid, vmPath, "the bundle does not contain the disk that it names")
	}
	defer data.Close()
	if err := qcow.WriteLayer(dir.Disk(), below, m.DiskSize, m.Disk, reader{ctx, data}); err != nil {
		return err
	}
	if !memory {
		return nil
	}
	for path, name := range map[string]string{ramPath: dir.RAM(), devicePath: dir.Device()} {
		if err := os.Rename(u.path(path), name); err != nil {
			return layout.Error(name, err)
		}
	}
	return nil
}

// image adds the bundle's image to the server if the server lacks it.
func (u *unpacking) image() error {
	if u.is.Machine == nil || !u.is.HasImage {
		return nil
	}
	id := u.is.Image.ID
	dir := layout.ImageDir(u.h.cfg.Dir.Image(id))
	if _, err := os.Lstat(dir.Manifest()); err == nil {
		return nil // the engine compares it
	}
	if !u.c.Actor.Admin {
		return vm.Errorf(vm.Denied, string(id), "only an admin may add an image to the server").WithHint("ask an admin to open the bundle, or to build the image")
	}
	if err := u.checkImage(); err != nil {
		return err
	}
	u.note("the image " + string(id) + " was added to this server")
	return layout.Publish(filepath.Join(u.dir, "entries", filepath.FromSlash(strings.TrimSuffix(imageDir, "/"))), string(dir))
}

// undo removes what was made. An image stays: it is whole.
func (u *unpacking) undo(ctx context.Context) error {
	var errs []error
	for _, rec := range u.out.Repositories {
		errs = append(errs, u.h.cfg.Repo.Remove(ctx, u.c, rec.ID))
	}
	if u.out.Bucket != "" {
		errs = append(errs, u.h.cfg.Objects.RemoveBucket(ctx, u.c, u.out.Bucket, true))
	}
	u.out.Repositories, u.out.Bucket, u.out.Objects = nil, "", 0
	return errors.Join(errs...)
}
