// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"syscall"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// clientOrServer is client for the verbs by which people begin. If no server is named, and none runs on
// this host, it first starts one in the background.
func (a *app) clientOrServer(ctx context.Context) (*client.Client, error) {
	if a.getenv("WARREN_API_URL") != "" || a.local.ServeBehind == nil {
		return a.client()
	}
	// Not a.client, which reads the key once: the key is there only when the server has made it.
	if c, err := a.connect(); err == nil && c.OfHost() {
		return a.client() // its service manager starts it
	}
	ask := func(ctx context.Context) error {
		c, err := a.connect()
		if err == nil {
			_, err = c.List(ctx, false)
		}
		return err
	}
	if err := ask(ctx); !errors.Is(err, syscall.ECONNREFUSED) {
		return a.client()
	}
	p := a.io.doing("no server runs on this host: starting one")
	log, err := a.local.ServeBehind(ctx, a.data, func(ctx context.Context) bool { return ask(ctx) == nil })
	p.done()
	if err != nil {
		return nil, err
	}
	a.io.notef("started a server for you. Its log is in %s; `warren up` starts it again after a restart of the host.", log)
	return a.client()
}

// ofHost is the error for an image that the host's server would have to build: only its own user can.
func ofHost(image string) error {
	return vm.Errorf(vm.Unsupported, image, "the host's server has no such image, and only its own user builds images for it").
		WithHint("`sudo -u warren env WARREN_DATA=/var/lib/warren/data XDG_RUNTIME_DIR=/run/warren-vms warren image build %s`; or set WARREN_DATA for a server of your own", or(image, "base"))
}
