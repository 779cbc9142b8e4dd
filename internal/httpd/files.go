// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

const (
	maxFile   = 256 << 20 // bytes of a file in one JSON answer
	copyBytes = 256 << 10
	keepAlive = 30 * time.Second // interval of blank lines in a quiet watch
)

// getFile sends a file's content or a directory's entries.
func (s *server) getFile(q *request) error {
	st, err := s.Inside.Stat(q.Context(), q.call, q.ref(), q.user(), q.path())
	if err == nil && st.Kind == vm.FileDirectory {
		return s.listFiles(q)
	}
	if err != nil && vm.KindOf(err) != vm.NotFound {
		return err
	}
	// Opening follows a symlink.
	st, r, err := s.Inside.OpenFile(q.Context(), q.call, q.ref(), q.user(), q.path())
	if err != nil {
		if l, listErr := s.Inside.ReadDir(q.Context(), q.call, q.ref(), q.user(), q.path()); listErr == nil {
			return q.ok(listing(l))
		}
		return err
	}
	defer r.Close()
	tooLarge := vm.Errorf(vm.Limit, q.path(), "is larger than %d bytes, the maximum for one answer", maxFile).
		WithCode("FILES_BAD_REQUEST").WithHint("use GET /v1/vms/{id}/raw/{path}")
	if st.Size > maxFile {
		return tooLarge
	}
	if st.Size > maxBody {
		if err := q.reserve(4 * st.Size); err != nil {
			return err
		}
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return vm.Errorf(vm.GuestFault, q.path(), "the guest sent less than the file: %w", err)
	}
	if len(data) > maxFile {
		return tooLarge
	}
	return q.ok(api.FileContent{Content: base64.StdEncoding.EncodeToString(data), Encoding: "base64"})
}

func (s *server) listFiles(q *request) error {
	l, err := s.Inside.ReadDir(q.Context(), q.call, q.ref(), q.user(), q.path())
	if err != nil {
		return err
	}
	return q.ok(listing(l))
}

// listing converts a directory to the contract's form, which knows only files and
// directories.
func listing(l []vm.FileInfo) api.DirListing {
	out := api.DirListing{Files: []api.DirEntry{}}
	for _, f := range l {
		kind := "file"
		if f.Kind == vm.FileDirectory {
			kind = "directory"
		}
		out.Files = append(out.Files, api.DirEntry{Name: f.Name, Kind: kind})
	}
	return out
}

func (s *server) putFile(q *request) error {
	var in api.FileContent
	if err := q.decode(&in, maxFileBody); err != nil {
		return err
	}
	data, err := content(in.Content, in.Encoding)
	if err != nil {
		return err
	}
	o := vm.WriteOptions{Parents: true, Size: int64(len(data))}
	if _, err := s.Inside.WriteFile(q.Context(), q.call, q.ref(), q.user(), q.path(), o, bytes.NewReader(data)); err != nil {
		return err
	}
	return q.ok(okBody{})
}

// where returns the path in the query.
func (q *request) where() (string, error) {
	p := q.query().Get("path")
	if p == "" {
		return "", vm.Errorf(vm.Invalid, "path", "no path is given").WithHint("add ?path=")
	}
	return p, nil
}

func (s *server) stat(q *request) error {
	p, err := q.where()
	if err != nil {
		return err
	}
	st, err := s.Inside.Stat(q.Context(), q.call, q.ref(), q.user(), p)
	if err != nil {
		return err
	}
	return q.ok(st)
}

func (s *server) readDir(q *request) error {
	p, err := q.where()
	if err != nil {
		return err
	}
	l, err := s.Inside.ReadDir(q.Context(), q.call, q.ref(), q.user(), p)
	if err != nil {
		return err
	}
	if l == nil {
		l = []vm.FileInfo{}
	}
	return q.ok(api.FileList{Files: l})
}

// op decodes a change of the directory tree and carries it out.
func (s *server) op(q *request, do func(in api.FileOp) error) error {
	var in api.FileOp
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.Path == "" && in.From == "" {
		return vm.Errorf(vm.Invalid, "path", "no path is given")
	}
	if err := do(in); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) mkdir(q *request) error {
	return s.op(q, func(in api.FileOp) error {
		return s.Inside.Mkdir(q.Context(), q.call, q.ref(), q.user(), in.Path, in.Mode, in.Parents)
	})
}

