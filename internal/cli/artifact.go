// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"mime"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newArtifact(a *app) *cobra.Command {
	return group("artifact", "Keep what was produced or given: objects with versions",
		"  warren artifact put report.pdf s3://reports/june.pdf\n  warren artifact ls s3://reports\n  warren artifact sign s3://reports/june.pdf --for 1h",
		newArtifactLs(a), newArtifactGet(a), newArtifactPut(a), newArtifactVersions(a), newArtifactRm(a), newArtifactSign(a), newArtifactTag(a), newArtifactRetain(a))
}

// objectRef is what an argument s3://BUCKET/KEY names.
type objectRef struct {
	bucket, key string
}

func (p objectRef) String() string { return "s3://" + p.bucket + "/" + p.key }

// parseObject reads s3://BUCKET/KEY. With a key, it must name one.
func parseObject(arg string, key bool) (objectRef, error) {
	rest, ok := strings.CutPrefix(arg, "s3://")
	bucket, name, _ := strings.Cut(rest, "/")
	switch {
	case !ok || bucket == "":
		return objectRef{}, usage("%s names no object", printable(arg)).WithHint("write s3://BUCKET/KEY")
	case key && name == "":
		return objectRef{}, usage("%s names a bucket and no object", printable(arg)).WithHint("write s3://%s/KEY", bucket)
	}
	return objectRef{bucket, name}, nil
}

type artifactOptions struct {
	version string
	json    bool
	tags    []string
}

// completeObject completes the first arguments with buckets and keys.
func (a *app) completeObject(most int) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(list) >= most {
			return nil, noFiles
		}
		return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
			if p, err := parseObject(prefix, true); err == nil || strings.Count(prefix, "/") > 2 {
				l, err := c.Objects(ctx, p.bucket, client.ObjectQuery{Prefix: p.key, Delimiter: "/", Limit: 100})
				for _, o := range l.Objects {
					all = append(all, objectRef{p.bucket, o.Key}.String())
				}
				for _, dir := range l.Prefixes {
					all = append(all, objectRef{p.bucket, dir}.String())
				}
				return all, err
			}
			l, err := c.Buckets(ctx)
			for _, b := range l {
				all = append(all, "s3://"+b.Name+"/")
			}
			return all, err
		}), noFiles
	}
}

// parseTags reads NAME=VALUE arguments.
func parseTags(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, one := range list {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, usage("%s is no tag", printable(one)).WithHint("write NAME=VALUE")
		}
		out[name] = value
	}
	return out, nil
}

func newArtifactLs(a *app) *cobra.Command {
	o := &artifactOptions{}
	flat := false
	cmd := &cobra.Command{
		Use: "ls [s3://BUCKET[/PREFIX]]", Short: "List buckets, or the objects of one",
		Long: `List buckets, or the objects of a bucket whose keys begin with PREFIX. Keys that have a slash after it are listed as
one line; with -r all keys are listed. --tag selects objects by tags and implies -r.`,
		Example: "  warren artifact ls\n  warren artifact ls s3://reports/2026/\n  warren artifact ls s3://reports --tag state=final",
		Args:    args(0, 1, ""),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 {
				return a.bucketLs(cmd.Context(), o.json)
			}
			p, err := parseObject(list[0], false)
			if err != nil {
				return err
			}
			q := client.ObjectQuery{Prefix: p.key, Delimiter: "/"}
			if q.Tags, err = parseTags(o.tags); err != nil {
				return err
			}
			if flat || len(q.Tags) > 0 {
				q.Delimiter = ""
			}
			return a.artifactLs(cmd.Context(), p, q, o.json)
		},
		ValidArgsFunction: a.completeObject(1),
	}
	f := cmd.Flags()
	f.BoolVarP(&flat, "recursive", "r", false, "list all keys below")
	f.StringArrayVar(&o.tags, "tag", nil, "only objects with this tag, NAME=VALUE; may repeat")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) artifactLs(ctx context.Context, p objectRef, q client.ObjectQuery, asJSON bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var all api.ObjectList
	shown := a.io.doing("listing %s", plain(p.String()))
	for {
		l, err := c.Objects(ctx, p.bucket, q)
		if err != nil {
			shown.done()
			return err
		}
		all.Objects, all.Prefixes = append(all.Objects, l.Objects...), append(all.Prefixes, l.Prefixes...)
		if l.Next == "" {
			break
		}
		q.After = l.Next
	}
	shown.done()
	if asJSON {
		return a.io.json(api.ObjectList{Objects: append([]vm.Object{}, all.Objects...), Prefixes: all.Prefixes})
	}
	t := &table{head: []string{"KEY", "SIZE", "AGE", "SCAN"}}
	for _, dir := range all.Prefixes {
		t.add(printable(dir), "-", "-", "-")
	}
	for _, o := range all.Objects {
		t.add(printable(o.Key), human(o.Size), age(o.At), string(o.Scan))
	}
	a.io.print(t)
	return nil
}

