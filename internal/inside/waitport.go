// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// WaitPort returns when a program in the guest accepts connections on a TCP port, on a
// loopback address or from outside. It wakes a sleeping VM and keeps it awake meanwhile.
// The kernel does not report when a program begins to listen, so WaitPort connects now
// and then and closes the connection at once.
func (in *Inside) WaitPort(ctx context.Context, c *vm.Call, ref string, port uint16) error {
	v, err := in.visit(ctx, c, ref, vm.OpDial, "")
	if err != nil {
		return err
	}
	err = v.Fail(v.ctx, v.waitPort(port))
	v.End(err, nil)
	return err
}

// The pause between two attempts doubles from the first value to the last.
const (
	waitPortFirst = 50 * time.Millisecond
	waitPortLast  = 500 * time.Millisecond
)

func (v *visit) waitPort(port uint16) error {
	for pause := waitPortFirst; ; pause = min(2*pause, waitPortLast) {
		err := v.connectTo(port)
		if vm.KindOf(err) != vm.Unavailable {
			return err
		}
		after, stop := v.in.cfg.Clock.After(pause)
		select {
		case <-after:
		case <-v.ctx.Done():
		}
		stop()
		if v.ctx.Err() != nil {
			return context.Cause(v.ctx)
		}
	}
}

// connectTo connects to a port at any address and closes the connection. Kind Unavailable
// when nothing listens.
func (v *visit) connectTo(port uint16) error {
	ctx, stop := v.bounded(0)
	defer stop()
	conn, err := v.reach(ctx, port)
	if err != nil {
		return err
	}
	return conn.Close()
}
