// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// offerPause is between two looks whether somebody reads a pipe.
const offerPause = time.Millisecond

// Offer gives a secret, which is far shorter than a pipe holds, to the program that
// reads the named pipe first. It blocks until there is a reader, the pipe is gone,
// or ctx ends. The pipe stays the caller's to remove.
func Offer(ctx context.Context, path string, secret []byte) {
	for {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			_, _ = unix.Write(fd, secret) // a reader that is gone has no use for it
			unix.Close(fd)                //nolint:errcheck // it was for the reader alone
			return
		}
		if !errors.Is(err, unix.ENXIO) { // nobody reads yet
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(offerPause):
		}
	}
}
