// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Limits of what the confined reader may send of a project. They are those of the reader
// itself, which may have been taken over.
const (
	mostFiles   = 300_000
	mostFile    = 100 << 20
	mostBytes   = 4<<30 + 1<<20
	mostSummary = 4 << 20
	mostScanned = 1 << 20 // of each changed file: secrets are looked for in the beginning
	mostSecrets = 100
	mostMissing = 20_000 // paths that are asked for at once
)

// tracked is a file of a commit.
type tracked struct {
	mode uint32
	blob string
}

// projectFile is a file of a project, as it is in the frozen state.
type projectFile struct {
	path string // in the directory
	tracked
	sum  [sha256.Size]byte
	size int64
	off  int64 // of its content in the spool; -1 = it is equal to the base
}

// projectRead is a project as the confined reader sent it. Close removes the spool.
type projectRead struct {
	files   map[string]*projectFile
	sum     vm.ProjectSummary
	secrets []vm.FoundSecret
	flags   []string

	base  map[string]tracked // paths in the directory
	spool *os.File           // contents that differ from the base
	end   int64
	bytes int64
}

func newProjectRead(dir string, base map[string]tracked) (*projectRead, error) {
	f, err := os.CreateTemp(dir, "commit-")
	if err != nil {
		return nil, vm.Errorf(vm.NoSpace, "", "no file for the contents: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil { // it lives as long as it is open
		return nil, errors.Join(err, f.Close())
	}
	return &projectRead{files: map[string]*projectFile{}, base: base, spool: f}, nil
}

func (p *projectRead) Close() error { return p.spool.Close() }

// readProject reads a directory of a frozen disk: the files that git would track, and
// those of base that are there, ignored or not.
func (x *Changes) readProject(ctx context.Context, layers []string, o review.ProjectOptions, base map[string]tracked) (p *projectRead, err error) {
	if p, err = newProjectRead(x.cfg.Scratch, base); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err = x.projectTar(ctx, layers, o, p); err != nil {
		return p, err
	}
	var missing []vm.GuestPath
	for name := range base {
		if p.files[name] == nil {
			missing = append(missing, vm.GuestPath(name))
		}
	}
	slices.Sort(missing)
	sum := p.sum
	for batch := range slices.Chunk(missing, mostMissing) {
		if err = x.projectTar(ctx, layers, review.ProjectOptions{Root: sum.Root, Only: batch}, p); err != nil {
			return p, err
		}
	}
	more := p.sum
	p.sum = sum
	if len(missing) > 0 {
		p.sum.TooLarge, p.sum.Special = append(sum.TooLarge, more.TooLarge...), append(sum.Special, more.Special...)
	}
	return p, nil
}

// projectTar has the confined reader send files, and takes them in.
func (x *Changes) projectTar(ctx context.Context, layers []string, o review.ProjectOptions, p *projectRead) error {
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() { // ends when take closes the pipe
		err := x.cfg.Reader.Project(ctx, layers, o, w)
		w.CloseWithError(err)
		sent <- err
	}()
	err := p.take(r)
	r.CloseWithError(context.Canceled)
	if serr := <-sent; serr != nil && !errors.Is(serr, context.Canceled) {
		return serr // why the stream broke
	}
	return err
}

// take reads one tar. Nothing in it is trusted.
func (p *projectRead) take(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return vm.Errorf(vm.Corrupt, "warren-reader", "the reader's answer has no summary")
		}
		if err != nil {
			return err
		}
		if h.Name == review.ProjectSummary {
			if err := p.takeSummary(h, tr); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, io.LimitReader(r, mostSummary)) // an error of the reader comes last
			return err
		}
		if err := p.takeFile(h, tr); err != nil {
			return err
		}
	}
}

func (p *projectRead) takeSummary(h *tar.Header, r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, mostSummary))
	if err != nil {
		return err
	}
	p.sum = vm.ProjectSummary{}
	if err := json.Unmarshal(data, &p.sum); err != nil || h.Size > mostSummary {
		return vm.Errorf(vm.Corrupt, "warren-reader", "the reader's summary has no form")
	}
	return nil
}

