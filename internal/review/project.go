// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"archive/tar"
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/internal/gitignore"
	"github.com/warren-vm/warren/vm"
)

// ProjectSummary is the name of the last entry of a project's tar: a vm.ProjectSummary
// as JSON. No file of a project has this name, because .git is left out.
const ProjectSummary = ".git/summary"

// Limits of a project. A file that is larger is named in the summary instead.
const (
	maxProjectFile    = 100 << 20
	maxProjectBytes   = 4 << 30
	maxProjectEntries = 300_000
	maxProjectDepth   = 128
	maxLeftExamples   = 3
	maxNamedFiles     = 20
)

// projectCaches are directories that a program makes again when they are missing, and
// that nobody means to commit. A directory with a CACHEDIR.TAG is one, too.
var projectCaches = []string{"node_modules", "__pycache__", ".cache", ".npm", ".pnpm-store", ".venv", "venv", ".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle"}

const cacheTag = "CACHEDIR.TAG"

// Reasons why files of a project are left out.
const (
	leftIgnored = "ignored by .gitignore"
	leftCache   = "in caches"
	leftNested  = "nested git repositories"
)

// ProjectOptions say which files of a directory are read.
type ProjectOptions struct {
	Root vm.GuestPath `json:"root"` // absolute
	// Find takes the only git repository directly below Root, if Root itself is none.
	Find bool `json:"find,omitempty"`
	// Only are paths relative to Root. If there are any, just these files are read,
	// ignored or not; those that are missing are left out.
	Only []vm.GuestPath `json:"only,omitempty"`
	// HintsOnly reads no files, only what the summary says of the repository.
	HintsOnly bool `json:"hintsOnly,omitempty"`
}

// WriteProject writes the files and links of a directory to w as a tar, with names relative to
// the directory: what git would track, without ignored files, caches, nested repositories
// and .git. The last entry is the summary. Kinds: NotFound for a directory that is
// missing, Invalid when Find finds several repositories, Limit, Corrupt, Unsupported.
func WriteProject(ctx context.Context, d Disk, o ProjectOptions, w io.Writer) error {
	fs, err := ext4.Open(d, d.Size())
	if err != nil {
		return err
	}
	p := &project{ctx: ctx, fs: fs, out: tar.NewWriter(w), seen: map[uint32]bool{}, left: map[string]*vm.LeftOut{}}
	p.sum.Root = vm.GuestPath(path.Clean(string(o.Root)))
	in, err := p.find(ext4.RootInode, string(o.Root))
	if err != nil {
		return err
	}
	if in == nil || in.Type != ext4.Directory {
		return vm.Errorf(vm.NotFound, o.Root.String(), "the state has no such directory").WithHint("name a directory as in the guest, such as /work/app")
	}
	if o.Find {
		if in, err = p.findRepo(in); err != nil {
			return err
		}
	}
	switch {
	case o.HintsOnly:
		err = p.git(in)
	case len(o.Only) > 0:
		err = p.only(in, o.Only)
	default:
		err = p.whole(in)
	}
	if err != nil {
		return err
	}
	return p.finish()
}

// project is one run.
type project struct {
	ctx   context.Context
	fs    *ext4.FS
	out   *tar.Writer
	seen  map[uint32]bool // directories: each has one parent
	left  map[string]*vm.LeftOut
	sum   vm.ProjectSummary
	count int
	bytes int64
}

// names reads a directory.
func (p *project) names(dir *ext4.Inode) (list []ext4.Entry, err error) {
	if p.ctx.Err() != nil {
		return nil, context.Cause(p.ctx)
	}
	if p.seen[dir.Number] {
		return nil, vm.Errorf(vm.Corrupt, "", "the file system is damaged: directory %d has two parents", dir.Number)
	}
	p.seen[dir.Number] = true
	p.fs.Renew()
	err = p.fs.ReadDir(dir, func(e ext4.Entry) error {
		if e.Name == "" || strings.ContainsAny(e.Name, "/\x00") {
			return vm.Errorf(vm.Corrupt, "", "the file system is damaged: directory %d has an impossible name, %q", dir.Number, e.Name)
		}
		if p.count++; p.count > 4*maxProjectEntries {
			return vm.Errorf(vm.Limit, p.sum.Root.String(), "more than %d files are below it", 4*maxProjectEntries)
		}
		list = append(list, e)
		return nil
	})
	slices.SortFunc(list, func(a, b ext4.Entry) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(list) && err == nil; i++ {
		if list[i].Name == list[i-1].Name {
			err = vm.Errorf(vm.Corrupt, "", "the file system is damaged: directory %d has the name %q twice", dir.Number, list[i].Name)
		}
	}
	return list, err
}

// find returns the inode of a path; nil = there is none. Links are not followed.
func (p *project) find(from uint32, name string) (*ext4.Inode, error) {
	in, err := p.fs.Inode(from)
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" || err != nil {
			break
		}
		if in.Type != ext4.Directory {
			return nil, nil
		}
		n := uint32(0)
		p.fs.Renew()
		err = p.fs.ReadDir(in, func(e ext4.Entry) error {
			if e.Name == part {
				n = e.Inode
			}
			return nil
		})
		if n == 0 || err != nil {
			return nil, err
		}
		in, err = p.fs.Inode(n)
	}
	if err != nil || !in.Used() {
		return nil, err
	}
	return in, nil
}

