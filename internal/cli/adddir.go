// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// giving is what a command that makes VMs gives them: flags.
type giving struct {
	dirs, objects, buckets []string
}

func (g *giving) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&g.dirs, "add-dir", nil, "mount a directory of this host: DIR:/path:ro, or :rw with --profile dev; may repeat")
	f.StringArrayVar(&g.objects, "mount", nil, "mount objects as files to read: s3://BUCKET/PREFIX:/path:ro; may repeat")
	f.StringArrayVar(&g.buckets, "bucket", nil, "let the VM use objects: BUCKET[/PREFIX], or BUCKET[/PREFIX]:ro to read only; may repeat")
}

// given is what giving means.
type given struct {
	mounts []api.NewMount
	grants []objectGrant
}

type objectGrant struct {
	bucket string
	api.BucketGrant
}

// read reads the flags. It resolves links here, because the server accepts no path with
// links.
func (g *giving) read() (out given, err error) {
	for _, f := range g.dirs {
		rest, path, rw, ok := cutMount(f)
		if !ok {
			return out, usage("--add-dir %s is not a directory and a path", printable(f)).WithHint("write DIR:/path:ro, or DIR:/path:rw with --profile dev")
		}
		host, err := filepath.Abs(rest)
		if err == nil {
			host, err = filepath.EvalSymlinks(host)
		}
		if err != nil {
			return out, usage("--add-dir %s: %v", printable(f), err)
		}
		out.mounts = append(out.mounts, api.NewMount{Host: host, Path: path, RW: rw, Fixture: true})
	}
	for _, f := range g.objects {
		host, path, rw, ok := cutMount(f)
		if !ok || rw || !vm.IsObjects(host) {
			return out, usage("--mount %s is not a bucket and a path to read", printable(f)).WithHint("write s3://BUCKET/PREFIX:/path:ro; a volume is mounted with --volume, a directory with --add-dir")
		}
		if _, _, err := vm.ParseObjects(host); err != nil {
			return out, err
		}
		out.mounts = append(out.mounts, api.NewMount{Host: host, Path: path})
	}
	for _, f := range g.buckets {
		rest, readOnly := strings.CutSuffix(strings.TrimPrefix(f, "s3://"), ":ro")
		bucket, prefix, _ := strings.Cut(rest, "/")
		if bucket == "" {
			return out, usage("--bucket %s names no bucket", printable(f)).WithHint("write BUCKET[/PREFIX], or BUCKET[/PREFIX]:ro")
		}
		one := objectGrant{bucket, api.BucketGrant{Prefix: prefix, Access: vm.ObjectWrite}}
		if readOnly {
			one.Access = vm.ObjectRead
		}
		out.grants = append(out.grants, one)
	}
	return out, nil
}

// cutMount cuts FROM:/path, with :ro or :rw behind it or not.
func cutMount(f string) (from, path string, rw, ok bool) {
	rest, rw := strings.CutSuffix(f, ":rw")
	if !rw {
		rest = strings.TrimSuffix(f, ":ro")
	}
	i := strings.LastIndex(rest, ":")
	if i <= 0 || !strings.HasPrefix(rest[i+1:], "/") || strings.HasPrefix(rest[i+1:], "//") {
		return "", "", false, false
	}
	return rest[:i], rest[i+1:], rw, true
}

// allowed refuses directories that the VM's profile does not allow, before the VM is made.
func (g given) allowed(name, profile string) error {
	p, err := vm.FindProfile(profile)
	if err != nil || p.Folders || !slices.ContainsFunc(g.mounts, func(m api.NewMount) bool { return m.RW }) {
		return err
	}
	return p.Forbids(name, "writing to directories of the host").WithHint("use --profile %s, or mount them read-only: DIR:/path:ro", vm.ProfileDev)
}

// give gives all to a new VM.
func (g given) give(ctx context.Context, c *client.Client, name string) error {
	for _, one := range g.grants {
		one.VM = name
		if _, err := c.GrantBucket(ctx, one.bucket, one.BucketGrant); err != nil {
			return err
		}
	}
	for _, m := range g.mounts {
		if _, err := c.Mount(ctx, name, m); err != nil {
			return err
		}
	}
	return nil
}