func (s *server) rename(q *request) error {
	return s.op(q, func(in api.FileOp) error {
		if in.From == "" || in.To == "" {
			return vm.Errorf(vm.Invalid, "rename", "needs from and to")
		}
		return s.Inside.Rename(q.Context(), q.call, q.ref(), q.user(), in.From, in.To)
	})
}

func (s *server) remove(q *request) error {
	return s.op(q, func(in api.FileOp) error {
		return s.Inside.Remove(q.Context(), q.call, q.ref(), q.user(), in.Path, in.Recursive)
	})
}

func (s *server) chmod(q *request) error {
	return s.op(q, func(in api.FileOp) error {
		return s.Inside.Chmod(q.Context(), q.call, q.ref(), q.user(), in.Path, in.Mode)
	})
}

func (s *server) symlink(q *request) error {
	return s.op(q, func(in api.FileOp) error {
		if in.Target == "" {
			return vm.Errorf(vm.Invalid, "symlink", "needs a target")
		}
		return s.Inside.Symlink(q.Context(), q.call, q.ref(), q.user(), in.Target, in.Path)
	})
}

// getRaw streams a file with its length first and its digest last. If the guest sends
// less than announced, the connection is cut.
func (s *server) getRaw(q *request) error {
	limit, err := q.int("maxBytes", 0)
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	st, r, err := s.Inside.OpenFile(ctx, q.call, q.ref(), q.user(), q.path())
	if err != nil {
		return err
	}
	defer r.Close()
	size, content, err := measured(st, r)
	if err != nil {
		return err
	}
	if limit > 0 && size > limit {
		return vm.Errorf(vm.Limit, q.path(), "has %d bytes, more than the %d that were allowed", size, limit).
			WithCode("FILES_BAD_REQUEST", "size", size).WithHint("allow more: `warren cp --max-bytes %d`", size)
	}
	h := q.w.Header()
	h.Set(api.HeaderLength, strconv.FormatInt(size, 10))
	h.Set("Trailer", api.HeaderDigest)
	q.header("application/octet-stream")
	q.w.WriteHeader(http.StatusOK)
	n, err := io.CopyBuffer(onlyWriter{q.w}, onlyReader{io.LimitReader(content, size)}, make([]byte, copyBytes))
	if err != nil || n != size {
		return errors.Join(vm.Errorf(vm.GuestFault, q.path(), "only %d of %d bytes arrived", n, size), err)
	}
	if _, err := io.ReadFull(content, make([]byte, 1)); !errors.Is(err, io.EOF) {
		return errors.Join(vm.Errorf(vm.GuestFault, q.path(), "the file continues after %d bytes", size), err)
	}
	h.Set(api.HeaderDigest, r.SHA256())
	return nil
}

// maxUnmeasured bounds files whose length is known only after reading them.
const maxUnmeasured = 16 << 20

// measured returns a file's length and content. Kernel files report a length of zero or
// one page whatever they contain, so they are read first.
func measured(st vm.FileInfo, r io.Reader) (int64, io.Reader, error) {
	if st.Size > 0 && !strings.HasPrefix(st.Path, "/proc/") && !strings.HasPrefix(st.Path, "/sys/") {
		return st.Size, r, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, maxUnmeasured+1))
	switch {
	case err != nil:
		return 0, nil, vm.Errorf(vm.GuestFault, st.Path, "the guest sent less than the file: %w", err)
	case len(data) > maxUnmeasured:
		return 0, nil, vm.Errorf(vm.Limit, st.Path, "does not say its length and has more than %d bytes", maxUnmeasured).
			WithCode("FILES_BAD_REQUEST").WithHint("read it with a command")
	}
	return int64(len(data)), bytes.NewReader(data), nil
}

