// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// Launcher starts monitors and finds them again. Only Binary must be set. It must
// not be copied. For each monitor it runs one goroutine, which reaps the process
// and ends with it.
type Launcher struct {
	Binary string       // absolute path of warren-monitor
	Log    *slog.Logger // may be nil

	verifier qemu.Verifier
}

// The monitor's descriptors of the pipes for its status and for the keys of
// volumes.
const (
	statusFD = 3
	keysFD   = 4
)

func (l *Launcher) log() *slog.Logger {
	if l.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.Log
}

// Verify checks the memory and device files of a generation, as every Launch on it
// does. Files that were found good and have not changed since are not read again.
func (l *Launcher) Verify(ctx context.Context, src vm.GenerationSource) error {
	return l.verifier.Generation(ctx, src)
}

// Launch starts a monitor for spec, whose Dir must exist, and returns when the
// machine is ready: agent answered, every reset acknowledged, network connected. On
// an error, also when ctx ends first, it ends what it started; only logs in
// spec.Dir remain. Kinds: Busy when the VM has a machine, Corrupt, GuestFault,
// Limit, NoSpace, Timeout, Unsupported, Internal.
func (l *Launcher) Launch(ctx context.Context, spec vm.MachineSpec) (*Client, vm.MachineStatus, error) {
	begin := time.Now()
	if spec.Generation != nil && !spec.Generation.Fresh {
		if err := l.verifier.Generation(ctx, *spec.Generation); err != nil {
			return nil, vm.MachineStatus{}, err
		}
	}
	verified := time.Since(begin)
	if err := prepare(spec); err != nil {
		return nil, vm.MachineStatus{}, err
	}
	path := layout.VMDir(spec.Dir).Machine()
	if err := writeJSON(path, spec); err != nil {
		return nil, vm.MachineStatus{}, err
	}
	st, err := l.run(ctx, spec, path, false)
	if err != nil {
		if serr := l.Sweep(context.WithoutCancel(ctx), spec.RunDir); serr != nil {
			l.log().Error("sweep after a failed start", "vm", spec.ID, "err", serr)
		}
		return nil, vm.MachineStatus{}, err
	}
	st.Timings["verified"] = verified
	st.Timings["launched"] = time.Since(begin)
	return newClient(spec.RunDir), st, nil
}

// prepare makes the run directory, and refuses when a machine runs in it.
func prepare(spec vm.MachineSpec) error {
	if id, err := loadIdentity(spec.RunDir); err == nil && id.Alive() {
		return vm.Errorf(vm.Busy, string(spec.ID), "a monitor (process %d) runs for it", id.PID)
	}
	if id, err := loadQEMU(spec.RunDir); err == nil && id.Alive() {
		return vm.Errorf(vm.Busy, string(spec.ID), "a machine (process %d) runs for it", id.PID)
	}
	if err := os.RemoveAll(spec.RunDir); err != nil {
		return pathError(spec.RunDir, err)
	}
	if err := os.Mkdir(spec.RunDir, 0o700); err != nil {
		return pathError(spec.RunDir, err)
	}
	if err := os.MkdirAll(layout.VMDir(spec.Dir).Logs(), 0o700); err != nil {
		return pathError(spec.Dir, err)
	}
	return nil
}

func loadQEMU(runDir string) (id qemu.Ident, err error) {
	err = layout.ReadJSON(layout.RunVM(runDir).QEMUPID(), &id)
	return id, err
}

