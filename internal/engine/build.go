// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// Names of the phases of a build, except its layers.
const (
	phaseStart    = "start"
	phaseSetup    = "setup"
	phaseSnapshot = "snapshot"
)

// planLayers prepares the layers of a request. The request gets the size of the last
// layer.
func planLayers(r CreateRequest) ([]spec.Layer, error) {
	if len(r.Layers) == 0 {
		return nil, nil
	}
	list := slices.Clone(r.Layers)
	last := &list[len(list)-1].Size
	last.VCPU = cmp.Or(r.Size.VCPU, last.VCPU)
	last.MemoryMiB = cmp.Or(r.Size.MemoryMiB, last.MemoryMiB)
	last.DiskMiB = cmp.Or(r.Size.DiskMiB, last.DiskMiB)
	return spec.Plan(list)
}

// createBuilt is Create with planned layers.
func (e *Engine) createBuilt(ctx context.Context, c *vm.Call, r CreateRequest) (v vm.VM, err error) {
	inner := r.Layers[:len(r.Layers)-1]
	last := r.Layers[len(inner)]
	r.Size = last.Size
	if len(inner) == 0 && last.Empty() {
		return e.createOn(ctx, c, r, nil)
	}
	if err := e.couldCreate(ctx, c, r); err != nil { // before building anything for it
		return vm.VM{}, err
	}
	b, err := e.beginBuild(ctx, c, r, append(layerPhases(len(inner)), phaseStart, phaseSetup))
	if err != nil {
		return vm.VM{}, err
	}
	defer func() { b.end(v.ID, "", err) }()
	if len(inner) > 0 {
		g, err := e.layers(ctx, c, r, inner, b)
		if err != nil {
			return vm.VM{}, err
		}
		r.Image = string(g)
	}
	b.phase(phaseStart)
	return e.createOn(ctx, c, r, b)
}

// couldCreate refuses early what createOn would refuse after the layers are built.
func (e *Engine) couldCreate(ctx context.Context, c *vm.Call, r CreateRequest) error {
	p, err := e.planCreate(ctx, c, r)
	if err != nil {
		return err
	}
	defer e.dropPlan(p)
	if !r.UniqueName {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nameFreeLocked(p.rec)
}

// BuildSnapshot makes a snapshot from layers, all of which are kept and reused. It reads
// only Image, Size, Network, Layers, Deadline and Impatient of from.
func (e *Engine) BuildSnapshot(ctx context.Context, c *vm.Call, from CreateRequest, r SnapshotRequest) (g vm.Generation, err error) {
	defer func() { err = fail(vm.OpSnapshot, r.Name, err) }()
	if len(from.Layers) == 0 {
		from.Layers = []spec.Layer{{}}
	}
	if from.Layers, err = planLayers(from); err != nil {
		return g, err
	}
	from.Size = from.Layers[len(from.Layers)-1].Size
	o, err := e.planSnapshot(ctx, c, r)
	if err != nil {
		return g, err
	}
	if err := e.couldCreate(ctx, c, from); err != nil {
		return g, err
	}
	b, err := e.beginBuild(ctx, c, from, append(layerPhases(len(from.Layers)), phaseSnapshot))
	if err != nil {
		return g, err
	}
	defer func() { b.end("", g.Snapshot, err) }()
	id, err := e.layers(ctx, c, from, from.Layers, b)
	if err != nil {
		return g, err
	}
	b.phase(phaseSnapshot)
	o.build = b.id()
	return e.nameLayer(ctx, c, id, o)
}

// nameLayer keeps a layer under a snapshot's name. The two share their files.
func (e *Engine) nameLayer(ctx context.Context, c *vm.Call, id vm.GenerationID, o captureOptions) (g vm.Generation, err error) {
	l, ok := e.generationInfo(id)
	if !ok {
		return g, noGeneration(string(id))
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpSnapshot, Subject: o.name, Detail: map[string]any{"snapshot": string(o.snapshot), "layer": string(id)}})
	if err != nil {
		return g, err
	}
	defer func() { r.End(err, nil) }()
	rec := vm.VM{
		ID: l.VM, Name: l.VMName, Account: l.Account, State: vm.Suspended, Image: l.Image, Size: l.Size,
		Generation: id, Head: id, DiskOn: l.DiskOn, Machine: vm.MachineRef{BootID: l.BootID},
	}
	return e.alias(ctx, rec, o)
}

