// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net"
	"net/http"

	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/proxy"
	"github.com/warren-vm/warren/internal/s3d"
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

// openS3 opens the door of object storage: on its address, unless that is off, and for the
// programs inside VMs.
func (s *stack) openS3(ctx context.Context, run layout.RunDir) (err error) {
	if s.s3, err = s3d.New(ctx, s.house.Objects, s.log); err != nil {
		return err
	}
	addresses := []string{run.S3()}
	if s.cfg.S3 != "off" {
		addresses = []string{s.cfg.S3, run.S3()}
	}
	s.s3Inside = s.s3.Inside(run.S3())
	return s.s3.Listen(addresses...)
}

// serveInside answers the requests of programs inside VMs until ctx ends. The channel gets
// a failure, and is closed when all requests have ended.
func (s *stack) serveInside(ctx context.Context, door httpd.Handler) <-chan error {
	failed := make(chan error, 1)
	d := &proxy.Door{Speaks: s.speaks, Log: s.log, Handle: func(w http.ResponseWriter, r *http.Request, id vm.ID) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		switch host {
		case vm.S3Host:
			s.s3Inside.ServeVM(w, r, id)
		case vm.PolicyHost:
			door.ServePolicy(w, r, id)
		case vm.MonitorHost:
			door.ServeMonitor(w, r, id)
		default:
			door.ServeVM(w, r, id)
		}
	}}
	go func() { // ends with ctx
		defer close(failed)
		if err := d.Serve(ctx, s.inside); err != nil {
			failed <- err
		}
	}()
	return failed
}
