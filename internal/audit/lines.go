// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segments returns the numbers of the segments in dir, rising.
func segments(dir string) ([]int, error) { return numbered(dir, segmentName) }

// numbered returns the numbers of the files in dir that have the name of their number,
// rising.
func numbered(dir string, name func(int) string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fileError(dir, err)
	}
	var out []int
	for _, e := range entries {
		base, _, ok := strings.Cut(e.Name(), ".")
		if n, err := strconv.Atoi(base); ok && err == nil && name(n) == e.Name() {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

const (
	// maxLine bounds a line; what a log writes is below.
	maxLine = 1 << 20
	// maxOpen is how many open actions the first line of a segment names at most.
	maxOpen = 30_000
)

// errLong is the error of a line above maxLine.
var errLong = errors.New("is longer than 1 MiB")

// forward calls f with each whole line of a file, without its line end, and returns
// the bytes of these lines and of the rest. f may use a line only until it returns.
func forward(name string, f func(raw []byte) error) (whole, torn int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, 0, fileError(name, err)
	}
	defer file.Close()
	br := bufio.NewReaderSize(file, maxLine)
	for {
		raw, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return whole, int64(len(raw)), nil
		case errors.Is(err, bufio.ErrBufferFull):
			return whole, 0, corrupt(name, "a line %w", errLong)
		case err != nil:
			return whole, 0, fileError(name, err)
		}
		if err := f(raw[:len(raw)-1]); err != nil {
			return whole, 0, err
		}
		whole += int64(len(raw))
	}
}

// errStop ends a backward read.
var errStop = errors.New("stop")

// backward calls f with each whole line of the first size bytes of a file (-1 =
// of all of it), last line first, until f returns errStop. It returns how many
// bytes come after the last whole line.
func backward(name string, size int64, f func(raw []byte) error) (torn int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, fileError(name, err)
	}
	defer file.Close()
	if size < 0 {
		st, err := file.Stat()
		if err != nil {
			return 0, fileError(name, err)
		}
		size = st.Size()
	}
	const step = 64 << 10
	var held []byte // read and not passed on yet; it begins at off
	started := false
	for off := size; off > 0; {
		n := min(step, off)
		off -= n
		block := make([]byte, n, n+int64(len(held)))
		if _, err := file.ReadAt(block, off); err != nil {
			return 0, fileError(name, err)
		}
		if len(held) > maxLine {
			return 0, corrupt(name, "a line %w", errLong)
		}
		held = append(block, held...)
		for {
			i := bytes.LastIndexByte(held, '\n')
			if i < 0 {
				break
			}
			line := held[i+1:]
			held = held[:i]
			if !started { // bytes after the last line end are no line
				torn, started = int64(len(line)), true
				continue
			}
			if err := f(line); err != nil {
				return torn, stopped(err)
			}
		}
	}
	if !started {
		return int64(len(held)), nil
	}
	return torn, stopped(f(held))
}

func stopped(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (l *Log) segmentPath(n int) string { return filepath.Join(l.dir, segmentName(n)) }
