// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type fetchOptions struct {
	in       vm.FetchRequest
	maxBytes string
	unpack   bool
	json     bool
}

func newFetch(a *app) *cobra.Command {
	o := &fetchOptions{}
	cmd := &cobra.Command{
		Use:   "fetch s3://BUCKET/KEY[@VERSION] NAME:PATH",
		Short: "Bring an object into a VM",
		Long: `Bring a version of an object into a VM. The bytes are compared with the digest of the version; PATH appears whole
or not at all. A file goes into an existing directory, and replaces a file. PATH/ is the directory that gets the
file or directory under its own name.

An object that was published from a directory is unpacked: PATH becomes that directory, with owners, modes and
times. Set-id bits, attributes other than those of users, devices and pipes stay behind. With --unpack, other
archives (tar, tar.gz, tar.zst) are unpacked; PATH becomes a directory with what the archive holds.

An object that no scan has passed yet, or that a scan has refused, is not brought into a VM.`,
		Example: "  warren fetch s3://data/input.csv box:/work/\n  warren fetch s3://reports/site.tar.zst box:/work/site\n  warren fetch s3://inbox/upload.tar.gz box:/work/upload --unpack",
		Args:    args(2, 2, "which object, and where to? warren fetch s3://BUCKET/KEY NAME:PATH"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if cmd.Flags().Changed("unpack") {
				o.in.Unpack = &o.unpack
			}
			return a.fetch(cmd.Context(), list[0], list[1], o)
		},
		ValidArgsFunction: a.completeShipped(1),
	}
	f := cmd.Flags()
	f.StringVar(&o.maxBytes, "max-bytes", defaultMoved, "most bytes of the object, and unpacked; 0 = any number")
	f.BoolVar(&o.unpack, "unpack", false, "unpack an archive; --unpack=false brings the archive itself")
	f.BoolVar(&o.in.Replace, "replace", false, "replace what is at PATH by a directory")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) fetch(ctx context.Context, from, to string, o *fetchOptions) error {
	src, err := parseVersion(from)
	if err != nil {
		return err
	}
	dst, err := guestPlace(to)
	if err != nil {
		return err
	}
	in := o.in
	in.ObjectRef, in.Path = src, vm.GuestPath(dst.path)
	if in.MaxBytes, err = movedBytes(o.maxBytes); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	out, err := a.fetchOne(ctx, c, dst.vm, in)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(out)
	case a.io.quiet:
		a.io.printf("%s\n", out.Path)
		return nil
	}
	a.io.printf("%s:%s\n  from        %s\n  sha256      %s\n  %-10s  %s\n", printable(dst.vm), out.Path, fetchedFrom(out), out.SHA256, "holds", holds(out.Tree, out.Files, out.Bytes))
	return nil
}

// fetchedFrom is the version that a fetch has brought.
func fetchedFrom(f vm.Fetched) string {
	return plain(vm.ObjectRef{Bucket: f.Object.Bucket, Key: f.Object.Key, Version: f.Object.Version}.String())
}

// fetchOne brings one object into a VM.
func (a *app) fetchOne(ctx context.Context, c *client.Client, name string, in vm.FetchRequest) (vm.Fetched, error) {
	p := a.io.doing("fetching %s", plain(in.ObjectRef.String()))
	defer p.done()
	out, err := c.Fetch(ctx, name, in)
	p.done()
	if err == nil {
		a.notKept(out.LeftOutCount, out.LeftOut)
	}
	return out, err
}
