// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type psOptions struct {
	app  *app
	name string
	all  bool
	json bool
}

// psOutput is `ps --json`.
type psOutput struct {
	Commands  []vm.Process       `json:"commands"`  // started by exec, running or ended
	Ports     []vm.ListeningPort `json:"ports"`     // listening
	Processes []vm.SystemProcess `json:"processes"` // the guest's process table
}

func newPs(a *app) *cobra.Command {
	o := &psOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ps NAME",
		Short: "List a VM's commands, listening ports and processes",
		Long: `List what runs in a VM: the commands that exec started, with the ids that logs, wait and signal take; the
ports that listen; the processes. Commands that have ended stay listed, with their logs.`,
		Example: `  warren ps box
  warren ps box --json`,
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also the kernel's own threads")
	cmd.Flags().BoolVar(&o.json, "json", false, "print an object with commands, ports and processes as JSON")
	return cmd
}

func (o *psOptions) run(ctx context.Context) error {
	c, err := o.app.client()
	if err != nil {
		return err
	}
	out := psOutput{Commands: []vm.Process{}, Ports: []vm.ListeningPort{}, Processes: []vm.SystemProcess{}}
	commands, err := c.Processes(ctx, o.name)
	if err != nil {
		return err
	}
	stats, err := c.Stats(ctx, o.name)
	if err != nil {
		return err
	}
	out.Commands = append(out.Commands, commands...)
	out.Ports = append(out.Ports, stats.Ports...)
	for _, p := range stats.Processes {
		if o.all || o.json || p.PPID != 2 && p.PID != 2 {
			out.Processes = append(out.Processes, p)
		}
	}
	if o.json {
		return o.app.io.json(out)
	}
	o.print(out)
	return nil
}

func (o *psOptions) print(out psOutput) {
	io := o.app.io
	if len(out.Commands) > 0 {
		t := &table{head: []string{"ID", "PID", "STATUS", "USER", "STARTED", "COMMAND"}}
		for _, p := range out.Commands {
			t.add(plain(p.ID), itoa(p.PID), processStatus(p), printable(orRoot(p.User)), age(p.StartedAt)+" ago", commandText(p.Argv))
		}
		io.print(t)
		io.printf("\n")
	}
	if len(out.Ports) > 0 {
		t := &table{head: []string{"PORT", "PROTO", "PID", "COMMAND"}}
		for _, p := range out.Ports {
			t.add(net.JoinHostPort(plain(p.Address), itoa(p.Port)), plain(p.Proto), dashZero(p.PID), plain(p.Command))
		}
		io.print(t)
		io.printf("\n")
	}
	t := &table{head: []string{"PID", "USER", "MEMORY", "CPU", "COMMAND"}}
	for _, p := range out.Processes {
		t.add(itoa(p.PID), printable(p.User), human(p.RSS), fmt.Sprintf("%.1fs", p.CPUSeconds), plain(p.Command))
	}
	io.print(t)
}

func processStatus(p vm.Process) string {
	switch {
	case p.ExitCode == nil && p.Background:
		return "background"
	case p.ExitCode == nil:
		return "running"
	case p.TimedOut:
		return "timed out"
	case p.Signal != "":
		return "ended by " + plain(p.Signal)
	}
	return "exit " + itoa(*p.ExitCode)
}

func orRoot(user string) string {
	if user == "" {
		return "root"
	}
	return user
}

func dashZero(n int) string {
	if n == 0 {
		return "-"
	}
	return itoa(n)
}

// commandText joins arguments and quotes them where necessary.
func commandText(argv []string) string {
	out := make([]string, 0, len(argv))
	for _, a := range argv {
		if strings.ContainsAny(a, " \t") && plain(strings.ReplaceAll(a, "\t", " ")) == strings.ReplaceAll(a, "\t", " ") {
			a = "'" + strings.ReplaceAll(plain(a), "'", `'\''`) + "'"
		} else {
			a = printable(a)
		}
		out = append(out, a)
	}
	return strings.Join(out, " ")
}
