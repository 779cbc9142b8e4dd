// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// imageDisk is the name of the disk of every simulated image.
const imageDisk = "/images/disk.qcow2"

// Reader returns the simulator of the confined reader: it compares simulated disks. All
// changes are in the group project.
func (w *World) Reader() changes.DiskReader { return diskReader{w} }

type diskReader struct{ w *World }

// nodes are the files of the top layer, which a simulated disk has whole.
func (r diskReader) nodes(layers []string) (map[string]node, error) {
	if layers[0] == imageDisk {
		return newDisk(0).copies(), nil
	}
	r.w.mu.Lock()
	d := r.w.disks[layers[0]]
	r.w.mu.Unlock()
	if d == nil {
		return nil, vm.Errorf(vm.Corrupt, "", "no such disk: %s", layers[0])
	}
	return d.copies(), nil
}

// copies are the files as they are now.
func (d *disk) copies() map[string]node {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]node{}
	for p, n := range d.nodes {
		out[p] = *n
		out[p] = node{kind: n.kind, data: bytes.Clone(n.data), target: n.target, mode: n.mode, uid: n.uid, mtime: n.mtime}
	}
	return out
}

func (n node) state() *vm.FileState {
	sum := sha256.Sum256(n.data)
	return &vm.FileState{Size: int64(len(n.data)), Mode: n.mode, UID: uint32(n.uid), Links: 1, Target: vm.GuestPath(n.target), Digest: hex.EncodeToString(sum[:])}
}

func fileType(k vm.FileKind) string {
	switch k {
	case vm.FileDirectory:
		return "dir"
	case vm.FileSymlink:
		return "link"
	}
	return "file"
}

// Diff implements changes.DiskReader.
func (r diskReader) Diff(ctx context.Context, from, to []string, o reader.Options) (*vm.Diff, error) {
	if err := r.w.step(ctx, "read-disk"); err != nil {
		return nil, err
	}
	was, err := r.nodes(from)
	if err != nil {
		return nil, err
	}
	now, err := r.nodes(to)
	if err != nil {
		return nil, err
	}
	out := &vm.Diff{Groups: []vm.DiffGroup{}, Changes: []vm.FileChange{}}
	sum := sha256.New()
	for _, p := range slices.Sorted(maps.Keys(merged(was, now))) {
		if !under(p, o.Paths) {
			continue
		}
		a, there := was[p]
		b, here := now[p]
		c := vm.FileChange{Path: vm.GuestPath(p), Group: vm.GroupProject, Type: fileType(cmp.Or(b.kind, a.kind))}
		switch {
		case !there:
			c.Verb, c.Now = vm.FileAdded, b.state()
			out.Stat.Added++
		case !here:
			c.Verb, c.Was = vm.FileDeleted, a.state()
			out.Stat.Deleted++
		case bytes.Equal(a.data, b.data) && a.mode == b.mode && a.uid == b.uid && a.target == b.target:
			continue
		default:
			c.Verb, c.Was, c.Now, c.Changed = vm.FileModified, a.state(), b.state(), []string{"content"}
			out.Stat.Modified++
		}
		fmt.Fprintf(sum, "%s %q %q %v\n", c.Verb, p, b.data, b.mode)
		out.Changes = append(out.Changes, c)
	}
	if len(out.Changes) > 0 {
		out.Groups = append(out.Groups, vm.DiffGroup{Group: vm.GroupProject, Stat: out.Stat})
	}
	out.Manifest = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

func merged(a, b map[string]node) map[string]node {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// under reports whether a path is one of some, or below one; every path is below none.
func under(p string, paths []vm.GuestPath) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(q vm.GuestPath) bool {
		return p == string(q) || q == "/" || strings.HasPrefix(p, string(q)+"/")
	})
}

// Tar implements changes.DiskReader.
func (r diskReader) Tar(ctx context.Context, layers []string, paths []vm.GuestPath, _ reader.TarOptions, w io.Writer) error {
	if err := r.w.step(ctx, "read-disk"); err != nil {
		return err
	}
	nodes, err := r.nodes(layers)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, p := range paths {
		if _, ok := nodes[string(p)]; !ok {
			return vm.Errorf(vm.NotFound, p.String(), "it is not on the disk")
		}
	}
	for _, p := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[p]
		if p == "/" || !under(p, paths) {
			continue
		}
		h := &tar.Header{Name: strings.TrimPrefix(p, "/"), Mode: int64(n.mode), Uid: n.uid, ModTime: n.mtime, Size: int64(len(n.data)), Typeflag: tar.TypeReg}
		switch n.kind {
		case vm.FileDirectory:
			h.Typeflag, h.Name, h.Size = tar.TypeDir, h.Name+"/", 0
		case vm.FileSymlink:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, n.target, 0
		case vm.FileRegular:
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if h.Size > 0 {
			if _, err := out.Write(n.data); err != nil {
				return err
			}
		}
	}
	return out.Close()
}
