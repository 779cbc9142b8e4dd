// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// unmountWithin limits the unmount at the end of a run, which flushes the
// command's writes.
const unmountWithin = 2 * time.Minute

// runVolumes are the volumes that a run mounts, as --volume names them.
func runVolumes(flags []string, project string) ([]api.NewMount, error) {
	var out []api.NewMount
	for _, f := range flags {
		name, at, _ := strings.Cut(f, ":")
		m := api.NewMount{Volume: name, Project: project, Path: at, RW: true}
		if path, ok := strings.CutSuffix(at, ":ro"); ok {
			m.Path, m.RW = path, false
		} else if path, ok := strings.CutSuffix(at, ":rw"); ok {
			m.Path = path
		}
		if name == "" || !strings.HasPrefix(m.Path, "/") || strings.Contains(m.Path, ":") {
			return nil, usage("--volume %s is not a volume and a path", printable(f)).WithHint("write VOLUME:/path or VOLUME:/path:ro")
		}
		out = append(out, m)
	}
	return out, nil
}

// checkVolumes refuses volumes that cannot be mounted, before the VM is made.
func checkVolumes(ctx context.Context, c *client.Client, list []api.NewMount) error {
	for _, m := range list {
		v, err := c.Volume(ctx, m.Project, m.Volume)
		if err != nil {
			return err
		}
		if v.State == api.VolumeLocked {
			return vm.Errorf(vm.WrongState, v.Name, "the volume is locked").WithCode("VOLUME_LOCKED", "volume", string(v.ID), "name", v.Name).
				WithHint("unlock it first: `warren volume unlock %s`", v.Name)
		}
	}
	return nil
}

// withVolumes calls a function while volumes are mounted in a VM, and
// unmounts them afterwards, so that all writes are flushed and the volumes
// stay unlocked.
func (a *app) withVolumes(ctx context.Context, c *client.Client, name string, list []api.NewMount, do func() error) (err error) {
	for _, m := range list {
		if _, err := c.Mount(ctx, name, m); err != nil {
			return err
		}
		defer func() {
			if vm.KindOf(err) == vm.Cancelled {
				return // the VM is deleted, with its mounts
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmountWithin)
			defer cancel()
			uerr := c.Unmount(ctx, name, m.Path, true)
			switch {
			case uerr == nil:
			case err == nil:
				err = vm.Errorf(vm.KindOf(uerr), m.Volume, "the volume was not unmounted; the last writes may be missing: %w", uerr)
			default:
				a.io.tellf("the volume %s was not unmounted; the last writes may be missing: %v", printable(m.Volume), uerr)
			}
		}()
	}
	return do()
}
