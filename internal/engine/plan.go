// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// createPlan is a checked create request.
type createPlan struct {
	rec      vm.VM
	image    vm.Image
	from     *vm.Generation // the snapshot that it is made from; nil = the image
	layer    spec.Layer
	deadline time.Duration
	claim    *claim  // its place among the running VMs
	member   *member // of the pool, to become the VM; nil = none
	pooled   bool    // the member became the VM
	// impatient does not wait for services that say when they are ready.
	impatient bool
}

// detail is the audit record's detail of the plan.
func (p *createPlan) detail() map[string]any {
	return map[string]any{
		"image": string(p.image.ID), "size": p.rec.Size.String(), "network": string(p.rec.Network.Mode),
		"policy": p.rec.Network, "policyDigest": p.rec.Network.Digest(), "pooled": p.pooled,
	}
}

// defaultIdle is the idle timeout if the creator names none.
const defaultIdle = vm.Seconds(5 * time.Minute)

// planCreate checks a request, fills in its defaults, claims a place for the VM and pins
// its source. The caller releases both with dropPlan.
func (e *Engine) planCreate(ctx context.Context, c *vm.Call, r CreateRequest) (_ *createPlan, err error) {
	if err := r.Sandbox.Check(); err != nil {
		return nil, err
	}
	if r.Name != "" {
		if err := vm.CheckName(r.Name); err != nil {
			return nil, vm.AsError(err).WithCode("CREATE_VM_BAD_REQUEST", "message", vm.AsError(err).Msg)
		}
	}
	img, from, err := e.source(ctx, c, &r)
	if err != nil {
		return nil, err
	}
	now := e.now()
	rec := vm.VM{
		ID: vm.NewID(), Account: c.Actor.Account, Name: r.Name,
		State: vm.Starting, Op: vm.OpCreate, InstanceID: vm.NewInstanceID(),
		Image: img.ID, ImageName: img.Name,
		Workdir: img.Workdir, OneShot: r.OneShot, Layer: r.forLayer, Sandbox: r.Sandbox,
		CreatedAt: now, LastActive: now,
	}
	if img.Container != nil {
		rec.User = img.Container.User
	}
	network := func(rec *vm.VM, r CreateRequest, img vm.Image) error { return e.fillNetwork(c, rec, r.Network, img) }
	for _, fill := range []func(*vm.VM, CreateRequest, vm.Image) error{
		e.fillSize, fillProfile, network, fillPersistence, fillLimits, fillWorkdir, fillLabels, fillDisplayName, fillPaths,
	} {
		if err := fill(&rec, r, img); err != nil {
			return nil, err
		}
	}
	if rec.Repos, err = e.reposOf(ctx, c, r.Layers); err != nil {
		return nil, err
	}
	if len(r.Secrets) > 0 && e.cfg.Secrets != nil {
		if rec.Network.Secrets, err = e.cfg.Secrets(ctx, c, r.Secrets); err != nil {
			return nil, err
		}
	}
	if from != nil { // so that it is not evicted to make room for the VM
		if !e.pin(from.ID) {
			return nil, noGeneration(string(from.ID))
		}
		defer func() {
			if err != nil {
				e.unpin(from.ID)
			}
		}()
	}
	claim, err := e.admitOne(ctx, rec.Account, rec.ID, rec.Size)
	if err != nil {
		return nil, err
	}
	p := &createPlan{rec: rec, image: img, from: from, deadline: r.Deadline, impatient: r.Impatient, claim: claim}
	if n := len(r.Layers); n > 0 {
		p.layer = r.Layers[n-1]
	}
	if p.deadline <= 0 {
		p.deadline = e.cfg.Settings.StartDeadline
	}
	return p, nil
}

