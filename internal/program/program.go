// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package program runs Warren's own programs in a guest, each to its end and with bounded
// output. Units drives systemd.
package program

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Exec is a program that was started in a guest.
type Exec interface {
	Process() vm.Process
	// Run copies the output until the program has ended.
	Run(stdout, stderr io.Writer) (vm.ExitStatus, error)
}

// Guest is a guest that starts programs and keeps files.
type Guest[X Exec] interface {
	Exec(ctx context.Context, spec vm.ExecSpec) (X, error)
	Files
}

// Files is what Units needs of a guest's files.
type Files interface {
	Stat(ctx context.Context, user, path string) (vm.FileInfo, error)
	WriteFile(ctx context.Context, user, path string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error)
	Remove(ctx context.Context, user, path string, recursive bool) error
}

// Ran is the result of a program that has ended.
type Ran struct {
	Out, Err string // the first 4 MiB of its output, the last 16 KiB of its error output
	Status   vm.ExitStatus
}

// Why is the program's own message about its failure.
func (r Ran) Why() string {
	text := strings.TrimSpace(r.Err)
	if text == "" {
		text = strings.TrimSpace(r.Out)
	}
	if text == "" {
		text = "exit status " + strconv.Itoa(r.Status.Code)
	}
	return strings.ToValidUTF8(text, "�")
}

const (
	maxOut = 4 << 20
	maxErr = 16 << 10
)

// Run runs a program to its end. A failing program is no error: see Ran.Status.
func Run[X Exec](ctx context.Context, g Guest[X], s vm.ExecSpec) (Ran, error) {
	x, err := g.Exec(ctx, s)
	if err != nil {
		return Ran{}, err
	}
	out, errs := Head{Max: maxOut}, Tail{Max: maxErr}
	st, err := x.Run(&out, &errs)
	return Ran{out.String(), errs.String(), st}, err
}

// Head keeps the first bytes that are written to it.
type Head struct {
	bytes.Buffer
	Max int // bytes
}

func (b *Head) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, b.Max-b.Len()))])
	return len(p), nil
}

// Tail keeps the last bytes that are written to it.
type Tail struct {
	bytes.Buffer
	Max int // bytes
}

func (b *Tail) Write(p []byte) (int, error) {
	b.Buffer.Write(p)
	if over := b.Len() - b.Max; over > 0 {
		b.Next(over)
	}
	return len(p), nil
}