func newArtifactVersions(a *app) *cobra.Command {
	o := &artifactOptions{}
	cmd := &cobra.Command{
		Use: "versions s3://BUCKET[/KEY]", Short: "List versions and delete markers, the newest first", Example: "  warren artifact versions s3://reports/june.pdf",
		Args: args(1, 1, "of which object? warren artifact versions s3://BUCKET/KEY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			p, err := parseObject(list[0], false)
			if err != nil {
				return err
			}
			return a.artifactVersions(cmd.Context(), p, o.json)
		},
		ValidArgsFunction: a.completeObject(1),
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) artifactVersions(ctx context.Context, p objectRef, asJSON bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	shown := a.io.doing("listing the versions of %s", plain(p.String()))
	defer shown.done()
	var all []vm.Object
	q := client.ObjectQuery{Prefix: p.key}
	for {
		l, err := c.ObjectVersions(ctx, p.bucket, q)
		if err != nil {
			return err
		}
		all = append(all, l.Objects...)
		if l.Next == "" {
			break
		}
		q.After, q.AfterVersion = l.Next, l.NextVersion
	}
	if p.key != "" && !strings.HasSuffix(p.key, "/") { // an object, not a prefix
		all = slices.DeleteFunc(all, func(o vm.Object) bool { return o.Key != p.key })
	}
	shown.done()
	if asJSON {
		return list(a.io, all)
	}
	t := &table{head: []string{"VERSION", "KEY", "SIZE", "AGE", "STATE"}}
	for _, o := range all {
		t.add(o.Version, printable(o.Key), human(o.Size), age(o.At), versionState(o))
	}
	a.io.print(t)
	return nil
}

// versionState says what is special about a version.
func versionState(o vm.Object) string {
	var words []string
	if o.Latest {
		words = append(words, "latest")
	}
	switch {
	case o.Deleted:
		words = append(words, "deleted")
	case o.Scan != vm.Clean:
		words = append(words, string(o.Scan))
	}
	if o.Hold {
		words = append(words, "hold")
	}
	if o.Retain != "" && time.Now().Before(o.RetainTo) {
		words = append(words, "retained")
	}
	return or(strings.Join(words, " "), "-")
}

func newArtifactGet(a *app) *cobra.Command {
	o := &artifactOptions{}
	refused := false
	cmd := &cobra.Command{
		Use: "get s3://BUCKET/KEY [FILE]", Short: "Download an object",
		Long: `Download an object to FILE, by default to the last part of its key in this directory; - writes it to the output. No
existing file is replaced. The file appears when it is complete.`,
		Example: "  warren artifact get s3://reports/june.pdf\n  warren artifact get s3://reports/june.csv - | head",
		Args:    args(1, 2, "which object? warren artifact get s3://BUCKET/KEY [FILE]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			p, err := parseObject(list[0], true)
			if err != nil {
				return err
			}
			to := path.Base(p.key)
			if len(list) == 2 {
				to = list[1]
			}
			return a.artifactGet(cmd.Context(), p, to, refused, o)
		},
		ValidArgsFunction: a.completeObject(1),
	}
	cmd.Flags().StringVar(&o.version, "version-id", "", "take this version (default the newest)")
	cmd.Flags().BoolVar(&refused, "refused", false, "also take one that a scan has refused; for the account's owner")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) artifactGet(ctx context.Context, p objectRef, to string, refused bool, o *artifactOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if to == "." || to == ".." || to == "/" {
		return usage("the key %s is no name of a file", printable(p.key)).WithHint("name the FILE")
	}
	if st, err := os.Stat(to); err == nil && st.IsDir() {
		to = filepath.Join(to, path.Base(p.key))
	}
	if to == "-" {
		_, r, err := c.GetObject(client.WithDestination(ctx, onThisHost(to)), p.bucket, p.key, o.version, refused)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(a.io.out, r)
		return err
	}
	var got vm.Object
	err = a.download(to, plain(p.String()), func(ctx context.Context) (r io.ReadCloser, err error) {
		got, r, err = c.GetObject(client.WithDestination(ctx, onThisHost(to)), p.bucket, p.key, o.version, refused)
		return r, err
	}, ctx, func(w io.Writer) (io.WriteCloser, error) { return nopCloser{w}, nil })
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(got)
	}
	a.io.notef("%s: %s, version %s", plain(to), human(got.Size), got.Version)
	return nil
}

