// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// process is one command started by exec.
type process struct {
	table *table

	mu       sync.Mutex
	info     vm.Process // without LogBytes, LogStart and Background
	started  uint64     // start time in clock ticks, 0 = unknown
	client   *client    // nil = nobody is attached
	ring     ring       // last output while a client is or was attached
	total    int64      // bytes of output so far
	log      *procLog   // nil = none yet
	changed  chan struct{}
	timer    *time.Timer
	deadline time.Time // end of the time limit; zero = none
	signalOK bool      // the pid is ours and not yet reaped
	frozen   bool      // by an upgrade: nothing may be read any more

	pidfd *os.File
	outs  [2]*os.File // stdout, stderr; nil = at their end
	input *input      // nil = reads /dev/null

	pumps  sync.WaitGroup // readers of outs
	waiter sync.WaitGroup // waits for the end
	ended  chan struct{}  // closed when the exit status and all earlier output are known
}

// notify wakes goroutines that wait for new output or the end. p.mu is held.
func (p *process) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// view returns the process as clients see it.
func (p *process) view() vm.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.info
	v.Background = p.client == nil && (v.ExitCode == nil || p.log != nil)
	if p.log != nil {
		v.LogStart, v.LogBytes = p.log.bounds()
	}
	return v
}

// run starts the readers and the waiter of a process that was just started or
// inherited from an earlier agent.
func (p *process) run() {
	for i, f := range p.outs {
		if f != nil {
			p.startPump(i)
		}
	}
	p.waiter.Go(p.await)
}

func (p *process) startPump(i int) {
	f := p.outs[i]
	p.pumps.Go(func() {
		if p.pump(f, outFrame(i)) {
			_ = f.Close()
			p.mu.Lock()
			p.outs[i] = nil
			p.mu.Unlock()
		}
	})
}

func outFrame(i int) link.FrameType {
	return [...]link.FrameType{link.FrameStdout, link.FrameStderr}[i]
}

// pump reads one output until its end (true) or until it is interrupted (false).
func (p *process) pump(f *os.File, t link.FrameType) bool {
	buf := make([]byte, link.FrameHeader+4096)
	for {
		n, err := f.Read(buf[link.FrameHeader:])
		if n > 0 {
			p.emit(t, buf[:link.FrameHeader+n])
		}
		if err != nil {
			return !os.IsTimeout(err)
		}
		if n == len(buf)-link.FrameHeader && n < link.MaxFrame {
			buf = make([]byte, link.FrameHeader+link.MaxFrame)
			widen(f)
		}
	}
}

// widen enlarges the buffer of a busy pipe, so that writer and reader
// alternate less often. It ignores failures.
func widen(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, fSetPipeSize, widePipe)
		})
	}
}

const (
	fSetPipeSize = 1031 // F_SETPIPE_SZ, which package syscall lacks
	widePipe     = 512 << 10
)

// emit passes output on to the attached client, at whose speed the process
// then runs, or to the log. b has room for a frame's header in front.
func (p *process) emit(t link.FrameType, b []byte) {
	data := b[link.FrameHeader:]
	p.mu.Lock()
	p.total += int64(len(data))
	c := p.client
	if c == nil {
		p.writeLog(data)
		p.notify()
		p.mu.Unlock()
		return
	}
	p.ring.write(data)
	p.mu.Unlock()
	link.PutFrameHeader(b, t, len(data))
	if err := c.send(b); err != nil {
		p.detach(c)
	}
}

// writeLog appends to the log, and creates it if necessary. total already
// includes the bytes. p.mu is held.
func (p *process) writeLog(data []byte) {
	if p.log == nil {
		p.openLog(p.total - int64(len(data)))
	}
	if p.log != nil {
		p.log.write(data)
	}
}

// openLog creates the log, with the contents of the ring first. end is the
// offset that follows. p.mu is held.
func (p *process) openLog(end int64) {
	head := p.ring.take()
	l, err := createLog(p.table.path(p.info.ID)+".log", end-int64(len(head)))
	if err != nil {
		p.table.log.Error("cannot make a process log", "process", p.info.ID, "error", err)
		return
	}
	l.write(head)
	p.log = l
	p.save()
}

// detach turns a process whose client left into a background process.
func (p *process) detach(c *client) {
	c.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != c {
		return
	}
	p.client = nil
	if p.info.ExitCode == nil && p.log == nil {
		p.openLog(p.total)
	}
	if p.input != nil {
		p.input.finish()
	}
	p.notify()
}

