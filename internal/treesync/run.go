// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warren-vm/warren/vm"
)

// Side is one of the two directories.
type Side interface {
	List(ctx context.Context, o ListOptions) (Listing, error)
	// Pick returns the contents of at most MaxPicked files, as Pick writes them.
	Pick(ctx context.Context, names []vm.GuestPath) (io.ReadCloser, error)
	// Place makes changes. It reads r to its end, or until it fails.
	Place(ctx context.Context, r io.Reader, mark Mark) (Placed, error)
}

// Options say what Run does.
type Options struct {
	Pair         string // names the pair in the mark
	To           string // Both, VM or Local
	Prefer       string // the side that wins conflicts: VM, Local; "" = none
	DryRun       bool
	Forget       bool // compare without the state of the last run
	AllowDeletes bool // delete on this computer, however many files these are
	Exclude      []string
	Folds        bool // this computer's file system takes names that differ in case for one
	// Moved counts the bytes of files while they are copied; nil = nobody asks.
	Moved *atomic.Int64
}

// Change is one change that a run made, or would have made.
type Change struct {
	Path vm.GuestPath `json:"path"`
	To   string       `json:"to"`   // VM or Local
	What string       `json:"what"` // added, changed, deleted
}

// Conflict is a path that a run did not touch.
type Conflict struct {
	Path vm.GuestPath `json:"path"`
	Why  string       `json:"why"`
}

// Report says what a run did. Its lists are in the order of paths.
type Report struct {
	Changes   []Change   `json:"changes"`
	Conflicts []Conflict `json:"conflicts"`
	Held      []Change   `json:"held"`    // that the direction does not allow
	LeftOut   []Conflict `json:"leftOut"` // that cannot be on this computer
	Bytes     int64      `json:"bytes"`
	Files     int        `json:"files"` // that are alike afterwards
}

// Thresholds of a mass deletion on this computer.
const (
	manyDeleted = 20
	ctimeSlack  = 2 * time.Second // coarser than any file system's clock
)

// Run makes both sides alike, as far as they are not in conflict, and saves the
// state. After an error, what was copied stays, and the next run continues. Kinds:
// WrongState (the VM was put back to an older state; more than half of the files
// here would be deleted), and those of the sides.
func Run(ctx context.Context, here, there Side, st *State, o Options) (Report, error) {
	var out Report
	if o.Forget {
		st.forget()
	}
	l, r, err := lists(ctx, here, there, st, o)
	if err != nil {
		return out, err
	}
	if st.Mark != "" && r.Mark != st.Mark && (st.Next == "" || r.Mark != st.Next) {
		return out, vm.Errorf(vm.WrongState, st.Path, "the directory of the VM is not the one of the last sync: the VM was rolled back, or the directory was replaced").
			WithHint("nothing was copied; compare both sides from the start with --forget: files that differ are then conflicts")
	}
	x := planner{to: o.To, prefer: o.Prefer, folds: o.Folds}
	list := x.plan(indexed(st.Base, o.Exclude), l.Entries, r.Entries)
	out = describePlan(list)
	down, up := ops(list, toLocal), ops(list, toVM)
	if err := manyDeletes(down, l.Entries); err != nil && !o.AllowDeletes {
		return out, err
	}
	if o.DryRun {
		return out, nil
	}
	failed := map[string]string{}
	if len(down)+len(up) > 0 || st.Mark == "" {
		st.Next = rand.Text()
		if err := st.Save(); err != nil {
			return out, err
		}
		moved := o.Moved
		if moved == nil {
			moved = new(atomic.Int64)
		}
		t := transfer{moved: moved, failed: failed}
		if err := t.run(ctx, there, here, down, Mark{}); err != nil {
			return out, err
		}
		if err := t.run(ctx, here, there, up, Mark{o.Pair, st.Next}); err != nil {
			return out, err
		}
		out.Bytes = moved.Load()
		st.Mark, st.Next = st.Next, ""
	}
	out.settle(list, failed)
	st.Base = newBase(list, failed)
	out.Files = len(files(indexed(st.Base, nil)))
	st.Here, st.There = files(l.Entries), files(r.Entries)
	st.FromLocal, st.FromVM = l.Began-int64(ctimeSlack), r.Began-int64(ctimeSlack)
	st.At = time.Now().UTC()
	return out, st.Save()
}

// lists lists both sides, with a digest for each file.
func lists(ctx context.Context, here, there Side, st *State, o Options) (l, r Listing, err error) {
	g, ctx := errgroup.WithContext(ctx)
	one := func(out *Listing, s Side, from int64, last []*Entry) {
		g.Go(func() (err error) {
			lo := ListOptions{HashFrom: from, Exclude: o.Exclude, Pair: o.Pair}
			if *out, err = s.List(ctx, lo); err != nil || complete(out.Entries, last) {
				return err
			}
			lo.HashFrom = 0 // e.g. files that were renamed with their directory
			*out, err = s.List(ctx, lo)
			return err
		})
	}
	one(&l, here, st.FromLocal, st.Here)
	one(&r, there, st.FromVM, st.There)
	return l, r, g.Wait()
}

