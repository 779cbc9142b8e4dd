// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git names blobs by it
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/internal/gitignore"
	"github.com/warren-vm/warren/vm"
)

// Limits of an answer about the truth of a disk.
const (
	MaxTruthFiles  = 400_000
	MaxTruthClones = maxRepos
	MaxTruthBases  = 8

	maxTruthFile    = 128 << 20 // bytes of a file whose content is hashed
	maxTruthBytes   = 2 << 30   // and of all files
	maxTruthDepth   = 512       // of directories
	maxTruthCounts  = 10_000
	maxPackageFiles = 500_000
)

// The classes of files in an answer about the truth of a disk. Files of the first two are
// in a git repository.
const (
	ClassTracked   = "tracked"
	ClassUntracked = "untracked"
	ClassIgnored   = "ignored"  // by git; only counted
	ClassCaches    = "caches"   // only counted, as the next two
	ClassLogs      = "logs"     // and what services and shells write by themselves
	ClassPackages  = "packages" // files of packages, as their lists say
	ClassSame      = "same"     // of a clone, as they are in the image
)

// TruthClasses are the classes of files beside the groups Project, Home and System.
var TruthClasses = []string{ClassTracked, ClassUntracked, ClassIgnored, ClassCaches, ClassLogs, ClassPackages, ClassSame, string(Project), string(Home), string(System)}

// TruthLine is one line of the answer: one member is set. The last line has End.
type TruthLine struct {
	Clone *TruthClone `json:"clone,omitempty"` // before its files
	File  *TruthFile  `json:"file,omitempty"`
	Count *TruthCount `json:"count,omitempty"`
	End   *TruthEnd   `json:"end,omitempty"`
}

// TruthFile is a file or link that is not as in the image.
type TruthFile struct {
	Path  vm.GuestPath `json:"p"`           // absolute
	Clone int          `json:"n,omitempty"` // number of the clone that it is in; 0 = none
	Class string       `json:"c"`
	ID    string       `json:"i,omitempty"` // git's name of its content; "" = it was not read
	Size  int64        `json:"s"`
	Alike []int        `json:"a,omitempty"` // numbers of the bases that have it like this
	Index bool         `json:"x,omitempty"` // the clone's index has this content, too
}

