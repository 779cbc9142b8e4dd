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

// presentEvery is how often a monitor looks whether it can still be found.
const presentEvery = 2 * time.Second

// stayPresent puts back the files by which a machine is found, when somebody has
// removed them: its monitor's socket, and the notes of who monitor and QEMU are.
// Without them serve could not ask for the machine, and its next start would
// take it for dead. The guest does not notice. It continues until stop is called
// or ctx ends: then another monitor takes over.
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
				s.m.log.Error("this machine cannot be found by its files, and they cannot be put back", "err", err)
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
	s.m.log.Warn("files of this machine were removed; they are put back", "socket", noSocket, "monitor", noMonitor, "qemu", noQEMU)
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
