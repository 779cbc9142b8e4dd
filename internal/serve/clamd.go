// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// clamd is the address of a ClamAV daemon: the path of its socket, or host:port.
type clamd string

const (
	clamdChunk    = 256 << 10
	clamdDeadline = 15 * time.Minute // of one upload
	clamdAnswer   = 4 << 10
)

// scan sends an upload to clamd, by its command INSTREAM, and returns the name of what it
// has found; "" = nothing. Kind Unavailable when clamd does not say.
func (c clamd) scan(ctx context.Context, body io.Reader) (found string, err error) {
	network := "unix"
	if !strings.HasPrefix(string(c), "/") {
		network = "tcp"
	}
	bounded, stop := context.WithTimeout(ctx, clamdDeadline)
	defer stop()
	conn, err := (&net.Dialer{}).DialContext(bounded, network, string(c))
	if err != nil {
		return "", vm.Errorf(vm.Unavailable, "clamd", "it does not answer: %w", err).WithHint("start it, or start the server without --clamd")
	}
	defer conn.Close()
	defer context.AfterFunc(bounded, func() { _ = conn.Close() })()
	if _, err = io.WriteString(conn, "zINSTREAM\x00"); err == nil {
		err = c.send(conn, body)
	}
	said, readErr := bufio.NewReader(io.LimitReader(conn, clamdAnswer)).ReadString(0)
	said = strings.TrimSuffix(strings.TrimPrefix(said, "stream: "), "\x00")
	switch name, is := strings.CutSuffix(said, " FOUND"); {
	case is:
		return vm.GuestPath(vm.Clip(name, 200)).String(), nil
	case said == "OK" && err == nil:
		return "", nil
	}
	return "", vm.Errorf(vm.Unavailable, "clamd", "it has not judged the upload: %s", strings.TrimSpace(vm.GuestPath(vm.Clip(said, 200)).String()+" "+text(errors.Join(err, readErr)))).
		WithHint("StreamMaxLength in clamd.conf bounds what it takes")
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// send sends the upload in chunks, each after its length.
func (clamd) send(w io.Writer, body io.Reader) error {
	buffer := make([]byte, 4+clamdChunk)
	for {
		n, err := io.ReadFull(body, buffer[4:])
		if n > 0 {
			binary.BigEndian.PutUint32(buffer, uint32(n)) //nolint:gosec // at most a chunk
			if _, err := w.Write(buffer[:4+n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			_, err = w.Write([]byte{0, 0, 0, 0})
			return err
		case err != nil:
			return err
		}
	}
}
