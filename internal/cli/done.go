// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type doneOptions struct {
	name     string
	stop     bool
	suspend  bool
	remove   bool
	drop     []string
	dropAll  bool
	ask      bool
	list     bool
	json     bool
	ship     string
	noRotate bool
	in       api.FinishVM
}

func newDone(a *app) *cobra.Command {
	o := &doneOptions{}
	cmd := &cobra.Command{
		Use:   "done NAME",
		Short: "Close the job of a VM step by step",
		Long: `Go through the steps that end the work in a VM: stop its machine, lock its volumes, remove its mounts, delete
snapshots without a purpose, rotate credentials, confirm that logs are read, and list what was not erased. Each step
is done, asked for, or left open. The record of the job keeps the ids of the audit records, also after the VM is
deleted.

It rotates the secrets that the VM could use and that have OAuth or a rotator, except those that it rotated after
the VM's last use. All VMs that may use them use the new values from then on. For other secrets, and for keys that
you put into the VM yourself, it asks (--rotated).

--ship stores the console's log, the logs of commands if the VM runs, the record and the audit records as objects,
below the prefix, the VM's name and id. It lists them with their digests. Logs may hold secrets.

Before a VM is removed, it says what exists only in it and would be lost ("warren truth" shows more).

On a terminal it asks about the steps that the flags leave open. The exit status is 6 while a step is open; the
next "warren done NAME" continues with it. For a deleted VM, use its id.`,
		Example: "  warren done box\n  warren done box --suspend --keep-snapshots --rotated --logs-reviewed --label TICKET-7\n  warren done box --rm --drop-snapshots --revoke-tokens\n  warren done box --ship s3://archive/jobs --rm\n  warren done --list --json",
		Args:    args(0, 1, ""),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.list == (len(list) == 1) {
				return usage("which VM? warren done NAME").WithHint("or list the jobs that were closed: warren done --list")
			}
			if o.stop && o.suspend || o.remove && (o.stop || o.suspend) {
				return usage("--stop, --suspend and --rm exclude each other")
			}
			o.name = strings.Join(list, "")
			o.in.Rotate = !o.noRotate
			if o.ship != "" {
				p, err := parseObject(o.ship, false)
				if err != nil {
					return err
				}
				o.in.Ship = &vm.ObjectRef{Bucket: p.bucket, Key: p.key}
			}
			return a.done(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.BoolVar(&o.stop, "stop", false, "keep its disk")
	f.BoolVar(&o.suspend, "suspend", false, "keep its disk and its memory, compressed and encrypted")
	f.BoolVar(&o.remove, "rm", false, "remove it")
	f.StringArrayVar(&o.drop, "drop-snapshot", nil, "delete this snapshot of it, by id; may repeat")
	f.BoolVar(&o.dropAll, "drop-snapshots", false, "delete every snapshot of it")
	f.BoolVar(&o.in.KeepSnapshots, "keep-snapshots", false, "confirm that the remaining snapshots have a purpose")
	f.BoolVar(&o.in.LockVolumes, "lock-volumes", false, "unmount its volumes and folders, and lock the volumes that no other VM uses")
	f.BoolVar(&o.in.RevokeTokens, "revoke-tokens", false, "revoke the tokens of the identities that were granted the VM")
	f.BoolVar(&o.noRotate, "no-rotate", false, "rotate no secret; list those that could be rotated")
	f.BoolVar(&o.in.Rotated, "rotated", false, "confirm that every credential that code in it could reach is rotated")
	f.BoolVar(&o.in.LogsReviewed, "logs-reviewed", false, "confirm that its logs were read")
	f.StringVar(&o.ship, "ship", "", "store its logs and the record as objects below s3://BUCKET/PREFIX")
	f.StringVar(&o.in.Label, "label", "", "your name for the job: a ticket, a run")
	f.BoolVar(&o.ask, "ask", false, "ask even if standard input is not a terminal")
	f.BoolVar(&o.list, "list", false, "list the last closed jobs")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) done(ctx context.Context, o *doneOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.list {
		return a.jobs(ctx, c, o.json)
	}
	left, err := c.Remains(ctx, o.name)
	if err != nil {
		return err
	}
	o.decide(left)
	_, tty := terminal(a.io.in)
	asks := tty || o.ask
	if left.State != "" && (o.remove || asks && o.in.Retention == "") {
		a.losses(ctx, c, o.name)
	}
	if asks {
		a.askDone(o, left)
	}
	job, err := c.Done(ctx, o.name, o.in)
	if err != nil {
		return err
	}
	if o.json {
		err = a.io.json(job)
	} else {
		a.showJob(job)
	}
	if err == nil && !job.Complete {
		return vm.Errorf(vm.WrongState, o.name, "the job has open steps").WithHint("`warren done %s` continues with them", job.VM)
	}
	return err
}

// decide turns the flags into the request.
func (o *doneOptions) decide(left vm.Remaining) {
	switch {
	case o.stop:
		o.in.Retention = vm.RetainStop
	case o.suspend:
		o.in.Retention = vm.RetainSuspend
	case o.remove:
		o.in.Retention = vm.RetainNothing
	}
	for _, s := range o.drop {
		o.in.DropSnapshots = append(o.in.DropSnapshots, vm.SnapshotID(s))
	}
	for _, s := range left.Snapshots {
		if o.dropAll {
			o.in.DropSnapshots = append(o.in.DropSnapshots, s.ID)
		}
	}
}

// askDone asks about the steps that the flags left open. An empty answer leaves
// a step open.
func (a *app) askDone(o *doneOptions, left vm.Remaining) {
	in := bufio.NewScanner(a.io.in)
	ask := func(format string, args ...any) string {
		a.io.askf(format, args...)
		if !in.Scan() {
			return ""
		}
		return strings.ToLower(strings.TrimSpace(in.Text()))
	}
	yes := func(format string, args ...any) bool { return strings.HasPrefix(ask(format+" [y/N] ", args...), "y") }
	if o.in.Retention == "" && left.State != "" {
		o.in.Retention = ask("%s is %s: how do you want to end it? [stop/suspend/destroy; empty = leave it] ", printable(o.name), left.State)
	}
	if !o.in.KeepSnapshots && len(o.in.DropSnapshots) == 0 && len(left.Snapshots) > 0 {
		for _, s := range left.Snapshots {
			if yes("delete the snapshot %s (%s)?", printable(or(s.Name, string(s.ID))), human(s.Bytes)) {
				o.in.DropSnapshots = append(o.in.DropSnapshots, s.ID)
			}
		}
		o.in.KeepSnapshots = len(o.in.DropSnapshots) == len(left.Snapshots) || yes("do you need the other snapshots?")
	}
	if !o.in.LockVolumes && (len(left.Folders) > 0 || slices.ContainsFunc(left.Volumes, func(v vm.RemainingVolume) bool { return v.Unlocked || v.Path != "" })) {
		o.in.LockVolumes = yes("unmount and lock %s?", strings.Join(append(foldersLeft(left), volumesLeft(left)...), ", "))
	}
	if !o.in.RevokeTokens {
		o.in.RevokeTokens = yes("revoke the tokens of identities that reach the VM?")
	}
	byWarren := func(c vm.Credential) bool { return o.in.Rotate && c.RotatesBy != "" }
	if others := slices.DeleteFunc(slices.Clone(left.Credentials), byWarren); !o.in.Rotated && (len(others) > 0 || len(left.Credentials) == 0) {
		except := ""
		if len(others) < len(left.Credentials) {
			except = ", except those that Warren rotates"
		}
		o.in.Rotated = yes("have you rotated every key, token and password that code in it could reach%s?", except)
	}
	if !o.in.LogsReviewed && left.State != "" {
		o.in.LogsReviewed = yes("has a person read its logs (`warren logs %s`) before they go to tickets, traces or a model?", printable(o.name))
	}
}

func (a *app) showJob(job vm.Job) {
	for _, s := range job.Steps {
		mark := map[vm.StepState]string{vm.StepDone: "done", vm.StepOpen: "OPEN", vm.StepNone: "-"}[s.State]
		a.details("%s\n", fold(fmt.Sprintf("  %-12s%-6s%s", s.Step, mark, plain(s.Why)), a.io.width))
	}
	for _, c := range job.Remains.Credentials {
		a.details("%s\n", fold("  secret    "+printable(c.Name)+": "+plain(credentialText(c, job)), a.io.width))
	}
	for _, s := range job.Shipped {
		a.details("  stored    %s, %s, sha256 %s\n", plain(s.ObjectRef.String()), human(s.Size), s.SHA256)
	}
	r := job.Remains
	if r.State == "" {
		a.details("  remains   of %s, which was deleted\n", printable(or(job.Name, string(job.VM))))
	} else {
		a.details("  remains   disk %s, memory %s, logs %s\n", human(r.DiskBytes), human(r.MemoryBytes), human(r.LogBytes))
	}
	a.others(r)
}

// credentialText says whether a secret that a VM could use is rotated, and else what to do.
func credentialText(c vm.Credential, job vm.Job) string {
	byHand := "replace its value at " + or(c.Host, "its service")
	switch {
	case !c.RotatedAt.IsZero() && c.Others > 0:
		return "rotated " + c.RotatedAt.Local().Format(time.DateTime) + ", also for the other VMs that may use it (" + itoa(c.Others) + ")"
	case !c.RotatedAt.IsZero():
		return "rotated " + c.RotatedAt.Local().Format(time.DateTime)
	case c.Removed:
		return "not rotated: it was removed here; end its value at " + or(c.Host, "its service")
	case c.NotRotated != "":
		return "NOT rotated: " + c.NotRotated + "; `warren done " + string(job.VM) + "` tries again; or " + byHand + ", then `warren secret set " + c.Name + "`"
	case c.RotatesBy != "":
		return "not rotated; `warren done " + string(job.VM) + "` without --no-rotate rotates it"
	}
	return "not rotated: " + byHand + ", then `warren secret set " + c.Name + "`; with --rotate-url URL Warren rotates it next time"
}

func (a *app) jobs(ctx context.Context, c *client.Client, asJSON bool) error {
	l, err := c.Jobs(ctx)
	switch {
	case err != nil:
		return err
	case asJSON:
		return list(a.io, l)
	}
	t := &table{head: []string{"NAME", "ID", "ENDED", "VM", "STEPS", "RECORDS", "LABEL"}}
	for _, j := range l {
		state := "complete"
		if !j.Complete {
			state = "open"
		}
		t.add(printable(or(j.Name, "-")), string(j.VM), j.Ended.Local().Format(time.DateTime), or(j.Retention, "left"), state, itoa(len(j.Remains.Receipts)), printable(or(j.Label, "-")))
	}
	a.io.print(t)
	return nil
}
