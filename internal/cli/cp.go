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

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// defaultMaxBytes is the largest file that leaves a guest unless more is asked for.
const defaultMaxBytes = "16M"

type cpOptions struct {
	src, dst  string
	recursive bool
	maxBytes  string
	user      string
}

func newCp(a *app, runF func(context.Context, *cpOptions) error) *cobra.Command {
	o := &cpOptions{}
	cmd := &cobra.Command{
		Use:   "cp [-r] SRC DST",
		Short: "Copy a file or directory into or out of a VM",
		Long: `Copy a file, or with -r a directory, into or out of a VM; one side is NAME:/path. Into a directory that is
there the copy keeps its name. "-" is standard input or output.

Into the VM files may have any size; out of it a file has at most 16 MiB unless --max-bytes allows more.
A copy appears whole or not at all. What a guest sends is not trusted: a tree with links that point outside
of it, devices, or names that lead elsewhere is refused, and nothing outside of DST is ever touched.`,
		Example: `  warren cp in.txt box:/work/in.txt
  warren cp box:/work/out.txt .
  warren cp -r ./src box:/work/
  warren cp --max-bytes 2G box:/work/model.bin model.bin`,
		Args: args(2, 2, "from where to where? warren cp SRC DST"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.src, o.dst = list[0], list[1]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return a.cp(cmd.Context(), o)
		},
		ValidArgsFunction: a.completePlace,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.recursive, "recursive", "r", false, "copy a directory with all that is in it")
	f.StringVar(&o.maxBytes, "max-bytes", defaultMaxBytes, "largest file that leaves the VM; 0 = any size")
	f.StringVar(&o.user, "user", "", "Linux user in the guest to act as (default root)")
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
	}
	limit, err := parseBytes(o.maxBytes, 1)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if dst.vm != "" {
		return a.copyIn(ctx, c, src.path, dst, o.user, o.recursive)
	}
	return a.copyOut(ctx, c, src, dst.path, o, limit)
}

