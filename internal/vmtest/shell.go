// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/warren-vm/warren/vm"
)

// shell runs bash scripts on a simulated guest's disk. mvdan.cc/sh provides the language
// and the builtins; commands.go the programs. It touches no file or program of the host.
type shell struct {
	disk           *disk
	user           string
	cwd            string            // of the first script
	env            map[string]string // of the first script
	ctx            context.Context
	stdin          io.Reader // nil = empty
	stdout, stderr io.Writer
	net            func() vm.NetworkMode // nil = open

	runner *interp.Runner // made by the first script; keeps variables and directory for the next
	input  *os.File       // what the runner reads; nil = nothing, or a file that belongs to another shell
}

// close closes what the shell has open.
func (sh *shell) close() {
	if sh.input != nil {
		_ = sh.input.Close() // a pipe's close does not fail
	}
}

// openInput returns what the runner reads. From a reader that is no file the runner
// would make a pipe that it does not close.
func (sh *shell) openInput() (io.Reader, error) {
	if _, file := sh.stdin.(*os.File); file || sh.stdin == nil {
		return sh.stdin, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	sh.input = r
	go func() { // ends with the input, or when nobody reads it any more
		_, _ = io.Copy(w, sh.stdin)
		_ = w.Close()
	}()
	return r, nil
}

// script runs a script and returns its exit status. 137 means that the shell's context
// ended first.
func (sh *shell) script(text string) int {
	if sh.runner == nil {
		if err := sh.open(); err != nil {
			return sh.complain(err)
		}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "bash")
	if err != nil {
		sh.complain(err)
		return 2
	}
	err = sh.runner.Run(sh.ctx, file)
	var status interp.ExitStatus
	switch {
	case sh.ctx.Err() != nil:
		return 137
	case errors.As(err, &status):
		return int(status)
	case err != nil:
		return sh.complain(err)
	}
	return 0
}

// program runs one program without a shell.
func (sh *shell) program(argv []string) int {
	words := make([]string, len(argv))
	for i, a := range argv {
		word, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			return sh.complain(err)
		}
		words[i] = word
	}
	return sh.script(strings.Join(words, " "))
}

// exited reports whether the last script ended the shell.
func (sh *shell) exited() bool { return sh.runner != nil && sh.runner.Exited() }

func (sh *shell) complain(err error) int {
	_, _ = fmt.Fprintf(sh.stderr, "bash: %v\n", err) // a failed write is lost, as in a real shell
	return 1
}

func (sh *shell) open() error {
	env := []string{"PATH=/usr/bin"}
	for k, v := range sh.env {
		env = append(env, k+"="+v)
	}
	stdin, err := sh.openInput()
	if err != nil {
		return err
	}
	r, err := interp.New(
		interp.Env(expand.ListEnviron(env...)),
		interp.Dir("/"),
		interp.StdIO(stdin, sh.stdout, sh.stderr),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return sh.exec }),
		interp.OpenHandler(sh.openFile),
		interp.StatHandler(sh.statFile),
		interp.ReadDirHandler2(sh.readDir),
		interp.AccessHandler(func(context.Context, string, interp.AccessMode) error { return nil }),
	)
	if err != nil {
		return err
	}
	r.Dir = sh.cwd // interp.Dir would check it on the host
	sh.runner = r
	return nil
}

// exec runs a command that is not a builtin.
func (sh *shell) exec(ctx context.Context, argv []string) error {
	hc := interp.HandlerCtx(ctx)
	inner := &shell{
		disk: sh.disk, user: sh.user, cwd: hc.Dir, env: map[string]string{}, ctx: ctx,
		stdin: hc.Stdin, stdout: hc.Stdout, stderr: hc.Stderr, net: sh.net,
	}
	for name, v := range hc.Env.Each {
		if v.Exported && v.Kind == expand.String {
			inner.env[name] = v.Str
		}
	}
	if code := inner.command(argv); code != 0 {
		return interp.ExitStatus(code)
	}
	return nil
}

