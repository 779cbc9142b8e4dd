// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/warren-vm/warren/internal/layout"
)

// presentEvery is the interval at which a monitor checks that serve can find it.
const presentEvery = 2 * time.Second

// stayPresent restores the files by which serve finds a machine, if somebody
// removed them: the monitor's socket, and the notes of the processes of monitor and
// QEMU. Without them serve could not reach the machine, and its next start would
// take it for dead. The guest does not notice. It runs until stop is called or ctx
// ends: then another monitor takes over.
func (s *server) stayPresent(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(presentEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if s.m.exited() {
				continue // it has ended, or another QEMU takes its place
			}
			if err := s.putBack(); err != nil {
				s.m.log.Error("files of this machine are missing and cannot be restored: serve cannot find it", "err", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// putBack restores what is missing.
func (s *server) putBack() error {
	dir := layout.RunVM(s.m.spec.RunDir)
	noSocket, noMonitor, noQEMU := missing(dir.Monitor()), missing(dir.MonitorPID()), missing(dir.QEMUPID())
	if !noSocket && !noMonitor && !noQEMU {
		return nil
	}
	s.m.log.Warn("files of this machine were removed; the monitor makes them again", "socket", noSocket, "monitor", noMonitor, "qemu", noQEMU)
	if err := os.MkdirAll(s.m.spec.RunDir, 0o700); err != nil {
		return pathError(s.m.spec.RunDir, err)
	}
	var errs []error
	if noMonitor {
		errs = append(errs, s.self.save(s.m.spec.RunDir))
	}
	if noQEMU {
		errs = append(errs, s.m.qemu().Note())
	}
	if noSocket {
		errs = append(errs, s.bind())
	}
	return errors.Join(errs...)
}

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
