// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const maxCredentials = 100 // of one VM in a record

// credentials lists the secrets that a VM could ever use: those of its policy, those that its
// audit records name, and those in the record of its job.
func (j *Job) credentials(a vm.AccountID, id vm.ID, policy vm.NetworkPolicy, records []vm.AuditRecord) []vm.Credential {
	list := used(policy, records)
	if stored, ok := j.table.Get(id); ok && stored.Account == a {
		for _, was := range stored.Remains.Credentials {
			was.Granted = false // or the policy has it
			if c := find(&list, was.ID, was.Name, was); c.RotatedAt.IsZero() {
				c.NotRotated = was.NotRotated
			}
		}
	}
	for i := range list {
		c := &list[i]
		rec, users, ok := j.cfg.Secrets.Lookup(a, vm.Rotation{Name: c.Name, ID: c.ID})
		users = slices.DeleteFunc(users, func(v vm.VM) bool { return v.ID == id })
		c.Removed, c.RotatesBy, c.Others = !ok, rec.RotatesBy(), len(users)
	}
	slices.SortFunc(list, func(a, b vm.Credential) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return list[:min(len(list), maxCredentials)]
}

// find returns the credential of a secret in a list, or adds one. Old records have no id.
func find(list *[]vm.Credential, id, name string, add vm.Credential) *vm.Credential {
	i := slices.IndexFunc(*list, func(c vm.Credential) bool {
		return c.Name == name && (c.ID == id || c.ID == "" || id == "")
	})
	if i < 0 {
		i, *list = len(*list), append(*list, add)
	}
	c := &(*list)[i]
	c.ID = cmp.Or(c.ID, id)
	return c
}

// used lists the secrets of a policy, and those that audit records, the newest first, name.
func used(policy vm.NetworkPolicy, records []vm.AuditRecord) (list []vm.Credential) {
	for _, u := range policy.Secrets {
		list = append(list, vm.Credential{ID: u.ID, Name: u.Name, Host: u.Host, Granted: true})
	}
	for _, r := range records {
		if r.Op != vm.OpSecretUse && r.Op != vm.OpSecretGrant && r.Op != vm.OpSecretRotate || r.Outcome != "ok" {
			continue
		}
		id, _ := r.Detail["id"].(string)
		c := find(&list, id, r.Subject, vm.Credential{Name: r.Subject})
		host, _ := r.Detail["host"].(string)
		c.Host = cmp.Or(c.Host, host)
		switch {
		case r.Op == vm.OpSecretUse:
			if c.Uses++; r.Time.After(c.LastUse) {
				c.LastUse = r.Time
			}
		case r.Op == vm.OpSecretRotate && c.Uses == 0 && c.RotatedAt.IsZero(): // no use is newer
			c.RotatedAt = r.Time
		}
	}
	return list
}

// rotate gives the secrets that a VM could use new values, except those that were rotated
// after their last use, and notes which failed.
func (j *Job) rotate(ctx context.Context, c *vm.Call, job *vm.Job) {
	for i := range job.Remains.Credentials {
		k := &job.Remains.Credentials[i]
		if k.RotatesBy == "" || !k.RotatedAt.IsZero() {
			continue
		}
		rec, err := j.cfg.Secrets.Rotate(ctx, again(c), vm.Rotation{Name: k.Name, ID: k.ID, VM: job.VM, Reason: "done"})
		if err != nil {
			why := vm.AsError(j.cfg.Journal.Conceal(err))
			k.NotRotated = vm.Clip(cmp.Or(why.Msg, why.Error()), maxText)
			continue
		}
		k.RotatedAt, k.NotRotated = rec.RotatedAt, ""
	}
}
