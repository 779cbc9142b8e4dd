// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// consoleLimit is the size at which the console's log is put aside; the log
// and the one before it are kept.
const consoleLimit = 8 << 20

// boundedLog is a file that never grows beyond its limit: then it becomes
// path.1 and begins anew.
type boundedLog struct {
	path  string
	limit int64
	f     *os.File
	size  int64
}

func openBounded(path string, limit int64) (*boundedLog, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, pathError(path, err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, pathError(path, err)
	}
	return &boundedLog{path: path, limit: limit, f: f, size: st.Size()}, nil
}

func (b *boundedLog) Write(p []byte) (int, error) {
	if b.size > 0 && b.size+int64(len(p)) > b.limit {
		if err := b.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := b.f.Write(p)
	b.size += int64(n)
	return n, err
}

func (b *boundedLog) rotate() error {
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		return err
	}
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	b.f.Close()
	b.f, b.size = f, 0
	return nil
}

func (b *boundedLog) Close() error { return b.f.Close() }

// copyConsole appends what the guest writes to its serial console to the log
// until ctx ends or QEMU does. A full disk loses output, never the guest.
func copyConsole(ctx context.Context, socket, logPath string) error {
	log, err := openBounded(logPath, consoleLimit)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // what could be written was
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			_, _ = log.Write(buf[:n]) // the next write is tried again
		}
		if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("console: %w", err)
		}
	}
}
