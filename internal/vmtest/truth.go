// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git names blobs by it
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/gitignore"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Truth implements changes.DiskReader: files that the image has not, in simulated clones
// whose .git/HEAD is a commit's id. Every file of a clone that its own .gitignore does not
// list is untracked.
func (r diskReader) Truth(ctx context.Context, d reader.Disks, workdir string, each func(review.TruthLine) error) error {
	if err := r.w.step(ctx, "read-disk"); err != nil {
		return err
	}
	all := [][]string{d.Image, d.Now}
	for _, b := range d.Bases {
		all = append(all, b.Layers)
	}
	sides := make([]map[string]node, len(all))
	for i, layers := range all {
		if len(layers) == 0 {
			continue
		}
		nodes, err := r.nodes(layers)
		if err != nil {
			return err
		}
		sides[i] = nodes
	}
	image, now := sides[0], sides[1]
	alike := func(side map[string]node, p string) bool {
		was, there := side[p]
		return there && was.kind == now[p].kind && was.target == now[p].target && bytes.Equal(was.data, now[p].data)
	}
	bases := func(p string, whole bool) (list []int) {
		for i, b := range d.Bases {
			if (len(b.Below) == 0 || !whole && under(p, b.Below)) && alike(sides[i+2], p) {
				list = append(list, i)
			}
		}
		return list
	}
	type repository struct {
		root   string
		ignore *gitignore.Dir
	}
	var clones []repository
	paths := slices.Sorted(maps.Keys(now))
	for _, p := range paths {
		root, is := strings.CutSuffix(p, "/.git/HEAD")
		if !is {
			continue
		}
		clones = append(clones, repository{root, gitignore.Root(now[root+"/.gitignore"].data)})
		line := review.TruthClone{N: len(clones), Root: vm.GuestPath(root), Dir: vm.GuestPath(root + "/.git"), Head: strings.TrimSpace(string(now[p].data)), Changed: !alike(image, p), New: len(bases(p, true)) == 0}
		if err := each(review.TruthLine{Clone: &line}); err != nil {
			return err
		}
	}
	for _, p := range paths {
		n := now[p]
		if n.kind == vm.FileDirectory || alike(image, p) || strings.Contains(p, "/.git/") || p == "/etc/hostname" { // which the agent writes
			continue
		}
		text := n.data
		if n.kind == vm.FileSymlink {
			text = []byte(n.target)
		}
		sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)) //nolint:gosec // see above
		f := review.TruthFile{Path: vm.GuestPath(p), Class: string(review.GroupOf(p, workdir)), ID: hex.EncodeToString(sum[:]), Size: int64(len(text)), Alike: bases(p, false)}
		for i, k := range clones {
			if rel, in := strings.CutPrefix(p, k.root+"/"); in {
				if f.Clone, f.Class = i+1, review.ClassUntracked; ignored(k.ignore, rel) {
					f.Class = review.ClassIgnored
				}
			}
		}
		line := review.TruthLine{File: &f}
		if slices.Contains([]string{review.ClassIgnored, string(review.Caches), string(review.Logs)}, f.Class) {
			line = review.TruthLine{Count: &review.TruthCount{Clone: f.Clone, Class: f.Class, Group: string(review.GroupOf(p, workdir)), Files: 1, Bytes: f.Size}}
		}
		if err := each(line); err != nil {
			return err
		}
	}
	return each(review.TruthLine{End: &review.TruthEnd{NoImage: image == nil}})
}
