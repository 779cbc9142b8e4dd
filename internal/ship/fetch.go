// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ship

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// Fetch brings a version of an object into a VM, as root. A file appears whole or not at
// all, and so does the tree of an archive. It compares the bytes with the version's digest
// before anything appears.
//
// An identity needs the right to write as root, and to read the key.
//
// Kinds beside those of objects.Get and the guest's: Limit for more bytes than the request
// allows; Exists when a tree's path exists; Invalid for an archive that is refused;
// Corrupt when the bytes are not those of the digest.
func (s *Ship) Fetch(ctx context.Context, c *vm.Call, ref string, r vm.FetchRequest) (out vm.Fetched, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectFetch, ref, err) }()
	rec, err := s.cfg.Engine.Find(c.Actor, ref)
	if err == nil {
		err = s.cfg.Access.May(c.Actor, rec.ID, vm.OpObjectFetch, "")
	}
	if err != nil {
		return out, err
	}
	f := &fetching{Ship: s, r: r, rec: rec}
	if f.limit, err = limit(r.MaxBytes); err != nil {
		return out, err
	}
	f.content, err = s.cfg.Objects.Get(ctx, c, objects.Which{Bucket: r.Bucket, Key: r.Key, Version: r.Version})
	if err != nil {
		return out, err
	}
	o := f.content.Object
	if o.Size > f.limit {
		return out, vm.Errorf(vm.Limit, f.ref().String(), "it has %d bytes, and the limit is %d", o.Size, f.limit).WithHint("allow more: --max-bytes %d", o.Size)
	}
	f.out = vm.Fetched{Object: o, VM: rec.ID, Tree: o.Origin != nil && o.Origin.Tree}
	if r.Unpack != nil {
		f.out.Tree = *r.Unpack
	}
	if err := f.place(ctx, c); err != nil {
		return out, err
	}
	act := access.Act{Verb: vm.OpObjectFetch, What: "fetch " + f.ref().String() + " to " + f.out.Path.String(), All: r, Details: map[string]string{
		"bytes": strconv.FormatInt(o.Size, 10), "sha256": o.SHA256, "replaces": strconv.FormatBool(r.Replace), "unpacks": strconv.FormatBool(f.out.Tree),
	}}
	if err := s.cfg.Access.Approve(ctx, c, rec, act); err != nil {
		return out, err
	}
	if err := f.bring(ctx, c); err != nil {
		return out, err
	}
	s.cfg.Journal.EmitVM(rec, "vm.fetched", map[string]any{"bucket": o.Bucket, "key": o.Key, "version": o.Version, "sha256": f.out.SHA256, "path": f.out.Path.String()})
	return f.out, nil
}

// fetching is one fetch.
type fetching struct {
	*Ship
	r       vm.FetchRequest
	rec     vm.VM
	limit   int64
	content *objects.Content
	out     vm.Fetched
}

// ref is the version that is fetched.
func (f *fetching) ref() vm.ObjectRef {
	return vm.ObjectRef{Bucket: f.content.Bucket, Key: f.content.Key, Version: f.content.Version}
}

// place decides where the object goes.
func (f *fetching) place(ctx context.Context, c *vm.Call) error {
	at, err := resolve(f.rec, f.r.Path)
	if err != nil {
		return err
	}
	stat := func(p string) (bool, error) {
		_, err := f.guests.Stat(ctx, c, string(f.rec.ID), "", p)
		if vm.KindOf(err) == vm.NotFound && vm.AsError(err).Code == "FILE_NOT_FOUND" {
			return false, nil
		}
		return err == nil, err
	}
	into := strings.HasSuffix(string(f.r.Path), "/")
	if f.out.Tree {
		if into {
			at = path.Join(at, treeName(f.content.Key))
		}
		there, err := stat(at)
		if err == nil && there && !f.r.Replace {
			err = vm.Errorf(vm.Exists, vm.GuestPath(at).String(), "it exists, and a tree does not go into what is there").
				WithHint("name a path that does not exist; --replace replaces what is there")
		}
		f.out.Path = vm.GuestPath(at)
		return err
	}
	if !into {
		in, err := f.guests.Stat(ctx, c, string(f.rec.ID), "", at+"/.") // a link is followed
		into = err == nil && in.Kind == vm.FileDirectory
	}
	if into {
		at = path.Join(at, path.Base(f.content.Key))
	}
	f.out.Path = vm.GuestPath(at)
	return nil
}