// copyIn copies from this host into a guest.
func (a *app) copyIn(ctx context.Context, c *client.Client, src string, dst place, user string, recursive bool) error {
	if src == "-" {
		_, err := c.PutRaw(ctx, dst.vm, user, dst.path, 0, false, -1, a.io.in)
		return err
	}
	st, err := os.Stat(src)
	if err != nil {
		return localError(src, err)
	}
	if st.IsDir() && !recursive {
		return usage("%s is a directory", printable(src)).WithHint("copy it with -r")
	}
	to, err := inside(ctx, c, dst, user, src, st.IsDir())
	if err != nil {
		return err
	}
	p := a.io.doing("copying %s to %s", printable(src), place{vm: dst.vm, path: to})
	defer p.done()
	if st.IsDir() {
		return treeIn(ctx, c, src, dst.vm, user, to)
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
	_, err = c.PutRaw(ctx, dst.vm, user, to, uint32(st.Mode().Perm()), false, size, f)
	return err
}

// inside is the path in the guest that a copy gets: below dst when that is a
// directory, else dst itself.
func inside(ctx context.Context, c *client.Client, dst place, user, src string, dir bool) (string, error) {
	at, err := statFollowed(ctx, c, dst, user)
	switch {
	case err == nil && at.Kind == vm.FileDirectory:
		abs, err := filepath.Abs(src)
		if err != nil {
			return "", localError(src, err)
		}
		return path.Join(dst.path, filepath.Base(abs)), nil
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

// isFileNotFound tells a path that is missing from a VM that is.
func isFileNotFound(err error) bool { return vm.AsError(err).Code == "FILE_NOT_FOUND" }

// statFollowed describes what a path leads to: a trailing slash and a dot make
// the guest follow a symlink.
func statFollowed(ctx context.Context, c *client.Client, p place, user string) (vm.FileInfo, error) {
	st, err := c.Stat(ctx, p.vm, user, p.path)
	if err != nil || st.Kind != vm.FileSymlink {
		return st, err
	}
	if _, err := c.ReadDir(ctx, p.vm, user, p.path); err == nil {
		st.Kind = vm.FileDirectory
	}
	return st, nil
}

// treeIn sends a directory as one stream.
func treeIn(ctx context.Context, c *client.Client, src, name, user, to string) error {
	if err := c.Mkdir(ctx, name, user, to, 0o755, false); err != nil {
		// It may be there already: then the trees are merged.
		if st, serr := statFollowed(ctx, c, place{vm: name, path: to}, user); serr != nil || st.Kind != vm.FileDirectory {
			return err
		}
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() { // ends with the pipe, which the sender below closes
		err := packTar(w, src)
		w.CloseWithError(err)
		packed <- err
	}()
	err := c.PutTar(ctx, name, user, to, r)
	r.CloseWithError(context.Canceled)
	if perr := <-packed; perr != nil && !errors.Is(perr, context.Canceled) {
		return perr // why the stream broke off
	}
	return err
}

// copyOut copies from a guest to this host.
func (a *app) copyOut(ctx context.Context, c *client.Client, src place, dst string, o *cpOptions, limit int64) error {
	at, err := statFollowed(ctx, c, src, o.user)
	if err != nil {
		return err
	}
	dir := at.Kind == vm.FileDirectory
	switch {
	case dir && !o.recursive:
		return usage("%s is a directory", src).WithHint("copy it with -r")
	case dir && dst == "-":
		return usage("a directory cannot go to standard output").WithHint("name a directory of this host")
	case at.Kind == vm.FileOther:
		return usage("%s is neither a file nor a directory", src)
	}
	p := a.io.doing("copying %s", src)
	defer p.done()
	if dst != "-" {
		if dst, err = outside(dst, src.path, at.Path); err != nil {
			return err
		}
	}
	if dir {
		return treeOut(ctx, c, src, o.user, dst, limit)
	}
	size, r, err := c.GetRaw(ctx, src.vm, o.user, src.path, limit)
	if err != nil {
		return err
	}
	defer r.Close()
	if dst == "-" {
		_, err := io.Copy(a.io.out, r)
		return err
	}
	mode := os.FileMode(at.Mode) & 0o777
	if at.Kind == vm.FileSymlink || mode == 0 {
		mode = 0o644
	}
	return receiveFile(r, size, dst, mode|0o600)
}

// outside is the path on this host that a copy gets: below dst when that is a
// directory, else dst itself. The last name is the one that was asked for;
// where that is none, such as ".", it is the guest's and must be a plain name.
func outside(dst, asked, real string) (string, error) {
	st, err := os.Stat(dst)
	switch {
	case err == nil && st.IsDir():
		name := path.Base(path.Clean(asked))
		if name == "." || name == ".." || name == "/" {
			name = path.Base(path.Clean(real))
		}
		if name == "." || name == ".." || name == "/" {
			return "", usage("a copy of %s needs a name", printable(asked)).WithHint("give the destination a name that is not there yet")
		}
		return filepath.Join(dst, name), nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", localError(dst, err)
	case strings.HasSuffix(dst, "/") && err != nil:
		return "", vm.Errorf(vm.NotFound, printable(dst), "no such directory").WithHint("make it first, or leave out the last slash")
	}
	return filepath.Clean(dst), nil
}

// treeOut receives a directory.
func treeOut(ctx context.Context, c *client.Client, src place, user, dst string, limit int64) error {
	parent, err := os.OpenRoot(filepath.Dir(dst))
	if err != nil {
		return localError(filepath.Dir(dst), err)
	}
	defer parent.Close()
	r, err := c.GetTar(ctx, src.vm, user, src.path)
	if err != nil {
		return err
	}
	defer r.Close()
	return extractTar(r, parent, filepath.Base(dst), limit)
}
