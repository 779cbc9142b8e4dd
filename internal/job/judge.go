// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// judge sets the state of each step. What people checked in an earlier request stays
// checked. revoked tokens were revoked by the request, and tokens are still valid.
func judge(job *vm.Job, r DoneRequest, revoked, tokens int) {
	left := job.Remains
	was := map[string]vm.JobStep{}
	for _, s := range job.Steps {
		was[s.Step] = s
	}
	job.Steps, job.Complete = nil, true
	step := func(name string, state vm.StepState, why string, args ...any) {
		job.Steps = append(job.Steps, vm.JobStep{Step: name, State: state, Why: fmt.Sprintf(why, args...)})
		job.Complete = job.Complete && state != vm.StepOpen
	}
	seen := func(name string, now bool, done, open string) {
		switch {
		case now:
			step(name, vm.StepDone, "%s", done)
		case was[name].State == vm.StepDone:
			step(name, vm.StepDone, "%s", was[name].Why)
		default:
			step(name, vm.StepOpen, "%s", open)
		}
	}
	switch left.State {
	case "":
		step(vm.StepCompute, vm.StepDone, "the VM is destroyed")
	case vm.Stopped, vm.Suspended, vm.Lost:
		step(vm.StepCompute, vm.StepDone, "the VM is %s", left.State)
	default:
		step(vm.StepCompute, vm.StepOpen, "the VM is %s", left.State)
	}
	judgeVolumes(left, step)
	judgeSnapshots(job, r, step)
	judgeCredentials(job, r, was[vm.StepCredentials].Why, revoked, tokens, step)
	step(vm.StepReceipts, vm.StepDone, "%d audit records are in the record of the job", len(left.Receipts))
	if left.State == "" && len(job.Shipped) == 0 {
		step(vm.StepLogs, vm.StepNone, "they went with the VM")
	} else {
		seen(vm.StepLogs, r.LogsReviewed, "they were read", "nobody has said that they were read; they may hold secrets that the guest printed")
	}
	if r.Ship != nil {
		step(vm.StepShipped, vm.StepDone, "the record, the audit records and the logs (%d) are below %s", len(job.Shipped), r.Ship)
	} else if s, ok := was[vm.StepShipped]; ok {
		step(s.Step, s.State, "%s", s.Why)
	}
	step(vm.StepRemains, vm.StepDone, "%d snapshots, %d VMs made of it, %d copies taken out, %d stored artifacts", len(left.Snapshots), len(left.Forks), len(left.Copies), len(left.Artifacts))
}

// judgeCredentials closes the step when a person confirmed it, or when Warren rotated every
// secret that it put in for the VM, and no token reaches the VM.
func judgeCredentials(job *vm.Job, r DoneRequest, was string, revoked, tokens int, step func(string, vm.StepState, string, ...any)) {
	var open []string
	for _, c := range job.Remains.Credentials {
		if c.RotatedAt.IsZero() {
			open = append(open, fmt.Sprintf("%s for %s (used %d times)", c.Name, c.Host, c.Uses))
		}
	}
	n := len(job.Remains.Credentials)
	confirmed := job.CredentialsConfirmed
	job.CredentialsConfirmed = confirmed || r.Rotated
	switch {
	case r.Rotated:
		step(vm.StepCredentials, vm.StepDone, "they were rotated, %d of them by Warren; %d tokens were revoked here", n-len(open), revoked)
	case confirmed:
		step(vm.StepCredentials, vm.StepDone, "%s", was)
	case n > 0 && len(open) == 0 && tokens == 0:
		step(vm.StepCredentials, vm.StepDone, "Warren rotated all %d secrets that the VM could use; it does not know those that were put into the VM in another way", n)
	case len(open) > 0:
		step(vm.StepCredentials, vm.StepOpen, "%d of %d secrets that the VM could use are rotated, not %s; %d tokens of identities reach the VM; nobody has said that all other keys, tokens and passwords that code in it could reach are rotated", n-len(open), n, strings.Join(open, ", "), tokens)
	default:
		step(vm.StepCredentials, vm.StepOpen, "keys, tokens and passwords that code in the VM could reach may be known to it; Warren rotated %d secrets, and knows of %d tokens of identities that reach it", n, tokens)
	}
}

// judgeVolumes closes the step of volumes when every volume that the VM worked in is
// locked, and the step of mounts when nothing is mounted in the VM.
func judgeVolumes(left vm.Remaining, step func(string, vm.StepState, string, ...any)) {
	list := left.Volumes
	var unlocked, mounted []string
	for _, f := range left.Folders {
		mounted = append(mounted, f.Host+" of the host at "+f.Path)
	}
	for _, v := range list {
		if v.Unlocked {
			text := v.Project + "/" + v.Name
			if len(v.UsedBy) > 0 {
				text += " (in use by " + strings.Join(v.UsedBy, ", ") + ")"
			}
			unlocked = append(unlocked, text)
		}
		if v.Path != "" {
			mounted = append(mounted, v.Project+"/"+v.Name+" at "+v.Path)
		}
	}
	switch {
	case len(list) == 0:
		step(vm.StepVolumes, vm.StepNone, "the VM worked in no managed volume")
	case len(unlocked) > 0:
		step(vm.StepVolumes, vm.StepOpen, "not locked: %s", strings.Join(unlocked, ", "))
	default:
		step(vm.StepVolumes, vm.StepDone, "all %d that the VM worked in are locked", len(list))
	}
	switch {
	case len(mounted) > 0:
		step(vm.StepMounts, vm.StepOpen, "the VM has %s", strings.Join(mounted, ", "))
	case len(list) == 0:
		step(vm.StepMounts, vm.StepNone, "nothing is mounted in the VM")
	default:
		step(vm.StepMounts, vm.StepDone, "nothing is mounted in the VM any more")
	}
}

// judgeSnapshots closes the step when every snapshot that is left has a purpose, by
// this request or an earlier one.
func judgeSnapshots(job *vm.Job, r DoneRequest, step func(string, vm.StepState, string, ...any)) {
	kept := []vm.SnapshotID{}
	for _, s := range job.Remains.Snapshots {
		if r.KeepSnapshots || slices.Contains(job.KeptSnapshots, s.ID) {
			kept = append(kept, s.ID)
		}
	}
	job.KeptSnapshots = kept
	switch n := len(job.Remains.Snapshots); {
	case n == 0:
		step(vm.StepSnapshots, vm.StepDone, "there are none")
	case len(kept) == n:
		step(vm.StepSnapshots, vm.StepDone, "%d are kept for a purpose", n)
	default:
		step(vm.StepSnapshots, vm.StepOpen, "%d are there that nobody has given a purpose", n-len(kept))
	}
}
