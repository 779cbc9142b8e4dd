// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// A guest without systemd has one service: the program of its container image. A process of its own runs it,
// so that it outlives the agent, and answers on a socket that only root can open.

const (
	serviceUnit   = vm.ContainerService + ".service"
	serviceSocket = runDir + "/services.sock"
	serviceLog    = runDir + "/" + vm.ContainerService + ".log"
	serviceGroup  = "/sys/fs/cgroup/warren.services"

	restartFirst  = time.Second // doubled after each failure, up to restartLast
	restartLast   = time.Minute
	restartGood   = time.Minute // a run of this length counts as a success
	stopPatience  = 10 * time.Second
	maxLogLine    = 16 << 10
	maxServiceLog = 4 << 20 // bytes, of two files each
)

// The states of the service, in systemd's words.
const (
	activeRunning = "active running"
	activeWaiting = "activating auto-restart"
	inactiveDead  = "inactive dead"
	failedFailed  = "failed failed"
	deactivating  = "deactivating stop"
)

// serviceStatus is the answer to every request.
type serviceStatus struct {
	State   string   `json:"state"`
	PID     int      `json:"pid"`
	Runs    int      `json:"runs"`
	Argv    []string `json:"argv"`
	Refusal string   `json:"refusal,omitempty"`
}

// service runs one program, and starts it again when it fails.
type service struct {
	agent *Agent
	log   *serviceLogFile

	mu     sync.Mutex
	st     serviceStatus
	wanted bool          // it should run
	kick   chan struct{} // a state changed, or a request came
}

// RunServices runs the program of the guest's container image until ctx ends. It ends at once
// if another process does so already, or if there is no program.
func RunServices(ctx context.Context) error {
	a := &Agent{cfg: Config{RunDir: runDir, EtcDir: "/etc"}, log: slog.New(slog.DiscardHandler)}
	a.users.etc = "/etc"
	cfg := a.users.container()
	if len(cfg.Argv) == 0 {
		return nil
	}
	if c, err := net.Dial("unix", serviceSocket); err == nil {
		return c.Close()
	}
	_ = os.Remove(serviceSocket) // of a process that died
	l, err := net.Listen("unix", serviceSocket)
	if err != nil {
		return err
	}
	if err := os.Chmod(serviceSocket, 0o600); err != nil {
		return err
	}
	s := &service{agent: a, log: &serviceLogFile{path: serviceLog}, wanted: true, kick: make(chan struct{}, 1)}
	s.st = serviceStatus{State: inactiveDead, Argv: cfg.Argv}
	go s.answer(l) // as long as the process
	s.run(ctx)
	return context.Cause(ctx)
}

// run keeps the program running while it is wanted.
func (s *service) run(ctx context.Context) {
	wait := restartFirst
	for ctx.Err() == nil {
		s.mu.Lock()
		wanted := s.wanted
		s.mu.Unlock()
		if !wanted {
			s.await(ctx, 0)
			continue
		}
		began := time.Now()
		ok := s.once(ctx)
		if time.Since(began) > restartGood {
			wait = restartFirst
		}
		s.mu.Lock()
		switch {
		case !s.wanted:
			s.st.State = inactiveDead
		case ok: // it did what it had to do
			s.st.State, s.wanted = inactiveDead, false
		default:
			s.st.State = activeWaiting
		}
		again := s.wanted
		s.mu.Unlock()
		if again {
			s.log.note(fmt.Sprintf("starts again in %v", wait))
			s.await(ctx, wait)
			wait = min(2*wait, restartLast)
		} else {
			wait = restartFirst
		}
	}
}

// await waits for a request; a limit of 0 = for ever.
func (s *service) await(ctx context.Context, limit time.Duration) {
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-late:
	case <-s.kick:
	case <-ctx.Done():
	}
}

// once runs the program to its end. It reports whether it ended well.
func (s *service) once(ctx context.Context) bool {
	pid, out, err := s.start()
	if err != nil {
		s.log.note("does not start: " + err.Error())
		return false
	}
	s.mu.Lock()
	s.st.PID, s.st.State = pid, activeRunning
	s.st.Runs++
	s.mu.Unlock()
	var copied sync.WaitGroup
	for priority, r := range out {
		copied.Go(func() { s.log.copy(r, priority) })
	}
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	s.mu.Lock()
	s.st.PID = 0
	s.mu.Unlock()
	_ = os.WriteFile(serviceGroup+"/cgroup.kill", []byte("1"), 0) // what the program left; else its output stays open
	copied.Wait()
	how := fmt.Sprintf("ended with status %d", ws.ExitStatus())
	if ws.Signaled() {
		how = "was ended by the signal " + signalName(ws.Signal())
	}
	s.log.note(how)
	return ws.Exited() && ws.ExitStatus() == 0
}

