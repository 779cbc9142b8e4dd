// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/internal/gitignore"
	"github.com/warren-vm/warren/vm"
)

// Limits of what is read of a git repository.
const (
	MaxTruthRefs = 2000

	maxTruthCommits = 20_000 // of all repositories
	maxCloneCommits = 5000   // of one
	maxCommitBytes  = 256 << 10
	maxSubject      = 200
	maxRefDepth     = 8
	maxRemotes      = 20
)

// TruthClone is a git repository on the disk, as its files say. The guest may have
// written anything there.
type TruthClone struct {
	N       int             `json:"n"`    // its number, from 1
	Root    vm.GuestPath    `json:"root"` // of its working tree; "" = bare
	Dir     vm.GuestPath    `json:"dir"`  // its own directory
	Branch  string          `json:"branch,omitempty"`
	Head    string          `json:"head,omitempty"` // the commit that is checked out
	Refs    []TruthRef      `json:"refs,omitempty"`
	Remotes []vm.CloneClaim `json:"remotes,omitempty"`
	Commits []TruthCommit   `json:"commits,omitempty"` // those from the refs on that are no packs'
	Changed bool            `json:"changed,omitempty"` // its refs are not those of the image
	New     bool            `json:"new,omitempty"`     // nor those of a base that is kept whole
	Cut     bool            `json:"cut,omitempty"`     // there are more refs or commits
}

// TruthRef is a branch, a stash, or a branch of a remote.
type TruthRef struct {
	Name   string `json:"name"` // without refs/
	ID     string `json:"id"`
	Remote bool   `json:"remote,omitempty"`
}

