// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// Options of the monitor's process.
type Options struct {
	Spec   string // path of the vm.MachineSpec
	Attach bool   // take over a running QEMU whose monitor is gone
	// Status gets one message when the machine is ready or its start has failed,
	// and is then closed; may be nil.
	Status io.WriteCloser
	Keys   io.ReadCloser // keys of the volumes that the machine starts with; nil = none
	Log    *slog.Logger
}

// message is sent over Status: one of the two.
type message struct {
	Ready *vm.MachineStatus `json:"ready,omitempty"`
	Error *vm.WireError     `json:"error,omitempty"`
}

// Main runs a monitor: it starts the machine or takes it over, serves it, and
// returns when the machine is gone. If ctx ends during the start, the machine is
// destroyed. If it ends later, Main returns and QEMU keeps running, for a new
// monitor.
func Main(ctx context.Context, o Options) error {
	// A core file would contain the guest's disk and memory.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		o.Log.Warn("core files stay possible", "err", err)
	}
	if err := confine.Self(); err != nil {
		o.Log.Warn("the monitor is not confined", "err", err)
	}
	debug.SetGCPercent(50)
	m, s, err := begin(ctx, o)
	tell(ctx, o, m, err)
	if err != nil {
		return err
	}
	trimming := keepTrim(ctx, o.Log)
	defer trimming()
	defer s.stayPresent(ctx)()
	err = m.finish(ctx)
	if errors.Is(err, context.Canceled) && m.exited() {
		err = m.finish(context.WithoutCancel(ctx))
	} else if errors.Is(err, context.Canceled) {
		o.Log.Info("leaving the machine to another monitor")
		s.close(context.WithoutCancel(ctx))
		err = m.close()
		m.qemu().Abandon()
		return err
	}
	o.Log.Info("the machine is gone", "reason", m.exit.Reason, "detail", m.exit.Detail)
	s.close(context.WithoutCancel(ctx))
	return err
}

// tell reports the outcome of the start to the launcher, which may be gone.
func tell(ctx context.Context, o Options, m *machine, err error) {
	if o.Status == nil {
		return
	}
	defer o.Status.Close()
	var msg message
	if err != nil {
		msg.Error = vm.ToWire(err)
	} else {
		st := m.status(ctx)
		msg.Ready = &st
	}
	if err := json.NewEncoder(o.Status).Encode(msg); err != nil {
		o.Log.Warn("nobody waits for this machine", "err", err)
	}
}

// begin starts or takes over the machine. On an error no process of it runs.
func begin(ctx context.Context, o Options) (*machine, *server, error) {
	var spec vm.MachineSpec
	if err := readSpec(o.Spec, &spec); err != nil {
		return nil, nil, err
	}
	if err := readKeys(o.Keys, &spec); err != nil {
		return nil, nil, err
	}
	self, err := qemu.Identify(os.Getpid())
	if err != nil {
		return nil, nil, vm.Errorf(vm.Internal, "", "identify: %w", err)
	}
	id := identity{Ident: self, Spec: o.Spec, Protocol: Protocol, Ready: o.Attach}
	if err := id.save(spec.RunDir); err != nil {
		return nil, nil, err
	}
	m, err := newMachine(ctx, spec, o.Log.With("vm", spec.ID))
	if err != nil {
		return nil, nil, err
	}
	s, err := listen(m)
	if err != nil {
		return nil, nil, errors.Join(err, m.close())
	}
	if o.Attach {
		err = m.attach(ctx)
	} else {
		err = m.start(ctx)
	}
	if err == nil && !o.Attach {
		id.Ready = true
		err = id.save(spec.RunDir)
	}
	if err == nil {
		s.self = id
		return m, s, nil
	}
	err = vm.AsError(err)
	s.close(context.WithoutCancel(ctx))
	if o.Attach { // another monitor owns the machine and gets the error
		if m.qemu() != nil {
			defer m.qemu().Abandon()
		}
		return nil, nil, errors.Join(err, m.close())
	}
	if derr := m.destroy(ctx); derr != nil {
		o.Log.Error("destroy", "err", derr)
	}
	return nil, nil, err
}

// readSpec reads a machine's spec. A newer Warren may have written it.
func readSpec(path string, spec *vm.MachineSpec) error {
	if err := layout.ReadJSON(path, spec); err != nil {
		return err
	}
	return spec.CheckFormat()
}

// attach takes over a machine that was ready. It does so even if the agent does not
// answer: the machine runs, and can be stopped.
func (m *machine) attach(ctx context.Context) error {
	proc, err := qemu.Adopt(ctx, m.spec)
	if err != nil {
		return err
	}
	m.proc.Store(proc)
	proc.DropSpare() // it may be incomplete
	if err := m.resumeLeftPaused(ctx); err != nil {
		return err
	}
	m.readPlugged(ctx)
	if st, err := os.Stat(layout.RunVM(m.spec.RunDir).QEMUPID()); err == nil {
		m.begun = st.ModTime()
	}
	if len(m.spec.Reset.LinkKey) > 0 {
		m.link.setKey(m.spec.Reset.LinkKey)
	}
	m.console()
	m.watchDisk()
	m.wg.Go(func() { m.link.run(m.lifetime) })
	if err := m.connectNetwork(ctx); err != nil {
		return err
	}
	hctx, cancel := context.WithTimeout(ctx, linkDeadline)
	defer cancel()
	if hello, err := m.guest.Hello(hctx); err != nil {
		m.log.Warn("taken over without its agent", "err", err)
	} else {
		m.mu.Lock()
		m.hello = hello
		m.mu.Unlock()
		if slices.Contains(hello.Features, "freeze") {
			if err := m.thaw(ctx); err != nil {
				m.log.Warn("taken over frozen", "err", err)
			}
		}
	}
	close(m.started)
	m.wg.Go(func() { m.keepMounting(m.lifetime) })
	return nil
}
