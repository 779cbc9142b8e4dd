// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/internal/gitignore"
	"github.com/warren-vm/warren/vm"
)

const (
	maxRepos   = 2000
	maxGitText = 256 << 10 // bytes of HEAD, a reference, a configuration
	maxPacked  = 8 << 20   // bytes of packed-refs
)

// repoName is what the walk over the directories finds of a repository.
type repoName struct {
	dir  uint32 // the repository's own directory, or the one with the name .git
	file uint32 // the inode of that name; 0 = dir is the repository's own
}

// gitParts is which of the names of a repository's own directory were seen in one.
type gitParts uint8

func (g *gitParts) see(name string) {
	switch name {
	case "HEAD":
		*g |= 1
	case "objects":
		*g |= 2
	case "refs":
		*g |= 4
	}
}

func (g gitParts) all() bool { return g == 7 }

// repository is one that was or is on the disk.
type repository struct {
	root   string // of its working tree; "" = bare
	dir    string // its own directory
	was    bool   // it was there before
	now    bool
	link   bool // its .git is a symbolic link
	sub    bool
	wanted map[string]string // changed paths below root, and how git sees them
	ignore map[string]*ignored
	notes  []string
	config bool // its configuration or hooks changed
	out    vm.NestedRepo
}

// ignored is what the .gitignore files say about a directory.
type ignored struct {
	all bool
	dir *gitignore.Dir
}

// dirPath is the path of a directory.
func (s *side) dirPath(n uint32) (string, bool) {
	if n == ext4.RootInode {
		return "/", true
	}
	p := s.dirs[n]
	return s.path(p.dir, p.name)
}

// findRepos lists the repositories of both sides below which something changed.
func (r *report) findRepos() error {
	all := map[string]*repository{} // by their own directory
	for _, t := range []*tree{r.was, r.now} {
		for _, name := range t.repos {
			if err := r.findRepo(t, name, all); err != nil {
				return err
			}
		}
	}
	for _, repo := range all {
		if !r.changedBelow(repo.dir) && (repo.root == "" || !r.changedBelow(repo.root)) {
			continue
		}
		repo.wanted, repo.ignore = map[string]string{}, map[string]*ignored{}
		r.repos = append(r.repos, repo)
		r.byDir[repo.dir] = repo
		if repo.root != "" {
			r.byRoot[repo.root] = repo
		}
	}
	slices.SortFunc(r.repos, func(a, b *repository) int { return cmp.Compare(a.path(), b.path()) })
	return nil
}

func (repo *repository) path() string {
	if repo.root != "" {
		return repo.root
	}
	return repo.dir
}

// findRepo takes one find of the walk.
func (r *report) findRepo(t *tree, name repoName, all map[string]*repository) error {
	at, ok := t.dirPath(name.dir)
	if !ok {
		return nil
	}
	own, root, link := at, "", false
	switch in, err := r.repoFile(t, name); {
	case err != nil:
		return err
	case in != nil && in.Type == ext4.Symlink:
		target, err := t.fs.Target(in)
		if err != nil {
			return err
		}
		target, _, _ = strings.Cut(target, "\x00")
		own, root, link = resolve(at, target), at, true
	case in != nil:
		text, err := t.read(in, maxGitText)
		if err != nil {
			return err
		}
		target, is := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
		if !is || strings.ContainsRune(target, 0) {
			return nil
		}
		own, root = resolve(at, strings.TrimSpace(target)), at
	case path.Base(at) == ".git":
		root = path.Dir(at)
	}
	repo := all[own]
	if repo == nil {
		repo = &repository{dir: own}
		all[own] = repo
	}
	if root != "" {
		repo.root = root
	}
	repo.link = repo.link || link
	repo.sub = repo.sub || strings.Contains(own, "/.git/modules/")
	repo.was, repo.now = repo.was || t == r.was, repo.now || t == r.now
	return nil
}

// repoFile is the inode of a .git that is no directory; nil = it is one.
func (r *report) repoFile(t *tree, name repoName) (*ext4.Inode, error) {
	if name.file == 0 {
		return nil, nil
	}
	return t.fs.Inode(name.file)
}

// resolve joins a target to the directory that it is relative to.
func resolve(dir, target string) string {
	if strings.HasPrefix(target, "/") {
		return path.Clean(target)
	}
	return path.Clean(dir + "/" + target)
}

// repoOf returns the innermost repository whose working tree has a path, and whether
// the path is one of the repository's own files.
func (r *report) repoOf(p string) (repo *repository, own bool) {
	for at := p; ; at = path.Dir(at) {
		if repo := r.byDir[at]; repo != nil {
			return repo, true
		}
		if repo := r.byRoot[at]; repo != nil && at != p {
			return repo, p == at+"/.git"
		}
		if at == "/" {
			return nil, false
		}
	}
}

