// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// segmentSize is half of what a log keeps. A full segment replaces the old
// segment, which is deleted.
const segmentSize = 8 << 20

// procLog is the log of one process: both its outputs, with absolute offsets
// that count from the process's first byte. It consists of one or two files:
// ID.log and the older ID.log.OFFSET, named by its first offset.
type procLog struct {
	path string

	mu    sync.Mutex
	file  *os.File // the current segment; nil = not open for writing
	old   int64    // offset of the old segment; -1 = none
	start int64    // offset of the current segment
	end   int64
	lost  bool // a write failed; nothing more is appended
}

// createLog creates a log that begins at an absolute offset.
func createLog(path string, start int64) (*procLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	return &procLog{path: path, file: f, old: -1, start: start, end: start}, nil
}

// openLog opens the log of an earlier agent. base is the offset of its first
// segment, from the process's record. With appending it can be continued.
func openLog(path string, base int64, appending bool) (*procLog, error) {
	l := &procLog{path: path, old: -1, start: base}
	names, err := filepath.Glob(path + ".*")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if off, err := strconv.ParseInt(strings.TrimPrefix(n, path+"."), 10, 64); err == nil && off > l.old {
			if st, err := os.Lstat(n); err == nil {
				l.old, l.start = off, off+st.Size()
			}
		}
	}
	st, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l.end = l.start
	if err == nil {
		l.end += st.Size()
	}
	if appending {
		l.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	} else {
		err = nil
	}
	return l, err
}

// write appends b. If the disk is full, the log ends but the process continues.
func (l *procLog) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost || l.file == nil {
		return
	}
	if l.end-l.start >= segmentSize {
		if l.lost = l.rotate() != nil; l.lost {
			return
		}
	}
	n, err := l.file.Write(b)
	l.end += int64(n)
	l.lost = err != nil
}

// rotate replaces the old segment by the current one.
func (l *procLog) rotate() error {
	if err := os.Rename(l.path, l.oldPath(l.start)); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	_ = l.file.Close()
	if l.old >= 0 {
		_ = os.Remove(l.oldPath(l.old))
	}
	l.file, l.old, l.start = f, l.start, l.end
	return nil
}

func (l *procLog) oldPath(off int64) string { return l.path + "." + strconv.FormatInt(off, 10) }

// bounds returns the offsets of the oldest kept byte and of the end.
func (l *procLog) bounds() (start, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.old >= 0 {
		return l.old, l.end
	}
	return l.start, l.end
}

// readAt reads bytes at off, or the oldest bytes if those are no longer kept.
// It returns the offset of the bytes read, and io.EOF at the end of the log.
func (l *procLog) readAt(p []byte, off int64) (n int, at int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.start
	if l.old >= 0 {
		first = l.old
	}
	off = max(off, first)
	if off >= l.end {
		return 0, off, io.EOF
	}
	path, begin, limit := l.path, l.start, l.end
	if off < l.start {
		path, begin, limit = l.oldPath(l.old), l.old, l.start
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, off, err
	}
	defer f.Close()
	if int64(len(p)) > limit-off {
		p = p[:limit-off]
	}
	n, err = f.ReadAt(p, off-begin)
	if n > 0 {
		err = nil
	}
	return n, off, err
}

// close ends writing; reading still works.
func (l *procLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// remove deletes the files.
func (l *procLog) remove() {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = os.Remove(l.path)
	if l.old >= 0 {
		_ = os.Remove(l.oldPath(l.old))
	}
}
