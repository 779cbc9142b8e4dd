// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"context"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// DoneRequest says what is decided about a VM whose job is done, and what people
// have checked. A step that it leaves open stays open in the record; a later request
// continues from there.
type DoneRequest struct {
	Label         string
	Retention     string          // vm.RetainStop, ...; "" = leave the VM as it is
	DropSnapshots []vm.SnapshotID // of the VM, to be deleted
	KeepSnapshots bool            // the other snapshots have a purpose
	LockVolumes   bool            // unmount the VM's volumes and directories of the host; lock the volumes that no other VM uses
	RevokeTokens  bool            // of the identities that were granted the VM
	Rotate        bool            // rotate the secrets that the VM could use, where Warren can
	Rotated       bool            // the credentials that generated code could reach are no longer valid
	LogsReviewed  bool
	Ship          *vm.ObjectRef // where to store logs and record: a bucket and a prefix; nil = nowhere
}

// Done ends the job of a VM: it carries out the decided steps, says which ones are
// open, and stores that with the ids of the audit records. ref is the VM's name or
// id, or the id of a VM that is gone. When a step fails, Done returns its error; the
// steps before it stay done. It blocks as long as the VM's stop, suspend or delete.
// Kinds Denied for an identity, NotFound, Invalid, and those of the steps.
func (j *Job) Done(ctx context.Context, c *vm.Call, ref string, r DoneRequest) (job vm.Job, err error) {
	defer func() { err = vm.WithOp(vm.OpDone, ref, err) }()
	job, running, err := j.find(c, ref)
	if err != nil {
		return job, err
	}
	if err := j.check(ctx, c, job, r); err != nil {
		return job, err
	}
	rcpt, err := j.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpDone, VM: job.VM, Subject: vm.Clip(r.Label, vm.MaxReason), Detail: map[string]any{"retention": r.Retention}})
	if err != nil {
		return job, err
	}
	defer func() { rcpt.End(err, map[string]any{"complete": job.Complete, "shipped": len(job.Shipped)}) }()
	if err := j.shipLogs(ctx, c, &job, r.Ship); err != nil { // before the VM is gone
		return job, err
	}
	if r.Retention == vm.RetainNothing { // so that a later request finds the VM if this one is cut off
		if job.Remains, err = j.Remains(ctx, c, string(job.VM)); err == nil {
			job.Ended = j.cfg.Now().UTC()
			_, err = j.save(ctx, job)
		}
		if err != nil {
			return job, err
		}
	}
	revoked, err := j.finish(ctx, c, job, running, r)
	if err != nil {
		return job, err
	}
	if job.Remains, err = j.Remains(ctx, c, string(job.VM)); err != nil {
		return job, err
	}
	if r.Rotate { // the VM, if it was ended, can use no new value
		j.rotate(ctx, c, &job)
	}
	job.Label, job.Ended, job.Retention = cmp.Or(r.Label, job.Label), j.cfg.Now().UTC(), cmp.Or(r.Retention, job.Retention)
	judge(&job, r, revoked, len(j.cfg.Access.TokensFor(job.VM)))
	if err := j.shipRecord(ctx, c, &job, r.Ship); err != nil {
		return job, err
	}
	return j.save(ctx, job)
}

// find returns the record of a VM's job, as it was stored or new. A VM that is gone
// is found by its id, if its job has a record.
func (j *Job) find(c *vm.Call, ref string) (job vm.Job, running bool, err error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return job, false, err
	}
	rec, missing := j.cfg.Engine.Find(c.Actor, ref)
	id := rec.ID
	if missing != nil {
		id = vm.ID(ref)
	}
	if stored, ok := j.table.Get(id); ok && stored.Account == c.Actor.Account {
		job = stored
	} else if missing != nil {
		return job, false, missing
	}
	if missing != nil {
		return job, false, nil
	}
	job.VM, job.Account, job.Name, job.Started = rec.ID, rec.Account, rec.Name, rec.CreatedAt
	if rec.StartedAt.After(job.Ended) { // the VM was used again: earlier checks are out of date
		job.Steps, job.Retention, job.KeptSnapshots, job.Shipped, job.CredentialsConfirmed = nil, "", nil, nil, false
	}
	return job, rec.State == vm.Running, nil
}