// describePlan reports a plan.
func describePlan(list []*pathPlan) Report {
	out := Report{Changes: []Change{}, Conflicts: []Conflict{}, Held: []Change{}, LeftOut: []Conflict{}}
	for _, d := range list {
		p := vm.GuestPath(d.path)
		switch d.fate {
		case toVM:
			out.Changes = append(out.Changes, Change{p, VM, verb(d.there, d.here)})
		case toLocal:
			out.Changes = append(out.Changes, Change{p, Local, verb(d.here, d.there)})
		case conflict:
			out.Conflicts = append(out.Conflicts, Conflict{p, d.why})
		case leftOut:
			out.LeftOut = append(out.LeftOut, Conflict{p, d.why})
		case held:
			c := Change{p, VM, verb(d.there, d.here)}
			if same(d.here, d.base) {
				c = Change{p, Local, verb(d.here, d.there)}
			}
			out.Held = append(out.Held, c)
		}
	}
	return out
}

// manyDeletes refuses a run that would delete most of this computer's files.
func manyDeletes(down []*Op, here map[string]*Entry) error {
	gone, all := 0, len(files(here))
	for _, op := range down {
		if op.New == nil && op.Was.Type == TypeFile {
			gone++
		}
	}
	if gone <= manyDeleted || 2*gone <= all {
		return nil
	}
	return vm.Errorf(vm.WrongState, "", "%d of %d files are gone in the VM and would be deleted here", gone, all).
		WithHint("nothing was copied; if that is right, add --allow-deletes; to bring them back to the VM, use --forget")
}

// settle moves the changes that failed to the conflicts.
func (r *Report) settle(list []*pathPlan, failed map[string]string) {
	if len(failed) == 0 {
		return
	}
	r.Changes = slices.DeleteFunc(r.Changes, func(c Change) bool { return failed[string(c.Path)] != "" })
	for _, d := range list {
		if why := failed[d.path]; why != "" {
			r.Conflicts = append(r.Conflicts, Conflict{vm.GuestPath(d.path), why})
		}
	}
}

// newBase is what both sides have alike after a run. A path that is not alike
// keeps what it had at the last run.
func newBase(list []*pathPlan, failed map[string]string) []*Entry {
	out := []*Entry{}
	for _, d := range list {
		e := d.base
		switch {
		case failed[d.path] != "":
		case d.fate == toVM, d.fate == stays && same(d.here, d.there):
			e = d.here
		case d.fate == toLocal:
			e = d.there
		}
		if e != nil {
			out = append(out, &Entry{Path: e.Path, Type: e.Type, Exec: e.Exec, Target: e.Target, Digest: e.Digest})
		}
	}
	return out
}

// transfer copies from one side to the other.
type transfer struct {
	moved  *atomic.Int64
	failed map[string]string // why a path's change was not made
}

// run makes ops on dst, with contents from src, and sets the mark.
func (t *transfer) run(ctx context.Context, src, dst Side, ops []*Op, mark Mark) error {
	if len(ops) == 0 && mark.Pair == "" {
		return nil
	}
	pr, pw := io.Pipe()
	var sent []*Op
	woven := make(chan error, 1)
	go func() {
		out := bufio.NewWriterSize(pw, 128<<10)
		var err error
		sent, err = t.weave(ctx, src, ops, out)
		if err == nil {
			err = writeLine(out, Op{End: true})
		}
		if err == nil {
			err = out.Flush()
		}
		_ = pw.CloseWithError(err)
		woven <- err
	}()
	placed, err := dst.Place(ctx, pr, mark)
	_ = pr.CloseWithError(errStopped)
	if werr := <-woven; werr != nil && !errors.Is(werr, errStopped) {
		return werr // why the stream ended
	}
	if err != nil {
		return err
	}
	for _, f := range placed.Failed {
		if f.Op < 0 || f.Op >= len(sent) || f.Why == "" {
			return fault("the answer names a change that was not sent")
		}
		t.failed[string(sent[f.Op].Path)] = vm.GuestPath(f.Why).String()
	}
	for _, op := range sent[min(max(placed.Done, 0), len(sent)):] {
		t.failed[string(op.Path)] = "not tried, because too many others failed"
	}
	return nil
}

// errStopped says that the receiver reads no more.
var errStopped = errors.New("the other side has stopped")

// weave writes changes with the contents that they need. It returns those that it
// has sent.
func (t *transfer) weave(ctx context.Context, src Side, ops []*Op, out *bufio.Writer) (sent []*Op, err error) {
	for len(ops) > 0 {
		var names []vm.GuestPath
		n, size := 0, 0
		for ; n < len(ops) && len(names) < MaxPicked && size < MaxPickedNames; n++ {
			if ops[n].Content {
				names, size = append(names, ops[n].Path), size+len(ops[n].Path)
			}
		}
		var in *picking
		if len(names) > 0 {
			r, err := src.Pick(ctx, names)
			if err != nil {
				return sent, err
			}
			in = &picking{newLines(r)}
			sent, err = t.batch(ops[:n], in, out, sent)
			if err == nil {
				err = in.end()
			}
			if err = errors.Join(err, r.Close()); err != nil {
				return sent, err
			}
		} else if sent, err = t.batch(ops[:n], nil, out, sent); err != nil {
			return sent, err
		}
		ops = ops[n:]
	}
	return sent, nil
}

// batch writes the changes whose contents are in in.
func (t *transfer) batch(ops []*Op, in *picking, out *bufio.Writer, sent []*Op) ([]*Op, error) {
	for _, op := range ops {
		var content io.Reader
		if op.Content {
			r, ok, err := in.next(op.Path, op.New.Size)
			if err != nil {
				return sent, err
			}
			if !ok {
				t.failed[string(op.Path)] = errChanged.Error()
				continue
			}
			content = r
		}
		if err := writeLine(out, op); err != nil {
			return sent, err
		}
		sent = append(sent, op)
		if content == nil {
			continue
		}
		n, err := io.Copy(out, content)
		t.moved.Add(n)
		if err == nil && n < op.New.Size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}
