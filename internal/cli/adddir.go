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

// addDirFlag adds --add-dir to a command that makes VMs.
func addDirFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringArrayVar(to, "add-dir", nil, "mount a directory of this host: DIR:/path:ro, or :rw with --profile dev; may repeat")
}

// addDirs reads the values of --add-dir. It resolves links here, because the
// server accepts no path with links.
func addDirs(flags []string) ([]api.NewMount, error) {
	var out []api.NewMount
	for _, f := range flags {
		rest, rw := strings.CutSuffix(f, ":rw")
		if !rw {
			rest = strings.TrimSuffix(f, ":ro")
		}
		i := strings.LastIndex(rest, ":")
		if i <= 0 || !strings.HasPrefix(rest[i+1:], "/") {
			return nil, usage("--add-dir %s is not a directory and a path", printable(f)).WithHint("write DIR:/path:ro, or DIR:/path:rw with --profile dev")
		}
		host, err := filepath.Abs(rest[:i])
		if err == nil {
			host, err = filepath.EvalSymlinks(host)
		}
		if err != nil {
			return nil, usage("--add-dir %s: %v", printable(f), err)
		}
		out = append(out, api.NewMount{Host: host, Path: rest[i+1:], RW: rw, Fixture: true})
	}
	return out, nil
}

// mayAdd refuses directories that the VM's profile does not allow, before the
// VM is made.
func mayAdd(name, profile string, list []api.NewMount) error {
	p, err := vm.FindProfile(profile)
	if err != nil || p.Folders || !slices.ContainsFunc(list, func(m api.NewMount) bool { return m.RW }) {
		return err
	}
	return p.Forbids(name, "writing to directories of the host").WithHint("use --profile %s, or mount them read-only: DIR:/path:ro", vm.ProfileDev)
}

// mountAll mounts directories in a new VM.
func mountAll(ctx context.Context, c *client.Client, name string, list []api.NewMount) error {
	for _, m := range list {
		if _, err := c.Mount(ctx, name, m); err != nil {
			return err
		}
	}
	return nil
}
