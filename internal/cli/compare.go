// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type compareOptions struct {
	req     vm.CompareRequest
	timeout string
	json    bool
}

func newCompare(a *app) *cobra.Command {
	o := &compareOptions{}
	cmd := &cobra.Command{
		Use:   "compare NAME...",
		Short: "Compare the candidates of a fork side by side",
		Long: `Show what each of some VMs changed since it was forked (or made), beside each other: files, lines, paths outside
its working directory and repositories, and what a reviewer should look at first.

--run runs a command in each, all at once, and shows its exit status, time and last lines. The files are compared
before that. "warren keep" then keeps one of them.`,
		Example: "  warren compare try-1 try-2 try-3\n  warren compare try-1 try-2 --run 'pytest -q'",
		Args:    args(1, -1, "which VMs? warren compare NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.req.VMs = list
			return a.compare(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	f := cmd.Flags()
	f.StringVar(&o.req.Run, "run", "", "run this command in each")
	f.StringVar(&o.req.User, "user", "", "Linux user of the command (default root)")
	f.StringVar(&o.req.Cwd, "cwd", "", "the working directory in each (default the VM's own)")
	f.StringVar(&o.timeout, "timeout", "", "end the command after this time: seconds, or a duration such as 10m (default 10m)")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) compare(ctx context.Context, o *compareOptions) error {
	if o.timeout != "" {
		d, err := parseSeconds(o.timeout)
		if err != nil {
			return err
		}
		o.req.Timeout = vm.Millis(d)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("comparing %d VMs", len(o.req.VMs))
	r, err := c.Compare(ctx, o.req)
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(r)
	}
	t := &table{head: []string{"NAME", "FILES", "LINES", "OUTSIDE", "ALERTS", "EXIT", "TIME"}, spare: []string{"LINES", "TIME"}}
	for _, cand := range r.Candidates {
		t.add(candidateRow(cand)...)
	}
	a.io.print(t)
	for _, cand := range r.Candidates {
		a.showCandidate(cand)
	}
	if r.Common == "" && len(r.Candidates) > 1 {
		a.io.notef("they come from different states: each is compared with its own")
	}
	return nil
}

func candidateRow(cand vm.Candidate) []string {
	row := []string{printable(or(cand.Name, string(cand.VM))), "failed", "-", "-", "-", "-", "-"}
	if cand.Error == "" {
		row[1] = filesOf(cand.Stat)
		row[2] = fmt.Sprintf("+%d -%d", cand.Stat.LinesAdded, cand.Stat.LinesRemoved)
		row[3], row[4] = itoa(cand.Outside), itoa(len(cand.Alerts))
	}
	if run := cand.Run; run != nil {
		switch {
		case run.Error != "":
			row[5] = "failed"
		case run.TimedOut:
			row[5] = "timeout"
		default:
			row[5] = itoa(run.ExitCode)
		}
		row[6] = (time.Duration(run.Seconds*1000) * time.Millisecond).String()
	}
	return row
}

// candidateLines is how many lines of a command's output are printed for each VM.
const candidateLines = 5

func (a *app) showCandidate(cand vm.Candidate) {
	var lines []string
	for _, text := range []string{cand.Error, runError(cand.Run)} {
		if text != "" {
			lines = append(lines, "error     "+plain(text))
		}
	}
	for _, alert := range cand.Alerts {
		lines = append(lines, "alert     "+plain(alert.Text))
	}
	for _, p := range cand.OutsidePaths {
		lines = append(lines, "outside   "+p.String())
	}
	if more := cand.Outside - len(cand.OutsidePaths); more > 0 && len(cand.OutsidePaths) > 0 {
		lines = append(lines, fmt.Sprintf("          and %d more outside", more))
	}
	if cand.Run != nil && cand.Run.Tail != "" {
		tail := strings.Split(cand.Run.Tail, "\n")
		for _, l := range tail[max(0, len(tail)-candidateLines):] {
			lines = append(lines, "output    "+plain(l))
		}
	}
	if len(lines) == 0 {
		return
	}
	a.io.printf("\n%s\n", printable(or(cand.Name, string(cand.VM))))
	for _, l := range lines {
		a.io.printf("  %s\n", l)
	}
}

func runError(run *vm.CandidateRun) string {
	if run == nil {
		return ""
	}
	return run.Error
}
