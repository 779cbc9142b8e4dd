// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/warren-vm/warren/vm"
)

// The most that a build context may hold.
const (
	maxContextBytes   = 8 << 30
	maxContextEntries = 200_000
)

// writeContext writes the files of dir as a tar, without those that its .dockerignore names.
// It follows no links. The Dockerfile is always included. Kinds: Invalid, Limit.
func writeContext(ctx context.Context, w io.Writer, dir, dockerfile string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return vm.Errorf(vm.NotFound, dir, "is not a directory that can be read: %w", err)
	}
	defer root.Close() // read only
	ignored, err := readIgnored(root)
	if err != nil {
		return err
	}
	p := &packer{root: root, tw: tar.NewWriter(w), ignored: ignored, keep: filepath.ToSlash(filepath.Clean(dockerfile))}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return vm.Errorf(vm.Invalid, filepath.Join(dir, name), "cannot be read: %w", err).
				WithHint("name what the build does not need in .dockerignore")
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return p.entry(name, e)
	})
	return errors.Join(err, p.tw.Close())
}

// readIgnored reads the .dockerignore of a directory; nil = there is none.
func readIgnored(root *os.Root) (*patternmatcher.PatternMatcher, error) {
	const name = ".dockerignore"
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, name, "cannot be read: %w", err)
	}
	defer f.Close() // read only
	list, err := ignorefile.ReadAll(io.LimitReader(f, maxSource))
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, name, "cannot be read: %w", err)
	}
	m, err := patternmatcher.New(list)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, name, "%w", err)
	}
	return m, nil
}

// packer writes one context.
type packer struct {
	root    *os.Root
	tw      *tar.Writer
	ignored *patternmatcher.PatternMatcher
	keep    string // the Dockerfile
	bytes   int64
	entries int
}

func (p *packer) entry(name string, e fs.DirEntry) error {
	if name == "." {
		return nil
	}
	if p.ignored != nil && name != p.keep {
		out, err := p.ignored.MatchesOrParentMatches(name)
		if err != nil {
			return vm.Errorf(vm.Invalid, ".dockerignore", "%w", err)
		}
		if out {
			if e.IsDir() && !p.ignored.Exclusions() && !strings.HasPrefix(p.keep, name+"/") {
				return fs.SkipDir
			}
			return nil
		}
	}
	info, err := e.Info()
	if err != nil {
		return vm.Errorf(vm.Invalid, name, "cannot be read: %w", err)
	}
	link := ""
	switch info.Mode().Type() {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		if link, err = p.root.Readlink(name); err != nil {
			return vm.Errorf(vm.Invalid, name, "cannot be read: %w", err)
		}
	default: // a socket, a device: docker sends none either
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return vm.Errorf(vm.Invalid, name, "cannot be sent: %w", err)
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = filepath.ToSlash(name), 0, 0, "", ""
	if e.IsDir() {
		h.Name += "/"
	}
	p.entries++
	p.bytes += h.Size
	if p.entries > maxContextEntries || p.bytes > maxContextBytes {
		return vm.Errorf(vm.Limit, name, "the build context has more than %d files or %d GiB", maxContextEntries, maxContextBytes>>30).
			WithHint("name what the build does not need in .dockerignore")
	}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	return p.file(name, h.Size)
}

func (p *packer) file(name string, size int64) error {
	f, err := p.root.Open(name)
	if err != nil {
		return vm.Errorf(vm.Invalid, name, "cannot be read: %w", err)
	}
	defer f.Close() // read only
	n, err := io.Copy(p.tw, io.LimitReader(f, size))
	if err == nil && n < size {
		err = vm.Errorf(vm.Busy, name, "it became shorter while it was read").WithHint("try again when nothing changes it")
	}
	return err
}