// on returns a shell with the same start and another output.
func (sh *shell) on(out io.Writer) *shell {
	inner := *sh
	inner.runner, inner.stdin, inner.env = nil, nil, maps.Clone(sh.env)
	inner.stdout, inner.stderr = out, out
	return &inner
}

func (sh *shell) abs(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(sh.cwd, p)
}

func (sh *shell) read(p string) ([]byte, error) {
	sh.disk.mu.Lock()
	defer sh.disk.mu.Unlock()
	p = sh.disk.follow(sh.user, sh.abs(p))
	n := sh.disk.nodes[p]
	if n == nil || n.kind != vm.FileRegular {
		return nil, noFile(p)
	}
	return bytes.Clone(n.data), nil
}

// openFile opens the target of a redirection.
func (sh *shell) openFile(ctx context.Context, p string, flag int, _ fs.FileMode) (io.ReadWriteCloser, error) {
	if !path.IsAbs(p) {
		p = path.Join(interp.HandlerCtx(ctx).Dir, p)
	}
	if p == "/dev/null" {
		return &redirected{}, nil
	}
	f := &redirected{sh: sh, path: p}
	old, err := sh.read(p)
	if flag&os.O_CREATE == 0 || flag&os.O_APPEND != 0 {
		f.data = old
	}
	if flag&os.O_CREATE == 0 {
		f.sh = nil
		f.left = bytes.NewReader(old)
	} else {
		err = f.save() // report a full disk or a missing directory first
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: syscall.ENOENT}
	}
	return f, nil
}

// redirected is the open file of a redirection.
type redirected struct {
	sh   *shell // nil = writes are discarded
	path string
	data []byte
	left *bytes.Reader // not read yet; nil = nothing
}

func (f *redirected) Read(p []byte) (int, error) {
	if f.left == nil {
		return 0, io.EOF
	}
	return f.left.Read(p)
}

func (f *redirected) Write(p []byte) (int, error) {
	f.data = append(f.data, p...)
	if err := f.save(); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *redirected) Close() error { return nil }

func (f *redirected) save() error {
	if f.sh == nil {
		f.data = nil
		return nil
	}
	_, err := f.sh.disk.put(f.sh.user, f.path, bytes.Clone(f.data), 0, false)
	return err
}

func (sh *shell) statFile(_ context.Context, p string, follow bool) (fs.FileInfo, error) {
	sh.disk.mu.Lock()
	defer sh.disk.mu.Unlock()
	at := sh.disk.resolve(sh.user, p)
	if follow {
		at = sh.disk.follow(sh.user, p)
	}
	n := sh.disk.nodes[at]
	if n == nil {
		return nil, &fs.PathError{Op: "stat", Path: p, Err: syscall.ENOENT}
	}
	return entry{info(at, n)}, nil
}

func (sh *shell) readDir(_ context.Context, p string) ([]fs.DirEntry, error) {
	sh.disk.mu.Lock()
	defer sh.disk.mu.Unlock()
	var list []fs.DirEntry
	for _, c := range sh.disk.children(sh.disk.follow(sh.user, p)) {
		list = append(list, fs.FileInfoToDirEntry(entry{c}))
	}
	return list, nil
}

// entry describes a file of the disk for io/fs.
type entry struct{ f vm.FileInfo }

func (e entry) Name() string       { return e.f.Name }
func (e entry) Size() int64        { return e.f.Size }
func (e entry) ModTime() time.Time { return e.f.ModTime }
func (e entry) IsDir() bool        { return e.f.Kind == vm.FileDirectory }
func (e entry) Sys() any           { return nil }

func (e entry) Mode() fs.FileMode {
	mode := fs.FileMode(e.f.Mode & 0o777)
	switch e.f.Kind {
	case vm.FileDirectory:
		mode |= fs.ModeDir
	case vm.FileSymlink:
		mode |= fs.ModeSymlink
	}
	return mode
}
