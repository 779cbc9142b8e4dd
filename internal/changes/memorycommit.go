// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// noBranch is the tip of a branch that does not exist.
const noBranch = "0000000000000000000000000000000000000000"

// CommitMemory commits a VM's memory now. It wakes no VM: the files of a VM that does not
// run are read from its disk.
func (m *Memories) CommitMemory(ctx context.Context, c *vm.Call, ref, message string) (rec vm.Memory, err error) {
	defer func() { err = vm.WithOp(vm.OpMemory, ref, err) }()
	if rec, err = m.find(c, ref); err != nil {
		return rec, err
	}
	rec, err = m.commit(ctx, &vm.Call{Actor: c.Actor, Request: c.Request}, rec, message)
	return m.shown(rec), err
}

// recentKept is the number of commits whose exact times are kept.
const recentKept = 30

// notes are the files of a memory.
type notes struct {
	files   map[string][]byte
	bytes   int64
	left    map[string]*vm.LeftOut
	secrets []vm.FoundSecret
	keep    map[string]bool // left out: what was committed before stays
}

func newNotes() *notes {
	return &notes{files: map[string][]byte{}, left: map[string]*vm.LeftOut{}, keep: map[string]bool{}}
}

func (n *notes) leave(why, name string) {
	l := n.left[why]
	if l == nil {
		l = &vm.LeftOut{Reason: why}
		n.left[why] = l
	}
	if l.Files++; len(l.Examples) < 3 {
		l.Examples = append(l.Examples, vm.GuestPath(name))
	}
	n.keep[name] = true
}

// leftOut lists what is not committed.
func (n *notes) leftOut() (list []vm.LeftOut) {
	for _, l := range n.left {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b vm.LeftOut) int { return strings.Compare(a.Reason, b.Reason) })
	return list
}

// noteNames are the ends of names of files that are taken as notes.
var noteNames = []string{".md", ".markdown", ".txt", ".json", ".yaml", ".yml", ".toml", ".csv"}

// take reads a tar of the memory. The guest made it.
func (n *notes) take(r io.Reader, prefix string) error {
	entries := 0
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, io.LimitReader(r, 1<<20)) // an error of the sender comes last
			return err
		}
		if err != nil {
			return err
		}
		if entries++; entries > 20*vm.MaxMemoryFiles {
			return vm.Errorf(vm.Limit, vm.MemoryPath, "more than %d files are below it", 20*vm.MaxMemoryFiles)
		}
		name := path.Clean(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(h.Name, "/"), prefix), "/"))
		if name == "." || h.Typeflag == tar.TypeDir {
			continue
		}
		if err := n.add(name, h, tr); err != nil {
			return err
		}
	}
}

// add takes one file, or leaves it out.
func (n *notes) add(name string, h *tar.Header, r io.Reader) error {
	ext := strings.ToLower(path.Ext(name))
	switch {
	case slices.Contains(strings.Split(name, "/"), ".git"):
		n.leave("files in .git", name)
	case repo.CheckPath(name) != nil || !utf8.ValidString(name):
		n.leave("names that git cannot hold", name)
	case h.Typeflag != tar.TypeReg:
		n.leave("links and special files", name)
	case !slices.Contains(noteNames, ext):
		n.leave("files that are no Markdown or other text", name)
	case h.Size > vm.MaxMemoryFile:
		n.leave(fmt.Sprintf("files of more than %d KiB", vm.MaxMemoryFile>>10), name)
	case len(n.files) >= vm.MaxMemoryFiles || n.bytes+h.Size > vm.MaxMemoryBytes:
		n.leave(fmt.Sprintf("files beyond the first %d, or beyond %d MiB", vm.MaxMemoryFiles, vm.MaxMemoryBytes>>20), name)
	default:
		data, err := io.ReadAll(io.LimitReader(r, vm.MaxMemoryFile))
		if err != nil {
			return err
		}
		switch found := review.Secrets(name, data); {
		case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
			n.leave("files that are no Markdown or other text", name)
		case len(found) > 0:
			n.secrets = append(n.secrets, found...)
			n.leave("files with secrets", name)
		default:
			n.files[name] = data
			n.bytes += int64(len(data))
		}
	}
	return nil
}

// read returns the files of a VM's memory: from the guest if it runs, else from its disk.
func (m *Memories) read(ctx context.Context, c *vm.Call, id vm.ID) (*notes, error) {
	n := newNotes()
	v, err := m.cfg.Engine.Find(c.Actor, string(id))
	if err != nil {
		return nil, err
	}
	if v.State == vm.Running {
		visit, err := m.cfg.Engine.Visit(ctx, c, string(id), vm.OpState, "")
		if err != nil {
			return nil, err
		}
		defer visit.End(nil, nil)
		r, err := visit.Guest().TarDown(visit.Context(), "", vm.MemoryPath)
		if err != nil {
			return nil, visit.Fail(ctx, err)
		}
		defer r.Close()
		return n, visit.Fail(ctx, n.take(r, "memory"))
	}
	f, release, err := m.cfg.Engine.FrozenDisk(ctx, c, string(id), "")
	if err != nil {
		return nil, err
	}
	defer release()
	if !f.Synced {
		return nil, errUnsynced
	}
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() { // ends when take closes the pipe
		err := m.cfg.Changes.cfg.Reader.Tar(ctx, f.Layers, []vm.GuestPath{vm.MemoryPath}, reader.TarOptions{Entries: 20 * vm.MaxMemoryFiles, Bytes: 4 * vm.MaxMemoryBytes}, w)
		w.CloseWithError(err)
		sent <- err
	}()
	err = n.take(r, "memory")
	r.CloseWithError(context.Canceled)
	if serr := <-sent; serr != nil && !errors.Is(serr, context.Canceled) {
		return nil, serr
	}
	return n, err
}

