// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newAudit(a *app) *cobra.Command {
	return group("audit", "List and verify the audit records", "  warren audit ls\n  warren audit verify", newAuditLs(a), newAuditVerify(a))
}

type auditOptions struct {
	vm    string
	limit int
	after int64
	json  bool
	form  string
}

func newAuditLs(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List audit records, newest first", Example: "  warren audit ls --vm box\n  warren audit ls --limit 20 --json",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wideOrPlain(o.form); err != nil {
				return err
			}
			return a.auditLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.vm, "vm", "", "only records of this VM")
	f.IntVarP(&o.limit, "limit", "n", 0, "print at most this many records (default: the server's limit)")
	f.Int64Var(&o.after, "after", 0, "begin after the record with this number")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	formFlag(cmd, &o.form)
	return cmd
}

func (a *app) auditLs(ctx context.Context, o *auditOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Audit(ctx, o.vm, o.limit, o.after)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"NUMBER", "TIME", "RECORD", "VERB", "VM", "BY", "OUTCOME", "SUBJECT"}, spare: []string{"RECORD", "BY", "NUMBER", "SUBJECT", "VM"}}
	for _, r := range l {
		by := or(r.Actor.System, or(string(r.Actor.Key), string(r.Actor.Identity)))
		t.add(itoa(int(r.Seq)), r.Time.Local().Format(time.DateTime), r.ID, string(r.Op), or(string(r.VM), "-"), or(by, "-"), r.Outcome, printable(or(r.Subject, "-")))
	}
	a.io.print(t.form(o.form))
	return nil
}

func newAuditVerify(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that no audit record was changed, removed or inserted", Example: "  warren audit verify",
		Long: "Check the chain of audit records. If it is broken, the exit status is 13.",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.auditVerify(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) auditVerify(ctx context.Context, o *auditOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("verifying the audit chain")
	r, err := c.AuditVerify(ctx)
	p.done()
	if err != nil {
		return err
	}
	if o.json {
		if err := a.io.json(r); err != nil {
			return err
		}
	}
	if !r.OK {
		return vm.Errorf(vm.Corrupt, "audit chain", "%s", r.Problem).WithHint("first make a copy of the audit directory")
	}
	if !o.json {
		a.io.printf("%d records, the chain is intact\n", r.Records)
	}
	return nil
}