// run starts the monitor's process and waits for its one message. On an error the
// process has ended.
func (l *Launcher) run(ctx context.Context, spec vm.MachineSpec, path string, attach bool) (vm.MachineStatus, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return vm.MachineStatus{}, vm.Errorf(vm.Limit, string(spec.ID), "no pipe for its monitor: %w", err)
	}
	defer r.Close()
	keys, err := keyPipe(spec)
	if err != nil {
		w.Close()
		return vm.MachineStatus{}, err
	}
	exited, err := l.exec(spec, path, attach, w, keys)
	w.Close()
	keys.Close()
	if err != nil {
		return vm.MachineStatus{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var msg message
	err = json.NewDecoder(io.LimitReader(r, 4<<20)).Decode(&msg)
	switch {
	case err == nil && msg.Ready != nil:
		if msg.Ready.Timings == nil {
			msg.Ready.Timings = make(map[string]time.Duration)
		}
		return *msg.Ready, nil
	case err == nil && msg.Error != nil:
		err = msg.Error.Error()
	case ctx.Err() != nil:
		err = vm.Errorf(vm.KindOf(ctx.Err()), string(spec.ID), "its start was cancelled: %w", ctx.Err())
	default:
		err = vm.Errorf(vm.Internal, string(spec.ID), "its monitor ended without a message").
			WithHint("its log is %s", layout.VMDir(spec.Dir).MonitorLog())
	}
	return vm.MachineStatus{}, errors.Join(err, l.endMonitor(ctx, exited))
}

// child is a started monitor.
type child struct {
	process *os.Process
	exited  chan struct{} // closed when it is reaped
}

func (l *Launcher) exec(spec vm.MachineSpec, path string, attach bool, status, keys *os.File) (child, error) {
	logPath := layout.VMDir(spec.Dir).MonitorLog()
	logFile, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return child{}, pathError(logPath, err)
	}
	defer logFile.Close()
	args := []string{"-spec", path, "-status-fd", "3", "-keys-fd", "4"}
	if attach {
		args = append(args, "-attach")
	}
	cmd := exec.Command(l.Binary, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.ExtraFiles = []*os.File{status, keys} // statusFD, keysFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		kind := vm.Internal
		if errors.Is(err, fs.ErrNotExist) {
			kind = vm.Unsupported
		}
		return child{}, vm.Errorf(kind, l.Binary, "the monitor could not be started: %w", err)
	}
	c := child{process: cmd.Process, exited: make(chan struct{})}
	go func() {
		err := cmd.Wait()
		l.log().Debug("monitor ended", "vm", spec.ID, "pid", c.process.Pid, "status", err)
		close(c.exited)
	}()
	return c, nil
}

// endMonitor asks a monitor to end, which destroys a machine that it is starting,
// and kills it if it does not.
func (l *Launcher) endMonitor(ctx context.Context, c child) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitDeadline+5*time.Second)
	defer cancel()
	_ = c.process.Signal(unix.SIGTERM) // fails only when it has ended
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
	}
	_ = c.process.Kill()
	<-c.exited
	return nil
}

// Attach finds the machine of a run directory through its monitor. If the monitor
// is dead or of another version and QEMU lives, a new monitor takes over. Kind
// NotFound when the machine is gone. A machine whose start was never completed is
// gone after Attach.
func (l *Launcher) Attach(ctx context.Context, runDir string) (*Client, vm.MachineStatus, error) {
	id, err := loadIdentity(runDir)
	if err != nil {
		return nil, vm.MachineStatus{}, l.endLost(ctx, runDir, err)
	}
	if id.Alive() {
		st, err := l.adopt(ctx, runDir)
		if err == nil && st.Protocol == Protocol && st.Ready {
			qemu.Bound(st.ID, st.QEMUPID, st.Size) // this serve may have control groups that the previous one had not
			return newClient(runDir), st, nil
		}
		if ctx.Err() != nil {
			return nil, vm.MachineStatus{}, ctx.Err()
		}
		if err := l.retire(ctx, id); err != nil {
			return nil, vm.MachineStatus{}, err
		}
	}
	if id, err = loadIdentity(runDir); err != nil || !id.Ready {
		return nil, vm.MachineStatus{}, l.endLost(ctx, runDir, err)
	}
	if q, err := loadQEMU(runDir); err != nil || !q.Alive() {
		return nil, vm.MachineStatus{}, l.endLost(ctx, runDir, err)
	}
	var spec vm.MachineSpec
	if err := readSpec(id.Spec, &spec); err != nil {
		return nil, vm.MachineStatus{}, err
	}
	st, err := l.run(ctx, spec, id.Spec, true)
	if err != nil {
		return nil, vm.MachineStatus{}, err
	}
	return newClient(runDir), st, nil
}

// adopt asks a live monitor, and waits for a start in progress.
func (l *Launcher) adopt(ctx context.Context, runDir string) (vm.MachineStatus, error) {
	c := newClient(runDir)
	defer c.Close()
	actx, cancel := context.WithTimeout(ctx, callDeadline)
	st, err := c.Status(actx)
	cancel()
	if err != nil || st.Ready || st.Protocol != Protocol {
		return st, err
	}
	actx, cancel = context.WithTimeout(ctx, startDeadline)
	defer cancel()
	return c.statusWhenReady(actx)
}

