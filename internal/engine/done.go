// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// jobsKept is of how many jobs of an account the record is kept.
const jobsKept = 200

// DoneRequest says what is to become of a VM whose job is done, and what people
// have seen to. What it leaves open stays open in the record, and another
// request continues there.
type DoneRequest struct {
	Label         string
	Retention     string          // vm.RetainStop, ...; "" = leave the VM as it is
	DropSnapshots []vm.SnapshotID // of the VM, to be deleted
	KeepSnapshots bool            // the others have a purpose
	LockVolumes   bool            // that it worked in: unmount them and the host's folders in it, and lock those that no other VM has
	RevokeTokens  bool            // of the identities that were granted the VM
	Rotated       bool            // what generated code could reach is no longer valid
	LogsReviewed  bool
}

// Done ends the job of a VM: it does each step of the list that it is told to
// do, says which ones are open, and stores that with the ids of the audit
// records. A step that fails ends it; what was done before stays done.
func (e *Engine) Done(ctx context.Context, c *vm.Call, ref string, r DoneRequest) (job vm.Job, err error) {
	defer func() { err = fail(vm.OpDone, ref, err) }()
	job, running, err := e.jobFor(ctx, c, ref)
	if err != nil {
		return job, err
	}
	if err := e.checkDone(job, r); err != nil {
		return job, err
	}
	rcpt, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpDone, VM: job.VM, Subject: clip(r.Label), Detail: map[string]any{"retention": r.Retention}})
	if err != nil {
		return job, err
	}
	defer func() { rcpt.End(err, map[string]any{"complete": job.Complete}) }()
	revoked, err := e.finishVM(ctx, c, job, running, r)
	if err != nil {
		return job, err
	}
	if job.Remains, err = e.Remains(ctx, c, string(job.VM)); err != nil {
		return job, err
	}
	job.Label, job.Ended, job.Retention = cmp.Or(r.Label, job.Label), e.now(), cmp.Or(r.Retention, job.Retention)
	e.judge(&job, r, revoked)
	return e.saveJob(ctx, job)
}

// jobFor returns the record of a VM's job, new or as it was left; of a VM that
// is gone, by its id.
func (e *Engine) jobFor(ctx context.Context, c *vm.Call, ref string) (job vm.Job, running bool, err error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return job, false, err
	}
	s, missing := e.lookup(c, ref)
	id := vm.ID(ref)
	if missing == nil {
		id = s.id
	}
	jobs, err := e.Jobs(ctx, c)
	if err != nil {
		return job, false, err
	}
	if i := slices.IndexFunc(jobs, func(j vm.Job) bool { return j.VM == id }); i >= 0 {
		job = jobs[i]
	} else if missing != nil {
		return job, false, missing
	}
	if missing != nil {
		return job, false, nil
	}
	rec := e.recordOf(s)
	job.VM, job.Account, job.Name, job.Started = rec.ID, rec.Account, rec.Name, rec.CreatedAt
	if rec.StartedAt.After(job.Ended) { // it was used since: what was seen to then counts no more
		job.Steps, job.Retention, job.KeptSnapshots = nil, "", nil
	}
	return job, rec.State == vm.Running, nil
}

// checkDone refuses what cannot be done, before anything is.
func (e *Engine) checkDone(job vm.Job, r DoneRequest) error {
	switch r.Retention {
	case "", vm.RetainStop, vm.RetainSuspend, vm.RetainNothing:
	default:
		return vm.Errorf(vm.Invalid, r.Retention, "not a decision about a VM").WithCode("INVALID_REQUEST").
			WithHint("use %s, %s or %s", vm.RetainStop, vm.RetainSuspend, vm.RetainNothing)
	}
	if len(r.Label) > vm.MaxReason {
		return vm.Errorf(vm.Invalid, "label", "it is longer than %d bytes", vm.MaxReason).WithCode("INVALID_REQUEST")
	}
	for _, id := range r.DropSnapshots {
		g, err := e.findGeneration(job.Account, string(id))
		if err != nil {
			return err
		}
		if g.VM != job.VM {
			return vm.Errorf(vm.Invalid, string(id), "it is not a snapshot of this VM").WithCode("INVALID_REQUEST").
				WithHint("`warren snapshot rm %s` deletes it anyway", id)
		}
	}
	return nil
}

