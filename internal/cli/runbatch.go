// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// runInput is an object that a run gets, from --input.
type runInput struct {
	vm.ObjectRef
	path string
}

// runInputs reads --input s3://BUCKET/KEY[@VERSION][:/PATH].
func runInputs(flags []string) ([]runInput, error) {
	var out []runInput
	for _, f := range flags {
		in := runInput{path: "/work/"}
		name := f
		if i := strings.LastIndex(f, ":/"); i > len("s3") {
			name, in.path = f[:i], f[i+1:]
		}
		var err error
		if in.ObjectRef, err = parseVersion(name); err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

// runPublish is a path that a run publishes, from --publish.
type runPublish struct {
	typed, path string
	to          objectRef // its key is a prefix; no bucket = the account's own for runs
}

// runPublishes reads --publish PATH[=s3://BUCKET/PREFIX]. A relative PATH starts in the
// command's directory.
func runPublishes(flags []string, cwd string) ([]runPublish, error) {
	var out []runPublish
	for _, f := range flags {
		p := runPublish{typed: f, path: f}
		if i := strings.Index(f, "=s3://"); i >= 0 {
			var err error
			if p.to, err = parseObject(f[i+1:], false); err != nil {
				return nil, err
			}
			p.typed, p.path = f[:i], f[:i]
		}
		if p.typed == "" {
			return nil, usage("--publish %s is not a path of the VM", printable(f)).WithHint("write PATH or PATH=s3://BUCKET/PREFIX, such as /work/out=s3://reports/2026")
		}
		if cwd != "" && !strings.HasPrefix(p.path, "/") {
			p.path = cwd + "/" + p.path
		}
		if p.to.key != "" && !strings.HasSuffix(p.to.key, "/") {
			p.to.key += "/"
		}
		out = append(out, p)
	}
	return out, nil
}

// batch is what a run moves between object storage and its VM.
type batch struct {
	a        *app
	c        *client.Client
	name     string // of the VM
	command  string
	maxBytes int64
	inputs   []runInput
	outputs  []runPublish

	fetched   []vm.Fetched
	published []publishedOutput
}

// publishedOutput describes a published path for --json.
type publishedOutput struct {
	From string `json:"from"` // as in the command line
	*vm.Published
	Error *api.ErrorBody `json:"error,omitempty"` // why it was not published
}

// batch reads the flags, and refuses, before the VM is made, objects and buckets that are
// not there. It makes the account's bucket for runs.
func (a *app) batch(ctx context.Context, c *client.Client, o *runOptions, name string) (*batch, error) {
	b := &batch{a: a, c: c, name: name, command: vm.Clip(strings.Join(o.exec.argv, " "), 900)}
	text := o.maxBytes
	if !o.maxSet {
		text = defaultMoved
	}
	var err error
	if b.maxBytes, err = movedBytes(text); err != nil {
		return nil, err
	}
	if b.inputs, err = runInputs(o.inputs); err != nil {
		return nil, err
	}
	for i, in := range b.inputs {
		about, err := c.HeadObject(ctx, in.Bucket, in.Key, in.Version)
		if err != nil {
			return nil, err
		}
		b.inputs[i].Version = about.Version // the job gets what was there when it began
	}
	if b.outputs, err = runPublishes(o.publish, o.exec.cwd); err != nil {
		return nil, err
	}
	for i, p := range b.outputs {
		if p.to.bucket == "" {
			b.outputs[i].to, err = a.runBucket(ctx, c, name)
		} else {
			_, err = c.Bucket(ctx, p.to.bucket)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// runBucket is where results go whose flag names no bucket: each run has a prefix of its
// own in a bucket of the account, which is made when it is missing.
func (a *app) runBucket(ctx context.Context, c *client.Client, name string) (objectRef, error) {
	who, err := c.WhoAmI(ctx)
	if err != nil {
		return objectRef{}, err
	}
	to := objectRef{"runs-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(string(who.AccountID))), name + "/"}
	if _, err = c.Bucket(ctx, to.bucket); errors.Is(err, vm.NotFound) {
		if _, err = c.CreateBucket(ctx, to.bucket); errors.Is(err, vm.Exists) { // by another run
			err = nil
		}
	}
	return to, err
}

// bring fetches the inputs.
func (b *batch) bring(ctx context.Context) error {
	for _, in := range b.inputs {
		got, err := b.a.fetchOne(ctx, b.c, b.name, vm.FetchRequest{ObjectRef: in.ObjectRef, Path: vm.GuestPath(in.path), MaxBytes: b.maxBytes})
		if err != nil {
			return err
		}
		b.fetched = append(b.fetched, got)
	}
	return nil
}

// publish publishes the results of a command that has ended with err, also after a
// failure of the command. The command's status counts; a missing result changes it only if
// the command succeeded. All results come from one state of the disk.
func (b *batch) publish(ctx context.Context, err error) error {
	var status exitStatus
	if err != nil && !errors.As(err, &status) {
		if len(b.outputs) > 0 && vm.KindOf(err) != vm.Cancelled {
			b.a.io.notef("nothing was published")
		}
		return err
	}
	var state vm.GenerationID
	var missing error
	for _, p := range b.outputs {
		out, perr := b.a.publishOne(ctx, b.c, place{vm: b.name, path: p.path}, vm.PublishRequest{
			Path: vm.GuestPath(p.path), Bucket: p.to.bucket, Key: p.to.key, Generation: state, MaxBytes: b.maxBytes, Command: b.command,
		})
		if perr != nil {
			if vm.KindOf(perr) == vm.Cancelled {
				return perr
			}
			if isFileNotFound(perr) {
				perr = vm.Errorf(vm.NotFound, printable(p.typed), "--publish: the command has left no such file or directory").WithCode("FILE_NOT_FOUND", "path", p.typed).
					WithHint("a relative path starts in the command's directory; --publish /PATH names any other path")
			}
			b.a.complain(perr)
			body := api.EncodeError(perr, "")
			b.published = append(b.published, publishedOutput{From: p.typed, Error: &body})
			missing = errors.Join(perr, errReported)
			continue
		}
		state = out.Generation
		b.published = append(b.published, publishedOutput{From: p.typed, Published: &out})
		if b.a.gather == nil {
			b.a.io.notef("published %s, %s", published(out), human(out.Object.Size))
		}
	}
	if err == nil {
		err = missing
	}
	return err
}