// layers returns the generation of the outermost planned layer. It makes the layers that
// are missing.
func (e *Engine) layers(ctx context.Context, c *vm.Call, r CreateRequest, list []spec.Layer, b *building) (vm.GenerationID, error) {
	img, g, err := e.source(ctx, c, &r)
	if err != nil {
		return "", err
	}
	from := string(img.ID)
	if g != nil {
		from = string(g.ID)
	}
	keys, afresh := spec.Keys(from, list)
	next := 0
	for i := len(list) - 1; i >= 0 && next == 0; i-- {
		if id := e.findLayer(c.Actor.Account, keys[i]); id != "" && !afresh[i] {
			if err := e.layerUsed(ctx, id); err != nil {
				return "", err
			}
			from, next = string(id), i+1
			b.layerDone(i, id, true)
		}
	}
	for i := next; i < len(list); i++ {
		b.phase(layerPhase(i))
		id, err := e.layer(ctx, c, layerRequest{source: from, layer: list[i], key: keys[i], network: r.Network, deadline: r.Deadline, impatient: r.Impatient})
		if err != nil {
			return "", err
		}
		b.layerDone(i, id, false)
		from = string(id)
	}
	return vm.GenerationID(from), nil
}

// findLayer returns the newest generation of a layer that a VM can start on.
func (e *Engine) findLayer(account vm.AccountID, key string) vm.GenerationID {
	list := e.generations(func(g *vm.Generation) bool {
		return g.Account == account && g.Why == vm.WhyLayer && g.Key == key && g.Whole() && g.Durable && !g.Gone && !g.Deleted
	})
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].ID
}

// layerUsed records the day on which a layer was last used.
func (e *Engine) layerUsed(ctx context.Context, id vm.GenerationID) error {
	g, ok := e.generationInfo(id)
	if ok && e.now().Sub(lastUse(g)) < 24*time.Hour {
		return nil
	}
	_, err := e.changeGeneration(ctx, id, func(g *vm.Generation) { g.UsedAt = e.now() })
	return err
}

// layerRequest asks for one layer.
type layerRequest struct {
	source    string // id of an image or generation
	layer     spec.Layer
	key       string
	network   vm.NetworkSpec
	deadline  time.Duration
	impatient bool
}

// flight is a layer being made, shared by all who wait for it.
type flight struct {
	done chan struct{}
	id   vm.GenerationID
	err  error
}

