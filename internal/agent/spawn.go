// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// command is an ExecSpec that is ready to start.
type command struct {
	user linuxUser
	argv []string
	cwd  string
	env  []string
	path []string        // directories of its PATH
	tty  bool            // its standard input becomes its controlling terminal
	gone <-chan struct{} // closed when no client waits for it any more; nil = never
}

// prepare resolves user, directory, environment and argument list.
func (a *Agent) prepare(s vm.ExecSpec) (*command, error) {
	if (len(s.Argv) == 0) == (s.Command == "") {
		return nil, vm.Errorf(vm.Invalid, "", "give either a command or an argument list")
	}
	for _, arg := range append(s.Argv, s.Command, s.Cwd) {
		if strings.IndexByte(arg, 0) >= 0 {
			return nil, vm.Errorf(vm.Invalid, "", "an argument holds a NUL byte")
		}
	}
	u, err := a.users.find(s.User)
	if err != nil {
		return nil, err
	}
	c := &command{user: u, argv: s.Argv, cwd: u.under(s.Cwd)}
	if err := a.environ(c, s.Env); err != nil {
		return nil, err
	}
	if s.Command != "" {
		c.argv, err = shellLine(s.Command)
	}
	return c, err
}

// shellLine is the argument list for a command line. An image without a shell can run lines that need none.
func shellLine(line string) ([]string, error) {
	for _, shell := range []string{"/bin/bash", "/bin/sh"} {
		if syscall.Access(shell, 1) == nil {
			return []string{shell, "-c", line}, nil
		}
	}
	words := strings.Fields(line)
	if len(words) == 0 || strings.ContainsAny(line, "|&;<>()$`\\\"'*?[]#~={}!\n") {
		return nil, vm.Errorf(vm.Unsupported, "/bin/sh", "the guest has no shell, which this command line needs").
			WithHint("give a program and its arguments: warren exec NAME -- PROGRAM ARGUMENT")
	}
	return words, nil
}

// environ builds a login-like environment from defaults, /etc/environment and
// the caller's variables; later ones win.
func (a *Agent) environ(c *command, extra map[string]string) error {
	shell := c.user.shell
	if shell == "" {
		shell = "/bin/sh"
	}
	c.env = []string{
		"PATH=" + defaultPath, "HOME=" + c.user.home, "USER=" + c.user.name, "LOGNAME=" + c.user.name,
		"SHELL=" + shell, "LANG=C.UTF-8",
	}
	set := func(kv string) {
		name := kv[:strings.IndexByte(kv, '=')+1]
		if name == "" {
			return // of a file that a user broke
		}
		for i, have := range c.env {
			if strings.HasPrefix(have, name) {
				c.env[i] = kv
				return
			}
		}
		c.env = append(c.env, kv)
	}
	for _, kv := range a.users.environ() {
		set(kv)
	}
	for _, kv := range a.users.container().Env {
		set(kv)
	}
	for _, kv := range a.users.given(filepath.Join(a.cfg.RunDir, filepath.Base(vm.EnvFile))) {
		set(kv)
	}
	for k, v := range extra {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return vm.Errorf(vm.Invalid, k, "not a usable environment variable")
		}
		set(k + "=" + v)
	}
	for _, kv := range c.env {
		if p, ok := strings.CutPrefix(kv, "PATH="); ok {
			c.path = strings.Split(p, ":")
		}
	}
	return nil
}

// failed is a command that could not be started, with the exit status and message of a shell.
type failed struct {
	code int
	text string
}

func (f *failed) Error() string { return f.text }

// lookup finds the program as execvp does.
func (c *command) lookup() (string, error) {
	name := c.argv[0]
	if strings.IndexByte(name, '/') >= 0 {
		return name, nil
	}
	found := ""
	for _, dir := range c.path {
		if dir == "" {
			dir = "."
		}
		p := filepath.Join(dir, name)
		if !filepath.IsAbs(p) {
			p = filepath.Join(c.cwd, p)
		}
		var st syscall.Stat_t
		if syscall.Stat(p, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
			continue
		}
		if st.Mode&0o111 != 0 {
			return p, nil
		}
		found = p
	}
	if own := ownProgram(name); own != "" {
		return own, nil
	}
	if found != "" {
		return "", &failed{126, found + ": permission denied"}
	}
	return "", &failed{127, name + ": command not found"}
}

// spawned is a started command.
type spawned struct {
	pid   int
	pidfd *os.File
	in    *os.File // nil without stdin
	out   *os.File
	err   *os.File
}

