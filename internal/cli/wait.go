// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type waitOptions struct {
	app     *app
	name    string
	id      string
	timeout string
	port    string
	json    bool
}

func newWait(a *app) *cobra.Command {
	o := &waitOptions{app: a}
	cmd := &cobra.Command{
		Use:   "wait NAME [PROCESS]",
		Short: "Wait for a command in a VM, for a port, or for the VM to stop",
		Long: `Without PROCESS, wait until the VM no longer runs and print why.

With the id of a command that exec started, wait for that; its exit status becomes this one's. 124 says that it
has not ended within --timeout and keeps running, 125 that Warren failed.

With --port, wait until a server in the guest accepts connections on that TCP port, also on 127.0.0.1 or ::1; 124
says that none did within --timeout. A suspended VM is woken, and stays awake meanwhile. The server sees one
connection that is closed at once.`,
		Example: `  warren wait box
  warren wait box p3 --timeout 60
  warren exec box -d -- npm run dev && warren wait box --port 5173 --timeout 2m
  warren wait box --port 5432 --json`,
		Annotations:       map[string]string{passes: "yes"},
		ValidArgsFunction: a.completeVM,
		Args: func(cmd *cobra.Command, list []string) error {
			return passed(args(1, 2, "which command? give a VM and the id of a command, as `warren ps NAME` lists it")(cmd, list))
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			if len(list) == 2 {
				o.id = list[1]
			}
			if o.id != "" && o.port != "" {
				return passing{usage("--port cannot be combined with a command").WithHint("wait for them one after the other")}
			}
			return passed(o.run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.timeout, "timeout", "", "wait at most this long: seconds, or a duration such as 2m")
	f.StringVar(&o.port, "port", "", "wait until this TCP port of the guest accepts connections")
	f.BoolVar(&o.json, "json", false, "print as JSON: the process, why the VM does not run, or the port")
	return cmd
}

func (o *waitOptions) run(ctx context.Context) error {
	var ms int64
	if o.timeout != "" {
		d, err := parseSeconds(o.timeout)
		if err != nil {
			return err
		}
		ms = d.Milliseconds()
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	if o.port != "" {
		return o.listens(ctx, c, time.Duration(ms)*time.Millisecond)
	}
	if ms > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	if o.id == "" {
		return o.machine(ctx, c)
	}
	p, err := c.WaitProcess(ctx, o.name, o.id)
	if ms > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		o.app.io.tellf("warren: %s has not ended; it keeps running", plain(o.id))
		return exitStatus(statusTimeout)
	}
	if err == nil && o.json {
		err = o.app.io.json(p)
	}
	if err != nil {
		return err
	}
	if o.json {
		if err := o.app.io.json(p); err != nil {
			return err
		}
	}
	switch {
	case p.TimedOut:
		return exitStatus(statusTimeout)
	case p.ExitCode == nil:
		return vm.Errorf(vm.GuestFault, o.id, "it has ended without a status")
	case *p.ExitCode != 0:
		return exitStatus(*p.ExitCode)
	}
	return nil
}

// machine waits until the VM does not run any more.
func (o *waitOptions) machine(ctx context.Context, c *client.Client) error {
	why, err := c.Await(ctx, o.name)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		o.app.io.tellf("warren: %s still runs", printable(o.name))
		return exitStatus(statusTimeout)
	case err != nil:
		return err
	case o.json:
		return o.app.io.json(map[string]string{"vm": o.name, "why": why})
	}
	o.app.io.printf("%s\n", plain(why))
	return nil
}

// listens waits until a port of the guest accepts connections.
func (o *waitOptions) listens(ctx context.Context, c *client.Client, limit time.Duration) error {
	port, err := portArg(o.port)
	if err != nil {
		return err
	}
	p := o.app.io.doing("waiting for port %d of %s", port, o.name)
	err = c.WaitPort(ctx, o.name, port, limit)
	p.done()
	switch {
	case err != nil && vm.AsError(err).Code == "EXEC_TIMED_OUT":
		o.app.complain(err)
		return exitStatus(statusTimeout)
	case err != nil || !o.json:
		return err
	}
	return o.app.io.json(api.OpenPort{Port: int(port)})
}
