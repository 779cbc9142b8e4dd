// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// defaultMaxBytes limits the size of a file that is copied out of a guest, unless
// --max-bytes sets another limit.
const defaultMaxBytes = "16M"

type cpOptions struct {
	src, dst  string
	recursive bool
	maxBytes  string
	user      string
	quiet     bool
	json      bool
}

func newCp(a *app) *cobra.Command {
	o := &cpOptions{}
	cmd := &cobra.Command{
		Use:   "cp [-r] SRC DST",
		Short: "Copy a file or directory into or out of a VM",
		Long: `Copy a file, or with -r a directory, into or out of a VM; one side is NAME:PATH, where NAME: alone is the VM's
working directory. "-" is standard input or output.

If DST is an existing directory, the copy goes into it and keeps its name. Otherwise DST is the new name, and its
parent directory must exist. SRC/. means the contents of the directory SRC. A slash at the end of SRC means
nothing; a slash at the end of DST says that DST must be a directory. An existing directory is merged: files that
only it has stay, files of the same path are replaced. A file never replaces a directory, and a directory never
replaces a file.

  cp -r src box:app       app is not there: src becomes app.  app is there: src becomes app/src
  cp -r src/. box:app     the files of src become files of app, in addition to those it has

Links that lead out of the tree (absolute links do), devices, pipes and sockets are left out. stderr names the
first five, --json the first hundred. The exit status is 0, because everything else was copied.

A file copied into the VM may have any size; a file copied out has at most 16 MiB unless --max-bytes allows more.
A file, or a tree copied out of a VM, appears whole or not at all. Warren does not trust what a guest sends: it
refuses a tree with names that lead outside DST, and never touches anything outside DST.

On a terminal stderr shows the progress, and at the end the size; -q turns that off.

` + aboutWorkdir,
		Example: `  warren cp in.txt box:
  warren cp box:/work/out.txt .
  warren cp -r ./src box:/work/
  warren cp -r box:app/. app
  warren cp --max-bytes 2G box:/work/model.bin model.bin
  warren cp -r box:site . --json | jq .leftOut`,
		Args: args(2, 2, "from where to where? warren cp SRC DST"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.src, o.dst = list[0], list[1]
			return a.cp(cmd.Context(), o)
		},
		ValidArgsFunction: a.completePlace,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.recursive, "recursive", "r", false, "copy a directory with everything in it")
	f.StringVar(&o.maxBytes, "max-bytes", defaultMaxBytes, "largest file to copy out of the VM; 0 = any size")
	f.StringVar(&o.user, "user", "", "Linux user in the guest to act as (default root)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show neither progress nor the size")
	f.BoolVar(&o.json, "json", false, "print what was copied as JSON")
	return cmd
}

func (a *app) cp(ctx context.Context, o *cpOptions) error {
	src, dst := parsePlace(o.src), parsePlace(o.dst)
	switch {
	case o.src == "" || o.dst == "":
		return usage("an empty path").WithHint("write `warren cp SRC DST`")
	case src.vm != "" && dst.vm != "":
		return usage("both sides are in a VM").WithHint("copy to this host first; a local name with a colon is written ./%s", o.src)
	case src.vm == "" && dst.vm == "":
		return usage("neither side is in a VM").WithHint("write one side as NAME:/path")
	case o.json && o.dst == "-":
		return usage("--json and the file would both be written to standard output").WithHint("omit one of them")
	}
	limit, err := parseBytes(o.maxBytes, 1)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	cp := copying{app: a, c: c, user: o.user, recursive: o.recursive, limit: limit, quiet: o.quiet || o.dst == "-"}
	var done copied
	if dst.vm != "" {
		done, err = cp.in(ctx, src.path, dst)
	} else {
		done, err = cp.out(ctx, src, dst.path)
	}
	if err != nil {
		return err
	}
	a.io.tellLeftOut(done)
	if o.json {
		return a.io.json(done)
	}
	return nil
}

// copying holds the options of a copy.
type copying struct {
	app       *app
	c         *client.Client
	user      string
	recursive bool
	limit     int64 // limit of bytes a file out of the VM; 0 = none
	quiet     bool  // neither progress nor a last line
}

