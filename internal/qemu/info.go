// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/internal/qmp"
	"github.com/warren-vm/warren/vm"
)

// Info is what one QEMU binary offers.
type Info struct {
	Version string // e.g. "7.2.22"
	Machine string // the versioned type behind the name q35, e.g. "pc-q35-7.2"
}

// Inspect asks the binary what it offers. Kind Unsupported when there is no binary,
// or when it lacks what captures need.
func Inspect(ctx context.Context, binary string) (Info, error) {
	var info Info
	err := ask(ctx, binary, []string{"-M", "none"}, func(c *qmp.Client) error {
		info.Version = c.Version
		var machines []struct {
			Name  string `json:"name"`
			Alias string `json:"alias"`
		}
		if err := c.Execute(ctx, "query-machines", nil, &machines); err != nil {
			return err
		}
		for _, m := range machines {
			if m.Alias == "q35" {
				info.Machine = m.Name
			}
		}
		var commands []struct {
			Name string `json:"name"`
		}
		if err := c.Execute(ctx, "query-commands", nil, &commands); err != nil {
			return err
		}
		for _, need := range []string{"xen-save-devices-state", "blockdev-snapshot-sync", "x-debug-query-block-graph"} {
			if !slices.ContainsFunc(commands, func(c struct {
				Name string `json:"name"`
			},
			) bool {
				return c.Name == need
			}) {
				return vm.Errorf(vm.Unsupported, binary, "this qemu has no %s", need)
			}
		}
		return nil
	})
	if err == nil && info.Machine == "" {
		err = vm.Errorf(vm.Unsupported, binary, "this qemu has no q35 machine").WithHint("install qemu-system-x86 7.2 or newer")
	}
	return info, err
}

// CPUModel returns the first of the named models (best first) whose features the
// accelerator supports completely on this host. Kind Unsupported when there is none.
func CPUModel(ctx context.Context, binary string, accel vm.Accel, models []string) (string, error) {
	var found string
	var missing []string
	err := ask(ctx, binary, []string{"-M", "q35", "-accel", string(accel)}, func(c *qmp.Client) error {
		var defs []struct {
			Name    string   `json:"name"`
			Missing []string `json:"unavailable-features"`
		}
		if err := c.Execute(ctx, "query-cpu-definitions", nil, &defs); err != nil {
			return err
		}
		for _, model := range models {
			for _, d := range defs {
				if d.Name != model || found != "" {
					continue
				}
				if missing = d.Missing; len(missing) == 0 {
					found = model
				}
			}
		}
		return nil
	})
	if err == nil && found == "" {
		err = vm.Errorf(vm.Unsupported, string(accel), "this host runs no CPU model that Warren knows; the plainest lacks %s", strings.Join(missing, ", "))
	}
	return found, err
}

// ask runs the binary with an empty machine while f runs.
func ask(ctx context.Context, binary string, args []string, f func(*qmp.Client) error) (err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "qmp"), os.NewFile(uintptr(fds[1]), "qemu")
	defer far.Close()
	conn, err := net.FileConn(near)
	near.Close()
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary, append(args,
		"-S", "-nodefaults", "-no-user-config", "-display", "none",
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control")...)
	cmd.ExtraFiles = []*os.File{far}
	if err := cmd.Start(); err != nil {
		conn.Close()
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			return vm.Errorf(vm.Unsupported, binary, "qemu is not installed").WithHint("`warren doctor` says how to install it")
		}
		return fmt.Errorf("start %s: %w", binary, err)
	}
	far.Close()
	defer func() {
		_ = cmd.Process.Kill() // it has nothing to save
		_ = cmd.Wait()         // killed on purpose
	}()
	c, err := qmp.New(ctx, conn)
	if err != nil {
		return vm.Errorf(vm.Unsupported, binary, "does not answer: %w", err)
	}
	defer func() { _ = c.Close() }() // its loss does not matter
	return f(c)
}
