// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// A program is one run of a program on the host.
type program struct {
	args   []string
	env    []string // replaces the default environment if it is set
	dir    string   // its working directory; "" = this process's
	stdin  io.Reader
	files  []*os.File // descriptors from 3; nil = closed
	output io.Writer  // stdout and stderr; nil = its end goes into the error
}

// A runner runs programs; tests replace it.
type runner func(ctx context.Context, p program) error

// stopGrace is how long a program may clean up after SIGTERM.
const stopGrace = 15 * time.Second

// runProgram runs p in its own process group. When ctx ends, or this process dies, the group
// gets SIGTERM, and SIGKILL after stopGrace. runProgram returns when the program has ended.
func runProgram(ctx context.Context, p program) (err error) {
	if _, err := exec.LookPath(p.args[0]); err != nil {
		return vm.Errorf(vm.Unsupported, p.args[0], "is not installed").
			WithHint("`warren doctor` says how to install what is missing")
	}
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Env = append(programEnv(os.Environ()), p.env...)
	cmd.Stdin, cmd.ExtraFiles, cmd.Dir = p.stdin, p.files, p.dir
	var tail bytes.Buffer
	if p.output == nil {
		p.output = &tail
	}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	if err := cmd.Start(); err != nil {
		return vm.Errorf(vm.Unsupported, p.args[0], "does not start: %w", err)
	}
	release, guardErr := guard(cmd.Process.Pid)
	if guardErr != nil {
		_ = cmd.Cancel() // it has not run long enough to matter
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that the program left; usually none
	switch {
	case guardErr != nil:
		return vm.Errorf(vm.Unsupported, "sh", "does not start: %w", guardErr)
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), err, release())
	case err != nil:
		lines := strings.Split(strings.TrimSpace(tail.String()), "\n")
		return errors.Join(vm.Errorf(vm.Internal, p.args[0], "%s: %w", lines[len(lines)-1], err), release())
	}
	return release()
}

// guardScript ends a process group if its input ends without a line.
const guardScript = `read -r line || { kill -s TERM -- "-$1"; sleep 15; kill -s KILL -- "-$1"; } 2>/dev/null`

// guard starts a process that ends the group if this process dies for any
// reason: mmdebstrap alone would continue for minutes. release ends the guard.
func guard(group int) (release func() error, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", guardScript, "warren-build-guard", strconv.Itoa(group))
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	return func() error {
		_, err := w.WriteString("\n")
		return errors.Join(err, w.Close(), cmd.Wait())
	}, r.Close()
}

// programEnv keeps variables that programs of the host may need, and drops
// those that would change their output.
func programEnv(env []string) []string {
	keep := map[string]bool{
		"HOME": true, "USER": true, "LOGNAME": true, "PATH": true,
		"http_proxy": true, "https_proxy": true, "no_proxy": true, "HTTP_PROXY": true, "HTTPS_PROXY": true, "NO_PROXY": true,
		"SSL_CERT_FILE": true, "SSL_CERT_DIR": true,
	}
	out := []string{"LC_ALL=C.UTF-8"}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		if k == "PATH" && !strings.Contains(v, "/usr/sbin") {
			e += ":/usr/sbin:/sbin" // mke2fs is there, and not every user's path has it
		}
		if keep[k] {
			out = append(out, e)
		}
	}
	return out
}

// tempDir creates the directory for mmdebstrap's tree, which users of the namespace must be able
// to reach. It records the directory in the build's directory, so that it is found after a crash.
func (b *builder) tempDir(ctx context.Context) (string, error) {
	if old, err := os.ReadFile(b.tempMark()); err == nil {
		if err := b.dropTemp(ctx, string(old)); err != nil {
			return "", err
		}
	}
	dir, err := os.MkdirTemp(tempRoot(os.Getenv("TMPDIR")), "warren-build-")
	if err != nil {
		return "", fileError(tempRoot(os.Getenv("TMPDIR")), err)
	}
	if err := layout.WriteFile(b.tempMark(), []byte(dir), 0o600); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // users of the namespace go through it
		return "", fileError(dir, err)
	}
	return dir, nil
}

// tempRoot prefers /var/tmp, which is on a disk, to /tmp, which may be memory.
func tempRoot(fromEnv string) string {
	if fromEnv != "" {
		return fromEnv
	}
	return "/var/tmp"
}

