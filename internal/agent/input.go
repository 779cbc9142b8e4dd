// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"os"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/link"
)

// input feeds a process's standard input from its client. The client sends no
// more than link.StdinWindow beyond what was acknowledged, so the queue is
// bounded and the client's other frames never wait behind a process that does
// not read.
type input struct {
	pipe *os.File
	wake chan struct{}
	done chan struct{} // closed when feed has ended

	mu   sync.Mutex
	buf  []byte
	eof  bool
	gone bool // the process will never read again
}

func newInput(pipe *os.File) *input {
	return &input{pipe: pipe, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// add queues input. It reports false when the client broke the rules.
func (in *input) add(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.buf)+len(b) > link.StdinWindow {
		return false
	}
	in.buf = append(in.buf, b...)
	in.poke()
	return true
}

// finish says that no more input comes; what is queued is still delivered.
func (in *input) finish() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.eof = true
	in.poke()
}

// abandon ends the feeding at once.
func (in *input) abandon() {
	in.mu.Lock()
	in.eof, in.gone, in.buf = true, true, nil
	in.poke()
	in.mu.Unlock()
	_ = in.pipe.SetWriteDeadline(time.Unix(1, 0))
	<-in.done
}

func (in *input) poke() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// feed writes what is queued to the process until the end of input, and
// acknowledges it to the client. Input that nobody will read is dropped, as a
// shell's pipe would, and acknowledged all the same.
func (in *input) feed(c *client) {
	defer close(in.done)
	defer in.pipe.Close()
	for range in.wake {
		in.mu.Lock()
		b, eof, gone := in.buf, in.eof, in.gone
		in.buf = nil
		in.mu.Unlock()
		if len(b) > 0 {
			if !gone {
				if _, err := in.pipe.Write(b); err != nil {
					in.mu.Lock()
					in.gone = true
					in.mu.Unlock()
				}
			}
			// A client that is gone is noticed by its reader.
			_ = c.sendFrame(link.FrameStdinAck, binary.BigEndian.AppendUint32(nil, uint32(len(b))))
			in.mu.Lock()
			eof = in.eof && len(in.buf) == 0
			in.mu.Unlock()
		}
		if eof {
			return
		}
	}
}
