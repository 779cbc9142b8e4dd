// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// To append to a file makes the file system write its journal at each sync. So the last
// segment is filled with zeros ahead of its lines, and the writer overwrites these. A
// quiet log has a step filled, a busy one the whole segment and the next one. Whatever
// goes wrong here, the writer appends.

const (
	// nextSegment is the file that becomes the next segment. Nobody takes it for one.
	nextSegment = ".tmp-next-segment"
	// fillSteps is the number of steps in a segment; a busy log takes more of them at once.
	fillSteps  = 32
	fillGrowth = 4
	// fillBusy is the time within which a busy log uses up what was filled.
	fillBusy  = 5 * time.Second
	fillQuiet = time.Minute      // a segment of a busy log does not last so long
	fillRetry = 30 * time.Second // after a failure, such as a full disk
	// zeroBlock is filled and synced at once, with a pause after it: the records of that
	// moment wait for the same disk.
	zeroBlock = 128 << 10
	zeroPause = 4 * time.Millisecond
)

// ahead is what is filled. Log.mu guards it.
type ahead struct {
	to    int64     // the file has its blocks up to here
	step  int64     // filled last
	at    time.Time // of that
	begun time.Time // when the segment was
	pause time.Time // fill nothing before
	next  *os.File  // the next segment, filled; nil = none
	left  []left    // segments that are complete
}

// left is the file of a complete segment and its size.
type left struct {
	file *os.File
	size int64
}

func (l *Log) fillStep() int64 { return max(l.segmentBytes/fillSteps, 1) }

// fillEnd is the size of a filled segment: the last write may go beyond segmentBytes.
func (l *Log) fillEnd() int64 { return l.segmentBytes + l.fillStep() }

// fill is the one goroutine that fills, until stopFill is closed.
func (l *Log) fill() {
	defer close(l.filled)
	for {
		select {
		case <-l.fillSoon:
		case <-l.stopFill:
			return
		}
		l.leave()
		if err := l.fillAhead(); err != nil {
			l.log.Debug("the audit log's segment could not be filled ahead", "err", err)
			l.mu.Lock()
			l.ahead.pause = time.Now().Add(fillRetry)
			l.mu.Unlock()
		}
	}
}

// leave closes the files of complete segments, without what was filled behind the lines.
func (l *Log) leave() {
	l.mu.Lock()
	list := l.ahead.left
	l.ahead.left = nil
	l.mu.Unlock()
	for _, s := range list {
		if err := errors.Join(s.file.Truncate(s.size), s.file.Close()); err != nil { // readers end at the zeros
			l.log.Debug("a segment of the audit log keeps its zeros", "err", err)
		}
	}
}

// short reports whether more should be filled behind so many bytes of lines. The caller
// holds the lock.
func (l *Log) short(size int64) bool {
	a := &l.ahead
	if time.Now().Before(a.pause) {
		return false
	}
	if a.to < l.fillEnd() {
		return a.to-size < max(a.step, l.fillStep())/2
	}
	return a.next == nil && a.step > l.fillStep() && size > l.segmentBytes/2
}

