// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Limits of a run.
const (
	maxMemory = 256 << 20 // what it may allocate; it tries to stay far below
	maxLayers = 200
	maxSaid   = 8 << 10 // of its messages
	// readerUser is the user id of the program when serve runs as root: one that no
	// system assigns, after those of the machines.
	readerUser = 1879048193 + 1<<24 + 1
)

// files are the layers that a run inherits. A file that two disks share is opened once:
// what both have from it is not compared.
type files struct {
	list []*os.File
	info []os.FileInfo
}

func newFiles() *files { return &files{} }

// add opens layers and returns their numbers.
func (f *files) add(paths []string) (numbers []int, err error) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, layout.Error(path, err)
		}
		st, err := file.Stat()
		if err == nil && !st.Mode().IsRegular() {
			err = vm.Errorf(vm.Corrupt, path, "it is no regular file")
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		n := f.number(st)
		if n < 0 {
			n = len(f.list)
			f.list, f.info = append(f.list, file), append(f.info, st)
		} else if err := file.Close(); err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	if len(f.list) > maxLayers {
		return nil, vm.Errorf(vm.Limit, "", "the disks have more than %d layers", maxLayers)
	}
	return numbers, nil
}

// number finds a file that is open already.
func (f *files) number(st os.FileInfo) int {
	for i, have := range f.info {
		if os.SameFile(have, st) {
			return i
		}
	}
	return -1
}

func (f *files) close() {
	for _, file := range f.list {
		_ = file.Close() // nothing was written
	}
}

// plan is all that the program reaches.
func (r *Reader) plan() confine.Plan {
	cpu := uint64(r.cfg.Deadline.Seconds()) + 1
	p := confine.Plan{
		Root: r.cfg.Root,
		Limits: []confine.Limit{
			{What: unix.RLIMIT_DATA, Cur: maxMemory, Max: maxMemory},
			{What: unix.RLIMIT_CPU, Cur: cpu, Max: cpu},
			{What: unix.RLIMIT_NOFILE, Cur: maxLayers + 64, Max: maxLayers + 64},
			{What: unix.RLIMIT_FSIZE},
			{What: unix.RLIMIT_CORE},
		},
	}
	if confine.MaySwitchUsers() {
		p.UID, p.GID = readerUser, readerUser
	}
	return p
}

// run starts the program on a request and has read take its answer. It returns when the
// program has ended.
func (r *Reader) run(ctx context.Context, request review.Request, f *files, read func(io.Reader) error) error {
	data, err := json.Marshal(request)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "%w", err)
	}
	if len(data) > review.MaxRequest {
		return vm.Errorf(vm.Limit, "paths", "there are too many").WithHint("name fewer paths, or a directory above them")
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	bounded, stop := context.WithTimeoutCause(ctx, r.cfg.Deadline, vm.Errorf(vm.Timeout, "", "the disks were not read within %s", r.cfg.Deadline).
		WithHint("name a PATH to read only what is below it"))
	defer stop()
	if err := r.makeRoot(); err != nil {
		return err
	}
	p, err := r.start(bounded, f.list, strconv.Itoa(len(f.list)))
	if err != nil {
		return err
	}
	go func() { // ends when the program reads all, or ends
		_, _ = p.in.Write(data) // a program that does not read gives no answer
		_ = p.in.Close()
	}()
	err = read(review.Answer(p.out))
	said, waitErr := p.end(err != nil)
	if said != "" {
		r.cfg.Log.Warn("the reader of disks has said", "what", strconv.QuoteToASCII(said))
	}
	switch {
	case bounded.Err() != nil && (err != nil || waitErr != nil):
		return context.Cause(bounded)
	case err == nil && waitErr != nil:
		return vm.Errorf(vm.Internal, "warren-reader", "the reader failed after its answer: %w", waitErr)
	case vm.KindOf(err) == vm.Internal && cpuEnded(waitErr):
		return vm.Errorf(vm.Timeout, "", "reading the disks takes too much time").WithHint("name a PATH to read only what is below it")
	}
	if vm.KindOf(err) == vm.Internal && waitErr != nil && strings.Contains(said, "out of memory") {
		return vm.Errorf(vm.Limit, "", "reading the disks takes more than %d MiB of memory", maxMemory>>20).WithHint("name a PATH to read only what is below it")
	}
	return err
}

// cpuEnded reports whether a program was ended for its use of the CPU.
func cpuEnded(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(unix.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == unix.SIGXCPU)
}

// program is one run.
type program struct {
	cmd  *exec.Cmd
	in   *os.File // its standard input
	out  *os.File // its standard output
	said chan string
}

func (r *Reader) makeRoot() error {
	return layout.Error(r.cfg.Root, os.MkdirAll(r.cfg.Root, 0o700))
}

// start starts the program confined, with its argument.
func (r *Reader) start(ctx context.Context, layers []*os.File, arg string) (*program, error) {
	var open []*os.File
	closeAll := func() {
		for _, f := range open {
			_ = f.Close()
		}
	}
	pipe := func() (read, write *os.File, err error) {
		if read, write, err = os.Pipe(); err != nil {
			closeAll()
			return nil, nil, vm.Errorf(vm.Limit, "", "no pipe: %w", err)
		}
		open = append(open, read, write)
		return read, write, nil
	}
	inR, inW, err := pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, r.cfg.Binary, arg)
	cmd.Dir, cmd.Env = "/", []string{"GOTRACEBACK=single"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = inR, outW, errW, layers
	if err := confine.Start(cmd, r.plan()); err != nil {
		closeAll()
		return nil, vm.Errorf(vm.Internal, "warren-reader", "it cannot be started confined: %w", err)
	}
	for _, f := range []*os.File{inR, outW, errW} {
		_ = f.Close() // the program has its own copy
	}
	p := &program{cmd: cmd, in: inW, out: outR, said: make(chan string, 1)}
	go func() { // ends with the program
		defer errR.Close()
		head, _ := io.ReadAll(io.LimitReader(errR, maxSaid))
		_, _ = io.Copy(io.Discard, errR)
		p.said <- strings.TrimSpace(string(head))
	}()
	return p, nil
}

// end waits for the program's end, and returns what it said and how it ended. With kill
// it does not wait for it to finish.
func (p *program) end(kill bool) (string, error) {
	_ = p.out.Close()
	if kill {
		_ = p.cmd.Process.Kill() // it may have ended
	}
	err := p.cmd.Wait()
	_ = p.in.Close()
	return <-p.said, err
}
