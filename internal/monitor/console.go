// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/warren-vm/warren/internal/layout"
)

// consoleLimit is the size at which the console's log is rotated; the log and its
// predecessor are kept.
const consoleLimit = 8 << 20

// copyConsole appends what the guest writes to its serial console to the log
// until ctx ends or QEMU does. A full disk loses output, never the guest.
func copyConsole(ctx context.Context, socket, logPath string) error {
	log, err := layout.OpenBounded(logPath, consoleLimit)
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
