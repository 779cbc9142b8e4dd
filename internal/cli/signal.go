// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

type signalOptions struct {
	app    *app
	name   string
	id     string
	signal string
}

func newSignal(a *app) *cobra.Command {
	o := &signalOptions{app: a}
	return a.changing(&cobra.Command{
		Use:   "signal NAME PROCESS [SIGNAL]",
		Short: "Send a signal to a command in a VM",
		Long:  "Send a signal, TERM unless another is named, to a command that exec started and to its children.",
		Example: `  warren signal box p3
  warren signal box p3 KILL`,
		Args:              args(2, 3, "which command? give a VM and the id of a command, as `warren ps NAME` lists it"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.id, o.signal = list[0], list[1], "TERM"
			if len(list) == 3 {
				o.signal = strings.TrimPrefix(strings.ToUpper(list[2]), "SIG")
			}
			return o.run(cmd.Context())
		},
	})
}

func (o *signalOptions) run(ctx context.Context) error {
	c, err := o.app.client()
	if err != nil {
		return err
	}
	err = c.SignalProcess(ctx, o.name, o.id, o.signal)
	return o.app.changedQuietly(err, change{Name: o.id, Result: "signalled"})
}
