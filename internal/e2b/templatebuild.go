// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Limits of builds of templates.
const (
	maxBuilds     = 2         // that run at a time; others wait
	maxOpenBuilds = 20        // of an account that wait, run or were not started yet
	maxKnown      = 50        // of an account; those that ended first are forgotten
	buildKept     = time.Hour // how long a build may wait for its start, and is known after its end
	buildTime     = time.Hour // for all steps
	maxSteps      = 1000
	maxLogBytes   = 1 << 20 // of a build
	maxLogLine    = 4 << 10
	logPage       = 100 // entries of an answer
)

// States of a build.
const (
	statusWaiting  = "waiting"
	statusBuilding = "building"
	statusReady    = "ready"
	statusError    = "error"
)

// Names of steps that are not in the client's list.
const (
	stepBase     = "base"
	stepFinalize = "finalize"
)

type buildKey struct {
	account vm.AccountID
	id      string // a UUID
}

// build is one build of a template. After a restart of the server nothing of it is known,
// unless it had succeeded.
type build struct {
	id, name, template string // template is the id
	account            vm.AccountID
	tags               []string
	cpus, memory, free int

	mu      sync.Mutex
	status  string // guarded by mu
	begun   bool   // the client has sent its steps; guarded by mu
	reason  *buildReason
	log     []buildLog
	logged  int // bytes
	changed time.Time
}

type (
	buildLog struct {
		Time    time.Time `json:"timestamp"`
		Level   string    `json:"level"`
		Message string    `json:"message"`
		Step    string    `json:"step,omitempty"`
	}
	buildReason struct {
		Message string `json:"message"`
		Step    string `json:"step,omitempty"`
	}
	buildAnswer struct {
		Template string       `json:"templateID"`
		Build    string       `json:"buildID"`
		Status   string       `json:"status"`
		Logs     []string     `json:"logs"`
		Entries  []buildLog   `json:"logEntries"`
		Reason   *buildReason `json:"reason,omitempty"`
	}
)

// say adds a line to the log.
func (b *build) say(level, step, message string) {
	message = strings.ToValidUTF8(strings.TrimRight(message, "\r\n"), "\uFFFD")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.logged > maxLogBytes {
		return
	}
	message = vm.Clip(message, maxLogLine)
	if b.logged += len(message) + 64; b.logged > maxLogBytes {
		level, message = "warn", "the log is full: further output is not kept"
	}
	b.log = append(b.log, buildLog{time.Now().UTC(), level, message, step})
}

func (b *build) set(status string, reason *buildReason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status, b.reason, b.changed = status, reason, time.Now()
}

// over reports whether the build has ended, and since when it has its state.
func (b *build) over() (bool, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status == statusReady || b.status == statusError, b.changed
}