// fillAhead fills the last segment by a step, or the next one as a whole.
func (l *Log) fillAhead() error {
	l.mu.Lock()
	f, want, whole := l.file, l.short(l.size), l.ahead.to >= l.fillEnd()
	step := l.fillStep()
	if l.ahead.step > 0 && time.Since(l.ahead.at) < fillBusy {
		step = l.ahead.step * fillGrowth
	}
	until := min(max(l.ahead.to, l.size)+step, l.fillEnd())
	l.mu.Unlock()
	switch {
	case !want:
		return nil
	case whole:
		return l.fillNext()
	}
	for more := true; more; {
		var err error
		if more, err = l.fillBlock(f, until); err != nil {
			return err
		}
		more = l.rest() && more
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == f {
		l.ahead.step, l.ahead.at = step, time.Now()
	}
	return nil
}

// fillBlock fills one block of a file, unless it is no longer that of the last segment. It
// reports whether there is more to fill.
func (l *Log) fillBlock(f *os.File, until int64) (more bool, err error) {
	l.tail.Lock()
	defer l.tail.Unlock()
	l.mu.Lock()
	last, from := l.file == f, max(l.ahead.to, l.size)
	l.mu.Unlock()
	to := min(from+zeroBlock, until)
	if !last || from >= to {
		return false, nil
	}
	if err := zeros(f, from, to); err != nil {
		return false, errors.Join(err, f.Truncate(from))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == f {
		l.ahead.to = to
	}
	return to < until, nil
}

// rest leaves the disk to the records for a moment. It returns false when the log closes.
func (l *Log) rest() bool {
	t := time.NewTimer(zeroPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.stopFill:
		return false
	}
}

// fillNext makes the next segment.
func (l *Log) fillNext() error {
	name := filepath.Join(l.dir, nextSegment)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for at := int64(0); at < l.fillEnd(); at += zeroBlock {
		err := zeros(f, at, min(at+zeroBlock, l.fillEnd()))
		if err != nil || !l.rest() { // closing: the next start has no use for it
			return errors.Join(err, f.Close(), os.Remove(name))
		}
	}
	l.mu.Lock()
	l.ahead.next = f
	l.mu.Unlock()
	return nil
}

// zeros writes zeros from an offset to another, and waits for the disk.
func zeros(f *os.File, from, to int64) error {
	if _, err := f.WriteAt(make([]byte, max(to-from, 0)), from); err != nil {
		return err
	}
	return f.Sync()
}

// output writes to the last segment behind its lines and waits for the disk. Only the
// writer calls it, and Open before there is one.
func (l *Log) output(buf []byte) error {
	end := l.size + int64(len(buf))
	l.mu.Lock()
	to := l.ahead.to
	l.mu.Unlock()
	if end > to { // beyond what is filled: nobody may fill meanwhile
		l.tail.Lock()
		defer l.tail.Unlock()
		l.mu.Lock()
		to = l.ahead.to
		l.mu.Unlock()
	}
	_, err := l.file.WriteAt(buf, l.size)
	switch {
	case err != nil:
	case end <= to:
		err = datasync(l.file)
	default:
		err = l.file.Sync()
	}
	l.mu.Lock()
	if err == nil {
		l.ahead.to = max(to, end)
	}
	short := l.short(end)
	l.mu.Unlock()
	if short {
		wake(l.fillSoon)
	}
	return err
}

// undo removes what a failed write left.
func (l *Log) undo() error {
	l.tail.Lock()
	defer l.tail.Unlock()
	l.mu.Lock()
	l.ahead.to = 0
	l.mu.Unlock()
	return l.file.Truncate(l.size)
}

// takeNext gives the next segment its name, if there is one.
func (l *Log) takeNext(n int) (*os.File, bool) {
	l.mu.Lock()
	f := l.ahead.next
	l.mu.Unlock()
	if f == nil {
		return nil, false
	}
	err := os.Rename(filepath.Join(l.dir, nextSegment), l.segmentPath(n))
	l.mu.Lock()
	l.ahead.next = nil // not before: another one is made under the same name
	l.mu.Unlock()
	if err == nil {
		err = syncDir(l.dir)
	}
	if err != nil {
		l.log.Debug("the audit log's next segment cannot be used", "err", err)
		_ = f.Close() // it is filled again, or made by its name
		return nil, false
	}
	return f, true
}

// endFill ends the filling, and cuts off what was filled.
func (l *Log) endFill() error {
	close(l.stopFill)
	<-l.filled
	l.leave()
	var err error
	if l.ahead.next != nil {
		err = errors.Join(l.ahead.next.Close(), os.Remove(filepath.Join(l.dir, nextSegment)))
	}
	if l.ahead.to > l.size {
		err = errors.Join(err, l.file.Truncate(l.size))
	}
	return err
}

// dropNext removes the next segment that a crash left.
func dropNext(dir string) error {
	name := filepath.Join(dir, nextSegment)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(name, err)
	}
	return nil
}

// datasync waits until the bytes of a file are on disk.
func datasync(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			failed = syscall.Fdatasync(int(fd))
		}
	})
	if err == nil && failed != nil {
		err = &os.PathError{Op: "fdatasync", Path: f.Name(), Err: failed}
	}
	return err
}

// CopySize returns how much of a file of an open log a copy needs: a segment without the
// zeros that were filled in behind its lines.
func CopySize(f *os.File) (int64, error) {
	base := filepath.Base(f.Name())
	number, _, _ := strings.Cut(base, ".")
	if n, err := strconv.Atoi(number); err == nil && base == segmentName(n) {
		return dataSize(f)
	}
	st, err := f.Stat()
	if err != nil {
		return 0, fileError(f.Name(), err)
	}
	return st.Size(), nil
}

// dataSize is the size of a file without the zeros at its end.
func dataSize(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, fileError(f.Name(), err)
	}
	size := st.Size()
	block := make([]byte, 64<<10)
	for size > 0 {
		n := min(int64(len(block)), size)
		if _, err := f.ReadAt(block[:n], size-n); err != nil {
			return 0, fileError(f.Name(), err)
		}
		if kept := len(bytes.TrimRight(block[:n], "\x00")); kept > 0 {
			return size - n + int64(kept), nil
		}
		size -= n
	}
	return 0, nil
}
