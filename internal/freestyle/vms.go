// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func vmRoutes(at func(string, right, handler)) {
	at("POST /v5/vms", owner, (*caller).create)
	at("GET /v5/vms", member, (*caller).list)
	at("GET /v5/vms/{vm}", member, (*caller).get)
	at("PATCH /v5/vms/{vm}", owner, (*caller).update)
	at("DELETE /v5/vms/{vm}", owner, (*caller).delete)
	at("POST /v5/vms/{vm}/start", member, (*caller).start)
	at("POST /v5/vms/{vm}/pause", owner, (*caller).pause)
	at("POST /v5/vms/{vm}/resize", owner, (*caller).resize)
	at("POST /v5/vms/{vm}/snapshot", owner, (*caller).snapshot)
}

// never is how the SDK writes that a time has no limit.
const never = -1

// lifetimes are the members of a request that say how long a VM is kept.
type lifetimes struct {
	Idle      *int64 `json:"idleTimeoutSeconds"`
	Delete    *int64 `json:"autoDeleteSeconds"`
	TTL       *int64 `json:"ttlSeconds"`
	Run       *int64 `json:"maxRunSeconds"`
	RunTotal  *int64 `json:"maxRunTotalSeconds"`
	Automatic *bool  `json:"automaticRestart"`
}

// check refuses what Warren does not do.
func (l lifetimes) check() error {
	for name, n := range map[string]*int64{"maxRunSeconds": l.Run, "maxRunTotalSeconds": l.RunTotal} {
		if n != nil && *n != never {
			return unsupported(name, "this server does not pause a VM after a time of running").WithHint("leave it out, or use idleTimeoutSeconds or ttlSeconds")
		}
	}
	switch {
	case l.Delete != nil && *l.Delete != never && *l.Delete != 0:
		return unsupported("autoDeleteSeconds", "this server does not count for how long a VM does not run").
			WithHint("use 0, which deletes it when it stops, or ttlSeconds")
	case l.Automatic != nil && *l.Automatic:
		return unsupported("automaticRestart", "this server does not boot a VM again by itself after its machine has failed").
			WithHint("leave it out, and start the VM: its disk is kept")
	}
	return nil
}

// seconds reads a time that may have no limit.
func seconds(name string, n *int64) (vm.Optional[vm.Seconds], error) {
	switch {
	case n == nil:
		return vm.Optional[vm.Seconds]{}, nil
	case *n == never:
		return vm.Null[vm.Seconds](), nil
	case *n < 1 || *n > int64(vm.MaxDuration/time.Second):
		return vm.Optional[vm.Seconds]{}, invalid(name, "%d is not a number of seconds within 1 to %d, nor -1 for never", *n, int64(vm.MaxDuration/time.Second))
	}
	return vm.Some(vm.Seconds(time.Duration(*n) * time.Second)), nil
}

type createBody struct {
	Snapshot    *string           `json:"snapshotId"`
	Slug        *string           `json:"slug"`
	Reassign    bool              `json:"reassignSlug"`
	DisplayName *string           `json:"displayName"`
	Metadata    map[string]string `json:"metadata"`
	VPCs        []json.RawMessage `json:"vpcs"`
	Networks    []json.RawMessage `json:"networks"`
	Placement   *struct {
		AntiAffinity []json.RawMessage `json:"antiAffinity"`
	} `json:"placement"`
	Firewall *struct {
		Rules []rule `json:"rules"`
	} `json:"firewall"`
	TLS *struct {
		Rules []tlsRule `json:"rules"`
	} `json:"tls"`
	lifetimes
}

var slugPattern = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

// checkSlug refuses what is no slug, and slugs that cannot be names of VMs here.
func checkSlug(s string) error {
	switch {
	case len(s) > 63 || !slugPattern.MatchString(s):
		return invalid(vm.Clip(s, 80), "not a slug: 1 to 63 of a-z, 0-9 and single hyphens between them")
	case vm.CheckName(s) != nil:
		return invalid(s, "not the name of a VM on this server: it begins with a letter and has at most %d characters", vm.MaxName)
	case vm.IsID(s):
		return invalid(s, "this looks like the id of a VM").WithHint("add a hyphen")
	}
	return nil
}

