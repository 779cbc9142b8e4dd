// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/warren-vm/warren/vm"
)

const maxPacket = 65520 // bytes of a line of git's protocol, with its length

// readPacket reads one line of git's protocol, without its line break. end is true for
// the line that ends a list.
func readPacket(in io.Reader) (line []byte, end bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, false, err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || n > maxPacket || n > 0 && n < 5:
		return nil, false, vm.Errorf(vm.Invalid, "", "the client does not speak git's protocol").WithCode("GIT_INVALID_REQUEST")
	case n == 0:
		return nil, true, nil
	}
	line = make([]byte, n-4)
	if _, err := io.ReadFull(in, line); err != nil {
		return nil, false, err
	}
	return bytes.TrimSuffix(line, []byte("\n")), false, nil
}

// appendPacket appends one line of git's protocol.
func appendPacket(to []byte, format string, args ...any) []byte {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxPacket-4 {
		text = text[:maxPacket-4]
	}
	return fmt.Appendf(to, "%04x%s", len(text)+4, text)
}

// The bands of git's protocol.
const (
	bandData = 1
	bandSaid = 2 // is shown to the user, after "remote: "
)

// bands writes packets of several bands. Its methods may be called at once.
type bands struct {
	mu  sync.Mutex
	out io.Writer
	on  bool // otherwise data is written as it is, and nothing is said
}

func (b *bands) write(band byte, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.on {
		if band != bandData {
			return nil
		}
		_, err := b.out.Write(data)
		return err
	}
	for {
		n := min(len(data), maxPacket-5)
		packet := append(fmt.Appendf(nil, "%04x%c", n+5, band), data[:n]...)
		if _, err := b.out.Write(packet); err != nil {
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return nil
		}
	}
}

// say shows a line to the user.
func (b *bands) say(format string, args ...any) {
	_ = b.write(bandSaid, fmt.Appendf(nil, format+"\n", args...))
}

// end ends the answer.
func (b *bands) end() error {
	if !b.on {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := io.WriteString(b.out, "0000")
	return err
}
