// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newBucket(a *app) *cobra.Command {
	return group("bucket", "Manage buckets, which hold objects", "  warren bucket create reports\n  warren bucket grant s3://reports/inbox/ --identity uploader --write",
		newBucketCreate(a), newBucketLs(a), newBucketRm(a), newBucketGrant(a), newBucketRevoke(a), newBucketGrants(a), newBucketLifecycle(a), newBucketRetain(a), newBucketUsage(a))
}

// bucketName is the bucket of an argument: NAME or s3://NAME.
func bucketName(arg string) string {
	return strings.TrimSuffix(strings.TrimPrefix(arg, "s3://"), "/")
}

// completeBucket completes the first argument with buckets.
func (a *app) completeBucket(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, noFiles
	}
	return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Buckets(ctx)
		for _, b := range l {
			all = append(all, b.Name)
		}
		return all, err
	}), noFiles
}

func newBucketCreate(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a private bucket", Example: "  warren bucket create reports",
		Long: "Make a private bucket. Names are shared by all accounts of the server. Every write to a key of it makes a new version.",
		Args: args(1, 1, "which name? warren bucket create NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			b, err := c.CreateBucket(cmd.Context(), bucketName(list[0]))
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.io.json(b)
			}
			a.io.printf("s3://%s\n", b.Name)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newBucketLs(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "ls", Short: "List buckets", Example: "  warren bucket ls --json", Args: args(0, 0, ""),
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.bucketLs(cmd.Context(), asJSON) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) bucketLs(ctx context.Context, asJSON bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Buckets(ctx)
	switch {
	case err != nil:
		return err
	case asJSON:
		return list(a.io, l)
	}
	t := &table{head: []string{"BUCKET", "AGE", "RULES", "RETENTION"}}
	for _, b := range l {
		retain := "-"
		if b.Retain != nil {
			retain = strings.ToLower(string(b.Retain.Mode)) + " " + itoa(b.Retain.Days) + "d"
		}
		t.add(b.Name, age(b.CreatedAt), itoa(len(b.Rules)), retain)
	}
	a.io.print(t)
	return nil
}

func newBucketRm(a *app) *cobra.Command {
	force := false
	cmd := a.changing(&cobra.Command{
		Use: "rm BUCKET...", Short: "Remove empty buckets; with --force with all versions in them", Example: "  warren bucket rm reports",
		Args: args(1, -1, "which bucket? warren bucket rm BUCKET..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "removed", func(c *client.Client, name string) error {
				return c.RemoveBucket(cmd.Context(), bucketName(name), force)
			})
		},
		ValidArgsFunction: a.completeBucket,
	})
	cmd.Flags().BoolVar(&force, "force", false, "remove what is in them first; retained versions stay, and the bucket")
	return cmd
}

// newBucketHolder is grant or revoke.
func (a *app) newBucketHolder(cmd *cobra.Command, do func(ctx context.Context, c *client.Client, p objectRef, g api.BucketGrant) error, result string) *cobra.Command {
	g := &api.BucketGrant{}
	write := false
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		arg := list[0]
		if !strings.HasPrefix(arg, "s3://") {
			arg = "s3://" + arg
		}
		p, err := parseObject(arg, false)
		if err != nil {
			return err
		}
		if (g.Identity == "") == (g.VM == "") {
			return usage("for which identity or VM?").WithHint("give --identity IDENTITY or --vm NAME")
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		one := *g
		one.Prefix, one.Access = p.key, vm.ObjectRead
		if write {
			one.Access = vm.ObjectWrite
		}
		if err := do(cmd.Context(), c, p, one); err != nil {
			return err
		}
		a.changed(change{Name: p.String(), Result: result})
		return nil
	}
	cmd.ValidArgsFunction = a.completeObject(1)
	f := cmd.Flags()
	f.StringVar(&g.Identity, "identity", "", "the identity")
	f.StringVar(&g.VM, "vm", "", "the VM")
	if result == "granted" {
		f.BoolVar(&write, "write", false, "let it write and remove, too")
	}
	_ = cmd.RegisterFlagCompletionFunc("identity", a.completeIdentity)
	_ = cmd.RegisterFlagCompletionFunc("vm", a.completeVM)
	return a.changing(cmd)
}

