// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qcow

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// imager is QEMU's program for disk files.
const imager = "qemu-img"

// deadline bounds one run. A check of the largest volume takes far less.
const deadline = 10 * time.Minute

// Limits of a run, and of its output that is kept.
const (
	maxMemory = 1 << 30
	maxFiles  = 64
	maxSaid   = 16 << 10
)

// Image is one run of qemu-img on one disk, which exists.
type Image struct {
	Path string
	// Scratch is a directory in which the run makes a directory of its own. Its
	// file system must support pipes, and its owner must remove old layout.Temp
	// files.
	Scratch string
	// Keys are the contents of the secrets k0, k1, ... They reach the program
	// through pipes, so no argument and no file contains one.
	Keys []vm.VolumeKey
	Verb string
	Args []string // they name the disk, by its path or by Options
}

// Options names an encrypted disk for qemu-img's --image-opts: it is opened with
// the secret k0 and only by the right drivers.
func Options(path string) string {
	return "driver=qcow2,encrypt.key-secret=k0,file.driver=file,file.filename=" + strings.ReplaceAll(path, ",", ",,")
}

// Run starts the program so that it reaches only the disk, without a network, and
// waits for it. It returns the exit status and the last output, in which the disk's
// path is "the disk". The caller has checked the disk's header. The end of ctx
// kills the program, and so does a deadline: kind Unavailable. Kind Unsupported =
// it is not installed.
func Run(ctx context.Context, r Image) (status int, said string, err error) {
	binary, err := exec.LookPath(imager)
	if err != nil {
		return 0, "", vm.Errorf(vm.Unsupported, imager, "is not installed").WithHint("install it: `apt-get install qemu-utils`")
	}
	bounded, stop := context.WithTimeoutCause(ctx, deadline, errSlow)
	defer stop()
	dir, err := layout.Temp(r.Scratch)
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(bounded, binary, r.Verb)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	plan := confine.Plan{
		Read:    confine.Runtime(binary),
		Write:   []string{r.Path},
		Devices: []string{"/dev/null", "/dev/random", "/dev/urandom"},
		Root:    filepath.Join(dir, "root"),
		Limits: []confine.Limit{
			{What: unix.RLIMIT_DATA, Cur: maxMemory, Max: maxMemory},
			{What: unix.RLIMIT_NOFILE, Cur: maxFiles, Max: maxFiles},
			{What: unix.RLIMIT_CORE}, // a core file would contain keys
		},
	}
	if err := os.Mkdir(plan.Root, 0o700); err != nil {
		return 0, "", layout.Error(plan.Root, err)
	}
	for i := range r.Keys {
		name := "k" + strconv.Itoa(i)
		pipe := filepath.Join(dir, name)
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			return 0, "", layout.Error(pipe, err)
		}
		plan.Read = append(plan.Read, pipe)
		cmd.Args = append(cmd.Args, "--object", "secret,id="+name+",file="+strings.ReplaceAll(pipe, ",", ",,"))
	}
	cmd.Args = append(cmd.Args, r.Args...)
	said, err = output(bounded, cmd, plan, r.Keys, dir)
	said = strings.ReplaceAll(said, r.Path, "the disk")
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, said, nil
	case bounded.Err() != nil:
		return 0, said, context.Cause(bounded)
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), said, nil
	}
	return 0, said, vm.Errorf(vm.Internal, imager, "%s: %w", said, err)
}

var errSlow = vm.Errorf(vm.Unavailable, imager, "did not end within %s", deadline).WithHint("try again when the host is less busy")

// output runs the program and returns its last output.
func output(ctx context.Context, cmd *exec.Cmd, plan confine.Plan, keys []vm.VolumeKey, dir string) (string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", vm.Errorf(vm.Limit, imager, "no pipe: %w", err)
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	err = confine.Start(cmd, plan)
	_ = write.Close() // the program has its own copy; ours would keep the pipe open
	if err != nil {
		return "", vm.Errorf(vm.Internal, imager, "it cannot be started confined: %w", err)
	}
	offers, stop := context.WithCancel(ctx)
	offered := make(chan struct{})
	go func() { // ends with the program at the latest
		defer close(offered)
		for i, key := range keys {
			confine.Offer(offers, filepath.Join(dir, "k"+strconv.Itoa(i)), key)
		}
	}()
	said := tail(read)
	err = cmd.Wait()
	stop()
	<-offered
	return said, err
}

// tail reads everything and returns the end.
func tail(r io.Reader) string {
	var last []byte
	buf := make([]byte, maxSaid)
	for {
		n, err := r.Read(buf)
		last = append(last, buf[:n]...)
		last = last[max(0, len(last)-maxSaid):]
		if err != nil {
			return strings.TrimSpace(string(last))
		}
	}
}
