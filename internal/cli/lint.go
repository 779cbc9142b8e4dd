// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

// finding is a thing that a smaller mechanism could replace.
type finding struct {
	Rule    string `json:"rule"`
	Subject string `json:"subject"` // a snapshot, a VM and its path, a file and its line
	Why     string `json:"why"`
	Instead string `json:"instead"` // the smaller mechanism
}

// The rules of lint.
const (
	ruleUnused   = "snapshot-unused"  // nothing starts from it
	ruleJob      = "snapshot-of-job"  // from a VM whose result is a file
	ruleSecrets  = "snapshot-volume"  // its memory may contain files of an encrypted volume
	ruleShare    = "writable-share"   // a volume that a writer shares with readers
	ruleHost     = "writable-folder"  // a folder of the host that a guest writes to
	ruleSpecFile = "spec-layer-files" // a layer that holds files only
)

type lintOptions struct {
	json  bool
	files []string
}

func newLint(a *app) *cobra.Command {
	o := &lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint [FILE...]",
		Short: "Find snapshots and shares that something simpler could replace",
		Long: `Look for snapshots that an output file could replace, and for writable shares that a managed volume could replace:
among the snapshots, VMs and mounts of the server, or, with files, in scripts that call warren and in specs
(JSON). With files, no server is asked. The command changes nothing.

  snapshot-unused    nothing was started from it, and the VM that it could bring back is gone
  snapshot-of-job    of a VM of the profile untrusted, whose results are files
  snapshot-volume    its memory may hold files of an encrypted volume
  writable-share     a VM writes to a volume that other VMs read at the same time
  writable-folder    a guest writes to a folder of the host, outside of --profile dev
  spec-layer-files   a layer of a spec that holds files and nothing that runs

Exit status: 0 if nothing was found, 6 otherwise.`,
		Example: "  warren lint\n  warren lint --json\n  warren lint deploy.sh shop.json",
		RunE: func(cmd *cobra.Command, list []string) error {
			o.files = list
			return a.lint(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) lint(ctx context.Context, o *lintOptions) error {
	var found []finding
	for _, name := range o.files {
		text, err := os.ReadFile(name)
		if err != nil {
			return vm.Errorf(vm.NotFound, name, "%w", err)
		}
		found = append(found, lintFile(name, text)...)
	}
	if len(o.files) == 0 {
		var err error
		if found, err = a.lintServer(ctx); err != nil {
			return err
		}
	}
	if o.json {
		if err := list(a.io, found); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			a.io.printf("%-16s %s: %s\n                 -> %s\n", f.Rule, printable(f.Subject), plain(f.Why), plain(a.io.named(f.Instead)))
		}
		if len(found) == 0 {
			a.io.printf("nothing found\n")
		}
	}
	if len(found) > 0 {
		return exitStatus(lintFound)
	}
	return nil
}

// lintFound is the exit status when something was found, as with `done` while a
// step is open.
const lintFound = 6

func (a *app) lintServer(ctx context.Context) ([]finding, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	snapshots, err := c.Snapshots(ctx, false)
	if err != nil {
		return nil, err
	}
	vms, err := c.List(ctx, false)
	if err != nil {
		return nil, err
	}
	volumes, err := c.Volumes(ctx, "", "")
	if err != nil {
		return nil, err
	}
	found := lintState(snapshots.Snapshots, vms.VMs, volumes)
	for _, v := range vms.VMs {
		if v.Profile == "dev" {
			continue
		}
		mounts, err := c.Mounts(ctx, string(v.ID))
		if err != nil && vm.KindOf(err) != vm.NotFound { // it ended meanwhile
			return nil, err
		}
		found = append(found, lintFolders(v, mounts)...)
	}
	return found, nil
}
