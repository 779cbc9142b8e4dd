// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// QEMU's output comes through a named pipe, and the monitor writes it to a bounded
// log: a QEMU that a guest has taken over may print without end. QEMU holds both
// ends of the pipe and never waits for it. While nobody reads, such as between two
// monitors, what exceeds the pipe's 64 KiB is lost.

// logLimit bounds QEMU's log; one predecessor of the same size is kept.
const logLimit = 1 << 20

// lastOutput bounds the wait for the last output of a QEMU that has ended.
const lastOutput = time.Second

// output reads what a QEMU prints.
type output struct {
	pipe *os.File
	log  *layout.BoundedLog
	done chan struct{} // closed when everything is read, or when the output is closed
}

// newOutput makes the pipe of a machine and starts a new log. w is for QEMU; the
// caller closes it when QEMU has it.
func newOutput(spec vm.MachineSpec) (o *output, w *os.File, err error) {
	name, log := layout.RunVM(spec.RunDir).QEMUOutput(), layout.VMDir(spec.Dir).QEMULog()
	for _, old := range []string{name, log, log + ".1"} {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fileError(old, err)
		}
	}
	if err := unix.Mkfifo(name, 0o600); err != nil {
		return nil, nil, fileError(name, err)
	}
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fileError(name, err)
	}
	w = os.NewFile(uintptr(fd), name) // not OpenFile: exec would make the pipe block
	if o, err = readOutput(spec); err != nil {
		w.Close()
		return nil, nil, err
	}
	return o, w, nil
}

// readOutput continues to read the output of a running QEMU. NotFound when it has
// no pipe.
func readOutput(spec vm.MachineSpec) (*output, error) {
	name, path := layout.RunVM(spec.RunDir).QEMUOutput(), layout.VMDir(spec.Dir).QEMULog()
	pipe, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(name, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, errors.Join(fileError(path, err), pipe.Close())
	}
	log, err := layout.OpenBounded(path, logLimit)
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	o := &output{pipe: pipe, log: log, done: make(chan struct{})}
	go o.read()
	return o, nil
}

func (o *output) read() {
	defer close(o.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := o.pipe.Read(buf)
		if n > 0 {
			_, _ = o.log.Write(buf[:n]) // a full disk loses output, never the machine
		}
		if err != nil { // the pipe has ended, or close was called
			return
		}
	}
}

// finish waits for the last output of a QEMU that has ended, and closes. It may be
// called on nil.
func (o *output) finish() {
	if o == nil {
		return
	}
	_ = o.pipe.SetReadDeadline(time.Now().Add(lastOutput)) // another process may hold its end
	<-o.done
	o.close()
}

// close ends the reading at once. It may be called on nil.
func (o *output) close() {
	if o == nil {
		return
	}
	_ = o.pipe.Close() // only read
	<-o.done
	_ = o.log.Close() // keep what could be written
}
