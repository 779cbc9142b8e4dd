// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// defaultMaxBytes is the largest file that leaves a guest unless more is asked for.
const defaultMaxBytes = "16M"

const (
	defaultMaxTotal   = 256 << 20 // bytes of a tree
	defaultMaxEntries = 10_000    // entries of a tree
	maxDepth          = 100       // of a tree
)

// limits bound what a guest can put on this host.
type limits struct {
	file    int64 // bytes of one file
	total   int64 // bytes of all files
	entries int
}

func defaultLimits(file int64) limits {
	return limits{file: file, total: max(defaultMaxTotal, file), entries: defaultMaxEntries}
}

type cpOptions struct {
	app        *app
	src, dst   string
	recursive  bool
	modes      bool
	maxBytes   string
	maxTotal   string
	maxEntries int
	user       string
}

func newCp(a *app, runF func(context.Context, *cpOptions) error) *cobra.Command {
	o := &cpOptions{app: a}
	cmd := &cobra.Command{
		Use:   "cp [-r] SRC DST",
		Short: "copy a file or directory into or out of a VM",
		Long: `Copy a file, or with -r a directory, into or out of a VM. One side is NAME:/path; a relative path there
begins at the VM's working directory. "-" is standard input or output.

Into the VM files may have any size. Out of it one file has at most 16 MiB unless --max-bytes allows more, a
directory at most 256 MiB and 10000 entries. A copy appears whole or not at all. What a guest sends is not
trusted: links that point outside of the copied directory, devices and pipes are left out and reported, and
execute permission is dropped unless -p keeps it; nothing outside of DST is ever touched.`,
		Example: `  warren cp in.txt box:/work/in.txt
  warren cp box:/work/out.txt .
  warren cp -r ./src box:/work/
  warren cp --max-bytes 2G box:/work/model.bin model.bin
  warren cp box:/var/log/syslog - | tail`,
		Args: args(2, 2, "from where to where? give SRC and DST"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.src, o.dst = list[0], list[1]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.recursive, "recursive", "r", false, "copy a directory with all in it")
	fs.BoolVarP(&o.modes, "preserve", "p", false, "keep permissions of what leaves the VM, never setuid and setgid")
	fs.StringVar(&o.maxBytes, "max-bytes", defaultMaxBytes, "largest file that leaves the VM")
	fs.StringVar(&o.maxTotal, "max-total", "256M", "most bytes of a directory that leaves the VM")
	fs.IntVar(&o.maxEntries, "max-entries", defaultMaxEntries, "most entries of a directory that leaves the VM")
	fs.StringVarP(&o.user, "user", "u", "", "Linux user of the VM to act as (default root)")
	return cmd
}

func (o *cpOptions) limits() (limits, error) {
	l := limits{entries: o.maxEntries}
	var err error
	if l.file, err = parseBytes(o.maxBytes, 1); err != nil {
		return l, err
	}
	if l.total, err = parseBytes(o.maxTotal, 1); err != nil {
		return l, err
	}
	if l.file < 1 || l.total < 1 || l.entries < 1 {
		return l, usage("a limit must be at least 1")
	}
	l.total = max(l.total, l.file)
	return l, nil
}

func (o *cpOptions) run(ctx context.Context) error {
	src, dst := parsePlace(o.src), parsePlace(o.dst)
	switch {
	case o.src == "" || o.dst == "":
		return usage("an empty path")
	case src.vm != "" && dst.vm != "":
		return usage("both sides are in a VM").WithHint("copy to this host first; write ./%s for a local file with a colon in its name", quote(o.src))
	case src.vm == "" && dst.vm == "":
		return usage("neither side is in a VM").WithHint("write one side as NAME:/path")
	}
	l, err := o.limits()
	if err != nil {
		return err
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	c = c.As(o.user)
	if dst.vm != "" {
		up := &upload{app: o.app, c: c, src: src.path, dst: dst, recursive: o.recursive}
		return up.run(ctx)
	}
	down := &download{app: o.app, c: c, src: src, dst: dst.path, recursive: o.recursive, modes: o.modes, limits: l}
	return down.run(ctx)
}
