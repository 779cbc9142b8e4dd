// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"errors"
	"os/exec"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// Fsck has git check every object of a repository that no server has open, and that each
// object that a ref needs is there. Kinds: Corrupt with what git said, Unsupported without
// git, Cancelled and Timeout with ctx.
func Fsck(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "fsck", "--full", "--no-dangling", "--no-progress")
	cmd.Dir, cmd.Env = "/", environment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = endsWithin
	var said keeper
	said.limit, said.drop = errorLimit, true
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return vm.Errorf(vm.Unsupported, "git", "git is not installed on the host").WithHint("install it: `apt install git`")
	case err != nil:
		return vm.Errorf(vm.Corrupt, "repository", "git fsck: %s", lastLines(said.String()))
	}
	return nil
}