// retire ends a monitor that cannot be used; its machine keeps running.
func (l *Launcher) retire(ctx context.Context, id identity) error {
	h, err := id.Open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.Signal(unix.SIGTERM); err != nil {
		return err
	}
	wctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	if h.Wait(wctx) == nil {
		return nil
	}
	if err := h.Signal(unix.SIGKILL); err != nil {
		return err
	}
	return h.Wait(ctx)
}

// endLost ends the processes of a machine that cannot be attached and returns that as
// an error. The run directory stays, with the recorded end if there is one.
func (l *Launcher) endLost(ctx context.Context, runDir string, cause error) error {
	if err := l.endProcesses(ctx, runDir); err != nil {
		return err
	}
	return vm.Errorf(vm.NotFound, filepath.Base(runDir), "its machine is gone").
		WithCode("", "exit", ReadExit(runDir), "cause", errorText(cause))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Speaks reports whether a process is the monitor of the machine in a run directory.
func (l *Launcher) Speaks(runDir string, pid int) bool {
	id, err := loadIdentity(runDir)
	return err == nil && id.PID == pid && id.Alive()
}

// Sweep ends every process that is left of a machine, never another machine's, and
// removes the run directory. It waits for a monitor that still hands over the last
// connections of its guest. An absent directory is no error.
func (l *Launcher) Sweep(ctx context.Context, runDir string) error {
	ctx, cancel := within(ctx, quitDeadline)
	defer cancel()
	if err := l.endProcesses(ctx, runDir); err != nil {
		return err
	}
	return pathError(runDir, os.RemoveAll(runDir))
}

// Strays names the VMs for which a QEMU runs, of any data directory of this user.
func (l *Launcher) Strays() ([]vm.ID, error) {
	names, err := qemu.FindAll()
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "/proc", "processes cannot be listed: %w", err)
	}
	return names, nil
}

// endProcesses kills monitor and QEMU, the monitor first: otherwise it would record
// QEMU's end as the machine's.
func (l *Launcher) endProcesses(ctx context.Context, runDir string) error {
	if id, err := loadIdentity(runDir); err == nil {
		awaitLast(ctx, runDir, id)
		if err := id.End(ctx); err != nil {
			return vm.Errorf(vm.Internal, runDir, "its monitor could not be ended: %w", err)
		}
	}
	if id, err := loadQEMU(runDir); err == nil {
		if err := id.End(ctx); err != nil {
			return vm.Errorf(vm.Internal, runDir, "its qemu could not be ended: %w", err)
		}
	}
	// A QEMU whose run directory somebody removed.
	name := vm.ID(filepath.Base(runDir))
	if !vm.IsID(string(name)) {
		return nil
	}
	strays, err := qemu.Find(name)
	if err != nil {
		return vm.Errorf(vm.Internal, runDir, "processes cannot be listed: %w", err)
	}
	for _, id := range strays {
		if err := id.End(ctx); err != nil {
			return vm.Errorf(vm.Internal, runDir, "a stray qemu could not be ended: %w", err)
		}
	}
	return nil
}

// awaitLast waits, for at most lastWait, until a monitor whose machine is gone has
// ended. The connections that were open at the machine's end are recorded only then.
func awaitLast(ctx context.Context, runDir string, id identity) {
	if _, err := os.Stat(layout.RunVM(runDir).Exit()); err != nil {
		return // the machine is not gone, or its monitor could not say so
	}
	h, err := id.Open()
	if err != nil {
		return
	}
	defer h.Close()
	ctx, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	_ = h.Wait(ctx) // a monitor that takes longer is killed
}

// ReadExit returns how the machine of a run directory ended: what its monitor
// noted, "host-restart" when its processes belong to an earlier boot of the host,
// or "qemu-crash" when no monitor saw the end.
func ReadExit(runDir string) vm.MachineExit {
	var exit vm.MachineExit
	if err := layout.ReadJSON(layout.RunVM(runDir).Exit(), &exit); err == nil && exit.Reason != "" {
		return exit
	}
	exit = vm.MachineExit{Reason: "qemu-crash", Time: time.Now()}
	boot, err := qemu.HostBootID()
	if id, ierr := loadQEMU(runDir); err == nil && (ierr != nil || id.BootID != boot) {
		exit.Reason = "host-restart" // the run directory does not survive a reboot
	}
	return exit
}
