// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newAudit(a *app) *cobra.Command {
	return group("audit", "Read, check and keep the audit records", "  warren audit ls --vm box\n  warren audit verify\n  warren audit prune --keep 90d",
		newAuditLs(a), newAuditShow(a), newAuditVerify(a), newAuditExport(a), newAuditPrune(a), newAuditRotate(a))
}

type auditOptions struct {
	q     client.AuditQuery
	since string
	until string
	json  bool
	form  string

	dir     string
	key     string
	anchors string
	keep    string
	before  string
	to      string
	accept  bool
}

// filterFlags are the flags that select records.
func (o *auditOptions) filterFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.q.VM, "vm", "", "only records of this VM, by name or id")
	f.StringVar(&o.q.Op, "verb", "", "only records of this verb, such as exec")
	f.StringVar(&o.q.Actor, "actor", "", "only records of this account, key, identity or token, by id")
	f.StringVar(&o.since, "since", "", "only records from this time on, as 2026-01-31T12:00:00Z, or younger than an age such as 24h")
	f.StringVar(&o.until, "until", "", "only records before this time, or older than an age")
}

// times reads the times of the filter.
func (o *auditOptions) times() (err error) {
	if o.q.Since, err = pointInTime("since", o.since); err == nil {
		o.q.Until, err = pointInTime("until", o.until)
	}
	return err
}

// pointInTime reads a time or an age; "" = the zero time.
func pointInTime(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if age, err := vm.ParseAge(s); err == nil {
		return time.Now().Add(-age), nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(form, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s is not a time for --%s", printable(s), flag).WithHint("give one such as 2026-01-31T12:00:00Z, 2026-01-31 or 24h")
}

func newAuditLs(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List audit records, newest first", Example: "  warren audit ls --vm box\n  warren audit ls --verb exec --since 24h\n  warren audit ls --limit 20 --json",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wideOrPlain(o.form); err != nil {
				return err
			}
			return a.auditLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.filterFlags(cmd)
	f := cmd.Flags()
	f.IntVarP(&o.q.Limit, "limit", "n", 0, "print at most this many records (default: the server's limit)")
	f.Int64Var(&o.q.After, "after", 0, "begin after the record with this number")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	formFlag(cmd, &o.form)
	return cmd
}

func (a *app) auditLs(ctx context.Context, o *auditOptions) error {
	if err := o.times(); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Audit(ctx, o.q)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"NUMBER", "TIME", "RECORD", "VERB", "VM", "BY", "OUTCOME", "SUBJECT"}, spare: []string{"RECORD", "BY", "NUMBER", "SUBJECT", "VM"}}
	for _, r := range l {
		t.add(itoa(int(r.Seq)), r.Time.Local().Format(time.DateTime), r.ID, string(r.Op), or(string(r.VM), "-"), or(actorOf(r), "-"), r.Outcome, printable(or(r.Subject, "-")))
	}
	a.io.print(t.form(o.form))
	return nil
}

// actorOf names who acted.
func actorOf(r api.AuditRecord) string {
	return or(r.Actor.System, or(string(r.Actor.Key), or(string(r.Actor.Identity), string(r.Actor.VM))))
}

func newAuditShow(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "show RECORD", Short: "Show all of one audit record", Example: "  warren audit show rc-ax0mc66tkpviklzgh6gh",
		Long: "Show an audit record: who did what, on which state of the VM, by which policy and permission, and how it ended.",
		Args: args(1, 1, "which record? `warren audit ls` shows their ids"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.Audit(cmd.Context(), client.AuditQuery{ID: list[0], Limit: 1})
			if err == nil && len(l) == 0 {
				err = vm.Errorf(vm.NotFound, list[0], "no such audit record").WithHint("`warren audit ls` shows the ids; old records may be pruned")
			}
			if err != nil {
				return err
			}
			if o.json {
				return a.io.json(l[0])
			}
			a.showRecord(l[0])
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) showRecord(r api.AuditRecord) {
	row := func(name, text string) {
		if text != "" {
			a.io.printf("%-11s %s\n", name, printable(text))
		}
	}
	row("record", r.ID)
	row("number", itoa(int(r.Seq)))
	row("time", r.Time.Format(time.RFC3339Nano))
	if !r.EndedAt.IsZero() {
		row("ended", r.EndedAt.Format(time.RFC3339Nano))
	}
	row("verb", string(r.Op))
	row("vm", string(r.VM))
	row("subject", r.Subject)
	row("account", string(r.Actor.Account))
	row("by", actorOf(r))
	row("request", string(r.RequestID))
	row("outcome", r.Outcome)
	row("error", r.Error)
	row("generation", string(r.Generation))
	row("network", r.Network)
	row("right", r.Right)
	for _, name := range sortedKeys(r.Detail) {
		row(name, detailText(r.Detail[name]))
	}
}

func newAuditVerify(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that no audit record was changed, removed or inserted",
		Long: `Check the chain of audit records, its signatures and its tree. If it is broken, the exit status is 13.

--anchors compares it with checkpoints that were kept outside: then a tail that was cut together with its signatures
is seen. --dir checks a copy of an audit directory, without a server.

If the server began a new log because the one before was gone, that is a fault until an administrator gives
--accept-new-log: a record says who accepted it.`,
		Example: "  warren audit verify\n  warren audit verify --anchors /mnt/other-disk/warren-anchors.jsonl\n  warren audit verify --dir ./audit --key SHA256:...",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.auditVerify(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.anchors, "anchors", "", "file or https address with checkpoints that were kept outside")
	f.StringVar(&o.dir, "dir", "", "check this audit directory, without a server")
	f.StringVar(&o.key, "key", "", "with --dir: public key or fingerprint that must have signed it (default: the one in the directory)")
	f.BoolVar(&o.accept, "accept-new-log", false, "first record that you know that the log before this one is gone")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// checkpoints reads the checkpoints that were kept outside.
func (a *app) checkpoints(ctx context.Context, from string) ([]vm.Checkpoint, error) {
	if from == "" {
		return nil, nil
	}
	if a.local.AuditAnchors == nil {
		return nil, notHere("audit verify --anchors")
	}
	var data []byte
	var err error
	if strings.HasPrefix(from, "https://") {
		data, err = download(ctx, from)
	} else {
		data, err = os.ReadFile(strings.TrimPrefix(from, "file:"))
	}
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, from, "the anchors cannot be read: %w", err)
	}
	return a.local.AuditAnchors(data)
}

