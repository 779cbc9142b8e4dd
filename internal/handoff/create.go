// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

// CreateOptions choose what a bundle contains.
type CreateOptions struct {
	Machine bool // disk, and memory of a VM that is not stopped
	Image   bool // the files of the image that the disk stands on
	// MaxBytes is how many bytes of objects it takes, the newest first; what is beyond is
	// counted in Facts.ObjectsLeft.
	MaxBytes int64
}

// Create writes a bundle of a VM to w. begin is called before the first byte, when the
// capture is done; its error ends the work. When Create fails later, what w got is
// incomplete, and no reader takes it for whole. Kinds: those of engine.Pack, and w's.
func (h *Handoff) Create(ctx context.Context, c *vm.Call, ref string, o CreateOptions, w io.Writer, begin func() error) (m bundle.Manifest, err error) {
	defer func() { err = vm.WithOp(vm.OpBundle, ref, err) }()
	if o.Image && !o.Machine {
		return m, vm.Errorf(vm.Invalid, "image", "only a bundle with the machine needs the image").WithHint("use --machine, too")
	}
	p, release, err := h.cfg.Engine.Pack(ctx, c, ref, o.Machine)
	if err != nil {
		return m, err
	}
	defer release()
	key, err := seal.SigningKey(h.cfg.Dir)
	if err != nil {
		return m, err
	}
	k := &packing{h: h, c: c, p: p, o: o}
	defer k.close()
	if err := k.prepare(ctx); err != nil {
		return m, err
	}
	if err := begin(); err != nil {
		return m, err
	}
	k.w, err = bundle.NewWriter(w, bundle.Manifest{Kind: bundle.OfVM, Server: h.cfg.Host, Warren: h.cfg.Version, At: h.cfg.Now().UTC()}, key)
	if err != nil {
		return m, err
	}
	defer k.w.Abort()
	if err := k.write(ctx); err != nil {
		return m, err
	}
	return k.w.Close(k.facts)
}

// packing is one bundle being made.
type packing struct {
	h *Handoff
	c *vm.Call
	p engine.Packed
	o CreateOptions
	w *bundle.Writer

	is       contents
	facts    Facts
	receipts []byte
	chain    *qcow.Chain
	files    []*os.File  // to be closed
	bundles  []*os.File  // of the repositories, as in is.Repos; nil = an empty one
	contents []published // of the objects, as in is.Objects
}

func (k *packing) close() {
	for _, f := range k.files {
		_ = f.Close() // it was only read, or has no name
	}
	for _, p := range k.contents {
		_ = p.body.Close() // it was only read
	}
}

// prepare finds out what the bundle contains.
func (k *packing) prepare(ctx context.Context) error {
	k.is = contents{VM: k.p.VM, Image: k.p.Image, HasImage: k.o.Image, Repos: []repoEntry{}}
	k.is.VM.Machine, k.is.VM.Folders = vm.MachineRef{}, nil
	list, err := k.h.receipts(ctx, k.c, k.p.VM.ID)
	if err != nil {
		return err
	}
	if k.receipts, err = json.MarshalIndent(list, "", " "); err != nil {
		return vm.Errorf(vm.Internal, receiptsPath, "%w", err)
	}
	k.facts = Facts{
		VM: k.p.VM.ID, Name: k.p.VM.Name, State: k.p.VM.State, Machine: k.o.Machine, Image: k.p.Image.ID, HasImage: k.o.Image,
		Repositories: []string{}, Receipts: len(list),
	}
	if err := k.repos(ctx); err != nil {
		return err
	}
	if err := k.objects(ctx); err != nil {
		return err
	}
	if k.o.Machine {
		return k.disk()
	}
	return nil
}

// repos makes a git bundle of each repository that the VM may use or has committed into.
func (k *packing) repos(ctx context.Context) error {
	var ids []string
	grants := map[string]*vm.RepoGrant{}
	for i, g := range k.p.VM.Repos {
		ids, grants[g.Repo] = append(ids, g.Repo), &k.p.VM.Repos[i]
	}
	for _, id := range k.p.Repos {
		if grants[id] == nil {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		rec, err := k.h.cfg.Repo.Get(ctx, k.c, id)
		if vm.KindOf(err) == vm.NotFound {
			continue // it was removed
		}
		if err != nil {
			return err
		}
		f, err := k.spool(k.h.cfg.Dir.RepoIncoming())
		if err != nil {
			return err
		}
		full, err := k.h.cfg.Repo.WriteBundle(ctx, k.c, id, f)
		if err != nil {
			return err
		}
		k.bundles = append(k.bundles, f)
		k.is.Repos = append(k.is.Repos, repoEntry{rec.ID, rec.Name, rec.DefaultBranch, rec.Protected, !full, grants[id]})
		k.facts.Repositories = append(k.facts.Repositories, rec.Name)
	}
	return nil
}

// spool is a file without a name, closed with k.
func (k *packing) spool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".tmp-")
	if err != nil {
		return nil, layout.Error(dir, err)
	}
	k.files = append(k.files, f)
	return f, layout.Error(f.Name(), os.Remove(f.Name()))
}