// check refuses a request that cannot be carried out, before anything is done.
func (j *Job) check(ctx context.Context, c *vm.Call, job vm.Job, r DoneRequest) error {
	switch r.Retention {
	case "", vm.RetainStop, vm.RetainSuspend, vm.RetainNothing:
	default:
		return vm.Errorf(vm.Invalid, r.Retention, "not a decision about a VM").WithCode("INVALID_REQUEST").
			WithHint("use %s, %s or %s", vm.RetainStop, vm.RetainSuspend, vm.RetainNothing)
	}
	if len(r.Label) > vm.MaxReason {
		return vm.Errorf(vm.Invalid, "label", "it is longer than %d bytes", vm.MaxReason).WithCode("INVALID_REQUEST")
	}
	if r.Ship != nil {
		if j.cfg.Ship == nil {
			return vm.Errorf(vm.Unsupported, "", "this server has no object storage").WithHint("omit --ship")
		}
		if err := j.cfg.Ship.MayStore(c, job, *r.Ship); err != nil {
			return err
		}
	}
	for _, id := range r.DropSnapshots {
		g, err := j.cfg.Engine.FindSnapshot(ctx, c, string(id))
		if err != nil {
			refusal := *vm.AsError(err)
			refusal.Op = vm.OpDone // the verb that the caller asked for
			return &refusal
		}
		if g.VM != job.VM {
			return vm.Errorf(vm.Invalid, string(id), "it is not a snapshot of this VM").WithCode("INVALID_REQUEST").
				WithHint("`warren snapshot rm %s` deletes it anyway", id)
		}
	}
	return nil
}

// finish carries out the decided steps. Each is an action with its own audit record.
// It returns how many tokens were revoked.
func (j *Job) finish(ctx context.Context, c *vm.Call, job vm.Job, running bool, r DoneRequest) (revoked int, err error) {
	e := j.cfg.Engine
	for _, id := range r.DropSnapshots {
		if _, err := e.RemoveSnapshot(ctx, again(c), string(id)); err != nil && vm.AsError(err).Code != "SNAPSHOT_ALREADY_DELETED" {
			return 0, err
		}
	}
	if r.RevokeTokens {
		for _, t := range j.cfg.Access.TokensFor(job.VM) {
			if err := j.cfg.Access.RevokeToken(ctx, again(c), string(t.Identity), t.ID); err != nil && vm.KindOf(err) != vm.NotFound {
				return revoked, err
			}
			revoked++
		}
	}
	ref := string(job.VM)
	if r.LockVolumes && running {
		mounts, err := e.Mounts(ctx, c, ref)
		for i := 0; err == nil && i < len(mounts); i++ {
			err = e.Unmount(ctx, again(c), ref, mounts[i].Path, false)
		}
		if err != nil {
			return revoked, err
		}
	}
	switch {
	case r.Retention == vm.RetainNothing:
		if _, err = e.Delete(ctx, again(c), ref); vm.KindOf(err) == vm.NotFound {
			err = nil
		}
	case r.Retention == vm.RetainStop && running:
		_, err = e.Stop(ctx, again(c), ref)
	case r.Retention == vm.RetainStop && j.suspended(c, ref): // discards its memory
		_, err = e.Kill(ctx, again(c), ref)
	case r.Retention == vm.RetainSuspend:
		_, err = e.Suspend(ctx, again(c), ref, engine.SuspendRequest{Cold: true})
	}
	if err == nil && r.LockVolumes {
		err = j.lockVolumes(ctx, c, job.VM)
	}
	return revoked, err
}

// again returns the call for one more action, which gets a receipt of its own.
func again(c *vm.Call) *vm.Call { return &vm.Call{Actor: c.Actor, Request: c.Request} }

func (j *Job) suspended(c *vm.Call, ref string) bool {
	rec, err := j.cfg.Engine.Find(c.Actor, ref)
	return err == nil && rec.State == vm.Suspended
}

// lockVolumes locks the volumes that a VM worked in, except those that other VMs use.
func (j *Job) lockVolumes(ctx context.Context, c *vm.Call, id vm.ID) error {
	left, err := j.Remains(ctx, c, string(id))
	if err != nil {
		return err
	}
	for _, v := range left.Volumes {
		if !v.Unlocked || len(v.UsedBy) > 0 {
			continue
		}
		if _, err := j.cfg.Vault.LockVolume(ctx, again(c), vault.Ref{Project: v.Project, Volume: string(v.ID)}, false); err != nil {
			return err
		}
	}
	return nil
}