// startCommand starts the command in its own session and process group. Its error is a
// *failed if a shell would report the failure with an exit status, else a *vm.Error.
func (a *Agent) startCommand(c *command, stdin bool) (*spawned, error) {
	if err := c.checkCwd(); err != nil {
		return nil, err
	}
	path, err := c.lookup()
	if err != nil {
		return nil, err
	}
	s := &spawned{}
	var child [3]int // the child's ends
	child[0] = a.devNull()
	defer func() {
		for i, fd := range child {
			if fd > 0 && (i > 0 || stdin) {
				_ = syscall.Close(fd)
			}
		}
	}()
	if stdin {
		if child[0], s.in, err = pipe(false); err != nil {
			return nil, err
		}
	}
	if child[1], s.out, err = pipe(true); err == nil {
		child[2], s.err, err = pipe(true)
	}
	if err == nil {
		err = a.fork(c, path, child, s)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *spawned) close() {
	for _, f := range []*os.File{s.in, s.out, s.err, s.pidfd} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// pipe makes a pipe whose end for this process does not block. This process
// reads from it if in is set, and else writes to it.
func pipe(in bool) (theirs int, ours *os.File, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return 0, nil, fmt.Errorf("pipe: %w", err)
	}
	mine := p[1]
	theirs = p[0]
	if in {
		mine, theirs = p[0], p[1]
	}
	if err := syscall.SetNonblock(mine, true); err != nil {
		_ = syscall.Close(mine)
		_ = syscall.Close(theirs)
		return 0, nil, fmt.Errorf("pipe: %w", err)
	}
	return theirs, os.NewFile(uintptr(mine), "pipe"), nil
}

// fork runs the program.
func (a *Agent) fork(c *command, path string, fds [3]int, s *spawned) error {
	pidfd := -1
	attr := &syscall.ProcAttr{
		Dir: c.cwd, Env: c.env, Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.tty, PidFD: &pidfd},
	}
	if c.user.uid != uint32(os.Geteuid()) {
		attr.Sys.Credential = &syscall.Credential{Uid: c.user.uid, Gid: c.user.gid, Groups: c.user.groups}
	}
	if fd := a.cgroup.get(); fd >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
	}
	if err := a.freezer.forks.enter(c.gone); err != nil {
		return err
	}
	defer a.freezer.forks.leave()
	a.oom.lower()
	defer a.oom.raise()
	var pid int
	var err error
	exact(func() { pid, err = a.forkExec(path, c.argv, attr) })
	if err != nil {
		return execError(c.argv[0], err)
	}
	s.pid = pid
	if pidfd < 0 {
		return vm.Errorf(vm.Unsupported, "", "the guest's kernel has no pidfd (Linux 5.3 or newer is needed)")
	}
	_ = syscall.SetNonblock(pidfd, true)
	s.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	return nil
}

// forkExec is syscall.ForkExec that tries again after two kinds of failure.
func (a *Agent) forkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	pid, err := syscall.ForkExec(path, argv, attr)
	if attr.Sys.UseCgroupFD && (errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EBUSY)) {
		a.cgroup.forget()
		attr.Sys.UseCgroupFD = false
		pid, err = syscall.ForkExec(path, argv, attr)
	}
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!, as in a shell
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...), attr)
	}
	return pid, err
}

func execError(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return &failed{127, name + ": no such file or directory"}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return &failed{126, name + ": permission denied"}
	case errors.Is(err, syscall.E2BIG):
		return &failed{126, name + ": argument list too long"}
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return vm.Errorf(vm.Limit, name, "the guest cannot start another process: %w", err)
	}
	return &failed{126, name + ": " + err.Error()}
}

// checkCwd reports an unusable directory, which would look like a missing program in the child.
func (c *command) checkCwd() error {
	return c.user.do(func() error {
		// "/." needs the right to enter the directory, as chdir does.
		fd, err := syscall.Open(c.cwd+"/.", oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fileError(c.cwd, err)
		}
		return syscall.Close(fd)
	})
}

// oPath is O_PATH, which package syscall lacks.
const oPath = 0x200000

// devNull returns a descriptor of /dev/null that stays open.
func (a *Agent) devNull() int {
	a.nullOnce.Do(func() {
		a.null = -1
		if fd, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
			a.null = fd
		}
	})
	return a.null
}

// cgroupDir is the control group of everything that exec starts.
const cgroupDir = "/sys/fs/cgroup/warren.exec"

// execGroup creates the control group when possible: systemd mounts the
// hierarchy some time after the agent has started.
type execGroup struct {
	mu sync.Mutex
	fd int // 0 = not yet opened
}

// get returns a descriptor of the group's directory, or -1.
func (g *execGroup) get() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fd > 0 {
		return g.fd
	}
	if os.Geteuid() != 0 || syscall.Access("/sys/fs/cgroup/cgroup.controllers", 0) != nil || Initial() == "" {
		return -1
	}
	if err := os.Mkdir(cgroupDir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return -1
	}
	fd, err := syscall.Open(cgroupDir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	g.fd = fd
	return fd
}

func (g *execGroup) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fd > 0 {
		_ = syscall.Close(g.fd)
		g.fd = 0
	}
}

// oomShield removes the agent's protection from the out-of-memory killer
// while it forks, so that children never inherit it.
type oomShield struct {
	mu    sync.Mutex
	file  *os.File // nil = the agent has no protection
	forks int
}

func (o *oomShield) open() {
	if f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0); err == nil {
		if _, err := f.WriteAt([]byte("-1000"), 0); err != nil {
			_ = f.Close()
			return
		}
		o.file = f
	}
}

func (o *oomShield) lower() { o.change(1, "0") }
func (o *oomShield) raise() { o.change(-1, "-1000") }

// change counts forks in progress, and writes the score at the first and after the last.
func (o *oomShield) change(by int, score string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.forks
	o.forks += by
	if o.file != nil && (before == 0 || o.forks == 0) {
		_, _ = o.file.WriteAt([]byte(score), 0)
	}
}
