// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// outermost merges spec, template and top level into the layer that is carried out in the
// VM itself. The first given value of each member is used.
func outermost(given ...*api.Layer) api.Layer {
	out := api.Layer{}
	for _, l := range given {
		if l == nil {
			continue
		}
		mib := l.MemSizeMib
		if mib == 0 {
			mib = l.MemSizeGb << 10
		}
		out.VCPUCount = cmp.Or(out.VCPUCount, l.VCPUCount)
		out.MemSizeMib = cmp.Or(out.MemSizeMib, mib)
		out.RootfsSizeGb = cmp.Or(out.RootfsSizeGb, l.RootfsSizeGb)
		out.SnapshotID, out.Workdir = cmp.Or(out.SnapshotID, l.SnapshotID), cmp.Or(out.Workdir, l.Workdir)
		out.Snapshot, out.BaseImage = cmp.Or(out.Snapshot, l.Snapshot), cmp.Or(out.BaseImage, l.BaseImage)
		out.Name, out.LayerPersist = cmp.Or(out.Name, l.Name), cmp.Or(out.LayerPersist, l.LayerPersist)
		out.LayerWait, out.LayerReady = cmp.Or(out.LayerWait, l.LayerWait), cmp.Or(out.LayerReady, l.LayerReady)
		if !out.LayerIdle.Set {
			out.LayerIdle = l.LayerIdle
		}
		out.AptDeps, out.GitRepos = slices.Concat(out.AptDeps, l.AptDeps), slices.Concat(out.GitRepos, l.GitRepos)
		out.LayerUsers, out.LayerGroups = slices.Concat(out.LayerUsers, l.LayerUsers), slices.Concat(out.LayerGroups, l.LayerGroups)
		out.Systemd, out.Git = bothUnits(out.Systemd, l.Systemd), bothGit(out.Git, l.Git)
		out.LayerFiles = bothFiles(l.LayerFiles, out.LayerFiles)
		out.DockerCredentials = firstSet(out.DockerCredentials, l.DockerCredentials)
		out.Discriminator, out.SkipCache = firstSet(out.Discriminator, l.Discriminator), out.SkipCache || l.SkipCache
		out.Ports, out.NICs, out.UDPPorts = firstSet(out.Ports, l.Ports), firstSet(out.NICs, l.NICs), firstSet(out.UDPPorts, l.UDPPorts)
	}
	return out
}

func bothUnits(a, b *api.Systemd) *api.Systemd {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &api.Systemd{Services: slices.Concat(a.Services, b.Services), PatchedServices: slices.Concat(a.PatchedServices, b.PatchedServices)}
}

func bothGit(a, b *api.Git) *api.Git {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := *a
	out.Config.User = cmp.Or(a.Config.User, b.Config.User)
	out.Repos = slices.Concat(a.Repos, b.Repos)
	return &out
}

// bothFiles merges a and b. For the same path, b's file is used.
func bothFiles(a, b map[string]api.File) map[string]api.File {
	out := make(map[string]api.File, len(a)+len(b))
	for _, m := range []map[string]api.File{a, b} {
		for p, f := range m {
			out[p] = f
		}
	}
	return out
}

func firstSet(a, b []byte) []byte {
	if isSet(a) {
		return a
	}
	return b
}

// isSet distinguishes a value from null and from the empty values that builders send.
func isSet(raw []byte) bool {
	switch strings.Join(strings.Fields(string(raw)), "") {
	case "", "null", "{}", "[]":
		return false
	}
	return true
}