// TruthCommit is a commit that could be read.
type TruthCommit struct {
	ID      string   `json:"id"`
	Parents []string `json:"parents,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Time    int64    `json:"time,omitempty"` // seconds since 1970
}

// clone is a git repository during the walk.
type clone struct {
	n       int
	exclude []byte
	tracked map[uint64][20]byte // by the index: ids by names
}

// has reports whether the index names a file.
func (k *clone) has(name uint64) bool {
	_, ok := k.tracked[name]
	return ok
}

// gitDir finds the repository's own directory of a working tree; "" = it is none.
func (c *census) gitDir(root string, e ext4.Entry) (string, error) {
	in, err := c.now.fs.Inode(e.Inode)
	if err != nil {
		return "", err
	}
	switch in.Type {
	case ext4.Directory:
		return strings.TrimSuffix(root, "/") + "/.git", nil
	case ext4.Symlink:
		target, err := c.now.fs.Target(in)
		target, _, _ = strings.Cut(target, "\x00")
		return resolve(root, target), err
	case ext4.Regular:
		text, err := c.now.read(in, maxGitText)
		target, is := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
		if !is || strings.ContainsRune(target, 0) {
			return "", err
		}
		return resolve(root, strings.TrimSpace(target)), err
	}
	return "", nil
}

// openClone reads a repository and writes its line; nil = there is none.
func (c *census) openClone(root, own string) (*clone, error) {
	dir, err := c.now.find(own)
	if err != nil || dir == nil || dir.Type != ext4.Directory {
		return nil, err
	}
	head, err := c.now.readPath(own+"/HEAD", maxGitText)
	if err != nil || head == nil {
		return nil, err
	}
	common := own // of a further working tree, the directory of the first one
	if text, err := c.now.readPath(own+"/commondir", maxGitText); err != nil {
		return nil, err
	} else if text != nil && !bytes.ContainsRune(text, 0) {
		common = resolve(own, strings.TrimSpace(string(text)))
	}
	c.clones++
	k := &clone{n: c.clones, tracked: map[uint64][20]byte{}}
	line := &TruthClone{N: k.n, Root: vm.GuestPath(root), Dir: vm.GuestPath(own)}
	refs := map[string]string{}
	if err := c.refs(common, refs, line); err != nil {
		return nil, err
	}
	if err := c.noteChanged(line, own+"/HEAD"); err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(head))
	if name, symbolic := strings.CutPrefix(text, "ref: "); symbolic {
		line.Branch, line.Head = vm.Clip(strings.TrimPrefix(name, "refs/heads/"), 255), refs[name]
	} else if objectID.MatchString(text) {
		line.Head = text
	}
	config, err := c.now.readPath(common+"/config", maxGitText)
	if err != nil {
		return nil, err
	}
	line.Remotes = remotes(config)
	if k.exclude, err = c.now.readPath(common+"/info/exclude", gitignore.MaxFile); err != nil {
		return nil, err
	}
	if root != "" {
		index, err := c.now.readPath(own+"/index", maxIndex)
		if err != nil {
			return nil, err
		}
		if index != nil { // a damaged one names nothing: its files count as untracked
			_ = indexNames(index, func(name, id []byte) { k.tracked[c.name(string(name))] = [20]byte(id) })
		}
	}
	if err := c.looseCommits(common, line); err != nil {
		return nil, err
	}
	return k, c.out.Encode(TruthLine{Clone: line})
}

// noteChanged notes whether one of a repository's own files is not as it was.
func (c *census) noteChanged(line *TruthClone, p string) error {
	in, err := c.now.find(p)
	if err != nil || in == nil {
		return err
	}
	c.noteOwn(line, in.Number)
	return nil
}

// noteOwn is noteChanged for a file that was found.
func (c *census) noteOwn(line *TruthClone, n uint32) {
	line.Changed = line.Changed || c.changed(n)
	line.New = line.New || !slices.ContainsFunc(c.bases, func(b base) bool { return len(b.below) == 0 && b.changed != nil && !b.changed.has(uint64(n)) })
}

// refs reads the branches of a repository and of its remotes, and its stash.
func (c *census) refs(common string, refs map[string]string, line *TruthClone) error {
	packed, err := c.now.readPath(common+"/packed-refs", maxPacked)
	if err != nil {
		return err
	}
	if err := c.noteChanged(line, common+"/packed-refs"); err != nil {
		return err
	}
	add := func(name, id string) {
		_, there := refs[name]
		if !objectID.MatchString(id) || len(name) > 255 {
			return
		}
		if len(refs) >= MaxTruthRefs && !there {
			line.Cut = true
			return
		}
		refs[name] = id
	}
	wanted := []string{"refs/heads/", "refs/remotes/", "refs/stash"}
	for text := range bytes.Lines(packed) {
		id, name, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
		if ok && slices.ContainsFunc(wanted, func(w string) bool { return strings.HasPrefix(name, w) }) {
			add(name, id)
		}
	}
	for _, name := range wanted {
		if err := c.looseRefs(common, strings.TrimSuffix(name, "/"), add, line, 0); err != nil {
			return err
		}
	}
	for name, id := range refs {
		line.Refs = append(line.Refs, TruthRef{Name: strings.TrimPrefix(name, "refs/"), ID: id, Remote: strings.HasPrefix(name, "refs/remotes/")})
	}
	slices.SortFunc(line.Refs, func(a, b TruthRef) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// looseRefs reads a ref's file, or those of a directory.
func (c *census) looseRefs(common, name string, add func(name, id string), line *TruthClone, depth int) error {
	in, err := c.now.find(common + "/" + name)
	if err != nil || in == nil || depth > maxRefDepth || len(name) > 255 {
		return err
	}
	if in.Type == ext4.Regular {
		text, err := c.now.read(in, maxGitText)
		if err != nil {
			return err
		}
		add(name, strings.TrimSpace(string(text)))
		c.noteOwn(line, in.Number)
		return nil
	}
	if in.Type != ext4.Directory {
		return nil
	}
	var below []string
	if err := c.now.list(in, func(e ext4.Entry) error {
		if len(below) >= MaxTruthRefs {
			line.Cut = true
			return errStop
		}
		below = append(below, e.Name)
		return nil
	}); err != nil {
		return err
	}
	for _, e := range below {
		if strings.ContainsAny(e, "/\x00") {
			continue
		}
		if err := c.looseRefs(common, name+"/"+e, add, line, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// looseCommits reads the commits from the refs on that are files of their own: those that
// were made here and never packed.
func (c *census) looseCommits(common string, line *TruthClone) error {
	objects, err := c.now.find(common + "/objects")
	if err != nil || objects == nil || objects.Type != ext4.Directory {
		return err
	}
	dirs := map[string]uint32{}
	if err := c.now.list(objects, func(e ext4.Entry) error {
		if len(e.Name) == 2 {
			dirs[e.Name] = e.Inode
		}
		return nil
	}); err != nil {
		return err
	}
	var queue []string
	for _, r := range line.Refs {
		if !r.Remote {
			queue = append(queue, r.ID)
		}
	}
	if line.Head != "" {
		queue = append(queue, line.Head)
	}
	seen := map[string]bool{}
	for ; len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		if seen[id] {
			continue
		}
		seen[id] = true
		if len(line.Commits) >= maxCloneCommits || c.commits == 0 {
			line.Cut = true
			return nil
		}
		commit, ok, err := c.looseCommit(dirs, id)
		if err != nil {
			return err
		}
		if ok {
			c.commits--
			line.Commits = append(line.Commits, commit)
			queue = append(queue, commit.Parents...)
		}
	}
	return nil
}

// looseCommit reads one commit; false = it is no file of its own, or no commit.
func (c *census) looseCommit(dirs map[string]uint32, id string) (out TruthCommit, ok bool, err error) {
	n := dirs[id[:2]]
	if n == 0 {
		return out, false, nil
	}
	dir, err := c.now.fs.Inode(n)
	if err != nil || dir.Type != ext4.Directory {
		return out, false, err
	}
	if n, err = c.now.child(dir, id[2:]); err != nil || n == 0 {
		return out, false, err
	}
	in, err := c.now.fs.Inode(n)
	if err != nil {
		return out, false, err
	}
	data, err := c.now.read(in, maxCommitBytes)
	if err != nil || data == nil {
		return out, false, err
	}
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return out, false, nil //nolint:nilerr // git refuses it, too
	}
	text, _ := io.ReadAll(io.LimitReader(z, maxCommitBytes)) // what is cut has its headers
	head, body, _ := bytes.Cut(text, []byte{0})
	if !bytes.HasPrefix(head, []byte("commit ")) {
		return out, false, nil
	}
	return parseCommit(id, string(body)), true, nil
}

// parseCommit reads the headers of a commit and the first line of its message.
func parseCommit(id, body string) TruthCommit {
	out := TruthCommit{ID: id}
	headers, message, _ := strings.Cut(body, "\n\n")
	for line := range strings.SplitSeq(headers, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "parent":
			if objectID.MatchString(value) && len(out.Parents) < 64 {
				out.Parents = append(out.Parents, value)
			}
		case "committer":
			_, after, _ := strings.Cut(value, "> ")
			seconds, _, _ := strings.Cut(after, " ")
			if n, err := strconv.ParseInt(seconds, 10, 64); err == nil && n > 0 && n < 1<<37 {
				out.Time = n
			}
		}
	}
	subject, _, _ := strings.Cut(strings.TrimLeft(message, "\n"), "\n")
	out.Subject = vm.Clip(strings.ToValidUTF8(subject, "?"), maxSubject)
	return out
}

// remotes lists the remotes that a configuration names, without user and password.
func remotes(config []byte) (list []vm.CloneClaim) {
	name := ""
	for line := range bytes.Lines(config) {
		text := strings.TrimSpace(string(line))
		if rest, is := strings.CutPrefix(text, "["); is {
			section, _, _ := strings.Cut(rest, "]")
			head, sub, _ := strings.Cut(section, " ")
			if name = ""; strings.EqualFold(head, "remote") {
				name = strings.Trim(strings.TrimSpace(sub), `"`)
			}
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if ok && name != "" && strings.EqualFold(strings.TrimSpace(key), "url") && len(list) < maxRemotes {
			list = append(list, vm.CloneClaim{Name: safe(vm.Clip(name, 100)), URL: safe(vm.Clip(withoutSecrets(strings.TrimSpace(value)), 300))})
		}
	}
	return list
}

// withoutSecrets removes from an address what may be a secret: user, password, query.
func withoutSecrets(address string) string {
	if !strings.Contains(address, "://") {
		if at := strings.LastIndexByte(address, '@'); at >= 0 {
			return address[at+1:]
		}
		return address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" && u.Scheme != "file" {
		return "an address that is not shown"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Clean("/" + u.Path)}).String()
}