// start starts the program, and returns its output by priority in systemd's journal.
func (s *service) start() (int, map[int]*os.File, error) {
	a := s.agent
	cfg := a.users.container()
	u, err := a.users.find(cfg.User)
	if err != nil {
		return 0, nil, err
	}
	c := &command{user: u, argv: cfg.Argv, cwd: or(cfg.Workdir, "/")}
	if err := a.environ(c, nil); err != nil {
		return 0, nil, err
	}
	if err := c.checkCwd(); err != nil {
		return 0, nil, err
	}
	path, err := c.lookup()
	if err != nil {
		return 0, nil, err
	}
	outTheirs, out, err := pipe(true)
	if err != nil {
		return 0, nil, err
	}
	errTheirs, errs, err := pipe(true)
	if err != nil {
		return 0, nil, err
	}
	attr := &syscall.ProcAttr{
		Dir: c.cwd, Env: c.env, Files: []uintptr{uintptr(a.devNull()), uintptr(outTheirs), uintptr(errTheirs)},
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	if u.uid != 0 || u.gid != 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}
	}
	_ = os.Mkdir(serviceGroup, 0o755) // it may exist
	if fd, err := syscall.Open(serviceGroup, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0); err == nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
		defer func() { _ = syscall.Close(fd) }()
	}
	pid, err := syscall.ForkExec(path, c.argv, attr)
	_ = syscall.Close(outTheirs)
	_ = syscall.Close(errTheirs)
	if err != nil {
		_, _ = out.Close(), errs.Close()
		return 0, nil, execError(cfg.Argv[0], err)
	}
	return pid, map[int]*os.File{6: out, 3: errs}, nil
}

// answer answers requests: one word each, and one line of JSON back.
func (s *service) answer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // ends with its client
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(3 * stopPatience))
			word, err := bufio.NewReader(io.LimitReader(c, 100)).ReadString('\n')
			if err == nil {
				_ = json.NewEncoder(c).Encode(s.do(strings.TrimSpace(word))) // the client may have left
			}
		}()
	}
}

func (s *service) do(word string) serviceStatus {
	switch word {
	case "stop", "restart":
		s.stop()
	}
	if word == "start" || word == "restart" {
		s.mu.Lock()
		runs, running := s.st.Runs, s.st.PID != 0
		s.wanted = true
		s.mu.Unlock()
		if !running {
			s.wake()
			s.reached(stopPatience, func() bool { return s.st.Runs > runs || s.st.State == activeWaiting })
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}

func (s *service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// stop ends the program: by its own signal, and after a while by force.
func (s *service) stop() {
	s.mu.Lock()
	s.wanted = false
	pid := s.st.PID
	if pid != 0 {
		s.st.State = deactivating
	} else {
		s.st.State = inactiveDead
	}
	s.mu.Unlock()
	s.wake()
	if pid == 0 {
		return
	}
	signal := parseSignal(s.agent.users.container().StopSignal)
	if signal == 0 {
		signal = syscall.SIGTERM
	}
	_ = syscall.Kill(pid, signal) // it may have ended
	gone := func() bool { return s.st.PID != pid }
	if !s.reached(stopPatience, gone) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_ = os.WriteFile(serviceGroup+"/cgroup.kill", []byte("1"), 0)
		s.reached(time.Hour, gone)
	}
}

// reached waits until done, which is called with the lock, and reports whether it became true in time.
func (s *service) reached(most time.Duration, done func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(most)
	for {
		s.mu.Lock()
		ok := done()
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
}

// serviceLogFile is the service's log: lines as journalctl prints them as JSON.
type serviceLogFile struct {
	path string

	mu   sync.Mutex
	f    *os.File
	size int64
	last int64 // time of the last line, in microseconds
}

// logLine is one line of the log.
type logLine struct {
	Cursor   string `json:"__CURSOR"`
	Time     string `json:"__REALTIME_TIMESTAMP"`
	Priority string `json:"PRIORITY"`
	Unit     string `json:"_SYSTEMD_UNIT"`
	Message  string `json:"MESSAGE"`
}

// note writes a line of the supervisor's own.
func (l *serviceLogFile) note(text string) { l.write("warren: "+text, 5) }

// copy writes the lines of an output until it ends.
func (l *serviceLogFile) copy(r *os.File, priority int) {
	defer r.Close()
	in := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			l.write(strings.ToValidUTF8(strings.TrimSuffix(string(line), "\n"), "�"), priority)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *serviceLogFile) write(text string, priority int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UnixMicro()
	l.last = max(l.last+1, now)
	b, err := json.Marshal(logLine{
		Cursor: fmt.Sprint(l.last), Time: fmt.Sprint(now), Priority: fmt.Sprint(priority), Unit: serviceUnit, Message: text,
	})
	if err != nil {
		return
	}
	if l.size > maxServiceLog && l.f != nil {
		_ = l.f.Close()
		_ = os.Rename(l.path, l.path+".1")
		l.f = nil
	}
	if l.f == nil {
		if l.f, err = os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return
		}
		st, err := l.f.Stat()
		if l.size = 0; err == nil {
			l.size = st.Size()
		}
	}
	n, _ := l.f.Write(append(b, '\n')) // a full memory loses lines, not the service
	l.size += int64(n)
}

// startServices starts the process that runs the image's program, and returns its pid; 0 = there is none.
func startServices() int {
	if !isContainer() || Initial() == "systemd" {
		return 0
	}
	pid, err := syscall.ForkExec(program, []string{agentName, "services"}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		Kmsg("the image's program is not run: " + err.Error())
		return 0
	}
	return pid
}