func (p *projectRead) takeFile(h *tar.Header, r io.Reader) error {
	name := h.Name
	if err := checkTreePath(name); err != nil {
		return err
	}
	if p.files[name] != nil || len(p.files) >= mostFiles || h.Size < 0 || h.Size > mostFile {
		return vm.Errorf(vm.Corrupt, vm.GuestPath(name).String(), "the reader sent it twice, or too much")
	}
	if p.bytes += h.Size; p.bytes > mostBytes {
		return vm.Errorf(vm.Limit, vm.GuestPath(name).String(), "the files have more than %d MiB", mostBytes>>20)
	}
	f := &projectFile{path: name, size: h.Size, off: p.end}
	f.mode = repo.ModeFile
	content := r
	switch {
	case h.Typeflag == tar.TypeSymlink:
		f.mode, f.size, content = repo.ModeLink, int64(len(h.Linkname)), strings.NewReader(h.Linkname)
		if leaves(name, h.Linkname) {
			p.flag("%s is a link to %s, outside of what is committed", vm.GuestPath(name), vm.GuestPath(h.Linkname))
		}
	case h.Typeflag != tar.TypeReg:
		return vm.Errorf(vm.Corrupt, vm.GuestPath(name).String(), "the reader sent neither a file nor a link")
	case h.Mode&0o100 != 0:
		f.mode = repo.ModeProgram
	}
	if err := p.store(f, content); err != nil {
		return err
	}
	if f.tracked == p.base[name] {
		f.off = -1
	} else {
		p.end += f.size
		if err := p.scan(f); err != nil {
			return err
		}
	}
	p.files[name] = f
	return nil
}

// store copies a content to the end of the spool and computes its digests.
func (p *projectRead) store(f *projectFile, content io.Reader) error {
	blob, sum := vm.NewBlobHash(f.size), sha256.New()
	w := io.MultiWriter(blob, sum, io.NewOffsetWriter(p.spool, f.off))
	if n, err := io.Copy(w, content); err != nil {
		return err
	} else if n != f.size {
		return vm.Errorf(vm.Corrupt, vm.GuestPath(f.path).String(), "the reader sent %d bytes of %d", n, f.size)
	}
	f.blob = hex.EncodeToString(blob.Sum(nil))
	copy(f.sum[:], sum.Sum(nil))
	return nil
}

// scan looks for secrets in a changed file.
func (p *projectRead) scan(f *projectFile) error {
	if len(p.secrets) >= mostSecrets || f.mode == repo.ModeLink {
		return nil
	}
	text := make([]byte, min(f.size, mostScanned))
	if _, err := p.spool.ReadAt(text, f.off); err != nil {
		return vm.Errorf(vm.Internal, "", "the contents cannot be read back: %w", err)
	}
	p.secrets = append(p.secrets, review.Secrets(f.path, text)...)
	return nil
}

func (p *projectRead) flag(format string, args ...any) {
	if len(p.flags) < mostSecrets {
		p.flags = append(p.flags, fmt.Sprintf(format, args...))
	}
}

// open returns the content of a changed file.
func (p *projectRead) open(f *projectFile) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(p.spool, f.off, f.size)), nil
	}
}

// sorted returns the files by path.
func (p *projectRead) sorted() []*projectFile {
	list := make([]*projectFile, 0, len(p.files))
	for _, f := range p.files {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *projectFile) int { return strings.Compare(a.path, b.path) })
	return list
}

// same reports whether two reads found the same files with the same contents, and names
// some that differ.
func (p *projectRead) same(other *projectRead) (differ []vm.GuestPath) {
	for name, f := range p.files {
		o := other.files[name]
		if o == nil || o.sum != f.sum || o.mode != f.mode {
			differ = append(differ, vm.GuestPath(name))
		}
	}
	for name := range other.files {
		if p.files[name] == nil {
			differ = append(differ, vm.GuestPath(name))
		}
	}
	slices.Sort(differ)
	return differ
}

// leaves reports whether a link leads out of the tree.
func leaves(name, target string) bool {
	at := path.Join(path.Dir(name), target)
	return strings.HasPrefix(target, "/") || at == ".." || strings.HasPrefix(at, "../")
}

// checkTreePath refuses a path that no commit can hold.
func checkTreePath(name string) error {
	shown := vm.GuestPath(name).String()
	if err := repo.CheckPath(name); err != nil {
		return vm.AsError(err).WithHint("rename it in the VM, or list it in .gitignore")
	}
	if !utf8.ValidString(name) || strings.ContainsRune(name, '\n') {
		return vm.Errorf(vm.Invalid, shown, "a commit cannot have this path").WithHint("rename it in the VM, or list it in .gitignore")
	}
	return nil
}