// requestBuild is the first call of a build: it says how the template is called.
func (c *caller) requestBuild() error {
	var in struct {
		Name   string   `json:"name"`
		Tags   []string `json:"tags"`
		CPUs   int      `json:"cpuCount"`
		Memory int      `json:"memoryMB"`
		Free   int      `json:"minFreeDiskMb"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	name, tag := splitTemplate(in.Name)
	if strings.Contains(in.Name, ":") {
		in.Tags = append([]string{tag}, in.Tags...)
	}
	if !templateName.MatchString(name) {
		return invalid(vm.Clip(in.Name, 64), "cannot be the name of a template").WithHint("use up to 63 small letters, digits, - and _")
	}
	tags, err := checkTags(in.Tags)
	if err != nil {
		return err
	}
	if len(tags) == 0 {
		tags = []string{defaultTag}
	}
	if in.CPUs < 0 || in.CPUs > vm.MaxVCPU || in.Memory < 0 || in.Memory > vm.MaxMemoryMiB || in.Free < 0 || in.Free > vm.MaxDiskMiB {
		return invalid("size", "a sandbox has at most %d CPUs, %d MiB of memory and %d MiB of disk", vm.MaxVCPU, vm.MaxMemoryMiB, vm.MaxDiskMiB)
	}
	if err := c.nameFree(name); err != nil {
		return err
	}
	b := &build{
		id: vm.NewUUID(), name: name, template: c.d.templateID(c.call.Actor.Account, name), account: c.call.Actor.Account, tags: tags,
		cpus: powerOfTwo(in.CPUs, 1), memory: powerOfTwo(in.Memory, vm.MinMemoryMiB), free: in.Free, status: statusWaiting, changed: time.Now(),
	}
	if err := c.d.addBuild(b); err != nil {
		return err
	}
	names := []string{name}
	return c.send(http.StatusAccepted, map[string]any{"templateID": b.template, "buildID": b.id, "public": false, "names": names, "aliases": names, "tags": tags})
}

// powerOfTwo is the smallest power of two from n and least on; 0 = the default.
func powerOfTwo(n, least int) int {
	if n == 0 {
		return 0
	}
	out := least
	for out < n {
		out *= 2
	}
	return out
}

// nameFree refuses the name of an image, or of a snapshot that is no template.
func (c *caller) nameFree(name string) error {
	if img, err := c.d.Engine.FindImage(c.Context(), c.call, name); err == nil {
		return vm.Errorf(vm.Exists, name, "an image of this server has this name: %s", img.ID).WithHint("choose another name for the template")
	}
	if g, err := c.d.Engine.FindSnapshot(c.Context(), c.call, name); err == nil && g.Template == nil {
		return vm.Errorf(vm.Exists, name, "a snapshot has this name: %s", g.Snapshot).WithHint("choose another name for the template, or delete that snapshot")
	}
	return nil
}

// addBuild remembers a build. It forgets those that ended, or were not started, long ago.
func (d *Door) addBuild(b *build) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	open := 0
	var ended []*build
	for key, other := range d.builds {
		over, since := other.over()
		other.mu.Lock()
		begun := other.begun
		other.mu.Unlock()
		switch {
		case (over || !begun) && time.Since(since) > buildKept:
			delete(d.builds, key)
		case other.account != b.account:
		case over:
			ended = append(ended, other)
		default:
			open++
		}
	}
	if open >= maxOpenBuilds {
		return vm.Errorf(vm.Limit, b.name, "the account has %d builds that have not ended", open).WithHint("wait until some of them have")
	}
	slices.SortFunc(ended, func(x, y *build) int { return x.changed.Compare(y.changed) })
	for len(ended)+open >= maxKnown {
		delete(d.builds, buildKey{ended[0].account, ended[0].id})
		ended = ended[1:]
	}
	d.builds[buildKey{b.account, b.id}] = b
	return nil
}

// dropBuilds removes the VMs of builds that an earlier server did not end.
func (d *Door) dropBuilds() {
	left := d.Engine.VMsWhere(func(v *vm.VM) bool { return v.Sandbox != nil && v.Sandbox.Builds != "" })
	go func() { // ends with the list, or the server
		for _, rec := range left {
			call := &vm.Call{Actor: actorOf(rec), Request: vm.NewRequestID()}
			if _, err := d.Engine.Delete(d.Lifetime, call, string(rec.ID)); err != nil && vm.KindOf(err) != vm.NotFound {
				d.Log.Warn("the VM of a build of a template was not removed: its time-out ends it", "vm", rec.ID, "err", err)
			}
		}
	}()
}

// waits reports whether a build of a template has not begun yet.
func (d *Door) waits(account vm.AccountID, template string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.builds {
		b.mu.Lock()
		found := b.account == account && b.template == template && !b.begun
		b.mu.Unlock()
		if found {
			return true
		}
	}
	return false
}

// findBuild finds the build that the path names; nil = this server does not know it.
func (c *caller) findBuild() *build {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	b := c.d.builds[buildKey{c.call.Actor.Account, c.PathValue("build")}]
	if b == nil || b.template != c.PathValue("id") {
		return nil
	}
	return b
}

func unknownBuild(id string) *vm.Error {
	return vm.Errorf(vm.NotFound, vm.Clip(id, 64), "this server does not know the build: the server was started again, or the build ended more than an hour ago").
		WithHint("build the template again")
}

// startBuild takes the steps of a build, and begins with them.
func (c *caller) startBuild() error {
	in := &buildPlan{}
	if err := c.decode(in); err != nil {
		return err
	}
	b := c.findBuild()
	if b == nil {
		return unknownBuild(c.PathValue("build"))
	}
	if err := in.check(); err != nil {
		return err
	}
	for i, s := range in.Steps {
		if s.Type == stepCopy && !c.d.files.has(fileKey{b.account, b.template, s.Files}) {
			return invalid("steps", "the files of step %d were not uploaded, or were removed after an hour", i+1).WithHint("build the template again")
		}
	}
	if err := c.d.begin(b); err != nil {
		return err
	}
	for _, s := range in.Steps {
		if s.Type == stepCopy {
			c.d.files.hold(fileKey{b.account, b.template, s.Files})
		}
	}
	call := &vm.Call{Actor: c.call.Actor, Request: c.call.Request}
	go c.d.runBuild(b, in, call) // ends with the build, or the server
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// begin marks a build as begun. A template has one build at a time.
func (d *Door) begin(b *build) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, other := range d.builds {
		if other == b || other.account != b.account || other.template != b.template {
			continue
		}
		over, _ := other.over()
		other.mu.Lock()
		busy := other.begun && !over
		other.mu.Unlock()
		if busy {
			return vm.Errorf(vm.Busy, b.name, "another build of this template has not ended").WithHint("wait for it")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun {
		return vm.Errorf(vm.Busy, b.name, "this build has begun already").WithHint("ask for its status")
	}
	b.begun, b.changed = true, time.Now()
	return nil
}

// buildStatus answers how far a build is, with one page of its log.
func (c *caller) buildStatus() error {
	offset, _ := strconv.Atoi(c.URL.Query().Get("logsOffset"))
	out := buildAnswer{Template: c.PathValue("id"), Build: c.PathValue("build"), Logs: []string{}, Entries: []buildLog{}}
	b := c.findBuild()
	if b == nil {
		builds, err := c.d.built(c.Context(), c.call, out.Template)
		if err != nil {
			return err
		}
		out.Status = statusReady
		if !slices.ContainsFunc(builds, func(g vm.Generation) bool { return g.Template.Build == out.Build }) {
			out.Status, out.Reason = statusError, &buildReason{Message: c.d.text(unknownBuild(""))}
		}
		return c.send(http.StatusOK, out)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out.Status, out.Reason = b.status, b.reason
	if offset >= 0 && offset < len(b.log) {
		out.Entries = b.log[offset:min(offset+logPage, len(b.log))]
	}
	return c.send(http.StatusOK, out)
}

// runBuild carries out a build as soon as it is its turn.
func (d *Door) runBuild(b *build, plan *buildPlan, call *vm.Call) {
	ctx, cancel := context.WithTimeoutCause(d.Lifetime, buildTime, vm.Errorf(vm.Timeout, b.name, "the build took longer than %v", buildTime))
	defer cancel()
	step, err := stepBase, error(nil)
	select {
	case d.building <- struct{}{}:
		defer func() { <-d.building }()
		b.set(statusBuilding, nil)
		step, err = d.build(ctx, b, plan, call)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	for _, s := range plan.Steps {
		if s.Type == stepCopy {
			d.files.drop(fileKey{b.account, b.template, s.Files}, d.waits(b.account, b.template))
		}
	}
	if err == nil {
		b.say("info", stepFinalize, "the template is ready")
		b.set(statusReady, nil)
		return
	}
	if d.Lifetime.Err() != nil {
		err = vm.Errorf(vm.Unavailable, b.name, "the server is stopping").WithHint("build the template again")
	}
	if vm.KindOf(err) == vm.Internal {
		d.Log.Error("a build of a template failed", "template", b.name, "err", err)
	}
	b.say("error", step, d.text(err))
	b.set(statusError, &buildReason{d.text(err), step})
}