// fillSpec sets a request's source and layers. image is the source if no layer names one.
func fillSpec(r *engine.CreateRequest, outer api.Layer, image string, known func(string) bool) error {
	chain := []*api.Layer{&outer}
	for l := outer.Snapshot; l != nil; l = l.Snapshot {
		chain = append(chain, l)
		if len(chain) > 64 {
			return vm.Errorf(vm.Invalid, "spec", "has too many layers")
		}
	}
	r.Image = image
	var workdir string
	for depth := len(chain) - 1; depth >= 0; depth-- { // innermost first
		l := chain[depth]
		if err := sources(l, depth, depth == len(chain)-1); err != nil {
			return err
		}
		out, err := layer(l)
		if err != nil {
			return err
		}
		workdir = cmp.Or(l.Workdir, workdir)
		r.Image = cmp.Or(l.SnapshotID, r.Image)
		if l.BaseImage != nil {
			base, run, err := spec.Dockerfile(l.BaseImage.DockerfileContent, known)
			if err != nil {
				return err
			}
			r.Image = cmp.Or(base, r.Image)
			if len(run) > 0 { // a layer of its own, so that it is kept
				r.Layers = append(r.Layers, spec.Layer{Run: run, SkipCache: l.SkipCache})
			}
		}
		r.Layers = append(r.Layers, out)
	}
	r.Workdir, r.Impatient = workdir, outer.LayerWait != nil && !*outer.LayerWait
	if len(r.Layers) == 1 && r.Layers[0].Empty() {
		r.Size, r.Layers = r.Layers[0].Size, nil
	}
	var err error
	r.Deadline, err = readyTimeout(outer.LayerReady)
	return err
}

// sources refuses a layer with several sources. depth 0 is the outermost.
func sources(l *api.Layer, depth int, leaf bool) error {
	var have []string
	for _, f := range []struct {
		name  string
		given bool
	}{{"snapshot", l.Snapshot != nil}, {"snapshotId", l.SnapshotID != ""}, {"baseImage", l.BaseImage != nil}} {
		if f.given {
			have = append(have, f.name)
		}
	}
	if len(have) > 1 {
		return vm.Errorf(vm.Invalid, "spec", "layer %d has both %s and %s", depth, have[0], have[1]).
			WithCode("CONFLICTING_SPEC_SOURCES_ERROR", "depth", depth, "fieldA", have[0], "fieldB", have[1])
	}
	for name, raw := range map[string][]byte{"nics": l.NICs, "ports": l.Ports, "udpHolePunchPorts": l.UDPPorts} {
		if isSet(raw) {
			return notSupported(name)
		}
	}
	if !leaf && isSet(l.DockerCredentials) {
		return vm.Errorf(vm.Invalid, "spec", "layer %d has dockerCredentials, which only the innermost may have", depth).
			WithCode("NON_LEAF_LAYER_FIELD_ERROR", "depth", depth, "field", "dockerCredentials")
	}
	return nil
}

// layer converts the steps of one layer.
func layer(l *api.Layer) (out spec.Layer, err error) {
	if out.Size, err = size(l.Sizes); err != nil {
		return out, err
	}
	out.Apt, out.SkipCache, out.Discriminator = l.AptDeps, l.SkipCache, string(l.Discriminator)
	for _, g := range l.LayerGroups {
		out.Groups = append(out.Groups, spec.Group(g))
	}
	for _, u := range l.LayerUsers {
		out.Users = append(out.Users, spec.User(u))
	}
	if l.Systemd != nil {
		out.Units, out.Patches = l.Systemd.Services, l.Systemd.PatchedServices
	}
	if err := git(&out, l); err != nil {
		return out, err
	}
	for p, f := range l.LayerFiles {
		if !path.IsAbs(p) {
			return out, vm.Errorf(vm.Invalid, p, "a path of additionalFiles must be absolute")
		}
		content, err := content(f.Content, f.Encoding)
		if err != nil {
			return out, fmt.Errorf("%s: %w", p, err)
		}
		out.Files = append(out.Files, spec.File{Path: p, Content: content, Executable: f.Executable})
	}
	return out, nil
}

func git(out *spec.Layer, l *api.Layer) error {
	repos := l.GitRepos
	if g := l.Git; g != nil {
		if len(g.Repos) > 0 && len(repos) > 0 {
			return vm.Errorf(vm.Invalid, "spec", "both gitRepos and git.repos are given").WithCode("INVALID_GIT_REPO_SPEC_ERROR")
		}
		repos = append(repos, g.Repos...)
		if u := g.Config.User; u != nil {
			out.GitUser = spec.GitUser(*u)
		}
	}
	for _, r := range repos {
		out.Repos = append(out.Repos, spec.Repo{URL: r.Repo, Path: r.Path, Rev: r.Rev})
	}
	return nil
}

