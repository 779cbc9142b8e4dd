// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	outputLimit = 64 << 20         // bytes of a git program's output that is kept in memory
	errorLimit  = 16 << 10         // bytes of what it says on standard error
	endsWithin  = 10 * time.Second // after it was killed, until its pipes are closed
)

// settings are git's settings in every process. They stand above those of the
// repository, which only Warren writes, and there are no others: neither the system's
// nor a user's.
var settings = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.attributesFile", "/dev/null"},
	{"core.excludesFile", "/dev/null"},
	{"core.fsync", "all"},
	{"core.fsyncMethod", "fsync"},
	{"core.logAllRefUpdates", "always"},
	{"core.fsmonitor", "false"},
	{"attr.tree", emptyTree},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"receive.autogc", "false"},
	{"protocol.allow", "never"},
	{"transfer.fsckObjects", "true"},
	{"receive.fsckObjects", "true"},
	{"fetch.fsckObjects", "true"},
	{"uploadpack.allowFilter", "true"},
	{"transfer.unpackLimit", "1"}, // packs: two files to sync instead of one for each object
	{"fastimport.unpackLimit", "0"},
	{"pack.threads", "2"},
	{"pack.windowMemory", "64m"},
	{"core.bigFileThreshold", "32m"},
	{"diff.external", ""},
	{"diff.renames", "true"},
	{"diff.renameLimit", "1000"},
	{"advice.graftFileDeprecated", "false"},
}

const (
	emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	zeroID    = "0000000000000000000000000000000000000000"
)

// environment is the whole environment of a git process on a repository.
func environment(dir string, extra ...string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C.UTF-8", "TZ=UTC",
		"GIT_DIR=" + dir,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1", "GIT_NO_LAZY_FETCH=1",
		"GIT_COMMITTER_NAME=Warren", "GIT_COMMITTER_EMAIL=warren@localhost", "GIT_AUTHOR_NAME=Warren", "GIT_AUTHOR_EMAIL=warren@localhost",
	}
	all := append([][2]string{{"safe.directory", dir}}, settings...)
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(all)))
	for i, kv := range all {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+kv[0], "GIT_CONFIG_VALUE_"+n+"="+kv[1])
	}
	return append(env, extra...)
}

// program is one git process to be run.
type program struct {
	dir  string   // of the repository
	env  []string // more than environment
	args []string
	in   io.Reader // nil = nothing
	out  io.Writer // nil = kept, at most outputLimit bytes
	errs io.Writer // gets standard error, too; nil = nobody
}

// failure is how a git process failed.
type failure struct {
	args   []string
	status int // -1 = a signal
	said   string
}

func (f *failure) Error() string {
	said := f.said
	if said == "" {
		said = fmt.Sprintf("exit status %d", f.status)
	}
	return "git " + f.args[0] + ": " + said
}

// run runs git and returns its output. It blocks until the process has ended; when ctx
// or the room ends, the process is killed with all that it started. Kinds Unsupported
// without git, Limit for too much output, Cancelled and Timeout with ctx. Other failures
// wrap a *failure.
func (r *Repo) run(ctx context.Context, p program) ([]byte, error) {
	ctx, release, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	cmd := r.command(ctx, p.dir, p.env, p.args...)
	var kept keeper
	kept.limit = outputLimit
	var said keeper
	said.limit = errorLimit
	said.drop = true
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.in, p.out, io.Writer(&said)
	if p.out == nil {
		cmd.Stdout = &kept
	}
	if p.errs != nil {
		cmd.Stderr = io.MultiWriter(&said, p.errs)
	}
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, vm.WithOp("", "", context.Cause(ctx))
	case kept.over:
		return nil, vm.Errorf(vm.Limit, "", "git %s says more than %d MiB", p.args[0], outputLimit>>20)
	case err == nil:
		return kept.Bytes(), nil
	}
	return kept.Bytes(), r.failed(p, said.String(), err)
}

// failed gives the error of a process its kind.
func (r *Repo) failed(p program, said string, err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if errors.Is(err, exec.ErrNotFound) {
			return vm.Errorf(vm.Unsupported, "git", "git is not installed on the host").WithHint("install it: `apt install git`")
		}
		return vm.Errorf(vm.Internal, "", "git %s: %w", p.args[0], err).WithCode("GIT_ERROR")
	}
	f := &failure{p.args, exit.ExitCode(), lastLines(said)}
	if strings.Contains(said, "No space left on device") || strings.Contains(said, "Disk quota exceeded") {
		return vm.Errorf(vm.NoSpace, "", "the host's disk is full: %w", f)
	}
	return vm.Errorf(vm.Internal, "", "%w", f).WithCode("GIT_ERROR", "message", f.Error())
}

// exitOf is the exit status of a failed git process; -1 = it has none.
func exitOf(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.status
	}
	return -1
}

// saidBy is what a failed git process said.
func saidBy(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return f.said
	}
	return ""
}

// lastLines shortens what a process said to its last lines, in one line.
func lastLines(said string) string {
	lines := strings.FieldsFunc(said, func(c rune) bool { return c == '\n' || c == '\r' })
	lines = lines[max(0, len(lines)-5):]
	for i, l := range lines {
		lines[i] = strings.ToValidUTF8(strings.TrimSpace(l), "?")
	}
	return vm.Clip(strings.Join(lines, "; "), 1000)
}

// command is a git process that ends with ctx, together with its children.
func (r *Repo) command(ctx context.Context, dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.git, args...)
	cmd.Dir, cmd.Env = "/", environment(dir, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = endsWithin
	return cmd
}

// enter counts a task of the room, and returns a context that also ends with the room.
// Kind Unavailable when the room is closing.
func (r *Repo) enter(ctx context.Context) (context.Context, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life == nil || r.life.Err() != nil {
		return nil, nil, vm.Errorf(vm.Unavailable, "", "the repositories are not open")
	}
	r.tasks.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.life, func() { cancel(vm.Errorf(vm.Unavailable, "", "the server is ending")) })
	return ctx, func() {
		stop()
		cancel(nil)
		r.tasks.Done()
	}, nil
}

// keeper keeps the first limit bytes that are written to it.
type keeper struct {
	bytes.Buffer
	limit int
	drop  bool // drop what is above the limit; else writing more fails
	over  bool
}

func (k *keeper) Write(p []byte) (int, error) {
	if room := k.limit - k.Len(); len(p) > room {
		if !k.drop {
			k.over = true
			return 0, vm.Limit
		}
		k.over = true
		_, _ = k.Buffer.Write(p[:room])
		return len(p), nil
	}
	return k.Buffer.Write(p)
}
