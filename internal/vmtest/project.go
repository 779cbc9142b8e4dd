// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/gitignore"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Project implements changes.DiskReader: the files below a directory, without .git and
// what its own .gitignore lists. The guest's HEAD is taken from .git/HEAD, if that is a
// commit's id.
func (r diskReader) Project(ctx context.Context, layers []string, o review.ProjectOptions, w io.Writer) error {
	if err := r.w.step(ctx, "read-disk"); err != nil {
		return err
	}
	nodes, err := r.nodes(layers)
	if err != nil {
		return err
	}
	root := path.Clean(string(o.Root))
	if nodes[root].kind != vm.FileDirectory {
		return vm.Errorf(vm.NotFound, root, "the state has no such directory")
	}
	sum := vm.ProjectSummary{Root: vm.GuestPath(root)}
	if head, ok := nodes[root+"/.git/HEAD"]; ok {
		sum.Repo, sum.Head = true, strings.TrimSpace(string(head.data))
	}
	out := tar.NewWriter(w)
	ignore := gitignore.Root(nodes[root+"/.gitignore"].data)
	for _, p := range slices.Sorted(maps.Keys(nodes)) {
		name, below := strings.CutPrefix(p, root+"/")
		n := nodes[p]
		if !below || n.kind == vm.FileDirectory || o.HintsOnly || strings.HasPrefix(name, ".git/") {
			continue
		}
		if len(o.Only) > 0 {
			if !slices.Contains(o.Only, vm.GuestPath(name)) {
				continue
			}
		} else if ignored(ignore, name) {
			sum.LeftOut = []vm.LeftOut{{Reason: "ignored by .gitignore", Files: 1, Examples: []vm.GuestPath{vm.GuestPath(name)}}}
			continue
		}
		h := &tar.Header{Name: name, Mode: int64(n.mode), Size: int64(len(n.data)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if n.kind == vm.FileSymlink {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, n.target, 0
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
	data, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: review.ProjectSummary, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := out.Write(data); err != nil {
		return err
	}
	return out.Close()
}

// ignored reports whether a path or a directory above it is ignored.
func ignored(root *gitignore.Dir, name string) bool {
	parts := strings.Split(name, "/")
	at := root
	for i, part := range parts {
		if at.Ignored(part, i < len(parts)-1) {
			return true
		}
		at = at.Below(part, nil)
	}
	return false
}
