// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// change makes one audited change of the guest's directories.
func (in *Inside) change(ctx context.Context, c *vm.Call, ref string, op vm.Op, subject, user string, more facts, f func(ctx context.Context, v *visit) error) error {
	if err := in.approved(ctx, c, ref, onPath(op, user, subject, more)); err != nil {
		return err
	}
	_, err := act(ctx, in, c, ref, user, fileEntry(op, subject, user, more), func(ctx context.Context, v *visit) (nothing, error) {
		return nothing{}, f(ctx, v)
	})
	return err
}

// Mkdir makes a directory. With parents it also makes missing parents and accepts an
// existing directory.
func (in *Inside) Mkdir(ctx context.Context, c *vm.Call, ref, user, path string, mode uint32, parents bool) error {
	more := facts{}
	if mode != 0 {
		more["mode"] = octal(mode)
	}
	if parents {
		more["parents"] = "yes"
	}
	return in.change(ctx, c, ref, vm.OpMkdir, path, user, more, func(ctx context.Context, v *visit) error {
		return v.guest.Mkdir(ctx, user, v.path(path), mode, parents)
	})
}

// Rename moves an entry and replaces a file at the new path.
func (in *Inside) Rename(ctx context.Context, c *vm.Call, ref, user, from, to string) error {
	return in.change(ctx, c, ref, vm.OpRename, from+" -> "+to, user, nil, func(ctx context.Context, v *visit) error {
		return v.guest.Rename(ctx, user, v.path(from), v.path(to))
	})
}

// Remove removes an entry; with recursive a whole tree.
func (in *Inside) Remove(ctx context.Context, c *vm.Call, ref, user, path string, recursive bool) error {
	more := facts{}
	if recursive {
		more["recursive"] = "yes"
	}
	return in.change(ctx, c, ref, vm.OpRemove, path, user, more, func(ctx context.Context, v *visit) error {
		return v.guest.Remove(ctx, user, v.path(path), recursive)
	})
}

// Chmod sets the permission bits.
func (in *Inside) Chmod(ctx context.Context, c *vm.Call, ref, user, path string, mode uint32) error {
	return in.change(ctx, c, ref, vm.OpChmod, path, user, facts{"mode": octal(mode)}, func(ctx context.Context, v *visit) error {
		return v.guest.Chmod(ctx, user, v.path(path), mode)
	})
}

// Symlink makes path a symlink to target, which is stored unchanged.
func (in *Inside) Symlink(ctx context.Context, c *vm.Call, ref, user, target, path string) error {
	return in.change(ctx, c, ref, vm.OpSymlink, path+" -> "+target, user, facts{"as": "a symbolic link"}, func(ctx context.Context, v *visit) error {
		return v.guest.Symlink(ctx, user, target, v.path(path))
	})
}