// treeName is the name of an archive's tree.
func treeName(key string) string {
	name := path.Base(key)
	for _, end := range []string{".tar.zst", ".tar.gz", ".tgz", ".tar"} {
		if short, ok := strings.CutSuffix(name, end); ok && short != "" {
			return short
		}
	}
	return name
}

// bring sends the object to the guest, with the audit record of the fetch.
func (f *fetching) bring(ctx context.Context, c *vm.Call) error {
	body, err := f.content.Range(ctx, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close()
	at := string(f.out.Path)
	entry := vm.AuditEntry{Op: vm.OpObjectFetch, Subject: vm.Clip(f.out.Path.String(), 1024), Detail: map[string]any{
		"from": f.ref().String(), "size": f.content.Size, "sha256": f.content.SHA256, "tree": f.out.Tree,
	}}
	in := &checked{r: body, sum: sha256.New(), want: f.content.SHA256, name: f.ref().String()}
	if !f.out.Tree {
		o := vm.WriteOptions{Parents: true, Size: f.content.Size}
		if from := f.content.Origin; from != nil && !from.Tree {
			o.Mode = from.Mode
		}
		f.out.Files, f.out.Bytes = 1, f.content.Size
		err = f.guests.Receive(ctx, c, string(f.rec.ID), entry, in, func(ctx context.Context, g engine.Guest, r io.Reader) error {
			_, err := g.WriteFile(ctx, "", at, o, r)
			return err
		})
	} else {
		err = f.unpack(ctx, c, entry, in)
	}
	f.out.SHA256 = in.digest
	return err
}

// unpack sends the tree of an archive, which the guest's agent puts at its place in one
// step.
func (f *fetching) unpack(ctx context.Context, c *vm.Call, entry vm.AuditEntry, in *checked) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { // ends when the archive ends, or when the pipe is closed
		err := wholly(f.translate(in, w), f.ref().String())
		w.CloseWithError(err)
		done <- err
	}()
	err := f.guests.Receive(ctx, c, string(f.rec.ID), entry, r, func(ctx context.Context, g engine.Guest, r io.Reader) error {
		return g.Restore(ctx, string(f.out.Path), r)
	})
	_ = r.CloseWithError(context.Canceled) // always nil
	if perr := <-done; perr != nil && !errors.Is(perr, context.Canceled) {
		return perr // why the stream broke
	}
	if vm.KindOf(err) == vm.Unsupported {
		err = vm.AsError(err).WithHint("the VM's agent is too old to unpack trees: use --unpack=false, and unpack it in the VM")
	}
	return err
}

// checked is a body that ends only if it has the digest that is wanted.
type checked struct {
	r      io.Reader
	sum    hash.Hash
	want   string // "" = none is known
	name   string
	digest string // of what was read, at its end
}

func (b *checked) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	_, _ = b.sum.Write(p[:n]) // documented never to fail
	if err != io.EOF {
		return n, wholly(err, b.name)
	}
	b.digest = hex.EncodeToString(b.sum.Sum(nil))
	if b.digest != cmp.Or(b.want, b.digest) {
		return n, vm.Errorf(vm.Corrupt, b.name, "its bytes have the SHA-256 %s, and it was stored with %s", b.digest, b.want).WithHint("put the directory `objects` back from a backup")
	}
	return n, io.EOF
}
