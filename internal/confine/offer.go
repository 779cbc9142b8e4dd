// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// offerPause is the interval at which a pipe is checked for a reader.
const offerPause = time.Millisecond

// Offer writes a secret, which must fit into a pipe, for the program that reads the
// named pipe first. It blocks until there is a reader, the pipe is gone, or ctx
// ends. The caller removes the pipe.
func Offer(ctx context.Context, path string, secret []byte) {
	for {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			_, _ = unix.Write(fd, secret) // a reader that has ended does not need it
			unix.Close(fd)                //nolint:errcheck // only the reader gets it
			return
		}
		if !errors.Is(err, unix.ENXIO) { // no reader yet
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(offerPause):
		}
	}
}
