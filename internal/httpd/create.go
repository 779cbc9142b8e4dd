// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// create answers only with codes that the SDK knows, since it repeats the request forever
// on any other.
func (s *server) create(q *request) error {
	var in api.CreateVM
	if err := q.decode(&in, maxFileBody); err != nil {
		return createError(err)
	}
	req, err := createRequest(in, s.knows(q))
	if err != nil {
		return createError(err)
	}
	after, err := backgroundAfter(q)
	if err != nil {
		return createError(err)
	}
	if err := s.checkDomains(q.call, in.Domains); err != nil {
		return err
	}
	do := func(ctx context.Context, c *vm.Call) (any, error) {
		v, err := s.Engine.Create(ctx, c, req)
		if err != nil {
			return nil, createError(err)
		}
		if err := s.mapCreated(ctx, c, v, in.Domains); err != nil {
			return nil, err
		}
		if in.FilesystemMD {
			if err := s.writeFilesystemMD(ctx, c, v); err != nil {
				return nil, err
			}
		}
		return s.created(ctx, c, v), nil
	}
	if after > 0 {
		return s.inBackground(q, after, do)
	}
	out, err := do(q.Context(), q.call)
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) created(ctx context.Context, c *vm.Call, v vm.VM) api.CreatedVM {
	out := api.CreatedVM{ID: v.ID, Domains: s.domainsOf(v.ID), Persistence: v.Persistence, VM: shown(&v)}
	if img, err := s.Engine.FindImage(ctx, c, string(v.Image)); err == nil {
		out.SnapshotID, out.VM.SnapshotID = img.Snapshot, img.Snapshot
	}
	return out
}

// createError gives an error without a specific code one of this route. api.CodeOf
// handles the other codes.
func createError(err error) error {
	c := *vm.AsError(err)
	switch c.Code {
	case "", "INVALID_REQUEST", "FILES_BAD_REQUEST":
	default:
		return err
	}
	switch c.Kind {
	case vm.Invalid, vm.Exists, vm.WrongState, vm.Unsupported:
		c.Code = "CREATE_VM_BAD_REQUEST"
	case vm.Limit: // without a code it is the host's memory
		if c.Code != "" {
			c.Code = "CREATE_VM_BAD_REQUEST"
		}
	case vm.NotFound:
		c.Code = "SNAPSHOT_NOT_FOUND"
	case vm.Timeout:
		c.Code = "VM_START_TIMEOUT"
	}
	return &c // the kind's own code
}

func backgroundAfter(q *request) (time.Duration, error) {
	v := q.Header.Get(api.HeaderBackgroundIn)
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v + "s")
	if err != nil || d <= 0 || d > 10*time.Minute {
		return 0, vm.Errorf(vm.Invalid, api.HeaderBackgroundIn, "%q is not a number of seconds", v)
	}
	return d, nil
}

// createRequest combines the parts of a request that SDKs spread over the top level,
// template and spec. If a size is given twice, the spec's is used. known reports whether
// an image exists.
func createRequest(in api.CreateVM, known func(string) bool) (engine.CreateRequest, error) {
	r := engine.CreateRequest{
		Name: in.Name, UniqueName: in.UniqueName, Network: in.Network, Persistence: in.Persistence,
		IdleTimeout: in.IdleTimeout, TTL: in.TTL, OneShot: in.OneShot, OnBoot: in.OnBoot, Profile: in.Profile, StopOnIdle: in.StopOnIdle, CaptureEvery: in.CaptureEvery, Labels: in.Labels, Secrets: in.Secrets,
	}
	var err error
	if r.Paths, err = canonicalPaths(in.Paths); err != nil {
		return r, err
	}
	if in.ActivityThresholdBytes != nil {
		r.Threshold = *in.ActivityThresholdBytes
	}
	top := in.Layer
	top.LayerUsers, top.LayerGroups, top.LayerFiles = in.Users, in.Groups, in.AdditionalFiles
	top.LayerWait, top.LayerReady = in.WaitForReadySignal, in.ReadyTimeout
	top.Name, top.LayerPersist, top.LayerIdle = nil, nil, vm.Optional[vm.Seconds]{}
	outer := outermost(in.Spec, in.Template, &top)
	if outer.Name != nil {
		r.Name = cmp.Or(r.Name, *outer.Name)
	}
	if r.Persistence == nil {
		r.Persistence = outer.LayerPersist
	}
	if !r.IdleTimeout.Set {
		r.IdleTimeout = outer.LayerIdle
	}
	if in.Recreate != nil && *in.Recreate {
		return r, notSupported("recreate")
	}
	return r, fillSpec(&r, outer, in.Image, known)
}

// readyTimeout returns the limit of a start; 0 = the server's own.
func readyTimeout(d *vm.Seconds) (time.Duration, error) {
	switch {
	case d == nil:
		return 0, nil
	case *d <= 0 || *d > maxReady:
		return 0, vm.Errorf(vm.Invalid, "readySignalTimeoutSeconds", "%s is not within 1 to %s", *d, maxReady)
	}
	return time.Duration(*d), nil
}

const maxReady = vm.Seconds(24 * time.Hour)

func notSupported(what string) error {
	return vm.Errorf(vm.Unsupported, what, "is not supported by this version of Warren").
		WithHint("leave it out, and do it with exec once the VM runs")
}

// content decodes the content of a file in a request.
func content(text, encoding string) ([]byte, error) {
	switch strings.ToLower(encoding) {
	case "", "utf8", "utf-8":
		return []byte(text), nil
	case "base64":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, "content", "not base64: %w", err).WithCode("FILES_BAD_REQUEST", "message", "the content is not base64")
		}
		return data, nil
	}
	return nil, vm.Errorf(vm.Invalid, encoding, "no such encoding").WithCode("FILES_BAD_REQUEST", "message", "the encoding must be utf8 or base64").
		WithHint("use utf8 or base64")
}
