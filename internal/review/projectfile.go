// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"archive/tar"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

// entry writes one file or link, or names it in the summary.
func (p *project) entry(name string, in *ext4.Inode) error {
	note := func(list *[]vm.GuestPath) {
		if len(*list) < maxNamedFiles {
			*list = append(*list, vm.GuestPath(name))
		}
	}
	switch {
	case in.Type == ext4.Symlink:
		target, err := p.fs.Target(in)
		if err != nil {
			return err
		}
		p.sum.Files++
		return p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, Format: tar.FormatPAX})
	case in.Type != ext4.Regular:
		note(&p.sum.Special)
		return nil
	case in.Size > maxProjectFile:
		note(&p.sum.TooLarge)
		return nil
	}
	if p.sum.Files++; p.sum.Files > maxProjectEntries {
		return vm.Errorf(vm.Limit, p.sum.Root.String(), "more than %d files would be committed", maxProjectEntries).WithHint("name a smaller directory, or list generated files in .gitignore")
	}
	if p.bytes += in.Size; p.bytes > maxProjectBytes {
		return vm.Errorf(vm.Limit, p.sum.Root.String(), "its files have more than %d MiB", maxProjectBytes>>20).WithHint("name a smaller directory, or list generated files in .gitignore")
	}
	p.fs.Renew()
	f, err := p.fs.OpenFile(in)
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if in.Mode&0o100 != 0 {
		mode = 0o755
	}
	if err := p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: in.Size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(p.out, io.NewSectionReader(f, 0, in.Size))
	return err
}

// only writes some files.
func (p *project) only(root *ext4.Inode, list []vm.GuestPath) error {
	for _, name := range list {
		clean := strings.Trim(string(name), "/")
		in, err := p.find(root.Number, clean)
		if err != nil {
			return err
		}
		if in == nil || in.Type == ext4.Directory || slices.Contains(strings.Split(clean, "/"), "..") {
			continue
		}
		if err := p.entry(clean, in); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the summary.
func (p *project) finish() error {
	for _, why := range []string{leftIgnored, leftCache, leftNested} {
		if l := p.left[why]; l != nil {
			p.sum.LeftOut = append(p.sum.LeftOut, *l)
		}
	}
	data, err := json.Marshal(p.sum)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "%w", err)
	}
	if err := p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ProjectSummary, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := p.out.Write(data); err != nil {
		return err
	}
	return p.out.Close()
}

const (
	maxGitFile = 1 << 20
	maxOrigins = 200
)

var objectID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// git reads what the repository of the guest says about the commit that it has. It is
// only a hint: the guest may write anything there.
func (p *project) git(root *ext4.Inode) error {
	dir, err := p.find(root.Number, ".git")
	if err != nil || dir == nil {
		return err
	}
	p.sum.Repo = true
	if dir.Type != ext4.Directory {
		return nil // of a worktree or a submodule
	}
	packed, err := p.gitFile(dir, "packed-refs")
	if err != nil {
		return err
	}
	refs := map[string]string{}
	for line := range strings.Lines(packed) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && objectID.MatchString(id) {
			refs[name] = id
		}
	}
	head, err := p.gitFile(dir, "HEAD")
	if err != nil {
		return err
	}
	head = strings.TrimSpace(head)
	name, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		name = ""
	} else if head, err = p.ref(dir, refs, name); err != nil {
		return err
	}
	if objectID.MatchString(head) {
		p.sum.Head = head
	}
	p.sum.Branch = strings.TrimPrefix(name, "refs/heads/")
	if len(p.sum.Branch) > 255 {
		p.sum.Branch = ""
	}
	return p.origins(dir, refs)
}

// ref resolves a ref, loose or packed; "" = it is missing.
func (p *project) ref(dir *ext4.Inode, packed map[string]string, name string) (string, error) {
	loose, err := p.gitFile(dir, name)
	if err != nil {
		return "", err
	}
	if id := strings.TrimSpace(loose); objectID.MatchString(id) {
		return id, nil
	}
	return packed[name], nil
}

const originRefs = "refs/remotes/origin"

// origins notes which commits the guest's repository fetched.
func (p *project) origins(dir *ext4.Inode, packed map[string]string) error {
	for name, id := range packed {
		if strings.HasPrefix(name, originRefs+"/") && len(p.sum.Origins) < maxOrigins {
			p.sum.Origins = append(p.sum.Origins, id)
		}
	}
	in, err := p.find(dir.Number, originRefs)
	if err != nil || in == nil || in.Type != ext4.Directory {
		return err
	}
	var names []string
	p.fs.Renew()
	if err := p.fs.ReadDir(in, func(e ext4.Entry) error { names = append(names, e.Name); return nil }); err != nil {
		return err
	}
	for _, name := range names[:min(len(names), maxOrigins)] {
		id, err := p.ref(dir, nil, originRefs+"/"+name)
		if err != nil {
			return err
		}
		if id != "" && len(p.sum.Origins) < maxOrigins {
			p.sum.Origins = append(p.sum.Origins, id)
		}
	}
	slices.Sort(p.sum.Origins)
	p.sum.Origins = slices.Compact(p.sum.Origins)
	return nil
}

// gitFile reads a small file; "" = there is none.
func (p *project) gitFile(dir *ext4.Inode, name string) (string, error) {
	in, err := p.find(dir.Number, name)
	if err != nil || in == nil || in.Type != ext4.Regular {
		return "", err
	}
	data, err := p.read(in, maxGitFile)
	return string(data), err
}
