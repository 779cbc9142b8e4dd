// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"context"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// WriteBundle writes a repository with all its branches and tags to w, as `git bundle`
// does, and reports whether it has any: an empty repository has no bundle. The caller needs
// the right to read it.
func (r *Repo) WriteBundle(ctx context.Context, c *vm.Call, ref string, w io.Writer) (any bool, err error) {
	defer func() { err = vm.WithOp(vm.OpBundle, ref, err) }()
	rec, err := r.Get(ctx, c, ref)
	if err != nil {
		return false, err
	}
	dir := r.cfg.Dir.Repo(rec.ID)
	rows, err := r.refs(ctx, dir)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	_, err = r.run(ctx, program{dir: dir, args: []string{"bundle", "create", "--quiet", "--version=2", "-", "--branches", "--tags"}, out: w})
	return err == nil, err
}

const (
	bundleHead  = "# v2 git bundle"
	maxRefLine  = 4096
	maxBundRefs = 100_000
)

// bundled is the first part of a git bundle.
type bundled struct {
	refs [][2]string // name and id
}

// readBundle reads the head of a git bundle, up to the pack. It refuses a bundle that
// needs objects that it does not have.
func readBundle(in *bufio.Reader) (b bundled, err error) {
	line := func() (string, error) {
		text, err := in.ReadSlice('\n')
		if err != nil || len(text) > maxRefLine {
			return "", badBundle("its list of refs cannot be read")
		}
		return string(text[:len(text)-1]), nil
	}
	first, err := line()
	if err != nil || first != bundleHead {
		return b, badBundle("it is no git bundle of version 2")
	}
	for {
		text, err := line()
		switch {
		case err != nil:
			return b, err
		case text == "":
			return b, nil
		case strings.HasPrefix(text, "-"):
			return b, badBundle("it is not whole: it needs commits that it does not have")
		case len(b.refs) == maxBundRefs:
			return b, badBundle("it has more than " + strconv.Itoa(maxBundRefs) + " refs")
		}
		id, name, ok := strings.Cut(text, " ")
		if !ok || !objectID.MatchString(id) {
			return b, badBundle("its list of refs cannot be read")
		}
		if badFullRef(name) == "" { // others, such as HEAD, nobody could have pushed
			b.refs = append(b.refs, [2]string{name, id})
		}
	}
}

func badBundle(why string) error {
	return vm.Errorf(vm.Invalid, "git bundle", "%s", why)
}

// CreateFromBundle makes a repository of a git bundle. Every object is checked as at a push.
// If anything fails, no repository was made. Kinds: those of Create, Invalid, Limit.
func (r *Repo) CreateFromBundle(ctx context.Context, c *vm.Call, req CreateRequest, file *os.File) (vm.Repository, error) {
	return r.createFilled(ctx, c, req, "bundle", func(ctx context.Context, rec *vm.Repository, dir string, room *space) error {
		in := bufio.NewReaderSize(file, maxRefLine+1)
		b, err := readBundle(in)
		if err != nil || len(b.refs) == 0 {
			return err
		}
		_, err = r.run(ctx, program{dir: dir, args: []string{"index-pack", "--strict", "--stdin", "--max-input-size=" + strconv.FormatInt(max(room.left(maxImport), 1), 10)}, in: in})
		if err == nil {
			err = r.setRefs(ctx, dir, b.refs...)
		}
		if err == nil {
			_, err = r.run(ctx, program{dir: dir, args: []string{"fsck", "--connectivity-only", "--no-dangling", "--no-progress"}})
		}
		if exitOf(err) > 0 {
			return badBundle("git does not accept it: " + saidBy(err))
		}
		return err
	})
}