// request converts a create for the engine. The slug is set afterwards if another VM may have it.
func (c *caller) request(in *createBody) (engine.CreateRequest, error) {
	r := engine.CreateRequest{Labels: in.Metadata, IdleTimeout: vm.Null[vm.Seconds]()}
	var err error
	if in.Firewall == nil {
		return r, invalid("firewall", "is missing").WithHint("send firewall: { rules: [] } for a VM that reaches nothing")
	}
	if r.Network, err = networkOf(in.Firewall.Rules); err != nil {
		return r, err
	}
	switch {
	case len(in.VPCs)+len(in.Networks) > 0:
		return r, refusals["vpcs"].refuse()
	case in.Placement != nil && len(in.Placement.AntiAffinity) > 0:
		return r, unsupported("placement", "this server is one host").WithHint("leave it out")
	case in.Reassign && (in.Slug == nil || *in.Slug == ""):
		return r, invalid("reassignSlug", "needs a slug")
	}
	if err := in.check(); err != nil {
		return r, err
	}
	if in.Slug != nil && *in.Slug != "" {
		if err := checkSlug(*in.Slug); err != nil {
			return r, err
		}
		r.Name, r.UniqueName = *in.Slug, true
	}
	if in.DisplayName != nil {
		r.DisplayName = *in.DisplayName
	}
	if in.Idle != nil {
		if r.IdleTimeout, err = seconds("idleTimeoutSeconds", in.Idle); err != nil {
			return r, err
		}
	}
	if r.TTL, err = seconds("ttlSeconds", in.TTL); err != nil {
		return r, err
	}
	if !r.TTL.Set {
		r.TTL = vm.Null[vm.Seconds]()
	}
	r.Persistence = &vm.Persistence{Type: vm.Persistent}
	if in.Delete != nil && *in.Delete == 0 {
		r.Persistence = &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: vm.OnStop}
	}
	if in.Snapshot != nil && *in.Snapshot != "" {
		if r.Image, err = c.source(*in.Snapshot); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (c *caller) create() (answer, error) {
	var in createBody
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	r, err := c.request(&in)
	if err != nil {
		return answer{}, err
	}
	var published []tlsRule
	if in.TLS != nil {
		published = in.TLS.Rules
	}
	for i := range published {
		if err := published[i].check(c, true); err != nil {
			return answer{}, err
		}
	}
	slug := r.Name
	if in.Reassign {
		r.Name, r.UniqueName = "", false
	}
	rec, err := c.d.Engine.Create(c.ctx, c.call, r)
	if err != nil {
		return answer{}, err
	}
	undo := func(err error) (answer, error) {
		_, failed := c.d.Engine.Delete(context.WithoutCancel(c.ctx), c.again(), string(rec.ID))
		return answer{}, errors.Join(err, failed)
	}
	if in.Reassign {
		if rec, err = c.takeSlug(string(rec.ID), slug); err != nil {
			return undo(err)
		}
	}
	out := createdAnswer{vmAnswer: c.shown(rec), Firewall: c.rulesOf(rec), TLS: []tlsAnswer{}}
	for _, p := range published {
		m, err := c.d.Names.MapDomain(c.ctx, c.again(), p.Domain, string(rec.ID), p.port())
		if err != nil {
			return undo(err)
		}
		out.TLS = append(out.TLS, c.shownMapping(m))
	}
	return answer{http.StatusCreated, out}, nil
}

// again is a call for a further step of the request, with an audit record of its own.
func (c *caller) again() *vm.Call { return &vm.Call{Actor: c.call.Actor, Request: c.call.Request} }

// takeSlug gives a VM a slug, which the VM that has it loses.
func (c *caller) takeSlug(ref, slug string) (vm.VM, error) {
	if holder, err := c.d.Engine.Get(c.ctx, c.call, slug); err == nil {
		if string(holder.ID) == ref {
			return holder, nil
		}
		if _, err := c.d.Engine.ClearName(c.ctx, c.again(), string(holder.ID)); err != nil {
			return vm.VM{}, err
		}
	} else if vm.KindOf(err) != vm.NotFound {
		return vm.VM{}, err
	}
	return c.d.Engine.RenameVM(c.ctx, c.again(), ref, slug)
}

// find returns the VM in the path.
func (c *caller) find() (vm.VM, error) {
	rec, err := c.d.Engine.Get(c.ctx, c.call, c.ref())
	if vm.KindOf(err) == vm.Invalid && vm.AsError(err).Code != "AMBIGUOUS" { // what is no id or name is no VM
		err = vm.Errorf(vm.NotFound, vm.Clip(c.ref(), 80), "no such VM").WithHint("vms.list() says which there are")
	}
	return rec, err
}

func (c *caller) get() (answer, error) {
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	return ok(c.shown(rec))
}

func (c *caller) delete() (answer, error) {
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	_, err = c.d.Engine.Delete(c.ctx, c.call, string(rec.ID))
	return done, err
}

func (c *caller) start() (answer, error) {
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	if rec, err = c.d.Engine.Start(c.ctx, c.call, string(rec.ID), engine.StartRequest{}); err != nil {
		return answer{}, err
	}
	return ok(c.shown(rec))
}

func (c *caller) pause() (answer, error) {
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	if rec.State != vm.Running {
		return answer{}, vm.Errorf(vm.WrongState, string(rec.ID), "the VM is %s", stateOf(rec)).WithHint("only a running VM can be paused")
	}
	s, err := c.d.Engine.Suspend(c.ctx, c.call, string(rec.ID), engine.SuspendRequest{})
	if err != nil {
		return answer{}, err
	}
	return ok(c.shown(s.VM))
}

func (c *caller) resize() (answer, error) {
	var in struct {
		CPU     int `json:"cpu"`
		Memory  int `json:"memory"`
		Storage int `json:"storage"`
	}
	if err := c.decodeStrict(&in); err != nil {
		return answer{}, err
	}
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	for _, axis := range []struct {
		name      string
		now, want int
	}{{"cpu", rec.Size.VCPU, in.CPU}, {"memory", rec.Size.MemoryMiB, in.Memory}, {"storage", rec.Size.DiskMiB, in.Storage}} {
		if axis.want < 0 || axis.want > 0 && axis.want < axis.now {
			return answer{}, invalid(axis.name, "the VM has %d, and %d is less", axis.now, axis.want).WithHint("a VM only grows")
		}
	}
	out, err := c.d.Engine.Resize(c.ctx, c.call, string(rec.ID), engine.ResizeRequest{Size: vm.Size{VCPU: in.CPU, MemoryMiB: in.Memory, DiskMiB: in.Storage}})
	if err != nil {
		return answer{}, err
	}
	return ok(c.shown(out.VM))
}

type updateBody struct {
	Slug        *string           `json:"slug"`
	Reassign    bool              `json:"reassignSlug"`
	DisplayName *string           `json:"displayName"`
	Metadata    map[string]string `json:"metadata"`
	lifetimes
}

// update changes a VM. All is checked before anything is changed.
func (c *caller) update() (answer, error) {
	var in updateBody
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	if err := in.check(); err != nil {
		return answer{}, err
	}
	change := engine.Amendment{DisplayName: in.DisplayName}
	if change.IdleTimeout, err = seconds("idleTimeoutSeconds", in.Idle); err != nil {
		return answer{}, err
	}
	if change.TTL, err = seconds("ttlSeconds", in.TTL); err != nil {
		return answer{}, err
	}
	if in.Delete != nil {
		change.Persistence = &vm.Persistence{Type: vm.Persistent}
		if *in.Delete == 0 {
			change.Persistence = &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: vm.OnStop}
		}
	}
	if in.Slug != nil && *in.Slug != "" {
		if err := checkSlug(*in.Slug); err != nil {
			return answer{}, err
		}
	}
	labels := map[string]*string{}
	for k, v := range in.Metadata {
		if labels[k] = &v; v == "" {
			labels[k] = nil
		}
	}
	if _, err := vm.ChangeLabels(rec.Labels, labels); err != nil {
		return answer{}, err
	}
	if rec, err = c.apply(rec, in, change, labels); err != nil {
		return answer{}, err
	}
	return ok(c.shown(rec))
}