func newArtifactPut(a *app) *cobra.Command {
	o := &artifactOptions{}
	in := client.PutObject{}
	var meta []string
	fresh := false
	cmd := &cobra.Command{
		Use: "put FILE s3://BUCKET/KEY", Short: "Upload a file as a new version of an object",
		Long: `Upload a file, or with - the input, as a new version of an object. Older versions stay. A key that ends with a slash
gets the file's name.`,
		Example: "  warren artifact put report.pdf s3://reports/2026/ --tag state=draft\n  warren artifact put - s3://reports/log.txt",
		Args:    args(2, 2, "what, and where to? warren artifact put FILE s3://BUCKET/KEY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			p, err := parseObject(list[1], false)
			if err != nil {
				return err
			}
			if p.key == "" || strings.HasSuffix(p.key, "/") && list[0] != "-" {
				p.key += filepath.Base(list[0])
			}
			if in.Tags, err = parseTags(o.tags); err != nil {
				return err
			}
			if in.Meta, err = parseTags(meta); err != nil {
				return err
			}
			if fresh {
				in.IfNoneMatch = "*"
			}
			return a.artifactPut(cmd.Context(), list[0], p, in, o.json)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeObject(2)(cmd, list, prefix)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.tags, "tag", nil, "tag of the version, NAME=VALUE; may repeat")
	f.StringArrayVar(&meta, "meta", nil, "metadata of the version, NAME=VALUE; may repeat")
	f.StringVar(&in.ContentType, "type", "", "content type (default by the file's name)")
	f.BoolVar(&fresh, "new", false, "refuse if the object exists")
	f.StringVar(&in.IfMatch, "if-match", "", "refuse unless the newest version has this ETag")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) artifactPut(ctx context.Context, file string, p objectRef, in client.PutObject, asJSON bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var r io.Reader = a.io.in
	size := int64(-1)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fileFailed(file, err)
		}
		defer f.Close()
		st, err := f.Stat()
		if err == nil && !st.Mode().IsRegular() {
			return usage("%s is no file", printable(file)).WithHint("pack a directory first: tar -c DIR | warren artifact put - s3://BUCKET/KEY")
		}
		if err != nil {
			return fileFailed(file, err)
		}
		r, size = f, st.Size()
	}
	if in.ContentType == "" {
		in.ContentType = or(mime.TypeByExtension(path.Ext(p.key)), "application/octet-stream")
	}
	var n atomic.Int64
	shown := a.io.progress(func() string { return plain(p.String()) + ": " + human(n.Load()) })
	made, err := c.PutObject(ctx, p.bucket, p.key, in, size, counting{io.NopCloser(r), &n})
	shown.done()
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.io.json(made)
	case a.io.quiet:
		a.io.printf("%s\n", made.Version)
		return nil
	}
	a.io.printf("%s %s\n", made.Version, plain(p.String()))
	if made.Scan == vm.Refused {
		a.io.notef("a scan has refused it: %s", plain(made.ScanReason))
	}
	return nil
}

func newArtifactRm(a *app) *cobra.Command {
	o := &artifactOptions{}
	bypass := false
	cmd := a.changing(&cobra.Command{
		Use: "rm s3://BUCKET/KEY...", Short: "Mark objects as deleted, or remove a version",
		Long: `Mark objects as deleted: they are no longer listed, and their versions stay. With --version-id remove one version with
its bytes. A version that is retained is not removed.`,
		Example: "  warren artifact rm s3://reports/june.pdf",
		Args:    args(1, -1, "which object? warren artifact rm s3://BUCKET/KEY..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.version != "" && len(list) > 1 {
				return usage("--version-id is for one object")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.each(list, func(arg string) error {
				p, err := parseObject(arg, true)
				if err != nil {
					return err
				}
				if _, err := c.RemoveObject(cmd.Context(), p.bucket, p.key, o.version, bypass); err != nil {
					return err
				}
				done := change{Name: arg, Result: "removed"}
				if o.version == "" {
					done.Result, done.text = "deleted", arg+" is deleted; its versions stay: `warren artifact versions "+arg+"`"
				}
				a.changed(done)
				return nil
			})
		},
		ValidArgsFunction: a.completeObject(1000),
	})
	cmd.Flags().StringVar(&o.version, "version-id", "", "remove this version")
	cmd.Flags().BoolVar(&bypass, "bypass-retention", false, "override a governance retention; for the account's owner")
	return cmd
}

