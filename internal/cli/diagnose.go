// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type diagnoseOptions struct {
	app  *app
	name string
	span time.Duration
	fail bool
	json bool
}

func newDiagnose(a *app) *cobra.Command {
	o := &diagnoseOptions{app: a}
	cmd := &cobra.Command{
		Use:   "diagnose NAME",
		Short: "Find out what is wrong with a VM, and what to do",
		Long: `Look into a VM twice, some seconds apart, and list its problems: installs that hang and what they wait for, ports
in use by another program or without an answer, file watchers that watch nothing, full disks and their largest
directories, programs killed for lack of memory, failed services, stopped and stuck processes, terminals that wait
for an answer, refused connections, a wrong clock, errors of the disk. Each finding has its evidence and what to
do.

It makes one request to each port, as "warren state" does. It does not wake a VM: if the VM does not run, it
says why.`,
		Example: `  warren diagnose box
  warren diagnose box --for 20s
  warren diagnose box --fail
  warren diagnose box --json`,
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.span, "for", 3*time.Second, "time between the two looks, up to 1m; a program without progress in this time is reported as hung")
	f.BoolVar(&o.fail, "fail", false, "exit with status 1 if there is an error or a warning")
	f.BoolVar(&o.json, "json", false, "print an object as JSON")
	return cmd
}

func (o *diagnoseOptions) run(ctx context.Context) error {
	if o.span <= 0 || o.span > time.Minute {
		return usage("--for %s is not within 1 second and 1 minute", o.span)
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	d, err := c.Diagnose(ctx, o.name, o.span)
	if err != nil {
		return err
	}
	if o.json {
		if err := o.app.io.json(d); err != nil {
			return err
		}
	} else {
		o.page(d)
	}
	for _, f := range d.Findings {
		if o.fail && f.Severity != vm.SeverityInfo {
			return exitStatus(1)
		}
	}
	return nil
}

// page prints the findings, the worst first.
func (o *diagnoseOptions) page(d vm.Diagnosis) {
	s := o.app.io
	s.printf("%s  %s", printable(or(d.Name, string(d.ID))), s.state(d.State))
	switch {
	case !d.Live:
		s.printf("\n")
	case len(d.Findings) == 0:
		s.printf(", observed for %.1f s: no problem found\n", d.Seconds)
	default:
		s.printf(", observed for %.1f s: %s\n", d.Seconds, tally(d.Findings))
	}
	for _, f := range d.Findings {
		s.printf("\n%s  %s\n  %s\n", strings.ToUpper(plain(string(f.Severity))), plain(f.Code), plain(f.Says))
		for _, e := range f.Evidence {
			s.printf("    %s\n", plain(e))
		}
		s.printf("  do: %s\n", plain(f.Do))
	}
	if len(d.Problems) > 0 {
		s.printf("\nNOT CHECKED\n")
		for _, p := range d.Problems {
			s.printf("  %s\n", plain(p))
		}
	}
}

// tally counts findings: "1 error, 2 warnings".
func tally(list []vm.Finding) string {
	var out []string
	for _, sev := range vm.Severities {
		n := 0
		for _, f := range list {
			if f.Severity == sev {
				n++
			}
		}
		switch {
		case n == 0:
		case n == 1 || sev == vm.SeverityInfo:
			out = append(out, itoa(n)+" "+string(sev))
		default:
			out = append(out, itoa(n)+" "+string(sev)+"s")
		}
	}
	return strings.Join(out, ", ")
}
