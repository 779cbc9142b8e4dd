// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
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

// applyBatch is the number of files that are asked for at once.
const applyBatch = 1000

// applier carries a plan out. All contents are received, checked and written beside the
// directory's files first. Then each step moves what it replaces aside, so that a failure
// puts everything back.
type applier struct {
	root  *os.Root
	temp  string   // a directory below root, for new contents and for what was replaced
	undo  []func() // puts back what was done, the last first
	stage map[string]string
	n     int
}

// apply does the steps of a plan. get writes the named files of the guest as a tar, in
// any order. After an error the directory is as it was.
func (p *applyPlan) apply(get func(paths []vm.GuestPath, w io.Writer) error) (err error) {
	a := &applier{root: p.root, temp: tempName(), stage: map[string]string{}}
	if len(p.Steps) == 0 {
		return nil
	}
	if err := p.root.Mkdir(a.temp, 0o700); err != nil {
		return localError(a.temp, err)
	}
	defer func() {
		if err != nil {
			for _, back := range slices.Backward(a.undo) {
				back()
			}
		}
		if rerr := p.root.RemoveAll(a.temp); rerr != nil && err == nil {
			err = localError(a.temp, rerr)
		}
	}()
	if err := a.receive(p.Steps, get); err != nil {
		return err
	}
	for i := range p.Steps {
		if err := p.unchanged(&p.Steps[i]); err != nil {
			return err
		}
	}
	for i := range p.Steps {
		if err := a.do(&p.Steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// receive stores the contents of all files that are written.
func (a *applier) receive(steps []applyStep, get func(paths []vm.GuestPath, w io.Writer) error) error {
	var want []*applyStep
	for i := range steps {
		if steps[i].Do == applyPut {
			want = append(want, &steps[i])
		}
	}
	for batch := range slices.Chunk(want, applyBatch) {
		paths, by := make([]vm.GuestPath, 0, len(batch)), map[string]*applyStep{}
		for _, s := range batch {
			paths = append(paths, s.guest)
			by[strings.TrimPrefix(string(s.guest), "/")] = s
		}
		r, w := io.Pipe()
		sent := make(chan error, 1)
		go func() { // ends when the reader below closes the pipe
			err := get(paths, w)
			w.CloseWithError(err)
			sent <- err
		}()
		err := a.unpack(r, by)
		r.CloseWithError(errUnneeded)
		if serr := <-sent; serr != nil && !errors.Is(serr, errUnneeded) {
			return serr // why the stream broke
		}
		if err != nil {
			return err
		}
		for _, s := range batch {
			if a.stage[s.Path] == "" {
				return vm.Errorf(vm.Corrupt, s.guest.String(), "the server did not send it")
			}
		}
	}
	return nil
}

// errUnneeded marks a pipe that its reader no longer needs.
var errUnneeded = errors.New("no longer needed")

func (a *applier) unpack(r io.Reader, by map[string]*applyStep) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, io.LimitReader(r, maxTail))
			return err
		}
		if err != nil {
			return streamError(err)
		}
		s := by[strings.TrimPrefix(h.Name, "/")]
		if s == nil || h.Typeflag != tar.TypeReg || a.stage[s.Path] != "" {
			continue // the server may send the directories around
		}
		if err := a.store(s, h.Size, tr); err != nil {
			return err
		}
	}
}

// store writes one content and checks it against the diff.
func (a *applier) store(s *applyStep, size int64, r io.Reader) error {
	mode := fs.FileMode(0o666)
	if s.now.Mode&0o100 != 0 {
		mode = 0o777
	}
	a.n++
	name := fmt.Sprintf("%s/new-%d", a.temp, a.n)
	f, err := a.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return localError(s.Path, err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), r)
	if err = errors.Join(err, f.Close()); err != nil {
		return localError(s.Path, err)
	}
	if n != size || n != s.now.Size || s.now.Digest != "" && hex.EncodeToString(sum.Sum(nil)) != s.now.Digest {
		return vm.Errorf(vm.Corrupt, s.guest.String(), "its content is not the one that the diff describes").WithHint("try again")
	}
	a.stage[s.Path] = name
	return nil
}

// unchanged checks that a path is as it was when the plan was made.
func (p *applyPlan) unchanged(s *applyStep) error {
	there, why, err := p.look(s.Path)
	if err != nil {
		return err
	}
	same := (there == nil) == (s.there == nil)
	if same && there != nil {
		same = os.SameFile(there, s.there) && there.Size() == s.there.Size() && there.ModTime().Equal(s.there.ModTime()) && there.Mode() == s.there.Mode()
	}
	if why != "" || !same && s.Do != applyRmdir {
		return vm.Errorf(vm.Busy, printable(s.Path), "it changed while the apply was prepared; nothing was written").WithHint("try again")
	}
	return nil
}

// do carries out one step.
func (a *applier) do(s *applyStep) error {
	var err error
	switch s.Do {
	case applyMkdir:
		return a.mkdirs(s.Path)
	case applyRmdir:
		if err = a.root.Remove(s.Path); err == nil {
			mode := s.there.Mode().Perm()
			a.undo = append(a.undo, func() { _ = a.root.Mkdir(s.Path, mode) }) // best effort, after another error
		}
		return nil // it may have files that only this computer has
	case applyDelete:
		return a.aside(s.Path)
	case applyMode:
		perm := s.there.Mode().Perm()
		next := perm &^ 0o111
		if s.now.Mode&0o100 != 0 {
			next = perm | perm&0o444>>2
		}
		if err = a.root.Chmod(s.Path, next); err == nil {
			a.undo = append(a.undo, func() { _ = a.root.Chmod(s.Path, perm) })
		}
	case applyPut, applyLink:
		if err := a.mkdirs(path.Dir(s.Path)); err != nil {
			return err
		}
		if s.there != nil {
			if err := a.aside(s.Path); err != nil {
				return err
			}
		}
		if s.Do == applyLink {
			err = a.root.Symlink(string(s.now.Target), s.Path)
		} else {
			err = a.root.Rename(a.stage[s.Path], s.Path)
		}
		if err == nil {
			a.undo = append(a.undo, func() { _ = a.root.Remove(s.Path) })
		}
	}
	return localError(s.Path, err)
}

// mkdirs makes a directory and those above it.
func (a *applier) mkdirs(dir string) error {
	if dir == "." {
		return nil
	}
	if st, err := a.root.Lstat(dir); err == nil && st.IsDir() {
		return nil
	}
	if err := a.mkdirs(path.Dir(dir)); err != nil {
		return err
	}
	if err := a.root.Mkdir(dir, 0o777); err != nil {
		return localError(dir, err)
	}
	a.undo = append(a.undo, func() { _ = a.root.Remove(dir) })
	return nil
}

// aside moves what is at a path out of the way, and back if the apply fails.
func (a *applier) aside(rel string) error {
	a.n++
	name := fmt.Sprintf("%s/old-%d", a.temp, a.n)
	if err := a.root.Rename(rel, name); err != nil {
		return localError(rel, err)
	}
	a.undo = append(a.undo, func() { _ = a.root.Rename(name, rel) })
	return nil
}
