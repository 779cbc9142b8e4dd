// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// The steps of an apply.
const (
	applyPut    = "write"  // a file with its content
	applyLink   = "link"   // a symbolic link
	applyMode   = "mode"   // only the right to execute a file
	applyDelete = "delete" // a file or link
	applyMkdir  = "mkdir"
	applyRmdir  = "rmdir" // if it is empty then
)

// applyStep is one path of the directory that an apply changes.
type applyStep struct {
	Do    string       `json:"do"`
	Path  string       `json:"path"` // relative to the directory, with slashes
	guest vm.GuestPath // the file in the VM
	was   *vm.FileState
	now   *vm.FileState
	there fs.FileInfo // what is there; nil = nothing
	keep  bool        // what is there has another content, which is committed here
}

// applyConflict is a path that cannot be changed, and why.
type applyConflict struct {
	Path string `json:"path"` // safe to show
	Why  string `json:"why"`
}

// applyPlan is what an apply does, decided before anything is written.
type applyPlan struct {
	Steps     []applyStep     `json:"steps"`
	Same      int             `json:"same"` // paths that already are as in the VM
	Conflicts []applyConflict `json:"conflicts,omitempty"`
	LeftOut   map[string]int  `json:"leftOut,omitempty"` // paths that are never applied, by reason

	root *os.Root
	// committed reports whether a file's content is that of the last commit here; nil =
	// nothing is.
	committed func(rel string) bool
	listed    map[string]map[string]string // names of directories by their folded spelling
	claimed   map[string]string            // paths of the change by their folded spelling
	partial   map[string]bool              // directories of which something was left out
}

func newApplyPlan(root *os.Root, committed func(rel string) bool) *applyPlan {
	return &applyPlan{root: root, committed: committed, LeftOut: map[string]int{}, listed: map[string]map[string]string{}, claimed: map[string]string{}, partial: map[string]bool{}}
}

// plan decides about the changes below a directory of the guest.
func (p *applyPlan) plan(base vm.GuestPath, d *vm.Diff) error {
	for _, h := range d.Hidden {
		if rel, in := beneath(base, h.Path); in {
			p.leaveOut(rel+"/", h.Reason, h.Stat.Files())
		}
	}
	for _, c := range d.Changes {
		if c.Verb == vm.FileRenamed {
			gone := c
			gone.Verb, gone.Path, gone.Now = vm.FileDeleted, c.From, nil
			if err := p.change(base, gone); err != nil {
				return err
			}
			c.Verb, c.Was = vm.FileAdded, nil
		}
		if err := p.change(base, c); err != nil {
			return err
		}
	}
	// A directory that has only what is left out is left out, too; others are made for their files.
	p.Steps = slices.DeleteFunc(p.Steps, func(s applyStep) bool { return s.Do == applyMkdir && p.partial[s.Path] })
	order := []string{applyDelete, applyRmdir, applyMkdir, applyPut, applyLink, applyMode}
	slices.SortStableFunc(p.Steps, func(a, b applyStep) int {
		if a.Do == applyRmdir && b.Do == applyRmdir {
			return cmp.Compare(b.Path, a.Path) // the deepest first
		}
		return cmp.Or(cmp.Compare(slices.Index(order, a.Do), slices.Index(order, b.Do)), cmp.Compare(a.Path, b.Path))
	})
	return nil
}

// leaveOut counts files of the change that are never applied. rel is one of them, or with
// a slash at its end the directory that they are in.
func (p *applyPlan) leaveOut(rel, why string, files int) {
	p.LeftOut[why] += files
	for at := rel; strings.Contains(at, "/"); {
		at = at[:strings.LastIndex(at, "/")]
		p.partial[at] = true
	}
}

// beneath returns a path of the guest relative to a directory.
func beneath(dir, p vm.GuestPath) (string, bool) {
	return strings.CutPrefix(string(p), strings.TrimSuffix(string(dir), "/")+"/")
}

