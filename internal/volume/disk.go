// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// imager is QEMU's program for disks. It gets keys through pipes: neither its
// arguments nor any file hold one.
const imager = "qemu-img"

// PBKDF2 only slows down a search for weak passphrases; the key is random.
const iterTime = "10"

// run runs qemu-img. keys are the contents of its secrets k0, k1, ...; what it
// said is in the error.
func run(ctx context.Context, keys []vm.VolumeKey, verb string, args ...string) (status int, said string, err error) {
	cmd := exec.CommandContext(ctx, imager, verb)
	for i, key := range keys {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, "", vm.Errorf(vm.Limit, imager, "no pipe: %w", err)
		}
		defer r.Close()
		// A key is far shorter than a pipe holds.
		if _, err := w.Write(key); err != nil {
			w.Close()
			return 0, "", vm.Errorf(vm.Internal, imager, "pipe: %w", err)
		}
		w.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, r)
		n := strconv.Itoa(i)
		cmd.Args = append(cmd.Args, "--object", "secret,id=k"+n+",file=/dev/fd/"+strconv.Itoa(3+i))
	}
	cmd.Args = append(cmd.Args, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	said = strings.TrimSpace(out.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, said, nil
	case ctx.Err() != nil:
		return 0, said, context.Cause(ctx)
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), said, nil
	case errors.Is(err, exec.ErrNotFound):
		return 0, "", vm.Errorf(vm.Unsupported, imager, "is not installed").WithHint("install it: `apt-get install qemu-utils`")
	}
	return 0, said, vm.Errorf(vm.Internal, imager, "%s: %w", said, err)
}

// must is run for what has to succeed.
func must(ctx context.Context, path string, keys []vm.VolumeKey, verb string, args ...string) error {
	status, said, err := run(ctx, keys, verb, args...)
	if err != nil || status == 0 {
		return err
	}
	if strings.Contains(said, "No space left") {
		return layout.Error(path, syscall.ENOSPC)
	}
	return vm.Errorf(vm.Internal, path, "qemu-img %s: %s", verb, lastLine(said))
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// image is an existing encrypted disk, as qemu-img's --image-opts names it.
func image(path string) string {
	return "driver=qcow2,encrypt.key-secret=k0,file.driver=file,file.filename=" + strings.ReplaceAll(path, ",", ",,")
}

// tries: measuring how fast the host is, which QEMU does even so, fails now and
// then on a busy one.
const tries = 5

// measured is must for what makes a key slot.
func measured(ctx context.Context, path string, keys []vm.VolumeKey, verb string, args ...string) (err error) {
	for range tries {
		err = must(ctx, path, keys, verb, args...)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "CPU usage") {
			return err
		}
	}
	return err
}

func makeDisk(ctx context.Context, path string, key vm.VolumeKey, sizeMiB int) error {
	err := measured(ctx, path, []vm.VolumeKey{key}, "create", "-q", "-f", "qcow2",
		"-o", "encrypt.format=luks,encrypt.key-secret=k0,encrypt.iter-time="+iterTime, path, strconv.Itoa(sizeMiB)+"M")
	if err != nil {
		return err
	}
	return layout.Error(path, os.Chmod(path, 0o600))
}

// addKey lets a second key open the disk, dropKey ends that of the other.
func addKey(ctx context.Context, path string, key, added vm.VolumeKey) error {
	return measured(ctx, path, []vm.VolumeKey{key, added}, "amend", "-q",
		"-o", "encrypt.state=active,encrypt.new-secret=k1,encrypt.iter-time="+iterTime, "--image-opts", image(path))
}

func dropKey(ctx context.Context, path string, key, dropped vm.VolumeKey) error {
	return must(ctx, path, []vm.VolumeKey{key, dropped}, "amend", "-q", "-o", "encrypt.state=inactive,encrypt.old-secret=k1", "--image-opts", image(path))
}

func growDisk(ctx context.Context, path string, key vm.VolumeKey, sizeMiB int) error {
	return must(ctx, path, []vm.VolumeKey{key}, "resize", "-q", "--image-opts", image(path), strconv.Itoa(sizeMiB)+"M")
}

// The exit statuses of `qemu-img check`.
const (
	checkDamaged = 2
	checkLeaks   = 3
)

// checkDisk checks that the key opens the disk and that its tables are whole.
// Space that a machine which was killed has lost is given back.
func checkDisk(ctx context.Context, id vm.VolumeID, path string, key vm.VolumeKey) error {
	keys := []vm.VolumeKey{key}
	status, said, err := run(ctx, keys, "check", "-q", "--image-opts", image(path))
	if err == nil && status == checkLeaks {
		status, said, err = run(ctx, keys, "check", "-q", "-r", "leaks", "--image-opts", image(path))
	}
	switch {
	case err != nil:
		return err
	case status == 0:
		return nil
	case strings.Contains(said, "Failed to get"):
		return vm.Errorf(vm.Busy, string(id), "something else uses its disk: %s", lastLine(said))
	case status == checkDamaged:
		return damaged(id, "its tables are damaged: "+lastLine(said))
	}
	return damaged(id, lastLine(said))
}

func damaged(id vm.VolumeID, why string) error {
	return vm.Errorf(vm.Corrupt, string(id), "its disk does not open: %s", why).WithCode("VOLUME_DAMAGED").
		WithHint("put back the volume's directory from a backup")
}

// diskUsage is what a sparse file takes.
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