// layer makes one layer, or waits for a flight that makes it. A flight continues when its
// caller goes away, since the next request will need the layer.
func (e *Engine) layer(ctx context.Context, c *vm.Call, r layerRequest) (vm.GenerationID, error) {
	name := string(c.Actor.Account) + " " + r.key
	e.mu.Lock()
	f := e.flights[name]
	fresh := f == nil
	if fresh {
		f = &flight{done: make(chan struct{})}
		e.flights[name] = f
	}
	e.mu.Unlock()
	if fresh {
		land := func() {
			e.mu.Lock()
			delete(e.flights, name)
			e.mu.Unlock()
			close(f.done)
		}
		call := vm.Call{Actor: c.Actor, Request: c.Request}
		if !e.spawn(func(ctx context.Context) { f.id, f.err = e.makeLayer(ctx, &call, r); land() }) {
			f.err = errClosed
			land()
		}
	}
	select {
	case <-f.done:
		return f.id, f.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// makeLayer makes a VM on the layer's source, carries out the layer in it, captures it
// and deletes it.
func (e *Engine) makeLayer(ctx context.Context, c *vm.Call, r layerRequest) (id vm.GenerationID, err error) {
	network, err := e.layerNetwork(c, r.network)
	if err != nil {
		return "", err
	}
	v, err := e.createOn(ctx, c, CreateRequest{
		Image: r.source, Size: r.layer.Size, Network: network, Layers: []spec.Layer{r.layer}, Deadline: r.deadline, Impatient: r.impatient,
		IdleTimeout: vm.Null[vm.Seconds](), OneShot: true, forLayer: r.key,
	}, nil)
	if err != nil {
		return "", err
	}
	defer func() {
		// If the delete fails, the VM is deleted later, as one whose runner is gone.
		if _, derr := e.Delete(context.WithoutCancel(ctx), c, string(v.ID)); derr != nil && vm.KindOf(derr) != vm.NotFound && !died(derr) {
			e.log.Warn("the VM of a layer was not deleted", "vm", v.ID, "err", derr)
		}
	}()
	g, err := e.captureAs(ctx, c, string(v.ID), captureOptions{why: vm.WhyLayer, key: r.key, note: "layer " + r.key[:12]})
	return g.ID, err
}

// layerNetwork returns the network for making a layer: at least the package registries are
// allowed.
func (e *Engine) layerNetwork(c *vm.Call, asked vm.NetworkSpec) (vm.NetworkSpec, error) {
	if asked == "" {
		asked = vm.NetworkSpec(e.cfg.Settings.DefaultNetwork)
	}
	p, err := e.cfg.Policies.Compile(c, c.Actor.Account, asked)
	if err != nil {
		return "", err
	}
	if p.Mode == vm.NetClosed {
		p.Mode = vm.NetPackages
	}
	if len(p.Rules) == 0 {
		return vm.NetworkSpec(p.Mode), nil
	}
	return vm.NetworkRequest{Mode: p.Mode, Rules: p.Rules}.Spec(), nil
}

// building writes the record of a running build; a nil one writes nothing. Failed writes
// are only logged, because the build itself does not depend on the record.
type building struct {
	e   *Engine
	key vm.BuildID
}

// buildsKept is how long the record of a build is kept.
const buildsKept = 30 * 24 * time.Hour

func layerPhase(i int) string { return fmt.Sprintf("layer-%d", i+1) }

func layerPhases(n int) []string {
	var list []string
	for i := range n {
		list = append(list, layerPhase(i))
	}
	return list
}

func (e *Engine) beginBuild(ctx context.Context, c *vm.Call, r CreateRequest, planned []string) (*building, error) {
	if err := e.dropBuilds(ctx); err != nil {
		return nil, err
	}
	keys, _ := spec.Keys(r.Image, r.Layers)
	now := e.now()
	b := &building{e, vm.NewBuildID()}
	return b, e.tables.builds.Create(ctx, vm.Build{
		ID: b.key, Account: c.Actor.Account, Request: c.Request, State: vm.BuildRunning, Key: keys[len(keys)-1],
		Planned: planned, Phases: []vm.BuildPhase{}, StartedAt: now, UpdatedAt: now,
	})
}

// dropBuilds removes the records of builds that are older than buildsKept.
func (e *Engine) dropBuilds(ctx context.Context) error {
	for _, b := range e.tables.builds.All() {
		if b.State != vm.BuildRunning && e.now().Sub(b.UpdatedAt) > buildsKept {
			if err := e.tables.builds.Drop(ctx, b.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *building) id() vm.BuildID {
	if b == nil {
		return ""
	}
	return b.key
}

func (b *building) change(f func(*vm.Build)) {
	if b == nil || b.e.dead.Load() {
		return
	}
	_, err := b.e.tables.builds.Change(b.e.life, b.key, func(rec *vm.Build) error {
		f(rec)
		rec.UpdatedAt = b.e.now()
		return nil
	})
	if err != nil {
		b.e.log.Warn("the progress of a build was not recorded", "build", b.key, "err", err)
	}
}

// phase records that a phase has begun.
func (b *building) phase(name string) {
	b.change(func(rec *vm.Build) {
		rec.Phases = append(slices.Clone(rec.Phases), vm.BuildPhase{ID: vm.NewPhaseID(), Name: name, StartedAt: b.e.now()})
	})
}

// layerDone records that a layer is complete.
func (b *building) layerDone(i int, id vm.GenerationID, cached bool) {
	b.change(func(rec *vm.Build) {
		rec.Phases = slices.Clone(rec.Phases)
		if cached {
			rec.Phases = append(rec.Phases, vm.BuildPhase{ID: vm.NewPhaseID(), Name: layerPhase(i), Cached: true, StartedAt: b.e.now()})
		}
		rec.Phases[len(rec.Phases)-1].Generation = id
	})
}

func (b *building) end(made vm.ID, snapshot vm.SnapshotID, err error) {
	b.change(func(rec *vm.Build) {
		rec.State, rec.VM, rec.Snapshot, rec.EndedAt = vm.BuildSucceeded, made, snapshot, b.e.now()
		if err != nil {
			rec.State, rec.Failure = vm.BuildFailed, clip(b.e.cfg.Journal.ConcealText(err.Error()))
		}
	})
}

// endBuilds marks the builds that an earlier engine left unfinished as failed.
func (e *Engine) endBuilds(ctx context.Context) error {
	for _, b := range e.tables.builds.All() {
		if b.State != vm.BuildRunning {
			continue
		}
		_, err := e.tables.builds.Change(ctx, b.ID, func(b *vm.Build) error {
			b.State, b.Failure, b.EndedAt, b.UpdatedAt = vm.BuildFailed, "the server ended before the build did", e.now(), e.now()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Build returns the record of a build.
func (e *Engine) Build(_ context.Context, c *vm.Call, id vm.BuildID) (vm.Build, error) {
	if b, ok := e.tables.builds.Get(id); ok && b.Account == c.Actor.Account {
		return b, nil
	}
	return vm.Build{}, fail(vm.OpGet, string(id), vm.Errorf(vm.NotFound, string(id), "no such build").WithCode("BUILD_NOT_FOUND", "buildId", string(id)))
}

// BuildOf returns the record of the build that made a VM.
func (e *Engine) BuildOf(ctx context.Context, c *vm.Call, ref string) (vm.Build, error) {
	v, err := e.Get(ctx, c, ref)
	if err != nil {
		return vm.Build{}, err
	}
	if v.Build != "" {
		if b, err := e.Build(ctx, c, v.Build); vm.KindOf(err) != vm.NotFound {
			return b, err
		}
	}
	return vm.Build{}, fail(vm.OpGet, ref, vm.Errorf(vm.NotFound, string(v.ID), "no record of a build: the VM was made without a spec, or long ago").
		WithCode("BUILD_NOT_FOUND_FOR_VM", "vmId", string(v.ID)))
}