// change decides about one path.
func (p *applyPlan) change(base vm.GuestPath, c vm.FileChange) error {
	rel, in := beneath(base, c.Path)
	switch {
	case !in || rel == "":
		return nil
	case c.Git == "ignored":
		p.leaveOut(rel, "ignored by git", 1)
		return nil
	case slices.Contains(strings.Split(rel, "/"), ".git"):
		p.leaveOut(rel, "in .git, which is never applied", 1)
		return nil
	}
	if why := badHere(rel); why != "" {
		p.refuse(c.Path, why)
		return nil
	}
	there, why, err := p.look(rel)
	if err != nil {
		return err
	}
	if why == "" {
		why = p.spelling(rel, c.Verb == vm.FileDeleted)
	}
	if why == "" {
		why, err = p.decide(rel, c, there)
	}
	if why != "" {
		p.refuse(c.Path, why)
	}
	return err
}

func (p *applyPlan) refuse(path vm.GuestPath, why string) {
	p.Conflicts = append(p.Conflicts, applyConflict{Path: path.String(), Why: why})
}

// badHere says why a path of the guest cannot be one of a working tree; "" = it can.
func badHere(rel string) string {
	if len(rel) > maxPath {
		return "its name is too long"
	}
	if strings.ContainsAny(rel, "\x00\\") {
		return "its name has a character that other systems take for a separator"
	}
	for part := range strings.SplitSeq(rel, "/") {
		folded := strings.Map(func(r rune) rune {
			if r == '\u200c' || r == '\u200d' || r == '\ufeff' || '\u200b' <= r && r <= '\u200f' || '\u202a' <= r && r <= '\u202e' || '\u2060' <= r && r <= '\u206f' {
				return -1 // some file systems ignore these
			}
			return r
		}, strings.ToLower(strings.TrimRight(part, ". ")))
		switch {
		case part == "" || part == "." || part == "..":
			return "its name leads outside"
		case len(part) > maxName:
			return "its name is too long"
		case folded == ".git" || folded == "git~1" || strings.HasPrefix(folded, ".git:") || strings.HasPrefix(folded, ".git::"):
			return "some systems take its name for .git"
		}
	}
	return ""
}

