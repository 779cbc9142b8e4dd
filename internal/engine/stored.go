// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// StoredRecords returns the records that a store holds.
func StoredRecords(s *store.Store) Records {
	return Records{
		Accounts: store.NewCollection(s, "accounts", func(a *vm.Account) (string, *int64) { return string(a.ID), &a.Revision }),
		Keys:     store.NewCollection(s, "keys", func(k *vm.APIKey) (string, *int64) { return string(k.ID), &k.Revision }),
		Jobs:     store.NewCollection(s, "jobs", func(j *vm.Job) (string, *int64) { return string(j.VM), &j.Revision }),

		Identities:     store.NewCollection(s, "identities", func(i *vm.Identity) (string, *int64) { return string(i.ID), &i.Revision }),
		Tokens:         store.NewCollection(s, "tokens", func(t *vm.IdentityToken) (string, *int64) { return string(t.ID), &t.Revision }),
		SSHKeys:        store.NewCollection(s, "ssh-keys", func(k *vm.IdentityKey) (string, *int64) { return string(k.ID), &k.Revision }),
		VMPermissions:  store.NewCollection(s, "vm-permissions", func(p *vm.VMPermission) (string, *int64) { return p.ID, &p.Revision }),
		GitPermissions: store.NewCollection(s, "git-permissions", func(p *vm.GitPermission) (string, *int64) { return p.ID, &p.Revision }),
	}
}
