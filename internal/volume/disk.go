// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// A small iteration count is enough: it slows down a search for weak passphrases,
// and this key is random.
const iterTime = "10"

// run runs qemu-img on a disk whose header was found to be a volume's. The error
// contains its output.
func run(ctx context.Context, path string, keys []vm.VolumeKey, verb string, args ...string) (status int, said string, err error) {
	if _, err := qcow.Check(path, qcow.Volume); err != nil {
		return 0, "", err
	}
	return imager(ctx, path, keys, verb, args...)
}

// imager is run for a disk with any header. Its scratch directory is in that of all
// volumes, where List sweeps.
func imager(ctx context.Context, path string, keys []vm.VolumeKey, verb string, args ...string) (int, string, error) {
	scratch := filepath.Dir(filepath.Dir(path))
	return qcow.Run(ctx, qcow.Image{Path: path, Scratch: scratch, Keys: keys, Verb: verb, Args: args})
}

// must is run for commands that have to succeed.
func must(ctx context.Context, path string, keys []vm.VolumeKey, verb string, args ...string) error {
	status, said, err := run(ctx, path, keys, verb, args...)
	return succeeded(path, verb, status, said, err)
}

func succeeded(path, verb string, status int, said string, err error) error {
	if err != nil || status == 0 {
		return err
	}
	if strings.Contains(said, "No space left") {
		return layout.Error(path, syscall.ENOSPC)
	}
	return vm.Errorf(vm.Internal, filepath.Base(filepath.Dir(path)), "qemu-img %s: %s", verb, lastLine(said))
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// tries: QEMU measures the host's speed, although the iterations are given, and
// fails at that now and then on a busy host.
const tries = 5

// measured repeats a command that makes a key slot.
func measured(ctx context.Context, do func() error) (err error) {
	for range tries {
		err = do()
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "CPU usage") {
			return err
		}
	}
	return err
}

func makeDisk(ctx context.Context, path string, key vm.VolumeKey, sizeMiB int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // qemu-img can make none where it runs
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return layout.Error(path, err)
	}
	return measured(ctx, func() error {
		status, said, err := imager(ctx, path, []vm.VolumeKey{key}, "create", "-q", "-f", "qcow2",
			"-o", "encrypt.format=luks,encrypt.key-secret=k0,encrypt.iter-time="+iterTime, path, strconv.Itoa(sizeMiB)+"M")
		return succeeded(path, "create", status, said, err)
	})
}

// addKey adds a second key that opens the disk; dropKey removes the other key.
func addKey(ctx context.Context, path string, key, added vm.VolumeKey) error {
	return measured(ctx, func() error {
		return must(ctx, path, []vm.VolumeKey{key, added}, "amend", "-q",
			"-o", "encrypt.state=active,encrypt.new-secret=k1,encrypt.iter-time="+iterTime, "--image-opts", qcow.Options(path))
	})
}

func dropKey(ctx context.Context, path string, key, dropped vm.VolumeKey) error {
	return must(ctx, path, []vm.VolumeKey{key, dropped}, "amend", "-q", "-o", "encrypt.state=inactive,encrypt.old-secret=k1", "--image-opts", qcow.Options(path))
}

func growDisk(ctx context.Context, path string, key vm.VolumeKey, sizeMiB int) error {
	return must(ctx, path, []vm.VolumeKey{key}, "resize", "-q", "--image-opts", qcow.Options(path), strconv.Itoa(sizeMiB)+"M")
}

// The exit statuses of `qemu-img check`.
const (
	checkDamaged = 2
	checkLeaks   = 3
)

// checkDisk checks that the key opens the disk and that its tables are intact. It
// frees space that a killed machine has leaked.
func checkDisk(ctx context.Context, id vm.VolumeID, path string, key vm.VolumeKey) error {
	keys := []vm.VolumeKey{key}
	status, said, err := run(ctx, path, keys, "check", "-q", "--image-opts", qcow.Options(path))
	if err == nil && status == checkLeaks {
		status, said, err = run(ctx, path, keys, "check", "-q", "-r", "leaks", "--image-opts", qcow.Options(path))
	}
	switch {
	case vm.KindOf(err) == vm.Corrupt:
		return damaged(id, vm.AsError(err).Msg)
	case err != nil:
		return err
	case status == 0:
		return nil
	case strings.Contains(said, "Failed to get"):
		return vm.Errorf(vm.Busy, string(id), "another process uses its disk: %s", lastLine(said))
	case status == checkDamaged:
		return damaged(id, "its tables are damaged: "+lastLine(said))
	}
	return damaged(id, lastLine(said))
}

func damaged(id vm.VolumeID, why string) error {
	return vm.Errorf(vm.Corrupt, string(id), "its disk does not open: %s", why).WithCode("VOLUME_DAMAGED").
		WithHint("restore the volume's directory from a backup")
}

// diskUsage is the space that a sparse file takes.
func diskUsage(path string) (int64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, layout.Error(path, err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Blocks * 512, nil
	}
	return st.Size(), nil
}