// markRepos finds for every change how the repository around it sees it.
func (r *report) markRepos() error {
	if err := r.findRepos(); err != nil || len(r.repos) == 0 {
		return err
	}
	for i := range r.items {
		it := &r.items[i]
		repo, own := r.repoOf(it.Path)
		if repo == nil {
			continue
		}
		it.repo, it.gitOwn = repo, own
		if own {
			it.inGit = strings.TrimPrefix(strings.TrimPrefix(it.Path, repo.dir), "/")
		} else if it.inode().Type != ext4.Directory {
			repo.wanted[strings.TrimPrefix(it.Path[len(repo.root):], "/")] = ""
		}
	}
	for _, repo := range r.repos {
		if err := r.readRepo(repo); err != nil {
			return err
		}
	}
	for i := range r.items {
		it := &r.items[i]
		if it.repo == nil || it.gitOwn || it.inode().Type == ext4.Directory {
			continue
		}
		if err := r.markItem(it); err != nil {
			return err
		}
	}
	return nil
}

// readRepo reads the index and the head of a repository on both sides.
func (r *report) readRepo(repo *repository) error {
	repo.out = vm.NestedRepo{Path: vm.GuestPath(repo.path()), Submodule: repo.sub, Bare: repo.root == ""}
	for _, x := range []struct {
		t    *tree
		head *string
	}{{r.was, &repo.out.HeadWas}, {r.now, &repo.out.HeadNow}} {
		head, err := x.t.head(repo.dir)
		if err != nil {
			return err
		}
		*x.head = head
		if len(repo.wanted) == 0 {
			continue
		}
		index, err := x.t.readPath(repo.dir+"/index", maxIndex)
		if err != nil {
			return err
		}
		if index == nil {
			continue
		}
		if err := indexNames(index, func(name, _ []byte) {
			if _, ok := repo.wanted[string(name)]; ok {
				repo.wanted[string(name)] = "tracked"
			}
		}); err != nil {
			repo.notes = append(repo.notes, words(err.Error()))
		}
	}
	return nil
}

