// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// intend records why the machine is about to end.
func (m *machine) intend(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intent = why
}

// stop asks the guest to power off and ends QEMU when the grace has passed. It
// returns when the machine is gone.
func (m *machine) stop(ctx context.Context, grace time.Duration) error {
	if err := m.mayEnd(); err != nil {
		return err
	}
	m.intend("stop")
	asked := make(chan struct{})
	gctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	go func() {
		defer close(asked)
		if err := m.guest.PowerOff(gctx, false); err != nil && gctx.Err() == nil {
			m.log.Warn("power off", "err", err)
			cancel() // the guest will not power off: do not wait
		}
	}()
	select {
	case <-m.qemu().Exited():
	case <-gctx.Done():
	}
	cancel()
	<-asked
	return m.quit(ctx)
}

// quit ends QEMU, which flushes its disks' metadata.
func (m *machine) quit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quitDeadline)
	defer cancel()
	if err := m.qemu().Quit(ctx); err != nil && !m.exited() {
		return vm.Errorf(vm.Internal, string(m.spec.ID), "qemu could not be ended: %w", err)
	}
	<-m.gone
	return nil
}

// kill ends QEMU at once and returns when it is gone.
func (m *machine) kill(ctx context.Context) error {
	if err := m.mayEnd(); err != nil {
		return err
	}
	m.intend("kill")
	ctx, cancel := context.WithTimeout(ctx, quitDeadline)
	defer cancel()
	if err := m.qemu().Kill(ctx); err != nil {
		return vm.Errorf(vm.Internal, string(m.spec.ID), "qemu could not be killed: %w", err)
	}
	<-m.gone
	return nil
}

// mayEnd refuses to end a machine that is being started: the launcher does that by
// ending the monitor.
func (m *machine) mayEnd() error {
	if closed(m.started) {
		return nil
	}
	return vm.Errorf(vm.Unavailable, string(m.spec.ID), "the machine is still being started")
}

func (m *machine) exited() bool { return closed(m.qemu().Exited()) }

// finish waits for QEMU's end and records the reason. After that the machine serves
// no call.
func (m *machine) finish(ctx context.Context) error {
	for ended := false; !ended; {
		proc := m.qemu()
		select {
		case <-proc.Exited():
		case <-ctx.Done():
			return ctx.Err()
		}
		m.moving.Lock() // wait for a reseat: it ends one process and starts another
		ended = m.qemu() == proc
		m.moving.Unlock()
	}
	m.exit = m.qemu().Reason(context.WithoutCancel(ctx))
	m.exit.Time = time.Now()
	m.mu.Lock()
	if m.intent != "" {
		m.exit.Reason, m.exit.Detail = m.intent, ""
	}
	m.mu.Unlock()
	qemu.RemoveSockets(m.spec)
	err := writeJSON(layout.RunVM(m.spec.RunDir).Exit(), m.exit)
	close(m.gone)
	return errors.Join(err, m.close())
}

// close ends everything that serves the machine, except QEMU.
func (m *machine) close() error {
	m.end()
	m.guest.Close()
	err := errors.Join(m.names.Close(), m.reading.Close(), m.net.Close())
	m.wg.Wait()
	m.endReport()
	<-m.reported
	m.link.drop() // connections for a link that never ran
	return err
}

// destroy undoes a failed start; only logs remain.
func (m *machine) destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitDeadline)
	defer cancel()
	var err error
	if m.qemu() != nil {
		err = m.qemu().Kill(ctx)
		qemu.RemoveSockets(m.spec)
	}
	return errors.Join(err, m.close())
}
