// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type publishOptions struct {
	in       vm.PublishRequest
	gen      string
	maxBytes string
	tags     []string
	allow    []string
	json     bool
}

// defaultMoved is the limit of a publish and a fetch, unless --max-bytes sets another.
const defaultMoved = "1G"

func newPublish(a *app) *cobra.Command {
	o := &publishOptions{}
	cmd := &cobra.Command{
		Use:   "publish NAME:PATH s3://BUCKET/KEY",
		Short: "Store a file or directory of a VM as an object",
		Long: `Store a file, or a directory as tar.zst, as a new version of an object. The bytes come from a frozen state of the
disk, which a running VM is paused for, shortly; the guest's programs take no part. The version never changes. It
records its digest, the VM, the generation, and --note; so does the audit record.

If KEY is missing or ends with a slash, the file's name is added, and .tar.zst for a directory. Links that lead out
of the directory, devices, pipes and sockets are left out. Files with secrets are refused, as in warren commit: the
first MiB of each is searched.

If it fails or is interrupted, nothing is stored. A version that the scan of uploads refuses is stored, and only the
account's owner can read it.`,
		Example: "  warren publish box:/work/report.pdf s3://reports/june.pdf\n  warren publish box:site s3://reports/2026/ --note 'make site' --tag state=final",
		Args:    args(2, 2, "what, and as which object? warren publish NAME:PATH s3://BUCKET/KEY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.publish(cmd.Context(), list[0], list[1], o)
		},
		ValidArgsFunction: a.completeShipped(0),
	}
	f := cmd.Flags()
	f.StringVar(&o.in.Command, "note", "", "what made it: a command, a ticket")
	f.StringVar(&o.gen, "generation", "", "publish from this state instead of the present one")
	f.StringVar(&o.maxBytes, "max-bytes", defaultMoved, "most bytes of the files, with their holes; 0 = any number")
	f.StringArrayVar(&o.tags, "tag", nil, "tag of the object, NAME=VALUE; may repeat")
	f.StringArrayVar(&o.allow, "allow-secret", nil, "publish this file although a secret was found in it; may repeat")
	f.BoolVar(&o.in.New, "new", false, "refuse if the object exists")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// completeShipped completes a place in a VM as one argument, and an object as the other.
func (a *app) completeShipped(place int) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch len(list) {
		case place:
			return a.completePlace(cmd, list, prefix)
		case 1 - place:
			return a.completeObject(2)(cmd, list, prefix)
		}
		return nil, noFiles
	}
}

// movedBytes reads a limit of bytes.
func movedBytes(s string) (int64, error) {
	n, err := parseBytes(s, 1)
	if err == nil && (n == 0 || n > vm.MostMoved) {
		n = vm.MostMoved
	}
	return n, err
}

func (a *app) publish(ctx context.Context, from, to string, o *publishOptions) error {
	src, err := guestPlace(from)
	if err != nil {
		return err
	}
	dst, err := parseObject(to, false)
	if err != nil {
		return err
	}
	in := o.in
	in.Path, in.Bucket, in.Key, in.Generation = vm.GuestPath(src.path), dst.bucket, dst.key, vm.GenerationID(o.gen)
	if in.MaxBytes, err = movedBytes(o.maxBytes); err != nil {
		return err
	}
	if in.Tags, err = parseTags(o.tags); err != nil {
		return err
	}
	for _, p := range o.allow {
		in.AllowSecrets = append(in.AllowSecrets, vm.GuestPath(p))
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	out, err := a.publishOne(ctx, c, src, in)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(out)
	case a.io.quiet:
		a.io.printf("%s\n", published(out))
		return nil
	}
	a.io.printf("%s\n  sha256      %s\n  generation  %s\n  %-10s  %s\n", published(out), out.Object.SHA256, out.Generation, "holds", holds(out.Tree, out.Files, out.Bytes))
	return nil
}

// publishOne publishes one path, and says what is special about it.
func (a *app) publishOne(ctx context.Context, c *client.Client, src place, in vm.PublishRequest) (vm.Published, error) {
	p := a.io.doing("publishing %s", src.typed())
	defer p.done()
	out, err := c.Publish(ctx, src.vm, in)
	p.done()
	if err != nil {
		return out, err
	}
	a.notKept(out.LeftOutCount, out.LeftOut)
	if out.Object.Scan == vm.Unscanned {
		a.io.notef("it is not scanned yet: nobody can read it before")
	}
	return out, nil
}

// notKept says which devices, pipes and links that lead out of the tree were left out.
func (a *app) notKept(n int, list []vm.GuestPath) {
	if n == 0 {
		return
	}
	var some []string
	for _, p := range list[:min(len(list), 5)] {
		some = append(some, p.String())
	}
	a.io.notef("left out %d devices, pipes and links that lead out: %s", n, strings.Join(some, ", "))
}

// published is the version that a publish has made.
func published(p vm.Published) string {
	return plain(vm.ObjectRef{Bucket: p.Object.Bucket, Key: p.Object.Key, Version: p.Object.Version}.String())
}

// holds describes what was moved.
func holds(tree bool, files int, bytes int64) string {
	if !tree {
		return human(bytes)
	}
	return fmt.Sprintf("%d files and directories, %s", files, human(bytes))
}

// versionEnd is the version at the end of an object's name.
var versionEnd = regexp.MustCompile(`^(.+)@([0-9a-v]{26})$`)

// parseVersion reads s3://BUCKET/KEY[@VERSION].
func parseVersion(arg string) (vm.ObjectRef, error) {
	p, err := parseObject(arg, true)
	out := vm.ObjectRef{Bucket: p.bucket, Key: p.key}
	if m := versionEnd.FindStringSubmatch(p.key); m != nil {
		out.Key, out.Version = m[1], m[2]
	}
	return out, err
}