func newBucketGrant(a *app) *cobra.Command {
	return a.newBucketHolder(&cobra.Command{
		Use: "grant BUCKET[/PREFIX]", Short: "Let an identity or a VM use a bucket, or the keys with a prefix",
		Long:    "Let an identity or a VM read a bucket, or its keys that begin with PREFIX; with --write also write them. A VM uses\nthem without a key, at https://s3.warren.internal.",
		Example: "  warren bucket grant s3://reports/inbox/ --identity uploader --write\n  warren bucket grant datasets --vm app",
		Args:    args(1, 1, "which bucket? warren bucket grant BUCKET[/PREFIX] --identity IDENTITY"),
	}, func(ctx context.Context, c *client.Client, p objectRef, g api.BucketGrant) error {
		_, err := c.GrantBucket(ctx, p.bucket, g)
		return err
	}, "granted")
}

func newBucketRevoke(a *app) *cobra.Command {
	return a.newBucketHolder(&cobra.Command{
		Use: "revoke BUCKET[/PREFIX]", Short: "End a grant", Example: "  warren bucket revoke s3://reports/inbox/ --identity uploader",
		Args: args(1, 1, "which bucket? warren bucket revoke BUCKET[/PREFIX] --identity IDENTITY"),
	}, func(ctx context.Context, c *client.Client, p objectRef, g api.BucketGrant) error {
		return c.RevokeBucket(ctx, p.bucket, g)
	}, "revoked")
}