// findRepo returns root if it is a git repository, else the only one in it, else root.
func (p *project) findRepo(root *ext4.Inode) (*ext4.Inode, error) {
	if git, err := p.find(root.Number, ".git"); err != nil || git != nil {
		return root, err
	}
	var repos []string
	err := p.fs.ReadDir(root, func(e ext4.Entry) error { repos = append(repos, e.Name); return nil })
	if err != nil {
		return nil, err
	}
	repos = slices.DeleteFunc(repos, func(name string) bool {
		git, ferr := p.find(root.Number, name+"/.git")
		err = cmp.Or(err, ferr)
		return git == nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(repos) == 0:
		return root, nil
	case len(repos) > 1:
		slices.Sort(repos)
		return nil, vm.Errorf(vm.Invalid, p.sum.Root.String(), "it holds %d git repositories", len(repos)).
			WithHint("name one, such as %s", vm.GuestPath(path.Join(string(p.sum.Root), repos[0])))
	}
	p.sum.Root = vm.GuestPath(path.Join(string(p.sum.Root), repos[0]))
	return p.find(root.Number, repos[0])
}

// whole writes all files that git would track.
func (p *project) whole(root *ext4.Inode) error {
	if err := p.git(root); err != nil {
		return err
	}
	list, err := p.names(root)
	if err != nil {
		return err
	}
	rules, err := p.rules(list)
	if err != nil {
		return err
	}
	return p.dir(list, gitignore.Root(rules), "", 0)
}

// rules reads the .gitignore among a directory's entries; nil = there is none.
func (p *project) rules(list []ext4.Entry) ([]byte, error) {
	for _, e := range list {
		if e.Name != ".gitignore" {
			continue
		}
		in, err := p.fs.Inode(e.Inode)
		if err != nil || in.Type != ext4.Regular {
			return nil, err
		}
		return p.read(in, gitignore.MaxFile)
	}
	return nil, nil
}

// read returns the beginning of a file.
func (p *project) read(in *ext4.Inode, most int64) ([]byte, error) {
	p.fs.Renew()
	f, err := p.fs.OpenFile(in)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, min(f.Size(), most)))
}

// dir writes the entries of a directory; rel is its path with a slash at the end.
func (p *project) dir(list []ext4.Entry, at *gitignore.Dir, rel string, depth int) error {
	if depth > maxProjectDepth {
		return vm.Errorf(vm.Limit, vm.GuestPath(rel).String(), "directories are more than %d deep", maxProjectDepth)
	}
	for _, e := range list {
		if rel == "" && e.Name == ".git" {
			continue
		}
		in, err := p.fs.Inode(e.Inode)
		if err != nil {
			return err
		}
		name := rel + e.Name
		switch {
		case in.Type != ext4.Directory:
			if at.Ignored(e.Name, false) {
				p.leave(leftIgnored, name, 1, in.Size)
				continue
			}
			err = p.entry(name, in)
		default:
			err = p.below(e.Name, name, in, at, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below writes a directory in another one, or counts what is left out.
func (p *project) below(base, name string, in *ext4.Inode, at *gitignore.Dir, depth int) error {
	why := ""
	switch {
	case at.Ignored(base, true):
		why = leftIgnored
	case slices.Contains(projectCaches, base):
		why = leftCache
	}
	list, err := p.names(in)
	if err != nil {
		return err
	}
	switch {
	case why != "":
	case has(list, ".git"):
		p.leave(leftNested, name+"/", 1, 0)
		return nil
	case has(list, cacheTag):
		why = leftCache
	}
	if why != "" {
		files, bytes, err := p.tally(list, depth)
		p.leave(why, name+"/", files, bytes)
		return err
	}
	rules, err := p.rules(list)
	if err != nil {
		return err
	}
	return p.dir(list, at.Below(base, rules), name+"/", depth+1)
}

func has(list []ext4.Entry, name string) bool {
	return slices.ContainsFunc(list, func(e ext4.Entry) bool { return e.Name == name })
}

// tally counts the files of a directory that is left out.
func (p *project) tally(list []ext4.Entry, depth int) (files int, bytes int64, err error) {
	if depth > maxProjectDepth {
		return 0, 0, vm.Errorf(vm.Limit, p.sum.Root.String(), "directories are more than %d deep", maxProjectDepth)
	}
	for _, e := range list {
		in, err := p.fs.Inode(e.Inode)
		if err != nil {
			return 0, 0, err
		}
		if in.Type != ext4.Directory {
			files, bytes = files+1, bytes+in.Size
			continue
		}
		more, err := p.names(in)
		if err != nil {
			return 0, 0, err
		}
		n, size, err := p.tally(more, depth+1)
		if err != nil {
			return 0, 0, err
		}
		files, bytes = files+n, bytes+size
	}
	return files, bytes, nil
}

// leave counts files that are left out.
func (p *project) leave(why, example string, files int, bytes int64) {
	l := p.left[why]
	if l == nil {
		l = &vm.LeftOut{Reason: why}
		p.left[why] = l
	}
	l.Files, l.Bytes = l.Files+files, l.Bytes+bytes
	if len(l.Examples) < maxLeftExamples && files > 0 {
		l.Examples = append(l.Examples, vm.GuestPath(example))
	}
}
