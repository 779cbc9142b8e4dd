// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"archive/tar"
	"archive/zip"
	"context"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Archive writes the files of a revision ("" = the default branch) as a "tar" or "zip".
// It writes what was committed: attributes in the repository, such as export-subst, have
// no effect. A submodule becomes an empty directory.
func (r *Repo) Archive(ctx context.Context, c *vm.Call, ref, rev, format string, w io.Writer) error {
	rec, err := r.Get(ctx, c, ref)
	if err != nil {
		return err
	}
	commit, err := r.Resolve(ctx, c, rec.ID, rev)
	if err != nil {
		return err
	}
	date, err := r.output(ctx, rec.ID, "log", "-1", "--format=%ct", commit)
	if err != nil {
		return err
	}
	at := unixTime(strings.TrimSpace(string(date)))
	list, err := r.files(ctx, rec.ID, commit)
	if err != nil {
		return err
	}
	var out archiver = &tarArchiver{w: tar.NewWriter(w), at: at}
	if format == "zip" {
		out = &zipArchiver{w: zip.NewWriter(w), at: at}
	}
	if err := r.fillArchive(ctx, rec.ID, list, out); err != nil {
		return err
	}
	return out.close()
}

// archiver writes entries of an archive in one format.
type archiver interface {
	dir(name string) error
	file(name string, mode uint32, size int64, in io.Reader) error
	close() error
}

func (r *Repo) fillArchive(ctx context.Context, id string, list []vm.TreeEntry, out archiver) error {
	made := map[string]bool{"": true}
	parents := func(name string) error {
		var missing []string
		for d := parent(name); !made[d]; d = parent(d) {
			made[d] = true
			missing = append(missing, d)
		}
		for i := len(missing) - 1; i >= 0; i-- {
			if err := out.dir(missing[i] + "/"); err != nil {
				return err
			}
		}
		return nil
	}
	var blobs []vm.TreeEntry
	for _, e := range list {
		if e.Path == "" || !fs.ValidPath(e.Path) {
			return vm.Errorf(vm.Corrupt, id, "the commit contains a path that leads elsewhere")
		}
		if e.Mode == modeModule {
			if err := parents(e.Path + "/x"); err != nil {
				return err
			}
			continue
		}
		blobs = append(blobs, e)
	}
	return r.eachBlobStream(ctx, id, blobs, func(i int, size int64, in io.Reader) error {
		if err := parents(blobs[i].Path); err != nil {
			return err
		}
		return out.file(blobs[i].Path, blobs[i].Mode, size, in)
	})
}

// parent is the directory of a path; "" = the root.
func parent(name string) string {
	if d := path.Dir(name); d != "." {
		return d
	}
	return ""
}

type tarArchiver struct {
	w  *tar.Writer
	at time.Time
}

func (t *tarArchiver) dir(name string) error {
	return t.w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: t.at, Format: tar.FormatPAX})
}

func (t *tarArchiver) file(name string, mode uint32, size int64, in io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: t.at, Format: tar.FormatPAX}
	switch mode {
	case ModeProgram:
		h.Mode = 0o755
	case ModeLink:
		target, err := linkTarget(in)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Size, h.Mode = tar.TypeSymlink, target, 0, 0o777
		in = strings.NewReader("")
	}
	if strings.ContainsRune(name+h.Linkname, 0) {
		return vm.Errorf(vm.Corrupt, "", "the commit contains a name that no archive can hold")
	}
	if err := t.w.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t.w, in)
	return err
}

func (t *tarArchiver) close() error { return t.w.Close() }

// maxLink bounds the target of a symbolic link.
const maxLink = 4096

func linkTarget(in io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxLink))
	return string(data), err
}

type zipArchiver struct {
	w  *zip.Writer
	at time.Time
}

func (z *zipArchiver) dir(name string) error {
	h := &zip.FileHeader{Name: name, Modified: z.at}
	h.SetMode(fs.ModeDir | 0o755)
	_, err := z.w.CreateHeader(h)
	return err
}

func (z *zipArchiver) file(name string, mode uint32, _ int64, in io.Reader) error {
	h := &zip.FileHeader{Name: name, Modified: z.at, Method: zip.Deflate}
	switch mode {
	case ModeProgram:
		h.SetMode(0o755)
	case ModeLink:
		h.SetMode(fs.ModeSymlink | 0o777)
	default:
		h.SetMode(0o644)
	}
	w, err := z.w.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

func (z *zipArchiver) close() error { return z.w.Close() }