func size(s api.Sizes) (vm.Size, error) {
	for name, v := range map[string]int{"vcpuCount": s.VCPUCount, "memSizeGb": s.MemSizeGb, "rootfsSizeGb": s.RootfsSizeGb, "memSizeMib": s.MemSizeMib} {
		if v < 0 || v > 1<<22 {
			return vm.Size{}, vm.Errorf(vm.Invalid, name, "%d is not a size", v)
		}
	}
	return vm.Size{VCPU: s.VCPUCount, MemoryMiB: cmp.Or(s.MemSizeMib, s.MemSizeGb<<10), DiskMiB: s.RootfsSizeGb << 10}, nil
}

// knows reports whether the host has an image with a name.
func (s *server) knows(q *request) func(string) bool {
	return func(name string) bool {
		_, err := s.Engine.FindImage(q.Context(), q.call, name)
		return name != "" && err == nil
	}
}

// buildSnapshot makes a snapshot from a spec. Like create, it must answer only with codes
// that the SDK knows.
func (s *server) buildSnapshot(q *request) error {
	var in api.BuildSnapshot
	if err := q.decode(&in, maxFileBody); err != nil {
		return buildError(err)
	}
	from := engine.CreateRequest{Network: vm.NetworkSpec(in.Network)}
	top := in.Layer
	top.Name = nil
	if err := fillSpec(&from, outermost(in.Spec, in.Template, &top), in.Image, s.knows(q)); err != nil {
		return buildError(err)
	}
	after, err := backgroundAfter(q)
	if err != nil {
		return buildError(err)
	}
	r := engine.SnapshotRequest{Name: in.Name, Persistence: in.Persistence}
	if r.Persistence == nil {
		r.Persistence = &vm.Persistence{Type: vm.Persistent}
	}
	do := func(ctx context.Context, c *vm.Call) (any, error) {
		g, err := s.Engine.BuildSnapshot(ctx, c, from, r)
		if err != nil {
			return nil, buildError(err)
		}
		return api.BuiltSnapshot{SnapshotID: g.Snapshot}, nil
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

// buildError is createError for a snapshot build.
func buildError(err error) error {
	out := createError(err)
	if e := vm.AsError(out); e.Code == "CREATE_VM_BAD_REQUEST" || e.Code == "SNAPSHOT_VM_BAD_REQUEST" {
		return e.WithCode("CREATE_SNAPSHOT_BAD_REQUEST", "message", e.Msg)
	}
	return out
}

func shownBuild(b vm.Build) api.Build {
	return api.Build{
		BuildID: b.ID, AccountID: b.Account, RequestID: b.Request, State: b.State, TemplateHash: b.Key, FailureReason: b.Failure,
		PlannedPhases: b.Planned, StartedAt: b.StartedAt, FinishedAt: b.EndedAt, UpdatedAt: b.UpdatedAt, VMID: b.VM, SnapshotID: b.Snapshot,
	}
}

func (s *server) build(q *request) error {
	b, err := s.Engine.Build(q.Context(), q.call, vm.BuildID(q.values["build"]))
	if err != nil {
		return err
	}
	return q.ok(shownBuild(b))
}

func (s *server) buildOf(q *request) error {
	b, err := s.Engine.BuildOf(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(shownBuild(b))
}

func (s *server) buildPhases(q *request) error {
	b, err := s.Engine.Build(q.Context(), q.call, vm.BuildID(q.values["build"]))
	if err != nil {
		return err
	}
	out := api.BuildPhases{Phases: []api.BuildPhase{}}
	for _, p := range b.Phases {
		out.Phases = append(out.Phases, api.BuildPhase{PhaseID: p.ID, BuildID: b.ID, Name: p.Name, SnapshotID: p.Generation, Cached: p.Cached, StartedAt: p.StartedAt})
	}
	return q.ok(out)
}
