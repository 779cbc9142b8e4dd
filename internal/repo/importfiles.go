// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Limits of what an archive may unpack to. ratio counts beyond the first ratioFree bytes.
const (
	maxImported = 200_000
	maxRatio    = 200
	ratioFree   = 64 << 20
)

// CreateImport makes a repository whose first commit has the content of files, an
// archive, or a directory of another repository. Nothing is left of it if that fails.
// Kinds as for CreateFrom; code IMPORT_SUBDIR_NOT_FOUND.
func (r *Repo) CreateImport(ctx context.Context, c *vm.Call, req CreateRequest, in Import) (vm.Repository, error) {
	in.Dir, in.Message = strings.Trim(in.Dir, "/"), cmp.Or(in.Message, "Import")
	if err := in.check(); err != nil {
		return vm.Repository{}, vm.WithOp(vm.OpRepoCreate, "", err)
	}
	return r.createFilled(ctx, c, req, cmp.Or(safeURL(in.URL), in.Type), func(ctx context.Context, rec *vm.Repository, dir string, room *space) error {
		ctx, stop := context.WithTimeout(ctx, importTime)
		defer stop()
		if in.Type == "git" {
			return r.importGit(ctx, c, rec, dir, in, room)
		}
		spool, err := newSpool(r.cfg.Dir.RepoIncoming(), room.left(maxImport), room.take)
		if err != nil {
			return err
		}
		defer spool.close()
		switch in.Type {
		case "files":
			err = spool.texts(in.Files)
		default:
			err = r.fetchArchive(ctx, in, spool)
		}
		if err != nil {
			return err
		}
		return r.firstCommit(ctx, c, rec, dir, in, spool)
	})
}

func (in *Import) check() error {
	if in.Dir != "" && !fs.ValidPath(in.Dir) {
		return badImport(in.Dir, "not a directory inside the source")
	}
	switch in.Type {
	case "files":
		if in.URL != "" {
			return badImport("url", "files are not imported from a URL")
		}
		return nil
	case "git", "tar", "zip":
		_, err := parseSource(in.URL)
		if err == nil && !plainRev(in.Rev) {
			err = badImport(in.Rev, "not a revision")
		}
		return err
	}
	return badImport(in.Type, "not a type of import").WithHint("use files, tar, zip or git")
}

// fetchArchive downloads and unpacks an archive into the spool.
func (r *Repo) fetchArchive(ctx context.Context, in Import, to *spool) error {
	from, err := parseSource(in.URL)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url, http.NoBody)
	if err != nil {
		return badImport(from.url, "not a URL to fetch")
	}
	if from.basic != "" {
		req.Header.Set("Authorization", "Basic "+from.basic)
	}
	client := r.cfg.Net.Client()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return sourceError(ctx, from.url, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return vm.Errorf(vm.Invalid, from.url, "the source wants other credentials").WithCode("SOURCE_UNAUTHORIZED", "url", from.url)
	case resp.StatusCode != http.StatusOK:
		return vm.Errorf(vm.Invalid, from.url, "the source answered %d", resp.StatusCode).WithCode("SOURCE_NOT_FOUND", "url", from.url)
	}
	body := &counted{r: resp.Body, left: to.room}
	if in.Type == "zip" {
		err = to.zip(body, in.Dir)
	} else {
		err = to.tar(body, in.Dir)
	}
	if err != nil {
		return sourceError(ctx, from.url, err)
	}
	if in.Dir != "" && len(to.entries) == 0 {
		return noSubdir(from.url, in.Dir)
	}
	return nil
}

func noSubdir(source, dir string) error {
	return vm.Errorf(vm.Invalid, dir, "the source has no such directory").WithCode("IMPORT_SUBDIR_NOT_FOUND", "source", source, "dir", dir)
}

// sourceError keeps an error of ours and explains others.
func sourceError(ctx context.Context, from string, err error) error {
	var known *vm.Error
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return vm.Errorf(vm.Timeout, from, "the import took too long")
	}
	return vm.Errorf(vm.Invalid, from, "the source cannot be read: %w", err).WithCode("SOURCE_NOT_FOUND", "url", from)
}

// counted reads at most left bytes, and counts them.
type counted struct {
	r    io.Reader
	left int64
	took int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.took += int64(n)
	if c.left -= int64(n); c.left < 0 {
		return 0, tooLargeImport()
	}
	return n, err
}

func tooLargeImport() error {
	return vm.Errorf(vm.Limit, "", "the content is larger than this account may still store, or than one import may be").
		WithHint("import a part of it with dir, or free space")
}

// spool keeps the contents of files in one file without a name, so that nothing of an
// archive becomes a path on the host.
type spool struct {
	f       *os.File
	size    int64
	room    int64               // bytes that it holds at most
	take    func(n int64) error // is told of bytes that come; nil = nobody wants to know
	entries []spooled
	at      map[string]int
}

type spooled struct {
	path         string
	mode         uint32
	offset, size int64
}

func newSpool(dir string, room int64, take func(n int64) error) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, vm.Errorf(vm.Internal, "", "%w", err)
	}
	f, err := os.CreateTemp(dir, "import-*")
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "%w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, vm.Errorf(vm.Internal, "", "%w", err)
	}
	return &spool{f: f, room: room, take: take, at: map[string]int{}}, nil
}

func (s *spool) close() { _ = s.f.Close() }

// add keeps one file. A later file of the same path replaces an earlier one.
func (s *spool) add(name string, mode uint32, in io.Reader) error {
	if len(s.entries) >= maxImported {
		return vm.Errorf(vm.Limit, "", "the source has more than %d files", maxImported)
	}
	if s.take != nil {
		in = &taking{in, s.take}
	}
	n, err := io.Copy(s.f, io.LimitReader(in, s.room-s.size+1))
	if err != nil {
		return err
	}
	if s.size+n > s.room {
		return tooLargeImport()
	}
	e := spooled{name, mode, s.size, n}
	s.size += n
	if i, again := s.at[name]; again {
		s.entries[i] = e
		return nil
	}
	s.at[name] = len(s.entries)
	s.entries = append(s.entries, e)
	return nil
}