// onlyWriter and onlyReader hide methods for which io.Copy would use small buffers.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// putRaw writes a file of any size, completely or not at all.
func (s *server) putRaw(q *request) error {
	mode, err := strconv.ParseUint(orDefault(q.query().Get("mode"), "0"), 8, 32)
	if err != nil {
		return vm.Errorf(vm.Invalid, "mode", "not an octal number")
	}
	parents, err := q.bool("parents")
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	sum := sha256.New()
	o := vm.WriteOptions{Mode: uint32(mode), Parents: parents, Size: q.ContentLength}
	st, err := s.Inside.WriteFile(ctx, q.call, q.ref(), q.user(), q.path(), o, io.TeeReader(q.Body, sum))
	if err != nil {
		return err
	}
	return q.ok(api.WrittenFile{File: st, Digest: hex.EncodeToString(sum.Sum(nil))})
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func (s *server) getTar(q *request) error {
	ctx, cancel := s.streaming(q)
	defer cancel()
	r, err := s.Inside.TarDown(ctx, q.call, q.ref(), q.user(), q.path())
	if err != nil {
		return err
	}
	defer r.Close()
	q.w.Header().Set("Trailer", api.HeaderEnd)
	q.header("application/x-tar")
	q.w.WriteHeader(http.StatusOK)
	if _, err := io.CopyBuffer(onlyWriter{q.w}, onlyReader{r}, make([]byte, copyBytes)); err != nil {
		return vm.Errorf(vm.GuestFault, q.path(), "the tree is incomplete: %w", err)
	}
	q.w.Header().Set(api.HeaderEnd, "ok")
	return nil
}

func (s *server) putTar(q *request) error {
	ctx, cancel := s.streaming(q)
	defer cancel()
	if err := s.Inside.TarUp(ctx, q.call, q.ref(), q.user(), q.path(), q.Body); err != nil {
		return err
	}
	return q.ok(okBody{})
}

// maxWatched bounds the paths of one watch.
const maxWatched = 64

// watchFiles watches the paths in the query and everything below them; without paths, as
// the contract requires, the working directory.
func (s *server) watchFiles(q *request) error {
	paths := q.query()["path"]
	switch {
	case len(paths) == 0:
		paths = []string{"."}
	case len(paths) > maxWatched:
		return vm.Errorf(vm.Invalid, "path", "%d paths are more than the %d of one watch", len(paths), maxWatched).WithHint("watch a directory above them")
	case slices.Contains(paths, ""):
		return vm.Errorf(vm.Invalid, "path", "is empty")
	}
	return s.stream(q, paths, true)
}

func (s *server) watch(q *request) error {
	p, err := q.where()
	if err != nil {
		return err
	}
	recursive, err := q.bool("recursive")
	if err != nil {
		return err
	}
	return s.stream(q, []string{p}, recursive)
}

// stream sends the changes below paths as JSON lines until one path is gone. Blank lines
// in between show that the connection is alive.
func (s *server) stream(q *request, paths []string, recursive bool) error {
	ctx, cancel := s.streaming(q)
	changes := make(chan vm.FileEvent)
	ended := make(chan error, len(paths))
	var readers sync.WaitGroup
	defer func() { cancel(); readers.Wait() }()
	for _, p := range paths {
		w, err := s.Inside.Watch(ctx, q.call, q.ref(), q.user(), p, recursive)
		if err != nil {
			return err
		}
		defer func() { _ = w.Close() }() // its reader reports the error
		readers.Go(func() { ended <- follow(ctx, w, changes) })
	}
	l := q.ndjson()
	l.f.Flush()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case e := <-changes:
			if err := l.message(e); err != nil {
				return nil // gone
			}
		case <-tick.C:
			if _, err := q.w.Write([]byte{'\n'}); err != nil {
				return nil
			}
			l.f.Flush()
		case err := <-ended:
			s.Log.Debug("watch ended", "request", q.call.Request, "err", err)
			if err != nil && ctx.Err() == nil {
				_ = l.message(s.errorBody(q.Context(), err, q.call, q.ref())) // the last line is the error
			}
			return nil
		}
	}
}

// follow passes changes on until the watch ends, which is no error.
func follow(ctx context.Context, w engine.Watch, changes chan<- vm.FileEvent) error {
	for {
		e, err := w.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		select {
		case changes <- e:
		case <-ctx.Done():
			return nil
		}
	}
}
