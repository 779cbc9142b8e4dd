// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

const sshfsPath = "/sshfs"

// pipes are a program's standard input and output as one connection.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// sshfs mounts the host's directory at sshfsPath in a VM with sshfs, the
// counterpart of a folder: another FUSE file system, which speaks SFTP with a
// server on the host. Both use the link of the VM's agent, sshfs through a
// command's input and output. The returned function ends it.
func (b *bench) sshfs(ctx context.Context, name, host string) (func() error, error) {
	if err := finish(b.server.cli(ctx, "exec", name, "--", "sh", "-c", "modprobe fuse && mkdir -p "+sshfsPath)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := b.server.cli(ctx, "exec", name, "-i", "--", "sshfs", "-f", "-o", "passive", ":"+host, sshfsPath)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	var wg sync.WaitGroup
	files, err := sftp.NewServer(pipes{out, in})
	if err == nil {
		wg.Go(func() { _ = files.Serve() }) // ends with the command
	}
	end := func() error {
		defer cancel()
		err := finish(b.server.cli(context.WithoutCancel(ctx), "exec", name, "--", "umount", sshfsPath))
		cancel()
		_ = cmd.Wait() // it was ended
		wg.Wait()
		return err
	}
	if err == nil {
		err = b.server.tick(ctx, 20*time.Second, func() bool {
			out, _ := b.server.cli(ctx, "exec", name, "--", "findmnt", "-n", "-o", "FSTYPE", sshfsPath).Output()
			return strings.TrimSpace(string(out)) == "fuse.sshfs"
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sshfs: %w", err), end())
	}
	return end, nil
}