func newArtifactSign(a *app) *cobra.Command {
	in := api.SignObject{}
	lasts, asJSON, put := "1h", false, false
	cmd := &cobra.Command{
		Use: "sign s3://BUCKET/KEY", Short: "Make a link that ends by itself",
		Long: `Make a link with which anybody downloads the object, or with --put uploads a new version, until it ends. The link ends
earlier when its maker loses the right, or when the access key that signed it is revoked.`,
		Example: "  warren artifact sign s3://reports/june.pdf --for 15m\n  warren artifact sign s3://inbox/upload.bin --put",
		Args:    args(1, 1, "which object? warren artifact sign s3://BUCKET/KEY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			p, err := parseObject(list[0], true)
			if err != nil {
				return err
			}
			d, err := parseSeconds(lasts)
			if err != nil {
				return err
			}
			if in.Seconds = int(d / time.Second); in.Seconds < 1 {
				return usage("--for %s: a link works for a second at least", printable(lasts))
			}
			if put {
				in.Method = "PUT"
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			link, err := c.SignObject(cmd.Context(), p.bucket, p.key, in)
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.io.json(link)
			}
			a.io.printf("%s\n", link.URL)
			a.io.notef("it ends at %s", link.ExpiresAt.Local().Format(time.DateTime))
			return nil
		},
		ValidArgsFunction: a.completeObject(1),
	}
	f := cmd.Flags()
	f.StringVar(&lasts, "for", "1h", "how long it works, up to 7d")
	f.BoolVar(&put, "put", false, "a link to upload")
	f.StringVar(&in.Version, "version-id", "", "of this version (default the newest at each use)")
	f.StringVar(&in.Filename, "filename", "", "name under which a browser saves it")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newArtifactTag(a *app) *cobra.Command {
	o := &artifactOptions{}
	cmd := &cobra.Command{
		Use: "tag s3://BUCKET/KEY [NAME=VALUE...]", Short: "Replace the tags of an object; without any, remove them",
		Example: "  warren artifact tag s3://reports/june.pdf state=final",
		Args:    args(1, -1, "which object? warren artifact tag s3://BUCKET/KEY NAME=VALUE..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			p, err := parseObject(list[0], true)
			if err != nil {
				return err
			}
			tags, err := parseTags(list[1:])
			if err != nil {
				return err
			}
			return a.artifactChanged(o, "tagged", p, func(c *client.Client) (vm.Object, error) {
				return c.TagObject(cmd.Context(), p.bucket, p.key, o.version, tags)
			})
		},
		ValidArgsFunction: a.completeObject(1),
	}
	cmd.Flags().StringVar(&o.version, "version-id", "", "of this version (default the newest)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// artifactChanged makes a change of a version and says what it has become.
func (a *app) artifactChanged(o *artifactOptions, what string, p objectRef, do func(*client.Client) (vm.Object, error)) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := do(c)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(got)
	case !a.io.quiet:
		a.io.printf("%s is %s\n", plain(p.String()), what)
	}
	return nil
}

func newArtifactRetain(a *app) *cobra.Command {
	o := &artifactOptions{}
	in := api.RetainObject{}
	until, compliance, hold := "", false, false
	cmd := &cobra.Command{
		Use: "retain s3://BUCKET/KEY", Short: "Keep a version from being removed until a time",
		Long: `Keep a version from being removed until a time. A governance retention can be overridden by the account's owner, a
compliance retention by nobody. --hold keeps it until --hold=false.`,
		Example: "  warren artifact retain s3://reports/june.pdf --for 90d\n  warren artifact retain s3://reports/june.pdf --hold",
		Args:    args(1, 1, "which object? warren artifact retain s3://BUCKET/KEY --for 90d"),
		RunE: func(cmd *cobra.Command, list []string) error {
			p, err := parseObject(list[0], true)
			if err != nil {
				return err
			}
			if until != "" {
				d, err := parseSeconds(until)
				if err != nil {
					return err
				}
				in.Mode, in.Until = vm.Governance, time.Now().Add(d).UTC()
				if compliance {
					in.Mode = vm.Compliance
				}
			}
			if cmd.Flags().Changed("hold") {
				in.Hold = &hold
			}
			if in.Mode == "" && in.Hold == nil {
				return usage("retain for how long?").WithHint("give --for 90d, or --hold")
			}
			return a.artifactChanged(o, "retained", p, func(c *client.Client) (vm.Object, error) {
				return c.RetainObject(cmd.Context(), p.bucket, p.key, o.version, in)
			})
		},
		ValidArgsFunction: a.completeObject(1),
	}
	f := cmd.Flags()
	f.StringVar(&until, "for", "", "how long, such as 90d")
	f.BoolVar(&compliance, "compliance", false, "nobody may remove it or shorten the time")
	f.BoolVar(&hold, "hold", false, "hold it until --hold=false")
	f.BoolVar(&in.Bypass, "bypass-retention", false, "shorten a governance retention; for the account's owner")
	f.StringVar(&o.version, "version-id", "", "this version (default the newest)")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}
