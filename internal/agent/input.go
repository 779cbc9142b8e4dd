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

// input feeds a process's standard input from its client. The client sends at most
// link.StdinWindow bytes that are not yet acknowledged. So the queue is bounded,
// and other frames of the client never wait for a process that does not read.
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

// add queues input. It returns false if the client exceeds the window.
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

// finish marks the end of input; queued input is still delivered.
func (in *input) finish() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.eof = true
	in.poke()
}

// abandon stops feeding at once.
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

// feed writes queued input to the process until the end of input, and acknowledges
// it to the client. Input that nobody will read is dropped, but acknowledged.
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
			// The reader of the stream notices that the client left.
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