// maxAnchorFile bounds a file of checkpoints.
const maxAnchorFile = 48 << 20

func download(ctx context.Context, from string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, vm.Errorf(vm.Unavailable, from, "the server answered %s", r.Status)
	}
	return io.ReadAll(io.LimitReader(r.Body, maxAnchorFile))
}

func (a *app) auditVerify(ctx context.Context, o *auditOptions) error {
	outside, err := a.checkpoints(ctx, o.anchors)
	if err != nil {
		return err
	}
	p := a.io.doing("verifying the audit chain")
	r, err := a.verifyChain(ctx, o, outside)
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
		return vm.Errorf(vm.Corrupt, "audit chain", "%s", r.Problem).WithCode(or(r.Code, "AUDIT_CHANGED")).WithHint("%s", or(r.Fix, "first make a copy of the audit directory"))
	}
	if o.json {
		return nil
	}
	a.io.printf("%d records, the chain is intact\n", r.Records)
	if r.Pruned > 0 {
		a.io.printf("%d of them are pruned: their hashes are left\n", r.Pruned)
	}
	a.io.printf("signed by %s up to record %d\n", r.Key, r.Signed)
	if len(outside) > 0 {
		a.io.printf("%d anchors from outside agree\n", r.Anchors)
	}
	for _, n := range r.Notes {
		a.io.printf("note: %s\n", printable(n))
	}
	return nil
}

func (a *app) verifyChain(ctx context.Context, o *auditOptions, outside []vm.Checkpoint) (vm.AuditReport, error) {
	if o.dir != "" && o.accept {
		return vm.AuditReport{}, usage("--accept-new-log is for a server, not for --dir").WithHint("warren audit verify --accept-new-log")
	}
	if o.dir != "" {
		if a.local.AuditVerify == nil {
			return vm.AuditReport{}, notHere("audit verify --dir")
		}
		return a.local.AuditVerify(filepath.Clean(o.dir), o.key, outside)
	}
	if o.key != "" {
		return vm.AuditReport{}, usage("--key is for --dir").WithHint("warren audit verify --dir DIRECTORY --key KEY")
	}
	c, err := a.client()
	if err != nil {
		return vm.AuditReport{}, err
	}
	if o.accept {
		return c.AuditAcceptNewLog(ctx, outside)
	}
	return c.AuditVerify(ctx, outside)
}

func newAuditPrune(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove old audit records; the chain still verifies",
		Long: `Remove audit records that are older than a time. Records lie in segments of 8 MiB, which are removed as a whole; the
newest one stays. Their hashes stay, too, so that the chain and every anchor still verify, and a signed record says
what was removed.`,
		Example: "  warren audit prune --keep 90d\n  warren audit prune --before 2026-01-01",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := o.before
			if (o.keep == "") == (o.before == "") {
				return usage("which records?").WithHint("warren audit prune --keep 90d, or --before 2026-01-01")
			}
			if o.keep != "" {
				text = o.keep
			}
			before, err := pointInTime("before", text)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.AuditPrune(cmd.Context(), before)
			switch {
			case err != nil:
				return err
			case o.json:
				return a.io.json(p)
			case p.Segments == 0:
				a.io.printf("nothing to remove: no whole segment is that old\n")
			default:
				a.io.printf("removed %d records in %s, up to record %d\n", p.Records, counted(p.Segments, "segment"), p.Through)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.keep, "keep", "", "keep the records that are younger than this age, such as 90d")
	f.StringVar(&o.before, "before", "", "remove the records before this time, such as 2026-01-31")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newAuditRotate(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "rotate-key", Short: "Let another key sign the audit log",
		Long: `Let another key sign the audit log from now on. The present key signs the next one, and may sign nothing after that.
Without --to the server makes the next key. With --to, restart the server with the --audit-key or --audit-signer of
that key: until then records are written, but not signed.`,
		Example: "  warren audit rotate-key\n  warren audit rotate-key --to PUBLIC-KEY",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			k, err := c.AuditRotateKey(cmd.Context(), o.to)
			switch {
			case err != nil:
				return err
			case o.json:
				return a.io.json(k)
			}
			a.io.printf("%s signs from now on; keep this fingerprint outside of the server\n", k.Fingerprint)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.to, "to", "", "hex public key that signs from now on")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}
