// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type waitOptions struct {
	app     *app
	name    string
	id      string
	timeout string
	json    bool
}

func newWait(a *app, runF func(context.Context, *waitOptions) error) *cobra.Command {
	o := &waitOptions{app: a}
	cmd := &cobra.Command{
		Use:   "wait NAME [PROCESS]",
		Short: "Wait for a command in a VM, or for the VM to stop",
		Long: `Without PROCESS, wait until the VM does not run any more and print why.

With the id of a command that exec started, wait for that; its exit status becomes this one's. 124 says that
it has not ended within --timeout and goes on, 125 that Warren failed.`,
		Example: `  warren wait box
  warren wait box p3 --timeout 60`,
		Annotations:       map[string]string{passes: "yes"},
		ValidArgsFunction: a.completeVM,
		Args: func(cmd *cobra.Command, list []string) error {
			return passed(args(1, 2, "for what? give a VM and the id of a command, as `warren ps NAME` lists it")(cmd, list))
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			if len(list) == 2 {
				o.id = list[1]
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return passed(o.run(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&o.timeout, "timeout", "", "wait at most so long, in seconds or such as 2m")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON: the process, or why the VM does not run")
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
		o.app.io.tellf("warren: %s has not ended; it goes on", plain(o.id))
		return exitStatus(statusTimeout)
	}
	if err == nil && o.json {
		err = o.app.io.json(p)
	}
	if err != nil {
		return err
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
