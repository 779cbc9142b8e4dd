// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"

	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/proxy"
	"github.com/warren-vm/warren/vm"
)

// openInside makes what monitors need before any machine starts: the certificate for the
// names inside VMs, and the socket to which they forward.
func (s *stack) openInside(ctx context.Context, run layout.RunDir, launcher *monitor.Launcher) error {
	ca, err := proxy.OpenAuthority(s.dir)
	if err != nil {
		return err
	}
	if err := ca.WriteLeaf(run.InsideCert()); err != nil {
		return err
	}
	s.speaks = func(id vm.ID, pid int) bool { return launcher.Speaks(run.VM(id), pid) }
	s.inside, err = proxy.Listen(ctx, run.Inside())
	return err
}

// serveInside answers the requests of programs inside VMs until ctx ends. The channel gets
// a failure, and is closed when all requests have ended.
func (s *stack) serveInside(ctx context.Context, door httpd.Handler) <-chan error {
	failed := make(chan error, 1)
	d := &proxy.Door{Speaks: s.speaks, Handle: door.ServeVM, Log: s.log}
	go func() { // ends with ctx
		defer close(failed)
		if err := d.Serve(ctx, s.inside); err != nil {
			failed <- err
		}
	}()
	return failed
}