func newBucketGrants(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "grants BUCKET", Short: "List the identities and VMs that may use a bucket", Example: "  warren bucket grants reports",
		Args: args(1, 1, "of which bucket? warren bucket grants BUCKET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.BucketGrants(cmd.Context(), bucketName(args[0]))
			switch {
			case err != nil:
				return err
			case asJSON:
				return list(a.io, l)
			}
			t := &table{head: []string{"HOLDER", "PREFIX", "ACCESS"}}
			for _, g := range l {
				t.add(or(g.Identity, g.VM), printable(or(g.Prefix, "-")), string(g.Access))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: a.completeBucket,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// lifecycleOptions are the flags of one rule.
type lifecycleOptions struct {
	rule                vm.LifecycleRule
	expire, old, abort  string
	remove, asJSON, now bool
}

func newBucketLifecycle(a *app) *cobra.Command {
	o := &lifecycleOptions{}
	cmd := &cobra.Command{
		Use: "lifecycle BUCKET", Short: "Show, set or remove rules by which objects end",
		Long: `Show the rules of a bucket, set one, or remove one. The server carries them out every hour. --expire marks objects as
deleted, --keep and --old remove versions, --abort removes unfinished multipart uploads. Retained versions stay.`,
		Example: "  warren bucket lifecycle reports\n  warren bucket lifecycle reports --rule drafts --prefix drafts/ --expire 30d --keep 3\n  warren bucket lifecycle reports --rule drafts --remove",
		Args:    args(1, 1, "of which bucket? warren bucket lifecycle BUCKET"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.bucketLifecycle(cmd.Context(), bucketName(list[0]), o)
		},
		ValidArgsFunction: a.completeBucket,
	}
	f := cmd.Flags()
	f.StringVar(&o.rule.ID, "rule", "", "the rule's name")
	f.StringVar(&o.rule.Prefix, "prefix", "", "only keys that begin with this")
	f.StringVar(&o.expire, "expire", "", "age at which an object is marked as deleted, such as 30d")
	f.IntVar(&o.rule.KeepVersions, "keep", 0, "how many versions of a key stay")
	f.StringVar(&o.old, "old", "", "how long a replaced version stays, such as 7d")
	f.StringVar(&o.abort, "abort", "", "age at which an unfinished multipart upload is removed, such as 1d")
	f.BoolVar(&o.remove, "remove", false, "remove the rule")
	f.BoolVar(&o.now, "now", false, "carry out the rules of all buckets now; for admins")
	f.BoolVar(&o.asJSON, "json", false, "print as JSON")
	return cmd
}

// days reads a duration of whole days; "" = 0.
func days(flag, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(text, "d"))
	if err != nil || n < 1 {
		return 0, usage("--%s %s: not a number of days", flag, printable(text)).WithHint("give such as 30d")
	}
	return n, nil
}

func (a *app) bucketLifecycle(ctx context.Context, bucket string, o *lifecycleOptions) error {
	var err error
	for _, one := range []struct {
		flag, text string
		to         *int
	}{{"expire", o.expire, &o.rule.ExpireDays}, {"old", o.old, &o.rule.OldDays}, {"abort", o.abort, &o.rule.AbortDays}} {
		if *one.to, err = days(one.flag, one.text); err != nil {
			return err
		}
	}
	does := o.rule.ExpireDays+o.rule.KeepVersions+o.rule.OldDays+o.rule.AbortDays != 0
	switch {
	case o.rule.ID == "" && (does || o.remove):
		return usage("which rule?").WithHint("name it with --rule NAME")
	case o.remove && does:
		return usage("--remove takes only --rule")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	b, err := c.Bucket(ctx, bucket)
	if err != nil {
		return err
	}
	if o.rule.ID != "" {
		rules, there := b.Rules[:0:0], false
		for _, r := range b.Rules {
			if r.ID != o.rule.ID {
				rules = append(rules, r)
			} else {
				there = true
			}
		}
		if o.remove && !there {
			return vm.Errorf(vm.NotFound, o.rule.ID, "the bucket has no such rule").WithHint("`warren bucket lifecycle %s` lists them", bucket)
		}
		if !o.remove {
			rules = append(rules, o.rule)
		}
		if b, err = c.ChangeBucket(ctx, bucket, api.ChangeBucket{Rules: &rules}); err != nil {
			return err
		}
	}
	if o.now {
		done, err := c.SweepObjects(ctx)
		if err != nil {
			return err
		}
		a.io.notef("%d objects marked as deleted, %d versions removed, %d uploads removed", done.Expired, done.Removed, done.Aborted)
	}
	if o.asJSON {
		return list(a.io, b.Rules)
	}
	t := &table{head: []string{"RULE", "PREFIX", "EXPIRE", "KEEP", "OLD", "ABORT"}}
	number := func(n int, unit string) string {
		if n == 0 {
			return "-"
		}
		return itoa(n) + unit
	}
	for _, r := range b.Rules {
		t.add(printable(r.ID), printable(or(r.Prefix, "-")), number(r.ExpireDays, "d"), number(r.KeepVersions, ""), number(r.OldDays, "d"), number(r.AbortDays, "d"))
	}
	a.io.print(t)
	return nil
}

func newBucketRetain(a *app) *cobra.Command {
	lasts, compliance, none := "", false, false
	return a.changing(func() *cobra.Command {
		cmd := &cobra.Command{
			Use: "retain BUCKET", Short: "Set how long new versions are kept from being removed", Example: "  warren bucket retain reports --for 90d\n  warren bucket retain reports --none",
			Args: args(1, 1, "which bucket? warren bucket retain BUCKET --for 90d"),
			RunE: func(cmd *cobra.Command, list []string) error {
				n, err := days("for", lasts)
				switch {
				case err != nil:
					return err
				case (n == 0) != none:
					return usage("for how long?").WithHint("give --for 90d, or --none")
				}
				in := api.ChangeBucket{NoRetain: none}
				if !none {
					in.Retain = &vm.RetainDefault{Mode: vm.Governance, Days: n}
					if compliance {
						in.Retain.Mode = vm.Compliance
					}
				}
				return a.endEach(list, "changed", func(c *client.Client, name string) error {
					_, err := c.ChangeBucket(cmd.Context(), bucketName(name), in)
					return err
				})
			},
			ValidArgsFunction: a.completeBucket,
		}
		cmd.Flags().StringVar(&lasts, "for", "", "how long, such as 90d")
		cmd.Flags().BoolVar(&compliance, "compliance", false, "nobody may remove a version or shorten the time")
		cmd.Flags().BoolVar(&none, "none", false, "retain no new versions")
		return cmd
	}())
}

func newBucketUsage(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "usage", Short: "Show what each bucket holds", Example: "  warren bucket usage", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.BucketUsage(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return list(a.io, l)
			}
			t := &table{head: []string{"BUCKET", "OBJECTS", "VERSIONS", "SIZE", "UNFINISHED"}}
			for _, u := range l {
				t.add(u.Bucket, strconv.FormatInt(u.Objects, 10), strconv.FormatInt(u.Versions, 10), human(u.Bytes), human(u.Uploads))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}