// await waits for the end of the process and reports it.
func (p *process) await() {
	status, ok := p.reap()
	if !ok {
		return // interrupted
	}
	p.drain()
	p.mu.Lock()
	now := time.Now().UTC()
	p.info.EndedAt = &now
	p.info.ExitCode, p.info.Signal = &status.Code, status.Signal
	status.TimedOut = p.info.TimedOut
	if p.timer != nil {
		p.timer.Stop()
	}
	c := p.client
	p.client = nil
	if p.log != nil {
		p.save()
	}
	p.notify()
	close(p.ended)
	open := p.outs[0] != nil || p.outs[1] != nil
	p.mu.Unlock()
	if c != nil {
		_ = c.sendFrame(link.FrameExit, link.EncodeExit(status))
		c.close()
	}
	if p.input != nil {
		p.input.abandon()
	}
	_ = p.pidfd.Close()
	if open {
		p.follow()
	} else {
		p.closeLog()
	}
	p.table.trim()
}

// drain passes on buffered output after the process has ended. It does not
// wait for the end of the output, because a background child may keep it open.
func (p *process) drain() {
	p.stopPumps()
	for i := range p.outs {
		p.mu.Lock()
		f := p.outs[i]
		p.mu.Unlock()
		if f != nil && p.drainOne(f, outFrame(i)) {
			_ = f.Close()
			p.mu.Lock()
			p.outs[i] = nil
			p.mu.Unlock()
		}
	}
}

// stopPumps interrupts the readers and waits for them.
func (p *process) stopPumps() {
	p.mu.Lock()
	for _, f := range p.outs {
		if f != nil {
			_ = f.SetReadDeadline(time.Unix(1, 0))
		}
	}
	p.mu.Unlock()
	p.pumps.Wait()
}

// drainOne reads what is buffered, at most a pipe's capacity, and reports
// whether it reached the end.
func (p *process) drainOne(f *os.File, t link.FrameType) (end bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	buf := make([]byte, link.FrameHeader+4096)
	for left := pipeSize; left > 0; {
		var n int
		if cerr := raw.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), buf[link.FrameHeader:]) }); cerr != nil {
			return true
		}
		if n > 0 {
			p.emit(t, buf[:link.FrameHeader+n])
			left -= n
			if len(buf) < link.MaxFrame {
				buf = make([]byte, link.FrameHeader+link.MaxFrame)
			}
			continue
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		return !errors.Is(err, syscall.EAGAIN)
	}
	return false
}

// pipeSize is the largest capacity of a pipe.
const pipeSize = 1 << 20

// follow continues to read what children of an ended process write into its
// log, so that they do not block.
func (p *process) follow() {
	p.mu.Lock()
	for i, f := range p.outs {
		if f != nil && !p.frozen {
			_ = f.SetReadDeadline(time.Time{})
			p.startPump(i)
		}
	}
	p.mu.Unlock()
	p.pumps.Wait()
	p.mu.Lock()
	open := p.outs[0] != nil || p.outs[1] != nil
	p.mu.Unlock()
	if !open {
		p.closeLog()
	}
}

func (p *process) closeLog() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil {
		p.log.close()
	}
}

// kill sends a signal to the process group.
func (p *process) kill(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.signalOK {
		return vm.Errorf(vm.WrongState, p.info.ID, "the process has already ended")
	}
	if err := syscall.Kill(-p.info.PID, s); err != nil {
		return vm.Errorf(vm.WrongState, p.info.ID, "cannot signal the process: %w", err)
	}
	return nil
}

// limit kills the process group after d.
func (p *process) limit(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = time.Now().Add(d)
	p.timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.signalOK {
			p.info.TimedOut = true
			_ = syscall.Kill(-p.info.PID, syscall.SIGKILL)
		}
	})
}

// client is the client's end of an exec stream.
type client struct {
	w    io.WriteCloser
	mu   sync.Mutex // one frame at a time
	once sync.Once
}

func (c *client) send(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.w.Write(frame)
	return err
}

func (c *client) sendFrame(t link.FrameType, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return link.WriteFrame(c.w, t, b)
}

// close closes the stream, which also interrupts a waiting write.
func (c *client) close() { c.once.Do(func() { _ = c.w.Close() }) }