func (b *builder) tempMark() string { return filepath.Join(string(b.dir), ".tempdir") }

// dropTemp removes a directory of tempDir with its contents.
func (b *builder) dropTemp(ctx context.Context, dir string) error {
	if err := removeTree(ctx, b.run, dir); err != nil {
		return err
	}
	if err := os.Remove(b.tempMark()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(b.tempMark(), err)
	}
	return nil
}

// removeTree removes a build's temporary directory. Its contents may belong to
// users of a namespace; then only such a user can remove them.
func removeTree(ctx context.Context, run runner, dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), "warren-build-") {
		return vm.Errorf(vm.Internal, dir, "is not a directory of a build")
	}
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = os.Chmod(dir, 0o755) //nolint:gosec // users of the namespace go through it; if it fails, so does the next step
	err := run(ctx, program{args: []string{"mmdebstrap", "--unshare-helper", "find", dir, "-mindepth", "1", "-xdev", "-delete"}})
	if last := os.RemoveAll(dir); last != nil {
		return errors.Join(fileError(dir, last), err)
	}
	return nil
}

// buildWatch parses the output of mmdebstrap and customize.sh.
type buildWatch struct {
	progress func(step string, done int)
	rest     string
	step     string
	fault    string
	saved    bool   // the layer is complete
	last     string // line that is neither a step nor a fact
}

// landmarks are lines of output that show the progress of the build.
var landmarks = []struct {
	text, step string
	done       int
}{
	{"warren-step: restore", "packages", 1},
	{"I: running apt-get update", "package lists", 2},
	{"I: downloading packages", "download", 6},
	{"I: extracting archives", "unpack", 16},
	{"I: installing essential", "install", 20},
	{"I: installing remaining", "install", 28},
	{"warren-step: upgrade", "packages", 30},
	{"warren-step: below", "packages", 32},
	{"warren-step: kernel", "kernel", 36},
	{"warren-step: packages", "packages", 38},
	{"warren-step: files", "files", 46},
	{"warren-step: run", "run", 50},
	{"warren-step: services", "services", 53},
	{"warren-step: disk", "file system", 56},
}

func (w *buildWatch) Write(p []byte) (int, error) {
	w.rest += string(p)
	for {
		line, rest, ok := strings.Cut(w.rest, "\n")
		if !ok {
			return len(p), nil
		}
		w.rest = rest
		w.line(line)
	}
}

func (w *buildWatch) line(line string) {
	if s, ok := strings.CutPrefix(line, "warren-step: "); ok {
		w.step = s
	} else if strings.TrimSpace(line) != "" {
		w.last = line
	}
	w.saved = w.saved || line == "warren-saved: layer"
	if s, ok := strings.CutPrefix(line, "warren-error: "); ok {
		w.fault = s
	} else if strings.HasPrefix(line, "E: ") && w.fault == "" {
		w.fault = strings.TrimPrefix(line, "E: ")
	}
	for _, l := range landmarks {
		if strings.HasPrefix(line, l.text) {
			w.progress(l.step, l.done)
		}
	}
}

// explain converts the program's failure to an error for people.
func (w *buildWatch) explain(err error, log string) error {
	if vm.KindOf(err) != vm.Internal {
		return err
	}
	msg, kind := w.fault, vm.Internal
	switch {
	case strings.Contains(msg, "run step"):
		kind = vm.Invalid
	case strings.Contains(msg, "Unable to locate package"), strings.Contains(msg, "no installation candidate"):
		kind = vm.Invalid
	case strings.Contains(msg, "No space left"):
		kind = vm.NoSpace
	case msg == "":
		msg = "mmdebstrap failed"
	}
	if w.step != "" {
		msg += " (in step " + w.step + ")"
	}
	return vm.Errorf(kind, "build", "%s", msg).WithHint("see %s", log)
}

// fileError maps an error of the operating system to a kind.
func fileError(path string, err error) error {
	var e *vm.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	kind := vm.Internal
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = vm.NoSpace
	case errors.Is(err, fs.ErrNotExist):
		kind = vm.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = vm.Denied
	}
	return vm.Errorf(kind, path, "%w", err)
}
