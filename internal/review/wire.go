// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/warren-vm/warren/vm"
)

// Request is what the confined reader is asked, as JSON on its standard input. Layers are
// numbers of the files that it inherits, the top first.
type Request struct {
	Verb string `json:"verb"`
	From []int  `json:"from,omitempty"`
	To   []int  `json:"to"` // of a tar: the only side
	Options
	// Entries and Bytes bound a tar.
	Entries int   `json:"entries,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	// Bases are the states of VerbTruth that stay elsewhere.
	Bases []RequestBase `json:"bases,omitempty"`
	// Project is the question of VerbProject.
	Project *ProjectOptions `json:"project,omitempty"`
}

// RequestBase is one of the states that VerbTruth compares with.
type RequestBase struct {
	Layers []int `json:"layers"`
	// Below are the paths that are kept of it; none = all.
	Below []vm.GuestPath `json:"below,omitempty"`
}

// The verbs of a Request.
const (
	VerbDiff = "diff"
	VerbTar  = "tar"
	// VerbProject asks for the files of a directory that git would track; see WriteProject.
	VerbProject = "project"
	// VerbTruth asks what a disk has that its image has not; see WriteTruth.
	VerbTruth = "truth"
)

// MaxRequest bounds a request in bytes.
const MaxRequest = 8 << 20

// The answer is a row of frames: a kind, four bytes of length, the content. Data frames
// join to the JSON of a vm.Diff, or to a tar. The last frame is an end or an error; an
// answer without it was cut off.
const (
	frameData  = 'd'
	frameEnd   = 'z'
	frameError = 'e'
	maxFrame   = 64 << 10
)

// failure is the content of an error frame.
type failure struct {
	Kind    vm.Kind `json:"kind"`
	Subject string  `json:"subject,omitempty"`
	Msg     string  `json:"msg"`
	Hint    string  `json:"hint,omitempty"`
}

// frames writes an answer.
type frames struct {
	out io.Writer
	buf []byte // of data, not yet a frame
}

func newFrames(out io.Writer) *frames { return &frames{out: out, buf: make([]byte, 0, maxFrame)} }

func (f *frames) frame(kind byte, p []byte) error {
	head := [5]byte{kind}
	binary.BigEndian.PutUint32(head[1:], uint32(len(p)))
	if _, err := f.out.Write(head[:]); err != nil {
		return err
	}
	_, err := f.out.Write(p)
	return err
}

// Write adds data.
func (f *frames) Write(p []byte) (n int, err error) {
	for n < len(p) {
		k := min(len(p)-n, maxFrame-len(f.buf))
		f.buf = append(f.buf, p[n:n+k]...)
		n += k
		if len(f.buf) == maxFrame {
			if err := f.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (f *frames) flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	err := f.frame(frameData, f.buf)
	f.buf = f.buf[:0]
	return err
}

// end writes the last frame.
func (f *frames) end(err error) error {
	if err == nil {
		if err := f.flush(); err != nil {
			return err
		}
		return f.frame(frameEnd, nil)
	}
	e := vm.AsError(err)
	data, err := json.Marshal(failure{Kind: vm.KindOf(err), Subject: e.Subject, Msg: (&vm.Error{Msg: e.Msg, Err: e.Err}).Error(), Hint: e.Hint})
	if err != nil || len(data) > maxFrame {
		data = []byte(`{"kind":"internal","msg":"the error has no form"}`)
	}
	return f.frame(frameError, data)
}

// answer reads the data of an answer.
type answer struct {
	in   io.Reader
	left int   // of the frame
	err  error // what ended it
}

// Answer returns the data of an answer that Serve has written. Read returns io.EOF only
// after the end of a whole answer; an error that the answer contains; and else an error of
// kind Internal. It never trusts a length.
func Answer(in io.Reader) io.Reader { return &answer{in: in} }

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	for a.err == nil && a.left == 0 {
		a.err = a.next()
	}
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.in.Read(p[:min(len(p), a.left)])
	a.left -= n
	if err != nil && (a.left > 0 || !errors.Is(err, io.EOF)) {
		a.err = broken("it ended within its answer")
	}
	return n, nil
}

// next reads the head of a frame.
func (a *answer) next() error {
	var head [5]byte
	if _, err := io.ReadFull(a.in, head[:]); err != nil {
		return broken("it ended before its answer did")
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch {
	case n > maxFrame:
		return broken("its answer has a frame of %d bytes", n)
	case head[0] == frameData:
		a.left = int(n)
		return nil
	case head[0] == frameEnd && n == 0:
		return io.EOF
	case head[0] != frameError:
		return broken("its answer has a frame of kind %d", head[0])
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(a.in, data); err != nil {
		return broken("it ended within its error")
	}
	var f failure
	if err := json.Unmarshal(data, &f); err != nil {
		return broken("its error has no form")
	}
	switch f.Kind {
	case vm.Invalid, vm.Corrupt, vm.Unsupported, vm.Limit, vm.NotFound, vm.Timeout:
		e := vm.Errorf(f.Kind, shown(f.Subject), "%s", shown(f.Msg))
		e.Hint = shown(f.Hint)
		return e
	default:
		return broken("%s", shown(f.Msg))
	}
}

func broken(format string, args ...any) error {
	return vm.Errorf(vm.Internal, "warren-reader", "the reader failed: %s", fmt.Sprintf(format, args...))
}

// shown is text of the reader as it may be shown.
func shown(text string) string {
	if len(text) > 1000 {
		text = text[:1000]
	}
	return vm.GuestPath(text).String()
}
