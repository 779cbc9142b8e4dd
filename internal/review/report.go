// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"

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

// report is one run of Report.
type report struct {
	ctx      context.Context
	o        Options
	was, now *tree
	all      []Change // of the whole machine, by path
	items    []item   // the selected ones
	packaged map[string]bool
	repos    []*repository
	byDir    map[string]*repository
	byRoot   map[string]*repository
	left     budget
	secrets  int              // that were found
	objects  []vm.FoundSecret // that came into the history of repositories
	base     string           // to which the paths of patches are relative
	masked   map[string]bool  // files whose changed lines have secrets
	buffer   []byte           // see copyBuffer
	out      *vm.Diff
}

// budget is the work that a report may still do.
type budget struct {
	text   int64 // bytes that are compared line by line
	hunks  int   // bytes that are shown
	digest int64 // bytes that are hashed to be told
	// manifest are the bytes that are hashed for the manifest. They do not depend on
	// what is listed.
	manifest int64
	search   int64 // bytes that are searched for secrets beyond the lines
	patch    int   // bytes of patches
	unpack   int64 // bytes that compressed data may become
}

// item is a change with what is known of it.
type item struct {
	*Change
	group    Group
	concerns []Concern
	hide     hide // the zero value = it is listed
	repo     *repository
	gitOwn   bool   // it is one of the repository's own files
	inGit    string // then its path there
	git      string // else how git sees it
	digest   string // of the content now, for the manifest
}

// inode is that of the newer side, or of the older one if the file is gone.
func (it *item) inode() *ext4.Inode {
	if it.Now != nil {
		return it.Now
	}
	return it.Was
}