// watched runs a copy. On a terminal it shows the progress, and the size at the
// end.
func (cp *copying) watched(from, to string, do func(t *transfer) error) (copied, error) {
	t, s := newTransfer(), cp.app.io
	if cp.quiet {
		err := do(t)
		return t.result(from, to), err
	}
	p := s.progress(func() string { return t.progress(time.Since(t.began)) + "  " + from + " to " + to })
	defer p.done()
	err := do(t)
	if p.done(); err == nil && s.errTTY {
		s.notef("copied %s to %s", human(t.bytes.Load()), printable(to))
	}
	return t.result(from, to), err
}

// in copies from this host into a guest.
func (cp *copying) in(ctx context.Context, src string, dst place) (copied, error) {
	if src == "-" {
		return cp.watched(src, dst.typed(), func(t *transfer) error {
			t.files.Add(1)
			_, err := cp.c.PutRaw(ctx, dst.vm, cp.user, dst.path, 0, false, -1, t.counted(cp.app.io.in))
			return err
		})
	}
	st, err := os.Stat(src)
	if err != nil {
		return copied{}, localError(src, err)
	}
	if st.IsDir() && !cp.recursive {
		return copied{}, usage("%s is a directory", printable(src)).WithHint("copy it with -r")
	}
	to, err := cp.inside(ctx, dst, src, st.IsDir())
	if err != nil {
		return copied{}, err
	}
	dst.path = to
	return cp.watched(src, dst.typed(), func(t *transfer) error {
		if st.IsDir() {
			return cp.treeIn(ctx, src, dst, t)
		}
		f, err := os.Open(src)
		if err != nil {
			return localError(src, err)
		}
		defer f.Close()
		size := int64(-1)
		if st.Mode().IsRegular() {
			size = st.Size()
		}
		t.size.Store(size)
		t.files.Add(1)
		_, err = cp.c.PutRaw(ctx, dst.vm, cp.user, to, uint32(st.Mode().Perm()), false, size, t.counted(f))
		return err
	})
}

// lastName returns the name of a path's copy. It is "" if the path means the
// contents of a directory.
func lastName(p string) string {
	switch name := path.Base(p); name {
	case ".", "..", "/":
		return ""
	default:
		return name
	}
}

// inside returns the path in the guest to copy to: below dst if that is a
// directory, else dst itself.
func (cp *copying) inside(ctx context.Context, dst place, src string, dir bool) (string, error) {
	at, err := cp.statFollowed(ctx, dst)
	switch {
	case err == nil && at.Kind == vm.FileDirectory:
		return path.Join(dst.path, lastName(filepath.ToSlash(src))), nil
	case err == nil && dir:
		return "", vm.Errorf(vm.Exists, dst.String(), "is not a directory").WithHint("copy to another name")
	case err == nil && strings.HasSuffix(dst.path, "/"):
		return "", usage("%s is not a directory", dst)
	case err == nil:
		return dst.path, nil
	case !errors.Is(err, vm.NotFound) || !isFileNotFound(err):
		return "", err
	case strings.HasSuffix(dst.path, "/") && !dir:
		return "", vm.Errorf(vm.NotFound, dst.String(), "no such directory in the VM").
			WithHint("make it first: `warren fs mkdir -p %s`", dst)
	}
	return dst.path, nil
}

// isFileNotFound reports whether the path is missing, rather than the VM.
func isFileNotFound(err error) bool { return vm.AsError(err).Code == "FILE_NOT_FOUND" }

// statFollowed describes what a path leads to: a trailing slash and a dot make
// the guest follow a symlink.
func (cp *copying) statFollowed(ctx context.Context, p place) (vm.FileInfo, error) {
	st, err := cp.c.Stat(ctx, p.vm, cp.user, p.path)
	if err != nil || st.Kind != vm.FileSymlink {
		return st, err
	}
	if _, err := cp.c.ReadDir(ctx, p.vm, cp.user, p.path); err == nil {
		st.Kind = vm.FileDirectory
	}
	return st, nil
}