// TruthCount counts files that are not listed.
type TruthCount struct {
	Clone int    `json:"clone,omitempty"`
	Class string `json:"class"`
	Group string `json:"group"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// TruthEnd is the end of an answer.
type TruthEnd struct {
	NoImage  bool `json:"noImage,omitempty"`  // the image was not compared: all files are listed
	Unhashed int  `json:"unhashed,omitempty"` // files that are too large to be read
	Unlisted int  `json:"unlisted,omitempty"` // files and directories beyond the limits
}

// census walks over a disk.
type census struct {
	ctx      context.Context
	now      *tree
	was      *tree // the image; nil = none
	workdir  string
	image    bitmap // inodes that are not as in the image; nil = all
	bases    []base
	seen     bitmap // directories
	out      *json.Encoder
	seed     maphash.Seed
	packaged map[uint64]bool
	clones   int
	commits  int // that may still be read
	files    int
	left     int64 // bytes that may still be hashed
	counts   map[countKey]*TruthCount
	sum      hash.Hash
	buf      []byte
	end      TruthEnd
}

// base is a state that stays elsewhere.
type base struct {
	changed bitmap // inodes that are not as in it; nil = all
	below   []string
}

type countKey struct {
	clone int
	class string
	group Group
}

// place is a directory during the walk.
type place struct {
	path   string // absolute
	clone  *clone // nil = in none
	rel    string // in the clone, with a slash at the end unless it is ""
	ignore *gitignore.Dir
	all    bool // git ignores all of it
	cache  bool
}

// TruthDisks are the disks that WriteTruth compares.
type TruthDisks struct {
	Image  Disk // nil = not known
	Bases  []TruthBase
	Now    Disk
	Differ func(from Disk) Differ // between an older disk and Now
}

// TruthBase is an older state of a disk that stays elsewhere.
type TruthBase struct {
	Disk  Disk
	Below []vm.GuestPath // what is kept of it; none = all
}

// WriteTruth writes what a disk has that its image has not: a line of JSON for each git
// repository and file, see TruthLine. A file names the bases that have it, too. It reads
// the contents of changed files only. Kinds: those of Compare.
func WriteTruth(ctx context.Context, d TruthDisks, workdir string, w io.Writer) error {
	c := &census{
		ctx: ctx, workdir: workdir, out: json.NewEncoder(w), seed: maphash.MakeSeed(), packaged: map[uint64]bool{},
		commits: maxTruthCommits, left: maxTruthBytes, counts: map[countKey]*TruthCount{}, sum: sha1.New(), buf: make([]byte, 64<<10), //nolint:gosec // see above
	}
	fs, err := ext4.Open(d.Now, d.Now.Size())
	if err != nil {
		return err
	}
	s := &side{disk: d.Now, fs: fs}
	c.now, c.seen = newTree(s, "now"), newBitmap(uint64(fs.Inodes())+1)
	if d.Image != nil {
		was, changed, err := changedSince(ctx, d.Image, s, d.Differ(d.Image))
		if err != nil {
			return err
		}
		if c.image = changed; changed != nil {
			c.was = newTree(was, "before")
		}
	}
	for _, from := range d.Bases {
		_, changed, err := changedSince(ctx, from.Disk, s, d.Differ(from.Disk))
		if err != nil {
			return err
		}
		b := base{changed: changed}
		for _, p := range from.Below {
			b.below = append(b.below, string(p))
		}
		c.bases = append(c.bases, b)
	}
	c.end.NoImage = c.image == nil
	c.now.fs.Renew()
	if err := c.packages(); err != nil {
		return err
	}
	if err := c.dir(ext4.RootInode, place{path: "/"}, "", 0); err != nil {
		return err
	}
	for _, n := range c.counts {
		if err := c.out.Encode(TruthLine{Count: n}); err != nil {
			return err
		}
	}
	return c.out.Encode(TruthLine{End: &c.end})
}

// changedSince finds the inodes of now whose content is not the one that the inode of
// the same number has in an older disk; nil = the disk was formatted again, and all are.
func changedSince(ctx context.Context, from Disk, now *side, differ Differ) (*side, bitmap, error) {
	fs, err := ext4.Open(from, from.Size())
	if err != nil {
		return nil, nil, err
	}
	c := &comparison{ctx: ctx, a: &side{disk: from, fs: fs}, b: now}
	if fs.BlockSize() != now.fs.BlockSize() || fs.InodesPerBlock() != now.fs.InodesPerBlock() {
		return nil, nil, nil
	}
	if err := c.blocks(differ); err != nil {
		return nil, nil, err
	}
	changed, err := c.contents()
	if vm.KindOf(err) == vm.Unsupported {
		return nil, nil, nil
	}
	return c.a, changed, err
}

// contents is inodes for whoever wants to know only which contents differ.
func (c *comparison) contents() (bitmap, error) {
	fs := c.b.fs
	per, size := fs.InodesPerBlock(), fs.BlockSize()
	each := int(size) / int(per)
	now, was := make([]byte, size), make([]byte, size)
	out := newBitmap(uint64(fs.Inodes()) + 1)
	fs.Renew()
	for first := uint32(1); first <= fs.Inodes(); first += per {
		block, _, err := fs.InodeBlock(first)
		if err != nil {
			return nil, err
		}
		zeros, err := c.b.disk.Zeros(int64(block)*size, size)
		if err != nil {
			return nil, err
		}
		if zeros == size && !c.differ.has(block) {
			continue
		}
		if err := fs.Block(block, now); err != nil {
			return nil, err
		}
		same, err := c.before(first, block, was)
		if err != nil {
			return nil, err
		}
		for i := uint32(0); i < per && first+i <= fs.Inodes(); i++ {
			raw := now[int(i)*each : int(i+1)*each]
			if raw[0] == 0 && raw[1] == 0 { // no type: it is not used
				continue
			}
			differs, err := c.contentDiffers(first+i, raw, was[int(i)*each:int(i+1)*each], same)
			if err != nil {
				return nil, err
			}
			if differs {
				out.set(uint64(first + i))
			}
		}
		if c.ctx.Err() != nil {
			return nil, context.Cause(c.ctx)
		}
	}
	return out, nil
}

// contentDiffers compares one file or link.
func (c *comparison) contentDiffers(n uint32, raw, before []byte, same bool) (bool, error) {
	now := c.b.fs.Parse(n, raw)
	if !now.Used() || n < ext4.FirstInode || now.Type != ext4.Regular && now.Type != ext4.Symlink {
		return false, nil
	}
	if !same {
		was := c.a.fs.Parse(n, before)
		if !was.Used() || !sameFile(was, now) || was.Size != now.Size || !bytes.Equal(was.Where(), now.Where()) {
			return true, nil
		}
	}
	touched := false
	err := c.b.fs.Extents(now, func(e ext4.Extent) error {
		for b := e.Physical; b < e.Physical+e.Length && !touched && !e.Unwritten; b++ {
			touched = c.differ.has(b)
		}
		return nil
	})
	return touched, err
}

// changed reports whether an inode is not as in the image.
func (c *census) changed(n uint32) bool { return c.image == nil || c.image.has(uint64(n)) }

// alike lists the bases that have a file as it is. Those that keep only some paths must
// keep this one.
func (c *census) alike(n uint32, p string) (list []int) {
	for i, b := range c.bases {
		if b.changed != nil && !b.changed.has(uint64(n)) && (len(b.below) == 0 || below(p, b.below...)) {
			list = append(list, i)
		}
	}
	return list
}

func (c *census) name(p string) uint64 { return maphash.String(c.seed, p) }

// packages notes the files that the lists of packages name which the image lacks.
func (c *census) packages() error {
	const info = "/var/lib/dpkg/info"
	dir, err := c.now.find(info)
	if err != nil || dir == nil || dir.Type != ext4.Directory {
		return err
	}
	var lists []uint32
	err = c.now.list(dir, func(e ext4.Entry) error {
		if strings.HasSuffix(e.Name, ".list") && c.image != nil && c.changed(e.Inode) {
			lists = append(lists, e.Inode)
		}
		return nil
	})
	for _, n := range lists {
		if err != nil {
			return err
		}
		var in *ext4.Inode
		if in, err = c.now.fs.Inode(n); err != nil {
			return err
		}
		var text []byte
		text, err = c.now.read(in, maxStatus)
		for line := range bytes.Lines(text) {
			if p := string(bytes.TrimRight(line, "\n")); len(c.packaged) < maxPackageFiles {
				c.packaged[c.name(p)] = true
				c.packaged[c.name("/usr"+p)] = true // lists name /bin/x, which is a link's place
			}
		}
	}
	return err
}

// dir visits a directory and what is below it. base is its name in the one above, at.
func (c *census) dir(n uint32, at place, base string, depth int) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	in, err := c.now.fs.Inode(n)
	if err != nil {
		return err
	}
	if in.Type != ext4.Directory || !in.Used() || c.seen.has(uint64(n)) || depth > maxTruthDepth || len(at.path) > maxPath {
		c.end.Unlisted++
		return nil
	}
	c.seen.set(uint64(n))
	var entries []ext4.Entry
	parts := gitParts(0)
	if err := c.now.list(in, func(e ext4.Entry) error {
		if e.Name == "" || strings.ContainsAny(e.Name, "/\x00") {
			c.end.Unlisted++
			return nil
		}
		parts.see(e.Name)
		entries = append(entries, e)
		return nil
	}); err != nil {
		return err
	}
	if parts.all() && !has(entries, ".git") && c.clones < MaxTruthClones {
		if k, err := c.openClone("", at.path); err != nil || k != nil {
			return err
		}
	}
	if at, err = c.enter(at, base, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name == ".git" {
			continue
		}
		if err := c.entry(e, at, depth); err != nil {
			return err
		}
	}
	return nil
}

// enter finds what applies in a directory: the repository that begins there, and the
// patterns of what git ignores.
func (c *census) enter(at place, base string, entries []ext4.Entry) (place, error) {
	if i := slices.IndexFunc(entries, func(e ext4.Entry) bool { return e.Name == ".git" }); i >= 0 && c.clones < MaxTruthClones {
		own, err := c.gitDir(at.path, entries[i])
		if err != nil {
			return at, err
		}
		if own != "" {
			k, err := c.openClone(at.path, own)
			if err != nil {
				return at, err
			}
			if k != nil {
				at = place{path: at.path, clone: k}
			}
		}
	}
	at.cache = at.cache || slices.Contains(cacheNames, base) || has(entries, cacheTag)
	if at.clone == nil || at.all {
		return at, nil
	}
	var rules []byte
	if i := slices.IndexFunc(entries, func(e ext4.Entry) bool { return e.Name == ".gitignore" }); i >= 0 {
		in, err := c.now.fs.Inode(entries[i].Inode)
		if err != nil {
			return at, err
		}
		if rules, err = c.now.read(in, gitignore.MaxFile); err != nil {
			return at, err
		}
	}
	if at.rel == "" {
		at.ignore = gitignore.Root(slices.Concat(at.clone.exclude, []byte("\n"), rules))
		return at, nil
	}
	at.all = at.ignore.Ignored(base, true)
	at.ignore = at.ignore.Below(base, rules)
	return at, nil
}

// entry visits one name of a directory.
func (c *census) entry(e ext4.Entry, at place, depth int) error {
	kind, err := c.now.fs.TypeOf(e.Inode)
	if err != nil {
		return err
	}
	p := strings.TrimSuffix(at.path, "/") + "/" + e.Name
	if kind == ext4.Directory {
		below := at
		if below.path = p; at.clone != nil {
			below.rel = at.rel + e.Name + "/"
		}
		return c.dir(e.Inode, below, e.Name, depth+1)
	}
	if kind != ext4.Regular && kind != ext4.Symlink {
		return nil
	}
	if !c.changed(e.Inode) {
		if at.clone != nil {
			c.count(at.clone.n, ClassSame, Project, 0)
		}
		return nil
	}
	in, err := c.now.fs.Inode(e.Inode)
	if err != nil || !in.Used() {
		return err
	}
	f := TruthFile{Path: vm.GuestPath(p), Size: in.Size, Alike: c.alike(e.Inode, p)}
	listed, err := c.classify(&f, in, at, e.Name)
	if err != nil {
		return err
	}
	if !listed {
		if len(f.Alike) == 0 && f.Class != "" {
			c.count(f.Clone, f.Class, GroupOf(p, c.workdir), in.Size)
		}
		return nil
	}
	if c.files++; c.files > MaxTruthFiles {
		c.end.Unlisted++
		return nil
	}
	if f.ID, err = c.blob(in); err != nil {
		return err
	}
	if f.Class == ClassTracked {
		id := at.clone.tracked[c.name(at.rel+e.Name)]
		f.Index = f.ID == hex.EncodeToString(id[:])
	}
	return c.out.Encode(TruthLine{File: &f})
}

// shellRecords are files of a home in which shells and tools note what was typed.
var shellRecords = []string{".bash_history", ".ash_history", ".zsh_history", ".sh_history", ".python_history", ".node_repl_history", ".lesshst", ".viminfo", ".wget-hsts", ".sudo_as_admin_successful"}

// packageDirs are directories into which package managers of languages write.
var packageDirs = []string{"dist-packages", "site-packages"}

// classify finds the class of a file, and whether it is listed. Class "" = Warren itself
// writes it at every start.
func (c *census) classify(f *TruthFile, in *ext4.Inode, at place, name string) (listed bool, err error) {
	p := string(f.Path)
	if at.clone != nil {
		f.Clone = at.clone.n
		switch {
		case at.clone.has(c.name(at.rel + name)):
			f.Class = ClassTracked
		case at.all || at.ignore.Ignored(name, false):
			f.Class = ClassIgnored
			return false, nil
		case at.cache:
			f.Class = ClassCaches
			return false, nil
		default:
			f.Class = ClassUntracked
		}
		return true, nil
	}
	group := GroupOf(p, c.workdir)
	f.Class = string(group)
	switch {
	case at.cache || group == Caches:
		f.Class = ClassCaches
	case group == Logs || group == Home && slices.Contains(shellRecords, name):
		f.Class = ClassLogs
	case group != System:
		return true, nil
	case c.packaged[c.name(p)] || inNamed(p, packageDirs) || below(p, "/var/lib/dpkg", "/var/lib/apt"):
		f.Class = ClassPackages
	default:
		own, err := c.ownWrite(p, in)
		if own {
			f.Class = ""
		}
		return !own, err
	}
	return false, nil
}

// ownWrite reports whether a file is as Warren or the system writes it at every start.
func (c *census) ownWrite(p string, in *ext4.Inode) (bool, error) {
	if in.Type == ext4.Symlink {
		return c.now.ownLink(p, in)
	}
	check, known := ownWrites[p]
	if !known {
		return false, nil
	}
	if check == nil {
		return true, nil
	}
	now, err := c.now.read(in, 64<<10)
	if err != nil || now == nil {
		return false, err
	}
	var was []byte
	if c.was != nil {
		if was, err = c.was.readPath(p, 64<<10); err != nil {
			return false, err
		}
	}
	return check(was, now), nil
}

// count counts a file that is not listed.
func (c *census) count(clone int, class string, group Group, size int64) {
	key := countKey{clone, class, group}
	n := c.counts[key]
	if n == nil {
		if len(c.counts) == maxTruthCounts {
			c.end.Unlisted++
			return
		}
		n = &TruthCount{Clone: clone, Class: class, Group: string(group)}
		c.counts[key] = n
	}
	n.Files, n.Bytes = n.Files+1, n.Bytes+size
}

// blob is git's name of a file's or link's content; "" = it is too large.
func (c *census) blob(in *ext4.Inode) (string, error) {
	c.sum.Reset()
	if in.Type == ext4.Symlink {
		target, err := c.now.fs.Target(in)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(c.sum, "blob %d\x00%s", len(target), target)
		return hex.EncodeToString(c.sum.Sum(nil)), nil
	}
	if in.Size > maxTruthFile || in.Size > c.left {
		c.end.Unhashed++
		return "", nil
	}
	c.left -= in.Size
	f, err := c.now.open(in)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(c.sum, "blob %d\x00", f.Size())
	for off := int64(0); off < f.Size(); {
		part := c.buf[:min(int64(len(c.buf)), f.Size()-off)]
		n, err := f.ReadAt(part, off)
		if n < len(part) && err != nil {
			return "", err
		}
		_, _ = c.sum.Write(part)
		off += int64(len(part))
	}
	return hex.EncodeToString(c.sum.Sum(nil)), nil
}