// source finds what a VM is made from: an image, or a snapshot with its size.
func (e *Engine) source(ctx context.Context, c *vm.Call, r *CreateRequest) (vm.Image, *vm.Generation, error) {
	img, err := e.cfg.Images.Find(ctx, r.Image)
	if err == nil {
		return img, nil, nil
	}
	g, gerr := e.findGeneration(c.Actor.Account, r.Image)
	if vm.KindOf(err) != vm.NotFound || r.Image == "" || vm.KindOf(gerr) == vm.NotFound {
		return img, nil, noImage(r.Image, err)
	}
	if gerr != nil {
		return img, nil, gerr
	}
	if err := usable(g); err != nil {
		return img, nil, err
	}
	if img, err = e.cfg.Images.Find(ctx, string(g.Image)); err != nil {
		return img, nil, noImage(string(g.Image), err)
	}
	fill := func(size *int, from int) {
		if *size == 0 {
			*size = from
		}
	}
	fill(&r.Size.VCPU, g.Size.VCPU)
	fill(&r.Size.MemoryMiB, g.Size.MemoryMiB)
	fill(&r.Size.DiskMiB, g.Size.DiskMiB)
	if r.Size.DiskMiB < g.Size.DiskMiB {
		return img, nil, vm.Errorf(vm.Invalid, r.Image, "its disk has %d MiB and cannot shrink", g.Size.DiskMiB).
			WithCode("CREATE_VM_ROOTFS_OUT_OF_RANGE", "got", r.Size.DiskMiB, "min", g.Size.DiskMiB, "max", vm.MaxDiskMiB)
	}
	return img, &g, nil
}

// usable refuses a snapshot that no VM can be made from.
func usable(g vm.Generation) error {
	id := string(g.Snapshot)
	if id == "" {
		id = string(g.ID)
	}
	switch {
	case g.State == vm.GenBuilding:
		return vm.Errorf(vm.Busy, id, "the snapshot is being made").WithCode("SOURCE_SNAPSHOT_BUILDING", "snapshotId", id).WithHint("try again when it is ready")
	case g.Deleted:
		return vm.Errorf(vm.NotFound, id, "the snapshot was deleted").WithCode("SOURCE_SNAPSHOT_DELETED", "snapshotId", id).WithHint("`warren snapshot ls` lists those that exist")
	case g.State != vm.GenReady || g.Gone || g.DiskOnly:
		return vm.Errorf(vm.Corrupt, id, "the snapshot's files are gone").WithCode("SOURCE_SNAPSHOT_LOST", "snapshotId", id, "reason", g.Failure).
			WithHint("`warren snapshot ls` lists those that exist")
	}
	return nil
}

// noImage returns the error for an image that was not found.
func noImage(ref string, err error) error {
	if vm.KindOf(err) != vm.NotFound {
		return err
	}
	out := vm.AsError(err)
	switch {
	case strings.HasPrefix(ref, "sc-"):
		out = out.WithCode("SNAPSHOT_NOT_FOUND", "snapshotId", ref)
	case ref == "":
		out = out.WithCode("NO_DEFAULT_SNAPSHOT_AVAILABLE")
	case out.Code == "":
		out = out.WithCode("SNAPSHOT_NOT_FOUND", "snapshotId", ref)
	}
	if out.Hint == "" {
		out.Hint = "`warren image ls` lists images, `warren image build` makes one"
	}
	return out
}

func (e *Engine) fillSize(rec *vm.VM, r CreateRequest, img vm.Image) error {
	s, def := r.Size, e.cfg.Settings.DefaultSize
	if s.VCPU == 0 {
		s.VCPU = def.VCPU
	}
	if s.MemoryMiB == 0 {
		s.MemoryMiB = cmp.Or(img.MemoryMiB, def.MemoryMiB)
	}
	if s.DiskMiB == 0 {
		s.DiskMiB = max(def.DiskMiB, img.DiskMiB)
	}
	rec.Size = s
	bad := func(code string, got int, pairs ...any) error {
		e := vm.Errorf(vm.Invalid, "", "size %d is out of range", got)
		if strings.HasSuffix(code, "POWER_OF_TWO") {
			e.Msg = fmt.Sprintf("size %d is not a power of two", got)
		}
		return e.WithCode(code, append([]any{"got", got}, pairs...)...).
			WithHint("use 1 to %d CPUs, %d to %d MiB of memory (powers of two) and %d to %d MiB of disk",
				vm.MaxVCPU, vm.MinMemoryMiB, vm.MaxMemoryMiB, img.DiskMiB, vm.MaxDiskMiB)
	}
	switch {
	case s.VCPU > vm.MaxVCPU || s.VCPU < 1:
		return bad("CREATE_VM_VCPU_OUT_OF_RANGE", s.VCPU, "max", vm.MaxVCPU)
	case bits.OnesCount(uint(s.VCPU)) != 1:
		return bad("CREATE_VM_VCPU_NOT_POWER_OF_TWO", s.VCPU)
	case s.MemoryMiB < vm.MinMemoryMiB || s.MemoryMiB > vm.MaxMemoryMiB:
		return bad("CREATE_VM_MEM_OUT_OF_RANGE", s.MemoryMiB, "min", vm.MinMemoryMiB, "max", vm.MaxMemoryMiB)
	case bits.OnesCount(uint(s.MemoryMiB)) != 1:
		return bad("CREATE_VM_MEM_NOT_POWER_OF_TWO", s.MemoryMiB)
	case s.DiskMiB < img.DiskMiB || s.DiskMiB > vm.MaxDiskMiB:
		return bad("CREATE_VM_ROOTFS_OUT_OF_RANGE", s.DiskMiB, "min", img.DiskMiB, "max", vm.MaxDiskMiB)
	}
	return nil
}

