// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"maps"
	"time"

	"github.com/warren-vm/warren/vm"
)

// vmAnswer is a VM as the SDK reads it.
type vmAnswer struct {
	ID          vm.ID             `json:"id"`
	State       string            `json:"state"`
	Slug        string            `json:"slug,omitempty"`
	DisplayName string            `json:"displayName,omitempty"`
	Resources   resources         `json:"resources"`
	Snapshot    vm.SnapshotID     `json:"snapshotId,omitempty"`
	Source      string            `json:"sourceSnapshotSlug,omitempty"`
	Idle        *int64            `json:"idleTimeoutSeconds,omitempty"`
	Delete      *int64            `json:"autoDeleteSeconds,omitempty"`
	FromPlan    bool              `json:"autoDeleteFromPlan"`
	TTL         *int64            `json:"ttlSeconds,omitempty"`
	TotalRun    int64             `json:"totalRunSeconds"`
	Automatic   bool              `json:"automaticRestart"`
	Metadata    map[string]string `json:"metadata"`
	CPUTime     float64           `json:"cpuTimeSeconds"`
	LastActive  *time.Time        `json:"lastNetworkActivity,omitempty"`
	VPCs        []struct{}        `json:"vpcs"`
	Networks    []struct{}        `json:"networks"`
	CreatedAt   time.Time         `json:"createdAt"`
	UpdatedAt   time.Time         `json:"updatedAt"`
}

type resources struct {
	CPU     int `json:"cpu"`
	Memory  int `json:"memory"`
	Storage int `json:"storage"`
}

type createdAnswer struct {
	vmAnswer
	Firewall []ruleAnswer `json:"firewallRules"`
	TLS      []tlsAnswer  `json:"tlsRules"`
}

type listAnswer struct {
	VMs      []vmAnswer `json:"vms"`
	Total    int        `json:"totalCount"`
	Running  int        `json:"runningCount"`
	Starting int        `json:"startingCount"`
	Pausing  int        `json:"pausingCount"`
	Paused   int        `json:"pausedCount"`
	Stopped  int        `json:"stoppedCount"`
}

// count adds a VM in a state.
func (l *listAnswer) count(state string) {
	l.Total++
	switch state {
	case "running":
		l.Running++
	case "starting":
		l.Starting++
	case "pausing":
		l.Pausing++
	case "paused":
		l.Paused++
	case "stopped":
		l.Stopped++
	}
}

// stateOf is the state of a VM in the SDK's words.
func stateOf(rec vm.VM) string {
	switch rec.State {
	case vm.Running:
		return "running"
	case vm.Suspending:
		return "pausing"
	case vm.Suspended:
		return "paused"
	case vm.Building, vm.Starting:
		return "starting"
	}
	return "stopped"
}

// shown describes a VM.
func (c *caller) shown(rec vm.VM) vmAnswer {
	out := vmAnswer{
		ID: rec.ID, State: stateOf(rec), Slug: rec.Name, DisplayName: rec.DisplayName, Resources: resources{rec.Size.VCPU, rec.Size.MemoryMiB, rec.Size.DiskMiB},
		Snapshot: c.sourceOf(rec), Source: c.sourceName(rec), Idle: secondsOf(rec.IdleTimeout), Metadata: map[string]string{},
		VPCs: []struct{}{}, Networks: []struct{}{}, CreatedAt: rec.CreatedAt.UTC(), UpdatedAt: rec.CreatedAt.UTC(),
	}
	maps.Copy(out.Metadata, rec.Labels)
	if rec.StartedAt.After(out.UpdatedAt) {
		out.UpdatedAt = rec.StartedAt.UTC()
	}
	if rec.TTL > 0 {
		out.TTL = secondsOf(&rec.TTL)
	}
	if rec.Persistence.Type == vm.Ephemeral {
		out.Delete = new(int64)
	}
	if !rec.LastActive.IsZero() {
		at := rec.LastActive.UTC()
		out.LastActive = &at
	}
	if used := c.d.Meter.UsageNow([]vm.VM{rec}); len(used) == 1 {
		out.CPUTime, out.TotalRun = used[0].CPUSeconds, int64(used[0].RunningSeconds)
	}
	return out
}

func secondsOf(d *vm.Seconds) *int64 {
	if d == nil {
		return nil
	}
	n := int64(time.Duration(*d) / time.Second)
	return &n
}
