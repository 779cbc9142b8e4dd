// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// truthBytes bounds the JSON of an answer about the truth of a disk.
const truthBytes = 512 << 20

// Disks are the states that an answer about the truth of a disk is of, each given by its
// layers, the top first.
type Disks struct {
	Image []string // what the VM was made from; nil = not known
	Bases []Base
	Now   []string
}

// Base is an older state that stays when the VM is removed.
type Base struct {
	Layers []string
	Below  []vm.GuestPath // what is kept of it; none = all
}

// Truth calls each for every git repository of a disk, every file whose content the image
// has not, and counts of files that are not listed; see review.WriteTruth. workdir is the
// VM's working directory. An error of each ends it and is returned. Kinds: those of Diff.
func (r *Reader) Truth(ctx context.Context, d Disks, workdir string, each func(review.TruthLine) error) error {
	request := review.Request{Verb: review.VerbTruth, Options: review.Options{Workdir: workdir}}
	files := newFiles()
	defer files.close()
	for _, x := range []struct {
		layers  []string
		numbers *[]int
	}{{d.Image, &request.From}, {d.Now, &request.To}} {
		numbers, err := files.add(x.layers)
		if err != nil {
			return err
		}
		*x.numbers = numbers
	}
	for _, b := range d.Bases[:min(len(d.Bases), review.MaxTruthBases)] {
		numbers, err := files.add(b.Layers)
		if err != nil {
			return err
		}
		request.Bases = append(request.Bases, review.RequestBase{Layers: numbers, Below: b.Below})
	}
	bases := len(request.Bases)
	return r.run(ctx, request, files, func(answer io.Reader) error { return truthLines(answer, bases, each) })
}

// truthLines reads an answer to its end, and refuses one that no honest program gives.
func truthLines(answer io.Reader, bases int, each func(review.TruthLine) error) error {
	bounded := &io.LimitedReader{R: answer, N: truthBytes}
	in := json.NewDecoder(bounded)
	check := truthCheck{bases: bases}
	for ended := false; ; {
		var line review.TruthLine
		switch err := in.Decode(&line); {
		case errors.Is(err, io.EOF) && ended:
			return nil
		case err != nil:
			if e := (*vm.Error)(nil); errors.As(err, &e) {
				return e
			}
			return distrust("it is no list of files")
		case ended:
			return distrust("it has lines after its end")
		}
		if err := check.line(&line); err != nil {
			return err
		}
		ended = line.End != nil
		if err := each(line); err != nil {
			return err
		}
	}
}

// truthCheck checks the lines of one answer.
type truthCheck struct{ clones, files, counts, bases int }

var objectID = regexp.MustCompile(`^[0-9a-f]{40}$`)

func (t *truthCheck) line(l *review.TruthLine) error {
	set := 0
	for _, is := range []bool{l.Clone != nil, l.File != nil, l.Count != nil, l.End != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return distrust("a line has %d parts", set)
	case l.Clone != nil:
		return t.clone(l.Clone)
	case l.File != nil:
		return t.file(l.File)
	case l.Count != nil:
		n := l.Count
		if t.counts++; t.counts > maxChanges || n.Clone < 0 || n.Clone > t.clones || n.Files < 0 || n.Bytes < 0 || n.Files > maxCount || !slices.Contains(review.TruthClasses, n.Class) || !slices.Contains(groups, n.Group) {
			return distrust("a count of files")
		}
	case l.End.Unhashed < 0 || l.End.Unlisted < 0:
		return distrust("its end")
	}
	return nil
}

func (t *truthCheck) file(f *review.TruthFile) error {
	t.files++
	if t.files > review.MaxTruthFiles || !path(f.Path) || f.Clone < 0 || f.Clone > t.clones || f.Size < 0 || !slices.Contains(review.TruthClasses, f.Class) || f.ID != "" && !objectID.MatchString(f.ID) {
		return distrust("a file is %s", f.Path)
	}
	for i, n := range f.Alike {
		if n < 0 || n >= t.bases || i > 0 && n <= f.Alike[i-1] {
			return distrust("%s is as in a state that was not asked for", f.Path)
		}
	}
	return nil
}

func (t *truthCheck) clone(k *review.TruthClone) error {
	t.clones++
	switch {
	case t.clones > review.MaxTruthClones || k.N != t.clones || k.Root != "" && !path(k.Root) || !path(k.Dir):
		return distrust("a repository at %s", k.Dir)
	case k.Head != "" && !objectID.MatchString(k.Head) || len(k.Branch) > 300 || len(k.Refs) > review.MaxTruthRefs || len(k.Commits) > maxChanges:
		return distrust("the branches of %s", k.Dir)
	}
	for _, r := range k.Refs {
		if !objectID.MatchString(r.ID) || len(r.Name) > 300 {
			return distrust("a branch of %s", k.Dir)
		}
	}
	for _, r := range k.Remotes {
		if !text(r.Name) || !text(r.URL) {
			return distrust("a remote of %s", k.Dir)
		}
	}
	for _, c := range k.Commits {
		if !objectID.MatchString(c.ID) || len(c.Subject) > 1000 || slices.ContainsFunc(c.Parents, func(p string) bool { return !objectID.MatchString(p) }) {
			return distrust("a commit of %s", k.Dir)
		}
	}
	return nil
}