// treeIn sends a directory as one stream.
func (cp *copying) treeIn(ctx context.Context, src string, dst place, t *transfer) error {
	if err := cp.c.Mkdir(ctx, dst.vm, cp.user, dst.path, 0o755, false); err != nil {
		// If it exists already, the trees are merged.
		if st, serr := cp.statFollowed(ctx, dst); serr != nil || st.Kind != vm.FileDirectory {
			return err
		}
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() { // ends when the sender below closes the pipe
		err := packTar(w, src, t)
		w.CloseWithError(err)
		packed <- err
	}()
	err := cp.c.PutTar(ctx, dst.vm, cp.user, dst.path, r)
	r.CloseWithError(context.Canceled)
	if perr := <-packed; perr != nil && !errors.Is(perr, context.Canceled) {
		return perr // why the stream broke
	}
	return err
}

// out copies from a guest to this host.
func (cp *copying) out(ctx context.Context, src place, dst string) (copied, error) {
	at, err := cp.statFollowed(ctx, src)
	if err != nil {
		return copied{}, err
	}
	dir := at.Kind == vm.FileDirectory
	switch {
	case dir && !cp.recursive:
		return copied{}, usage("%s is a directory", src).WithHint("copy it with -r")
	case dir && dst == "-":
		return copied{}, usage("a directory cannot go to standard output").WithHint("name a directory of this host")
	case at.Kind == vm.FileOther:
		return copied{}, usage("%s is neither a file nor a directory", src)
	}
	if dst != "-" {
		if dst, err = outside(dst, src.path, dir); err != nil {
			return copied{}, err
		}
	}
	ctx = client.WithDestination(ctx, onThisHost(dst))
	return cp.watched(src.typed(), filepath.Clean(dst), func(t *transfer) error {
		if dir {
			return cp.treeOut(ctx, src, dst, t)
		}
		return cp.fileOut(ctx, src, dst, at, t)
	})
}

// onThisHost describes a path of this computer for the server's records.
func onThisHost(path string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	if abs, err := filepath.Abs(path); err == nil && path != "-" {
		path = abs
	}
	return host + ":" + path
}

// fileOut receives a file.
func (cp *copying) fileOut(ctx context.Context, src place, dst string, at vm.FileInfo, t *transfer) error {
	size, r, err := cp.c.GetRaw(ctx, src.vm, cp.user, src.path, cp.limit)
	if err != nil {
		return err
	}
	defer r.Close()
	t.size.Store(size)
	t.files.Add(1)
	if dst == "-" {
		w := cp.app.io.guestWriter(false)
		_, err := io.Copy(w, t.counted(r))
		return errors.Join(err, w.Close())
	}
	mode := os.FileMode(at.Mode) & 0o777
	if at.Kind == vm.FileSymlink || mode == 0 {
		mode = 0o644
	}
	return receiveFile(t.counted(r), size, dst, mode|0o600)
}

// outside returns the path on this host to copy to: below dst if that is a
// directory, else dst itself. The name comes from the command line, never from
// the guest.
func outside(dst, asked string, dir bool) (string, error) {
	st, err := os.Stat(dst)
	switch {
	case err == nil && st.IsDir() && lastName(asked) == "":
		return filepath.Clean(dst) + "/.", nil
	case err == nil && st.IsDir():
		return filepath.Join(dst, lastName(asked)), nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", localError(dst, err)
	case strings.HasSuffix(dst, "/") && err != nil && !dir:
		return "", vm.Errorf(vm.NotFound, printable(dst), "no such directory").WithHint("make it first, or leave out the last slash")
	}
	return filepath.Clean(dst), nil
}

// treeOut receives a directory. "." as the last name of dst stands for the
// directory before it.
func (cp *copying) treeOut(ctx context.Context, src place, dst string, t *transfer) error {
	parent, err := os.OpenRoot(filepath.Dir(dst))
	if err != nil {
		return localError(filepath.Dir(dst), err)
	}
	defer parent.Close()
	r, err := cp.c.GetTar(ctx, src.vm, cp.user, src.path)
	if err != nil {
		return err
	}
	defer r.Close()
	return extractTar(r, parent, filepath.Base(dst), cp.limit, t)
}