func (c *caller) apply(rec vm.VM, in updateBody, change engine.Amendment, labels map[string]*string) (vm.VM, error) {
	id := string(rec.ID)
	var err error
	switch {
	case in.Slug == nil || *in.Slug == rec.Name:
	case *in.Slug == "":
		rec, err = c.d.Engine.ClearName(c.ctx, c.again(), id)
	case in.Reassign:
		rec, err = c.takeSlug(id, *in.Slug)
	default:
		rec, err = c.d.Engine.RenameVM(c.ctx, c.again(), id, *in.Slug)
	}
	if err == nil && len(labels) > 0 {
		rec, err = c.d.Engine.Label(c.ctx, c.again(), id, labels)
	}
	if err == nil && !change.Empty() {
		rec, err = c.d.Engine.Amend(c.ctx, c.again(), id, change)
	}
	return rec, err
}

// list answers the account's VMs.
func (c *caller) list() (answer, error) {
	q := c.URL.Query()
	wanted := map[string]string{}
	if text := q.Get("metadata"); text != "" {
		for pair := range strings.SplitSeq(text, ",") {
			k, v, ok := strings.Cut(pair, ":")
			if !ok || k == "" {
				return answer{}, invalid("metadata", "%q is not key:value,key:value", vm.Clip(text, 80))
			}
			wanted[k] = v
		}
	}
	state := q.Get("state")
	if state != "" && !slices.Contains([]string{"starting", "running", "pausing", "paused", "stopped"}, state) {
		return answer{}, invalid("state", "%q is no state of a VM", vm.Clip(state, 40)).WithHint("use starting, running, pausing, paused or stopped")
	}
	source := q.Get("snapshotId")
	if source != "" {
		id, err := c.source(source)
		if err != nil {
			return answer{}, err
		}
		source = id
	}
	all, _, _, err := c.d.Engine.List(c.ctx, c.call, engine.Filter{Search: q.Get("search")})
	if err != nil {
		return answer{}, err
	}
	out := listAnswer{VMs: []vmAnswer{}}
	matching := []vm.VM{}
	for _, rec := range all {
		if slug := q.Get("slug"); slug != "" && rec.Name != slug || !has(rec.Labels, wanted) || source != "" && string(c.sourceOf(rec)) != source {
			continue
		}
		if now := stateOf(rec); state == "" || now == state {
			matching = append(matching, rec)
			out.count(now)
		}
	}
	shown, err := page(c, matching)
	if err != nil {
		return answer{}, err
	}
	for _, rec := range shown {
		out.VMs = append(out.VMs, c.shown(rec))
	}
	return ok(out)
}

func has(labels, wanted map[string]string) bool {
	for k, v := range wanted {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