// Report compares two disks and says what differs, for people: in groups, with lines,
// alerts and what the files mean for the machine. The sides are left empty, and ports
// and processes too; see AddLive. Kinds: those of Compare, Invalid and NotFound for
// Paths, and Limit.
func Report(ctx context.Context, from, to Disk, differ Differ, o Options) (*vm.Diff, error) {
	c, err := openAndCompare(ctx, from, to, differ)
	if err != nil {
		return nil, err
	}
	r := &report{
		ctx: ctx, o: o, was: newTree(c.a, "before"), now: newTree(c.b, "now"), all: c.out.Changes,
		packaged: map[string]bool{}, byDir: map[string]*repository{}, byRoot: map[string]*repository{}, masked: map[string]bool{},
		left: budget{text: maxAllText, hunks: maxAllHunks, digest: maxAllDigest, manifest: maxAllDigest, search: maxAllSearch, patch: maxAllPatch, unpack: maxUnpack},
		out:  &vm.Diff{Workdir: o.Workdir, Groups: []vm.DiffGroup{}, Changes: []vm.FileChange{}},
	}
	c.differ, c.owned, c.delta, c.a.names, c.b.names = nil, nil, nil, nil, nil
	for _, step := range []func() error{
		r.selectPaths, r.packages, r.sort, r.markRepos, r.list, r.searchObjects, r.languagePackages, r.units, r.cron, r.accounts, r.noteRepos,
	} {
		if err := step(); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	r.hidden()
	r.alerts(&c.out)
	r.missing(&c.out)
	r.out.Manifest = r.manifest()
	return r.out, nil
}

// selectPaths takes the changes that were asked for.
func (r *report) selectPaths() error {
	var paths []string
	for _, p := range r.o.Paths {
		if !strings.HasPrefix(string(p), "/") || strings.ContainsRune(string(p), 0) {
			return vm.Errorf(vm.Invalid, "", "%s is no absolute path", p)
		}
		clean := path.Clean(string(p))
		was, err := r.was.find(clean)
		if err != nil {
			return err
		}
		now, err := r.now.find(clean)
		if err != nil {
			return err
		}
		if was == nil && now == nil {
			return vm.Errorf(vm.NotFound, p.String(), "it is on neither side").WithHint("a path below a symbolic link must name the link's target")
		}
		paths = append(paths, clean)
	}
	if len(paths) == 0 {
		r.items = make([]item, 0, len(r.all))
	}
	for i := range r.all {
		c := &r.all[i]
		if len(paths) == 0 || below(c.Path, paths...) || c.From != "" && below(c.From, paths...) {
			r.items = append(r.items, item{Change: c})
		}
	}
	r.patchBase(paths)
	return nil
}

// selected reports whether a path is among the changes that were asked for.
func (r *report) selected(p string) bool {
	_, ok := slices.BinarySearchFunc(r.items, p, func(it item, p string) int { return cmp.Compare(it.Path, p) })
	return ok
}

// changedBelow reports whether something below a directory differs.
func (r *report) changedBelow(dir string) bool {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	i, _ := slices.BinarySearchFunc(r.items, prefix, func(it item, p string) int { return cmp.Compare(it.Path, p) })
	return i < len(r.items) && strings.HasPrefix(r.items[i].Path, prefix)
}

// sort puts each change in its group and says why it is shown first.
func (r *report) sort() error {
	for i := range r.items {
		it := &r.items[i]
		it.group = GroupOf(it.Path, r.o.Workdir)
		if own, err := r.ownWrite(it.Change); err != nil {
			return err
		} else if own {
			it.hide = hide{path.Dir(it.Path), ownReason}
			continue
		}
		it.concerns = ConcernsOf(*it.Change)
		if r.packaged[it.Path] { // the package is named
			it.concerns = slices.DeleteFunc(it.concerns, func(c Concern) bool { return c == CalledByName })
		}
		if err := r.nameConcerns(it); err != nil {
			return err
		}
	}
	return nil
}

// nameConcerns looks at what a name and a link's target can do to a reader.
func (r *report) nameConcerns(it *item) error {
	if p := vm.GuestPath(it.Path); p.String() != it.Path && it.group != Caches {
		it.concerns = append(it.concerns, OddName)
	}
	if it.Now == nil || it.Now.Type != ext4.Symlink || it.group != Project || it.Verb != Added && !it.Content {
		return nil
	}
	target, err := r.now.fs.Target(it.Now)
	if err != nil {
		return err
	}
	if !below(resolve(path.Dir(it.Path), target), r.o.Workdir) {
		it.concerns = append(it.concerns, LeavesWorkdir)
	}
	return nil
}

// list writes what is listed, and counts everything.
func (r *report) list() error {
	for i := range r.items { // a repository's own files concern only some way
		if it := &r.items[i]; it.gitOwn && it.inGit == "" && it.repo.root == "" {
			it.gitOwn = false
		}
	}
	r.hideItems()
	stats := map[Group]*vm.DiffStat{}
	for i := range r.items {
		it := &r.items[i]
		own := it.hide.reason == ownReason
		if !own {
			if stats[it.group] == nil {
				stats[it.group] = &vm.DiffStat{}
			}
			it.count(stats[it.group])
		}
		if it.hide != (hide{}) {
			if err := r.hash(it); err != nil {
				return err
			}
			continue
		}
		if len(r.out.Changes) == maxAll {
			return vm.Errorf(vm.Limit, "", "more than %d changes would be listed", maxAll).WithHint("name a path, or leave out --all")
		}
		fc, err := r.detail(it)
		if err != nil {
			return err
		}
		stats[it.group].LinesAdded += fc.LinesAdded
		stats[it.group].LinesRemoved += fc.LinesRemoved
		for _, c := range it.concerns {
			fc.Concerns = append(fc.Concerns, string(c))
		}
		r.out.Changes = append(r.out.Changes, fc)
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
	}
	for _, g := range Groups {
		if s := stats[g]; s != nil {
			r.out.Groups = append(r.out.Groups, vm.DiffGroup{Group: string(g), Stat: *s})
			addStat(&r.out.Stat, *s)
		}
	}
	slices.SortStableFunc(r.out.Changes, func(a, b vm.FileChange) int { return cmp.Compare(groupRank(a.Group), groupRank(b.Group)) })
	return nil
}

func addStat(to *vm.DiffStat, s vm.DiffStat) {
	to.Added += s.Added
	to.Modified += s.Modified
	to.Deleted += s.Deleted
	to.Renamed += s.Renamed
	to.LinesAdded += s.LinesAdded
	to.LinesRemoved += s.LinesRemoved
	to.BytesAdded += s.BytesAdded
	to.BytesRemoved += s.BytesRemoved
}

// manifest is the digest over all selected changes: what they are and, where a
// commit may take them, their content.
func (r *report) manifest() string {
	h := sha256.New()
	for i := range r.items {
		r.items[i].write(h)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// write writes what makes a change this change.
func (it *item) write(h hash.Hash) {
	fmt.Fprintf(h, "%s %q %q", it.Verb, it.Path, it.From)
	for _, in := range []*ext4.Inode{it.Was, it.Now} {
		if in == nil {
			io.WriteString(h, " -") //nolint:errcheck // a hash takes everything
			continue
		}
		links := in.Links
		if in.Type == ext4.Directory {
			links = 0
		}
		fmt.Fprintf(h, " %x %o %d %d %d %d", in.Type, in.Mode, in.UID, in.GID, links, in.Device)
		if in.Type == ext4.Directory {
			continue
		}
		fmt.Fprintf(h, " %d", in.Size)
		if it.digest == "" || in != it.Now {
			fmt.Fprintf(h, " %d %d %x", in.Modified.UnixNano(), in.Changed.UnixNano(), in.Where())
		}
	}
	fmt.Fprintf(h, " %s\n", it.digest)
}

// notCompared adds a line about what the report says nothing of, once.
func (r *report) notCompared(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(r.out.NotCompared, line) {
		r.out.NotCompared = append(r.out.NotCompared, line)
	}
}

// missing says what the report says nothing of.
func (r *report) missing(c *Result) {
	if len(r.o.Paths) > 0 {
		r.notCompared("what is not below the given paths")
		return
	}
	unsearched := 0
	for _, h := range r.out.Hidden {
		if !h.Own {
			unsearched += h.Stat.Added + h.Stat.Modified
		}
	}
	if unsearched > 0 {
		r.notCompared("secrets in the %s that are only counted", count(unsearched, "file"))
	}
	if slices.Contains(c.Reserved, resizeInode) {
		r.notCompared("the blocks that the file system reserves to grow, which differ")
	}
	if c.Unowned > 0 {
		r.notCompared("%s (%s) that no file owns: free space, mostly of files that came and went", count(int(c.Unowned), "changed block"), size(int64(c.Unowned)*r.now.fs.BlockSize()))
	}
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