// look finds what is at a path of the directory. why is set when a link or a file is on
// the way there.
func (p *applyPlan) look(rel string) (there fs.FileInfo, why string, err error) {
	parts := strings.Split(rel, "/")
	for i := 1; i < len(parts); i++ {
		st, err := p.root.Lstat(strings.Join(parts[:i], "/"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, "", nil
		case err != nil:
			return nil, "", localError(rel, err)
		case st.Mode()&fs.ModeSymlink != 0:
			return nil, "a link of this computer is on the way there", nil
		case !st.IsDir():
			return nil, "a file of this computer is where its directory should be", nil
		}
	}
	st, err := p.root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	return st, "", localError(rel, err)
}

// spelling says whether a path differs only in case from another one, here or in the
// change.
func (p *applyPlan) spelling(rel string, deleted bool) string {
	for at := rel; at != "."; at = path.Dir(at) {
		folded := strings.ToLower(at)
		if other, ok := p.claimed[folded]; ok && other != at {
			return fmt.Sprintf("its name differs only in case from %s", printable(other))
		}
		if !deleted {
			p.claimed[folded] = at
		}
		if other := p.here(path.Dir(at))[strings.ToLower(path.Base(at))]; !deleted && other != "" && other != path.Base(at) {
			if _, err := p.root.Lstat(at); err != nil { // on a file system that ignores case it is the same file
				return fmt.Sprintf("its name differs only in case from %s on this computer", printable(other))
			}
		}
	}
	return ""
}

// here lists the names of a directory by their spelling without case.
func (p *applyPlan) here(dir string) map[string]string {
	if names, ok := p.listed[dir]; ok {
		return names
	}
	names := map[string]string{}
	if f, err := p.root.Open(dir); err == nil {
		list, _ := f.Readdirnames(-1) // what cannot be listed has no names to compare
		for _, name := range list {
			names[strings.ToLower(name)] = name
		}
		_ = f.Close() // it was only read
	}
	p.listed[dir] = names
	return names
}

// decide compares a path here with both sides of the change and adds the step. It
// returns why it cannot.
func (p *applyPlan) decide(rel string, c vm.FileChange, there fs.FileInfo) (why string, err error) {
	step := applyStep{Path: rel, guest: c.Path, was: c.Was, now: c.Now, there: there}
	switch {
	case c.Type == "dir" && c.Verb == vm.FileDeleted:
		step.Do = applyRmdir
		return p.add(step, there != nil && there.IsDir())
	case c.Type == "dir":
		if there != nil && !there.IsDir() {
			return "it is a directory in the VM and none here", nil
		}
		step.Do = applyMkdir
		return p.add(step, there == nil)
	case there != nil && there.IsDir():
		return "it is a directory here", nil
	case there != nil && !there.Mode().IsRegular() && there.Mode()&fs.ModeSymlink == 0:
		return "it is neither a file nor a link here", nil
	case c.Verb == vm.FileDeleted:
		step.Do = applyDelete
	case c.Type == "link":
		step.Do = applyLink
		if why := badTarget(rel, string(c.Now.Target)); why != "" {
			return why, nil
		}
	case c.Type == "file":
		step.Do = applyPut
		if !slices.Contains(c.Changed, "content") && c.Was != nil && c.Verb == vm.FileModified && !slices.Contains(c.Changed, "type") {
			step.Do = applyMode
		}
	default:
		return fmt.Sprintf("it is a %s in the VM", printable(c.Type)), nil
	}
	return p.compare(step)
}

func (p *applyPlan) add(step applyStep, needed bool) (string, error) {
	if needed {
		p.Steps = append(p.Steps, step)
	} else {
		p.Same++
	}
	return "", nil
}

// badTarget says why a link would leave the directory.
func badTarget(rel, target string) string {
	if strings.HasPrefix(target, "/") || strings.ContainsRune(target, 0) {
		return "it is a link to " + vm.GuestPath(target).String() + ", outside of the directory"
	}
	at := path.Join(path.Dir(rel), target)
	if at == ".." || strings.HasPrefix(at, "../") || slices.Contains(strings.Split(at, "/"), ".git") {
		return "it is a link to " + vm.GuestPath(target).String() + ", outside of the directory or into .git"
	}
	return ""
}

// compare says whether what is there is the state before the change, the state after it,
// or another one.
func (p *applyPlan) compare(step applyStep) (why string, err error) {
	switch {
	case step.there == nil && step.Do == applyDelete:
		return p.add(step, false)
	case step.there == nil && step.was != nil:
		return "it was removed here, and changed in the VM", nil
	case step.there == nil:
		return p.add(step, true)
	}
	if step.Do == applyMode {
		executable := func(mode uint32) bool { return mode&0o100 != 0 }
		if !step.there.Mode().IsRegular() {
			return "it is no file here", nil
		}
		return p.add(step, executable(uint32(step.there.Mode().Perm())) != executable(step.now.Mode))
	}
	if same, err := p.is(step.Path, step.there, step.now); err != nil || same {
		if err == nil {
			return p.add(step, false)
		}
		return "", err
	}
	if same, err := p.is(step.Path, step.there, step.was); err != nil || same {
		if err == nil {
			return p.add(step, true)
		}
		return "", err
	}
	if p.committed != nil && p.committed(step.Path) {
		step.keep = true
		return p.add(step, true)
	}
	if step.was == nil {
		return "it is new in the VM, and another file of this name is here", nil
	}
	return "it was changed here, too", nil
}

// is reports whether what is at a path is one state of a file of the VM.
func (p *applyPlan) is(rel string, there fs.FileInfo, state *vm.FileState) (bool, error) {
	if state == nil {
		return false, nil
	}
	if there.Mode()&fs.ModeSymlink != 0 {
		target, err := p.root.Readlink(rel)
		return state.Target != "" && target == string(state.Target), localError(rel, err)
	}
	if state.Target != "" || there.Size() != state.Size || state.Digest == "" {
		return false, nil
	}
	sum, err := p.digest(rel)
	return sum == state.Digest, err
}

func (p *applyPlan) digest(rel string) (string, error) {
	f, err := p.root.Open(rel)
	if err != nil {
		return "", localError(rel, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", localError(rel, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
