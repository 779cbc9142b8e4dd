// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// create answers with codes that the SDK knows only: it repeats the request
// for ever on any other.
func (s *server) create(q *request) error {
	var in api.CreateVM
	if err := q.decode(&in, maxFileBody); err != nil {
		return createError(err)
	}
	req, err := createRequest(in)
	if err != nil {
		return createError(err)
	}
	after, err := backgroundAfter(q)
	if err != nil {
		return createError(err)
	}
	do := func(ctx context.Context, c *vm.Call) (any, error) {
		v, err := s.Engine.Create(ctx, c, req)
		if err != nil {
			return nil, createError(err)
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
	out := api.CreatedVM{ID: v.ID, Domains: []string{}, VM: shown(v)}
	if img, err := s.Engine.FindImage(ctx, c, string(v.Image)); err == nil {
		out.SnapshotID, out.VM.SnapshotID = img.Snapshot, img.Snapshot
	}
	return out
}

// createError gives a refusal without a code of its own one that belongs to
// this route. Other codes are left to api.CodeOf, which knows only the SDK's.
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
	return &c // other kinds: the kind's own code
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

// createRequest gathers what SDKs spread over the top level, template and spec.
// Of a size given twice the spec's wins.
func createRequest(in api.CreateVM) (engine.CreateRequest, error) {
	layers := []*api.Layer{in.Spec, in.Template, &in.Layer}
	r := engine.CreateRequest{
		Name: in.Name, UniqueName: in.UniqueName, Image: in.Image, Network: in.Network, Persistence: in.Persistence,
		IdleTimeout: optional(in.IdleTimeoutSeconds), TTLSeconds: in.TTLSeconds, OneShot: in.OneShot, StopOnIdle: in.StopOnIdle, CaptureEvery: in.CaptureEverySeconds,
	}
	ready := in.ReadySignalTimeoutSeconds
	users, groups, files := in.Users, in.Groups, map[string]api.File{}
	for _, l := range layers {
		if l == nil {
			continue
		}
		if err := supported(l); err != nil {
			return r, err
		}
		mib := l.MemSizeMib
		if mib == 0 {
			mib = l.MemSizeGb << 10
		}
		r.Size.VCPU = cmp.Or(r.Size.VCPU, l.VCPUCount)
		r.Size.MemoryMiB = cmp.Or(r.Size.MemoryMiB, mib)
		r.Size.DiskMiB = cmp.Or(r.Size.DiskMiB, l.RootfsSizeGb<<10)
		r.Image = cmp.Or(r.Image, l.SnapshotID)
		r.Workdir = cmp.Or(r.Workdir, l.Workdir)
		if l.Name != nil {
			r.Name = cmp.Or(r.Name, *l.Name)
		}
		if r.Persistence == nil {
			r.Persistence = l.LayerPersist
		}
		if ready == nil {
			ready = l.LayerReady
		}
		if !r.IdleTimeout.Set {
			r.IdleTimeout = optional(l.LayerIdle)
		}
		users, groups = append(users, l.LayerUsers...), append(groups, l.LayerGroups...)
		for p, f := range l.LayerFiles {
			files[p] = f
		}
	}
	for p, f := range in.AdditionalFiles {
		files[p] = f
	}
	if len(in.Domains) > 0 {
		return r, notSupported("domains")
	}
	if in.Recreate != nil && *in.Recreate {
		return r, notSupported("recreate")
	}
	var err error
	if r.Deadline, err = readyTimeout(ready); err != nil {
		return r, err
	}
	return r, setup(&r.Setup, users, groups, files)
}

// readyTimeout is how long a start may take; 0 = the server's own limit.
func readyTimeout(seconds *int64) (time.Duration, error) {
	switch {
	case seconds == nil:
		return 0, nil
	case *seconds <= 0 || *seconds > maxReady:
		return 0, vm.Errorf(vm.Invalid, "readySignalTimeoutSeconds", "%d is not within 1 to %d", *seconds, maxReady)
	}
	return time.Duration(*seconds) * time.Second, nil
}

const maxReady = 24 * 3600 // seconds

func notSupported(what string) error {
	return vm.Errorf(vm.Unsupported, what, "is not supported by this version of Warren").
		WithHint("leave it out, and do it with exec once the VM runs")
}

// supported refuses what would otherwise be silently left undone.
func supported(l *api.Layer) error {
	given := map[string]bool{
		"aptDeps": len(l.AptDeps) > 0, "snapshot": isSet(l.Snapshot), "baseImage": isSet(l.BaseImage), "systemd": isSet(l.Systemd),
		"git": isSet(l.Git), "gitRepos": isSet(l.GitRepos), "nics": isSet(l.NICs),
		"ports": isSet(l.Ports), "udpHolePunchPorts": isSet(l.UDPPorts),
	}
	for what, is := range given {
		if is {
			return notSupported(what)
		}
	}
	for name, v := range map[string]int{"vcpuCount": l.VCPUCount, "memSizeGb": l.MemSizeGb, "rootfsSizeGb": l.RootfsSizeGb, "memSizeMib": l.MemSizeMib} {
		if v < 0 || v > 1<<22 {
			return vm.Errorf(vm.Invalid, name, "%d is no size", v)
		}
	}
	return nil
}

// isSet tells a real value from null and from the empty ones that builders send.
func isSet(raw []byte) bool {
	switch strings.Join(strings.Fields(string(raw)), "") {
	case "", "null", "{}", "[]", `{"config":{}}`, `{"config":{},"repos":[]}`, `{"services":[]}`, `{"services":[],"patchedServices":[]}`:
		return false
	}
	return true
}

func setup(out *engine.Setup, users []api.User, groups []api.Group, files map[string]api.File) error {
	for _, g := range groups {
		out.Groups = append(out.Groups, engine.SetupGroup(g))
	}
	for _, u := range users {
		out.Users = append(out.Users, engine.SetupUser(u))
	}
	for p, f := range files {
		if !path.IsAbs(p) {
			return vm.Errorf(vm.Invalid, p, "a path of additionalFiles must be absolute")
		}
		content, err := content(f.Content, f.Encoding)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		out.Files = append(out.Files, engine.SetupFile{Path: p, Content: content, Executable: f.Executable})
	}
	return nil
}

// content decodes a file's content as requests carry it.
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