// disk finds out what the disk has above the image's.
func (k *packing) disk() error {
	img := layout.ImageDir(k.h.cfg.Dir.Image(k.p.Image.ID)).Disk()
	if real, err := filepath.EvalSymlinks(img); err == nil {
		img = real
	}
	var layers []*qcow.DiskLayer
	for _, path := range k.p.Layers {
		f, err := os.Open(path)
		if err != nil {
			return layout.Error(path, err)
		}
		k.files = append(k.files, f)
		l, err := qcow.OpenLayer(f)
		if err != nil {
			return err
		}
		layers = append(layers, l)
	}
	if n := len(k.p.Layers); n == 0 || k.p.Layers[n-1] != img {
		return vm.Errorf(vm.Corrupt, string(k.p.VM.ID), "its disk does not stand on the disk of its image")
	}
	disk, err := qcow.NewChain(layers...)
	if err != nil {
		return err
	}
	base, err := qcow.NewChain(layers[len(layers)-1])
	if err != nil {
		return err
	}
	extents, err := qcow.Extents(disk, base)
	if err != nil {
		return err
	}
	memory := k.p.Generation.Whole()
	k.chain, k.facts.Memory = disk, memory
	k.is.Machine = &machine{Manifest: k.p.Manifest, Memory: memory, DiskSize: disk.Size(), Disk: extents}
	return nil
}

// write writes every entry.
func (k *packing) write(ctx context.Context) error {
	data, err := json.Marshal(k.is)
	if err != nil {
		return vm.Errorf(vm.Internal, vmPath, "%w", err)
	}
	if len(data) > maxContents {
		return vm.Errorf(vm.Limit, string(k.p.VM.ID), "the description of its disk and its objects has %d bytes, at most %d", len(data), maxContents).
			WithHint("its disk is fragmented: pack it without --machine, and copy its files with `warren cp`")
	}
	if err := k.bytes(vmPath, "what the bundle is of", data); err != nil {
		return err
	}
	if err := k.bytes(receiptsPath, "audit records of the VM", k.receipts); err != nil {
		return err
	}
	for i, f := range k.bundles {
		if k.is.Repos[i].Empty {
			continue
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return layout.Error(f.Name(), err)
		}
		if err := k.file(ctx, f, reposDir+k.is.Repos[i].ID+".bundle", "git bundle"); err != nil {
			return err
		}
	}
	if err := k.writeObjects(ctx); err != nil || k.is.Machine == nil {
		return err
	}
	size := qcow.DataBytes(k.is.Machine.Disk)
	if err := k.w.Add(bundle.Entry{Path: diskPath, Kind: "disk", Mode: 0o600, Size: size}, reader{ctx, k.chain.Reader(k.is.Machine.Disk)}); err != nil {
		return err
	}
	if k.is.Machine.Memory {
		for path, name := range map[string]string{ramPath: k.p.Dir.RAM(), devicePath: k.p.Dir.Device()} {
			if err := k.named(ctx, name, path, "memory"); err != nil {
				return err
			}
		}
	}
	if k.o.Image {
		return k.image(ctx)
	}
	return nil
}

func (k *packing) bytes(path, kind string, data []byte) error {
	return k.w.Add(bundle.Entry{Path: path, Kind: kind, Mode: 0o600, Size: int64(len(data))}, strings.NewReader(string(data)))
}

func (k *packing) named(ctx context.Context, name, path, kind string) error {
	f, err := os.Open(name)
	if err != nil {
		return layout.Error(name, err)
	}
	defer f.Close()
	return k.file(ctx, f, path, kind)
}

func (k *packing) file(ctx context.Context, f *os.File, path, kind string) error {
	st, err := f.Stat()
	if err != nil {
		return layout.Error(path, err)
	}
	return k.w.Add(bundle.Entry{Path: path, Kind: kind, Mode: 0o600, Size: st.Size()}, reader{ctx, f})
}

// image writes the files of the image, without its warm generations.
func (k *packing) image(ctx context.Context) error {
	dir := k.h.cfg.Dir.Image(k.p.Image.ID)
	for _, f := range append(k.p.Image.Files, vm.File{Name: "manifest.json"}) {
		err := k.named(ctx, filepath.Join(dir, filepath.FromSlash(f.Name)), imageDir+f.Name, "image")
		if errors.Is(err, fs.ErrNotExist) {
			return vm.Errorf(vm.Corrupt, string(k.p.Image.ID), "the image lacks %s", f.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