// errUnsynced says that the last writes to a memory are only in the suspended VM's own
// memory. They were committed before the suspend, or are at the next start.
var errUnsynced = vm.Errorf(vm.WrongState, vm.MemoryPath, "the VM is suspended, and its disk lacks what was written last").WithHint("start it: `warren start NAME`")

// lock lets one commit of a memory run at a time.
func (m *Memories) lock(id vm.ID) (unlock func()) {
	m.mu.Lock()
	l := m.syncing[id]
	if l == nil {
		l = &sync.Mutex{}
		m.syncing[id] = l
	}
	m.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// commit makes the branch equal to the files, if they differ, and notes that.
func (m *Memories) commit(ctx context.Context, c *vm.Call, rec vm.Memory, message string) (vm.Memory, error) {
	defer m.lock(rec.VM)()
	if now, ok := m.table.Get(rec.VM); ok {
		rec = now
	}
	n, err := m.read(ctx, c, rec.VM)
	if errors.Is(err, errUnsynced) && message == "" {
		return rec, nil
	}
	if err != nil {
		return rec, err
	}
	tip, base, err := m.tip(ctx, c, rec)
	if err != nil {
		return rec, err
	}
	edits, err := m.edits(ctx, c, rec, cmp.Or(tip, base), n)
	if err != nil {
		return rec, err
	}
	was := rec
	rec.Files, rec.Bytes, rec.LeftOut, rec.Secrets, rec.Error = len(n.files), n.bytes, n.leftOut(), n.secrets, ""
	if rec.Commit = cmp.Or(tip, base); len(edits) > 0 {
		var paths []string
		for _, e := range edits {
			paths = append(paths, e.Path)
		}
		made, err := m.cfg.Repo.Commit(ctx, &vm.Call{Actor: c.Actor, Request: c.Request}, rec.Repo, repo.CommitRequest{
			Branch: rec.Branch, Message: cmp.Or(message, "Remember "+nameSome(paths)), Expected: cmp.Or(tip, noBranch), Base: base, Files: edits,
			Author:   &repo.Signature{Name: cmp.Or(rec.VMName, string(rec.VM)), Email: "memory@warren.localhost"},
			Trailers: []repo.Trailer{{Key: trailerVM, Value: cmp.Or(rec.VMName, "-") + " (" + string(rec.VM) + ")"}},
		})
		if err != nil {
			return was, err
		}
		rec.Commit = made.SHA
		m.cfg.Journal.Emit(vm.Event{Type: "memory.committed", VM: rec.VM, Account: rec.Account, Data: map[string]any{"repo": rec.Repo, "branch": rec.Branch, "commit": made.SHA, "files": len(edits)}})
	}
	if rec.Commit != was.Commit || rec.Commit != "" && len(rec.Recent) == 0 {
		rec.Recent = append([]vm.MemoryCommit{{Commit: rec.Commit, At: m.cfg.Now().UTC()}}, rec.Recent[:min(len(rec.Recent), recentKept-1)]...)
	}
	if reflect.DeepEqual(rec, was) {
		return rec, nil // no write of a record that says the same
	}
	rec.At = m.cfg.Now().UTC()
	return m.save(ctx, rec)
}

// tip returns the tip of the memory's branch; "" = there is no such branch yet, and it
// will begin at base.
func (m *Memories) tip(ctx context.Context, c *vm.Call, rec vm.Memory) (tip, base string, err error) {
	b, err := m.cfg.Repo.Branch(ctx, c, rec.Repo, rec.Branch)
	if vm.KindOf(err) == vm.NotFound && vm.AsError(err).Code == "BRANCH_NOT_FOUND" {
		return "", rec.Commit, nil
	}
	return b.Commit, "", err
}

// edits are the differences between a commit and the files.
func (m *Memories) edits(ctx context.Context, c *vm.Call, rec vm.Memory, at string, n *notes) ([]repo.FileEdit, error) {
	committed := map[string]string{}
	if at != "" {
		_, entries, err := m.cfg.Repo.Tree(ctx, c, rec.Repo, at, true)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type == "blob" {
				committed[e.Path] = e.SHA
			}
		}
	}
	var edits []repo.FileEdit
	for name := range committed {
		if _, there := n.files[name]; !there && !n.keep[name] {
			edits = append(edits, repo.FileEdit{Path: name, Deleted: true})
		}
	}
	for name, data := range n.files {
		if committed[name] != blobID(data) {
			edits = append(edits, repo.FileEdit{Path: name, Mode: repo.ModeFile, Size: int64(len(data)), Open: repo.Bytes(data)})
		}
	}
	slices.SortFunc(edits, func(a, b repo.FileEdit) int { return strings.Compare(a.Path, b.Path) })
	return edits, nil
}

func blobID(data []byte) string {
	h := vm.NewBlobHash(int64(len(data)))
	_, _ = h.Write(data) // never fails
	return hex.EncodeToString(h.Sum(nil))
}