func fillProfile(rec *vm.VM, r CreateRequest, _ vm.Image) error {
	if _, err := vm.FindProfile(r.Profile); err != nil {
		return vm.AsError(err).WithCode("CREATE_VM_BAD_REQUEST", "message", vm.AsError(err).Error())
	}
	rec.Profile = r.Profile
	return nil
}

// profileOf returns a VM's profile. A profile that this version does not know forbids
// nothing.
func profileOf(rec vm.VM) vm.Profile {
	p, _ := vm.FindProfile(rec.Profile)
	return p
}

// mayReach refuses a network that the VM's profile forbids.
func mayReach(rec vm.VM, p vm.NetworkPolicy) error {
	profile := profileOf(rec)
	if !profile.Closed || p.Mode == vm.NetClosed && !slices.ContainsFunc(p.Rules, allows) {
		return nil
	}
	what := "the network " + string(p.Mode)
	if p.Mode == vm.NetClosed {
		what = "rules that allow something"
	}
	return profile.Forbids(string(rec.ID), what).WithHint("make a VM with another profile: `warren profile ls`")
}

func allows(r vm.NetRule) bool { return r.Action == vm.NetAllow }

// fillNetwork gives a VM the network that is asked for, else its profile's or the server's
// default.
func (e *Engine) fillNetwork(c *vm.Call, rec *vm.VM, asked vm.NetworkSpec, img vm.Image) error {
	if asked == "" {
		asked = vm.NetworkSpec(cmp.Or(profileOf(*rec).Network, e.cfg.Settings.DefaultNetwork))
	}
	p, err := e.cfg.Policies.Compile(c, rec.Account, asked)
	if err != nil {
		if k := vm.KindOf(err); k == vm.Denied {
			return err
		}
		return vm.AsError(err).WithCode("CREATE_VM_BAD_REQUEST", "message", vm.AsError(err).Msg)
	}
	p.Hosts = hostsOf(p.Mode, img)
	rec.Network = p
	return mayReach(*rec, p)
}

// hostsOf returns the hosts that a mode allows VMs of an image.
func hostsOf(mode vm.NetworkMode, img vm.Image) []vm.Registry {
	if mode != vm.NetPackages {
		return nil
	}
	return img.Registries
}

func fillLimits(rec *vm.VM, r CreateRequest, _ vm.Image) error {
	if err := fillTTL(rec, r.TTL); err != nil {
		return err
	}
	if err := checkSchedule(r.CaptureEvery); err != nil {
		return err
	}
	if r.Threshold < 0 {
		return badCreate("activityThresholdBytes", "%d is negative", r.Threshold)
	}
	onBoot, err := vm.ParseOnBoot(r.OnBoot)
	if err != nil {
		return badCreate("onBoot", "neither resume nor stay")
	}
	rec.OnBoot = onBoot
	rec.CaptureEvery, rec.IdleStops, rec.ActivityThreshold = r.CaptureEvery, r.StopOnIdle, r.Threshold
	if !r.IdleTimeout.Set {
		r.IdleTimeout = vm.Some(defaultIdle)
	}
	return setIdle(rec, r.IdleTimeout)
}

// setIdle records an idle timeout; 0 and null mean never.
func setIdle(rec *vm.VM, idle vm.Optional[vm.Seconds]) error {
	if idle.Null {
		rec.IdleTimeout = nil
		return nil
	}
	n := idle.Value
	if n < 0 || n > vm.Seconds(vm.MaxDuration) {
		return badCreate("idleTimeoutSeconds", "%s is out of range", n)
	}
	rec.IdleTimeout = &n
	return nil
}

func fillWorkdir(rec *vm.VM, r CreateRequest, _ vm.Image) error {
	if r.Workdir == "" {
		return nil
	}
	if !path.IsAbs(r.Workdir) || strings.ContainsRune(r.Workdir, 0) {
		return badCreate(r.Workdir, "the working directory is not an absolute path")
	}
	rec.Workdir = path.Clean(r.Workdir)
	return nil
}