// taking tells of the bytes that come.
type taking struct {
	from io.Reader
	take func(n int64) error
}

func (t *taking) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	if over := t.take(int64(n)); over != nil {
		return 0, over
	}
	return n, err
}

// edits are the files as a commit takes them.
func (s *spool) edits() []FileEdit {
	out := make([]FileEdit, 0, len(s.entries))
	slices.SortFunc(s.entries, func(a, b spooled) int { return strings.Compare(a.path, b.path) })
	for _, e := range s.entries {
		out = append(out, FileEdit{Path: e.path, Mode: e.mode, Size: e.size, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(s.f, e.offset, e.size)), nil
		}})
	}
	return out
}

func (s *spool) texts(files map[string]string) error {
	for name, text := range files {
		if err := s.add(name, ModeFile, strings.NewReader(text)); err != nil {
			return err
		}
	}
	return nil
}

// inside returns the path below dir of an entry of an archive; false = it is not below
// it. A path that leads out of the archive is an error, wherever it lies.
func inside(name, dir string) (string, bool, error) {
	if strings.HasPrefix(name, "/") || strings.Contains(name, "\\") || slices.Contains(strings.Split(name, "/"), "..") {
		return "", false, vm.Errorf(vm.Invalid, "", "the archive has an entry that leads out of it: %s", vm.GuestPath(name)).
			WithCode("INVALID_FILE_PATH", "path", vm.GuestPath(name).String())
	}
	clean := path.Clean(name)
	if clean == "." || clean == "" {
		return "", false, nil
	}
	if dir == "" {
		return clean, true, nil
	}
	rest, ok := strings.CutPrefix(clean, dir+"/")
	return rest, ok, nil
}

// guard bounds how much an archive grows while it is unpacked.
type guard struct {
	in   io.Reader
	from *counted
	out  int64
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.in.Read(p)
	g.out += int64(n)
	if g.out > ratioFree && g.out/maxRatio > g.from.took {
		return 0, vm.Errorf(vm.Limit, "", "the archive unpacks to more than %d times its size", maxRatio)
	}
	return n, err
}

// tar unpacks a tar, which may be compressed by gzip.
func (s *spool) tar(body *counted, dir string) error {
	in := bufio.NewReaderSize(body, 64<<10)
	var from io.Reader = in
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return notArchive("tar", err)
		}
		from = &guard{in: z, from: body}
	}
	t := tar.NewReader(from)
	for seen := 0; ; seen++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			if seen == 0 {
				return notArchive("tar", errors.New("it is empty"))
			}
			return nil
		}
		if err != nil {
			return notArchive("tar", err)
		}
		if seen > 2*maxImported {
			return vm.Errorf(vm.Limit, "", "the archive has more than %d entries", 2*maxImported)
		}
		name, below, err := inside(h.Name, dir)
		if err != nil {
			return err
		}
		if !below {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
		case tar.TypeReg:
			mode := uint32(ModeFile)
			if h.Mode&0o100 != 0 {
				mode = ModeProgram
			}
			err = s.add(name, mode, t)
		case tar.TypeSymlink:
			err = s.add(name, ModeLink, strings.NewReader(h.Linkname))
		default:
			err = vm.Errorf(vm.Invalid, "", "the archive has an entry that is no file, directory or symbolic link: %s", vm.GuestPath(h.Name)).
				WithCode("INVALID_FILE_PATH", "path", vm.GuestPath(h.Name).String())
		}
		if err != nil {
			return notArchive("tar", err)
		}
	}
}

// notArchive keeps an error of ours.
func notArchive(kind string, err error) error {
	var known *vm.Error
	if errors.As(err, &known) {
		return known
	}
	return badImport("url", "not a %s that can be read: %v", kind, err)
}

// zip unpacks a zip, which is written to a file first: its list is at its end.
func (s *spool) zip(body *counted, dir string) error {
	packed, err := newSpool(path.Dir(s.f.Name()), s.room, nil)
	if err != nil {
		return err
	}
	defer packed.close()
	if err := packed.add("zip", ModeFile, body); err != nil {
		return err
	}
	z, err := zip.NewReader(packed.f, packed.size)
	if err != nil {
		return notArchive("zip", err)
	}
	if len(z.File) > 2*maxImported {
		return vm.Errorf(vm.Limit, "", "the archive has more than %d entries", 2*maxImported)
	}
	grown := int64(0)
	for _, f := range z.File {
		name, below, err := inside(f.Name, dir)
		if err != nil {
			return err
		}
		if !below || strings.HasSuffix(f.Name, "/") {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return notArchive("zip", err)
		}
		g := &guard{in: in, from: body, out: grown}
		switch m := f.Mode(); {
		case m.IsRegular() && m&0o100 != 0:
			err = s.add(name, ModeProgram, g)
		case m.IsRegular():
			err = s.add(name, ModeFile, g)
		case m&fs.ModeSymlink != 0:
			err = s.add(name, ModeLink, io.LimitReader(g, maxLink))
		default:
			err = badImport("url", "the archive has an entry that is no file, directory or symbolic link: %s", vm.GuestPath(f.Name))
		}
		grown = g.out
		_ = in.Close()
		if err != nil {
			return notArchive("zip", err)
		}
	}
	return nil
}

// safeURL is a URL without its credentials.
func safeURL(raw string) string {
	from, err := parseSource(raw)
	if err != nil {
		return ""
	}
	return from.url
}
