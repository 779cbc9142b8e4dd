// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// Serve answers one request: what the confined program does. files are the layers that a
// request numbers. A failure is in the answer; the returned error is that of out.
func Serve(ctx context.Context, in io.Reader, out io.Writer, files []io.ReaderAt) error {
	buffered := bufio.NewWriterSize(out, maxFrame)
	f := newFrames(buffered)
	err := f.end(respond(ctx, in, f, files))
	return errors.Join(err, buffered.Flush())
}

func respond(ctx context.Context, in io.Reader, f *frames, files []io.ReaderAt) (err error) {
	defer func() {
		if p := recover(); p != nil { // a disk that no check foresaw
			err = vm.Errorf(vm.Internal, "", "%v at %s", p, debug.Stack())
		}
	}()
	data, err := io.ReadAll(io.LimitReader(in, MaxRequest+1))
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var r Request
	if err := json.Unmarshal(data, &r); err != nil || len(data) > MaxRequest {
		return vm.Errorf(vm.Invalid, "", "the request has no form")
	}
	disks := layers{files: files, open: map[int]*qcow.DiskLayer{}}
	to, err := disks.chain(r.To)
	if err != nil {
		return err
	}
	switch r.Verb {
	case VerbProject:
		if r.Project == nil {
			return vm.Errorf(vm.Invalid, "", "the request names no directory")
		}
		return WriteProject(ctx, to, *r.Project, f)
	case VerbTruth:
		return disks.truth(ctx, r, to, f)
	case VerbTar:
		return writeTar(ctx, to, r, f)
	case VerbDiff:
		from, err := disks.chain(r.From)
		if err != nil {
			return err
		}
		differ := func(each func(off, n int64) error) error { return qcow.Differ(from, to, each) }
		d, err := Report(ctx, from, to, differ, r.Options)
		if err != nil {
			return err
		}
		return json.NewEncoder(f).Encode(d)
	}
	return vm.Errorf(vm.Invalid, "", "no such verb")
}

// layers opens each inherited file at most once: a layer that two disks share is equal in
// both, and is not compared.
type layers struct {
	files []io.ReaderAt
	open  map[int]*qcow.DiskLayer
}

func (l layers) chain(numbers []int) (*qcow.Chain, error) {
	var list []*qcow.DiskLayer
	for _, n := range numbers {
		if n < 0 || n >= len(l.files) {
			return nil, vm.Errorf(vm.Invalid, "", "there is no layer %d", n)
		}
		if l.open[n] == nil {
			layer, err := qcow.OpenLayer(l.files[n])
			if err != nil {
				return nil, err
			}
			l.open[n] = layer
		}
		list = append(list, l.open[n])
	}
	return qcow.NewChain(list...)
}

// truth answers VerbTruth.
func (l layers) truth(ctx context.Context, r Request, now *qcow.Chain, w io.Writer) error {
	d := TruthDisks{Now: now}
	if len(r.From) > 0 {
		image, err := l.chain(r.From)
		if err != nil {
			return err
		}
		d.Image = image
	}
	if len(r.Bases) > MaxTruthBases {
		return vm.Errorf(vm.Invalid, "", "the request has too many states")
	}
	for _, b := range r.Bases {
		chain, err := l.chain(b.Layers)
		if err != nil {
			return err
		}
		d.Bases = append(d.Bases, TruthBase{Disk: chain, Below: b.Below})
	}
	d.Differ = func(from Disk) Differ {
		return func(each func(off, n int64) error) error {
			chain, ok := from.(*qcow.Chain)
			if !ok {
				return vm.Errorf(vm.Internal, "", "the disk has no layers")
			}
			return qcow.Differ(chain, now, each)
		}
	}
	return WriteTruth(ctx, d, r.Workdir, w)
}