// finishVM carries out what was asked for, each as an action of its own with its
// own audit record. It returns how many tokens were revoked.
func (e *Engine) finishVM(ctx context.Context, c *vm.Call, job vm.Job, running bool, r DoneRequest) (revoked int, err error) {
	sub := func() *vm.Call { return &vm.Call{Actor: c.Actor, Request: c.Request} }
	for _, id := range r.DropSnapshots {
		if _, err := e.RemoveSnapshot(ctx, sub(), string(id)); err != nil && vm.AsError(err).Code != "SNAPSHOT_ALREADY_DELETED" {
			return 0, err
		}
	}
	if r.RevokeTokens {
		for _, t := range e.cfg.Access.TokensFor(job.VM) {
			if err := e.cfg.Access.RevokeToken(ctx, sub(), string(t.Identity), t.ID); err != nil && vm.KindOf(err) != vm.NotFound {
				return revoked, err
			}
			revoked++
		}
	}
	ref := string(job.VM)
	if r.LockVolumes && running {
		mounts, err := e.Mounts(ctx, c, ref)
		for i := 0; err == nil && i < len(mounts); i++ {
			err = e.Unmount(ctx, sub(), ref, mounts[i].Path, false)
		}
		if err != nil {
			return revoked, err
		}
	}
	switch {
	case r.Retention == vm.RetainNothing:
		_, err = e.Delete(ctx, sub(), ref)
		err = gone(err)
	case r.Retention == vm.RetainStop && running:
		_, err = e.Stop(ctx, sub(), ref)
	case r.Retention == vm.RetainStop && e.asleep(c, ref): // its memory goes
		_, err = e.Kill(ctx, sub(), ref)
	case r.Retention == vm.RetainSuspend:
		_, err = e.Suspend(ctx, sub(), ref, SuspendRequest{Cold: true})
	}
	if err == nil && r.LockVolumes {
		err = e.lockVolumes(ctx, c, job.VM)
	}
	return revoked, err
}

// asleep reports whether a VM is suspended.
func (e *Engine) asleep(c *vm.Call, ref string) bool {
	s, err := e.lookup(c, ref)
	return err == nil && e.recordOf(s).State == vm.Suspended
}

// lockVolumes locks what a VM worked in, but for what others work in now.
func (e *Engine) lockVolumes(ctx context.Context, c *vm.Call, id vm.ID) error {
	left, err := e.Remains(ctx, c, string(id))
	if err != nil {
		return err
	}
	for _, v := range left.Volumes {
		if !v.Unlocked || len(v.UsedBy) > 0 {
			continue
		}
		sub := &vm.Call{Actor: c.Actor, Request: c.Request}
		if _, err := e.cfg.Vault.LockVolume(ctx, sub, vault.Ref{Project: v.Project, Volume: string(v.ID)}, false); err != nil {
			return err
		}
	}
	return nil
}

// judge says how far each step is. What people have seen to in an earlier
// request stays so.
func (e *Engine) judge(job *vm.Job, r DoneRequest, revoked int) {
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
	e.judgeSnapshots(job, r, step)
	tokens := fmt.Sprintf("%d tokens of identities that reach it", len(e.cfg.Access.TokensFor(job.VM)))
	seen(vm.StepCredentials, r.Rotated, fmt.Sprintf("they were rotated; %d tokens were revoked here", revoked),
		"keys, tokens and passwords that code in the VM could reach may be known to it; Warren knows of "+tokens)
	step(vm.StepReceipts, vm.StepDone, "%d audit records are in the record of the job", len(left.Receipts))
	if left.State == "" {
		step(vm.StepLogs, vm.StepNone, "they went with the VM")
	} else {
		seen(vm.StepLogs, r.LogsReviewed, "they were read", "nobody has said that they were read; they may hold secrets that the guest printed")
	}
	step(vm.StepRemains, vm.StepDone, "%d snapshots, %d VMs made of it, %d files copied out", len(left.Snapshots), len(left.Forks), len(left.Copies))
}

// judgeVolumes closes the step of volumes when each that the VM worked in is
// locked, and that of mounts when the VM has none.
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

// judgeSnapshots closes the step when each that is left was said to have a
// purpose, now or before.
func (e *Engine) judgeSnapshots(job *vm.Job, r DoneRequest, step func(string, vm.StepState, string, ...any)) {
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

// Jobs lists the account's jobs that were said to be done, newest first.
func (e *Engine) Jobs(_ context.Context, c *vm.Call) ([]vm.Job, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, fail(vm.OpList, "", err)
	}
	all := e.tables.jobs.By(byAccount, string(c.Actor.Account))
	slices.SortFunc(all, func(a, b vm.Job) int { return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(a.VM, b.VM)) })
	return all, nil
}

// saveJob writes the record of a job, in bounds, and removes the oldest where an account
// has too many.
func (e *Engine) saveJob(ctx context.Context, job vm.Job) (vm.Job, error) {
	job = boundJob(job)
	_, err := e.tables.jobs.Change(ctx, job.VM, func(rec *vm.Job) error { *rec = job; return nil })
	if vm.KindOf(err) == vm.NotFound {
		err = e.tables.jobs.Create(ctx, job)
	}
	if err != nil {
		return job, err
	}
	return job, e.dropJobs(ctx, job.Account, jobsKept)
}

// dropJobs removes all records of an account's jobs but the newest.
func (e *Engine) dropJobs(ctx context.Context, account vm.AccountID, keep int) error {
	list, err := e.Jobs(ctx, &vm.Call{Actor: vm.Actor{Account: account}})
	if err != nil {
		return err
	}
	for _, old := range list[min(keep, len(list)):] {
		if err := e.tables.jobs.Drop(ctx, old.VM); err != nil {
			return err
		}
	}
	return nil
}