// head names the branch and the commit of a repository; "" = it is not there.
func (t *tree) head(dir string) (string, error) {
	raw, err := t.readPath(dir+"/HEAD", maxGitText)
	if err != nil || raw == nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	ref, is := strings.CutPrefix(text, "ref: ")
	if !is {
		return safe(short(text)), nil
	}
	branch := strings.TrimPrefix(ref, "refs/heads/")
	commit, err := t.readPath(dir+"/"+ref, maxGitText)
	if err != nil {
		return "", err
	}
	if commit == nil {
		packed, err := t.readPath(dir+"/packed-refs", maxPacked)
		if err != nil {
			return "", err
		}
		for line := range bytes.Lines(packed) {
			if id, name, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); ok && string(name) == ref {
				commit = id
			}
		}
	}
	if commit == nil {
		return safe(branch) + " (no commit)", nil
	}
	return safe(branch) + " " + safe(short(strings.TrimSpace(string(commit)))), nil
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// markItem says how git sees one path of a working tree.
func (r *report) markItem(it *item) error {
	rel := strings.TrimPrefix(it.Path[len(it.repo.root):], "/")
	if it.git = it.repo.wanted[rel]; it.git != "" {
		return nil
	}
	t := r.now
	if it.Now == nil {
		t = r.was
	}
	dir, name := path.Split(rel)
	d, err := t.ignoredDir(it.repo, strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	it.git = "untracked"
	if d.all || d.dir.Ignored(name, false) {
		it.git = "ignored"
		it.repo.out.Ignored++
		return nil
	}
	it.repo.out.Untracked++
	return nil
}

// ignoredDir reads what the .gitignore files say about a directory of a working tree.
func (t *tree) ignoredDir(repo *repository, rel string) (*ignored, error) {
	key := rel
	if t.when == "before" {
		key = "\x00" + rel
	}
	if d := repo.ignore[key]; d != nil {
		return d, nil
	}
	d := &ignored{}
	if rel == "" {
		file, err := t.readPath(repo.root+"/.gitignore", gitignore.MaxFile)
		if err != nil {
			return nil, err
		}
		exclude, err := t.readPath(repo.dir+"/info/exclude", gitignore.MaxFile)
		if err != nil {
			return nil, err
		}
		d.dir = gitignore.Root(slices.Concat(exclude, []byte("\n"), file))
		repo.ignore[key] = d
		return d, nil
	}
	above, name := path.Split(rel)
	up, err := t.ignoredDir(repo, strings.TrimSuffix(above, "/"))
	if err != nil {
		return nil, err
	}
	if up.all || up.dir.Ignored(name, true) {
		d.all = true
	} else {
		file, err := t.readPath(repo.root+"/"+rel+"/.gitignore", gitignore.MaxFile)
		if err != nil {
			return nil, err
		}
		d.dir = up.dir.Below(name, file)
	}
	repo.ignore[key] = d
	return d, nil
}

// riskyConfig are keys of a git configuration with which git runs programs or reads
// other configurations, as section.key in lower case; * = any name between.
var riskyConfig = []string{
	"core.fsmonitor", "core.hookspath", "core.sshcommand", "core.pager", "core.editor", "core.askpass", "core.gitproxy", "core.alternaterefscommand", "core.attributesfile",
	"diff.external", "diff.*.command", "diff.*.textconv", "merge.*.driver", "filter.*.clean", "filter.*.smudge", "filter.*.process", "alias.*", "credential.helper", "credential.*.helper",
	"include.path", "includeif.*.path", "gpg.program", "gpg.*.program", "sequence.editor", "uploadpack.packobjectshook", "remote.*.uploadpack", "remote.*.receivepack", "remote.*.vcs",
	"remote.*.proxy", "url.*.insteadof", "url.*.pushinsteadof", "submodule.*.update", "pager.*", "browser.*.cmd", "man.*.cmd", "difftool.*.cmd", "mergetool.*.cmd", "protocol.*.allow", "http.proxy", "http.sslverify", "core.worktree",
}

// risky lists the keys of a configuration that are in riskyConfig.
func risky(config []byte) []string {
	found, section := map[string]bool{}, ""
	for line := range bytes.Lines(config) {
		text := strings.TrimSpace(string(line))
		if rest, is := strings.CutPrefix(text, "["); is {
			name, after, _ := strings.Cut(rest, "]")
			head, sub, has := strings.Cut(name, " ")
			section = strings.ToLower(strings.TrimSpace(head))
			if has {
				section += "." + strings.Trim(strings.TrimSpace(sub), `"`)
			}
			text = strings.TrimSpace(after)
		}
		key, _, _ := strings.Cut(text, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if key == "" || key[0] == '#' || key[0] == ';' {
			continue
		}
		if name := riskyKey(section, key); name != "" {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func riskyKey(section, key string) string {
	head, _, sub := strings.Cut(section, ".")
	head = strings.ToLower(head)
	for _, k := range riskyConfig {
		if !sub && k == head+"."+key || sub && k == head+".*."+key || !sub && k == head+".*" {
			return k
		}
	}
	return ""
}

// noteRepos says what became of each repository.
func (r *report) noteRepos() error {
	for _, repo := range r.repos {
		switch {
		case !repo.was:
			repo.notes = append(repo.notes, "it is new")
		case !repo.now:
			repo.notes = append(repo.notes, "it was deleted or moved, with its history")
		}
		if repo.link {
			repo.notes = append(repo.notes, "its .git is a symbolic link")
		}
		if err := r.noteConfig(repo); err != nil {
			return err
		}
		repo.out.Notes = repo.notes
		r.out.Repos = append(r.out.Repos, repo.out)
	}
	for i := range r.items {
		it := &r.items[i]
		if it.repo == nil || !it.gitOwn || it.repo.out.Path == "" || !it.repo.was || !it.repo.now {
			continue
		}
		if it.Verb == Deleted && (it.inGit == "refs/stash" || strings.HasPrefix(it.inGit, "refs/heads/") && it.Was.Type == ext4.Regular) {
			gone := fmt.Sprintf("%s was deleted or packed", safe(it.inGit))
			if it.inGit == "refs/stash" {
				gone = "its stash was dropped"
			}
			if n := r.noteOf(it.repo); n != nil && len(n.Notes) < 20 {
				n.Notes = append(n.Notes, gone)
			}
		}
	}
	return nil
}

func (r *report) noteOf(repo *repository) *vm.NestedRepo {
	i := slices.IndexFunc(r.out.Repos, func(n vm.NestedRepo) bool { return n.Path == repo.out.Path })
	if i < 0 {
		return nil
	}
	return &r.out.Repos[i]
}

// noteConfig compares a repository's configuration: what git would run by it.
func (r *report) noteConfig(repo *repository) error {
	was, err := r.was.readPath(repo.dir+"/config", maxGitText)
	if err != nil {
		return err
	}
	now, err := r.now.readPath(repo.dir+"/config", maxGitText)
	if err != nil {
		return err
	}
	repo.config = repo.was && repo.now && !bytes.Equal(was, now)
	if repo.config {
		repo.notes = append(repo.notes, "its configuration changed")
	}
	before := risky(was)
	for _, key := range risky(now) {
		if repo.config || !repo.was || !slices.Contains(before, key) {
			repo.config = true
			repo.notes = append(repo.notes, "its configuration has "+key+", with which git runs programs or goes elsewhere")
		}
	}
	return nil
}
