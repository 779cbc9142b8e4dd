// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// The indexes of the tables.
const (
	byName        = "name" // of an account, or account and name of an identity
	byHash        = "hash"
	byAccount     = "account"
	byIdentity    = "identity"
	byFingerprint = "fingerprint"
	byVM          = "vm"
	byRepo        = "repo"
	byGrant       = "grant" // identity and what it was granted
)

type index[T any] = map[string]func(*T) []string

// pair is the index value for two ids, or an id and a name.
func pair[A, B ~string](a A, b B) string { return string(a) + "/" + string(b) }

// addTables makes the tables. The limits are far above any need, and low enough that one
// account cannot fill the store.
func (a *Access) addTables(l *ledger.Ledger) {
	a.accounts = ledger.Add(l, ledger.Kind[vm.AccountID, vm.Account]{
		Name: "accounts", Key: func(a *vm.Account) vm.AccountID { return a.ID },
		Index: index[vm.Account]{byName: func(a *vm.Account) []string { return []string{a.Name} }},
		Limit: ledger.Limit[vm.Account]{Most: 1000, Owner: func(*vm.Account) string { return "" }, What: "accounts", Then: "remove one (`warren account rm NAME`)"},
	})
	a.keys = ledger.Add(l, ledger.Kind[vm.KeyID, vm.APIKey]{
		Name: "keys", Key: func(k *vm.APIKey) vm.KeyID { return k.ID },
		Index: index[vm.APIKey]{
			byHash:    func(k *vm.APIKey) []string { return []string{k.Hash} },
			byAccount: func(k *vm.APIKey) []string { return []string{string(k.Account)} },
		},
		Limit:   ledger.Limit[vm.APIKey]{Most: 1000, Owner: func(k *vm.APIKey) string { return string(k.Account) }, What: "keys", Then: "revoke one (`warren key revoke ID`)"},
		Changed: func(_, _ *vm.APIKey) { a.pokeExpiry() },
	})
	a.identities = ledger.Add(l, ledger.Kind[vm.IdentityID, vm.Identity]{
		Name: "identities", Key: func(i *vm.Identity) vm.IdentityID { return i.ID },
		Index: index[vm.Identity]{
			byName: func(i *vm.Identity) []string {
				if i.Name == "" {
					return nil
				}
				return []string{pair(i.Account, i.Name)}
			},
			byAccount: func(i *vm.Identity) []string { return []string{string(i.Account)} },
		},
		Limit:   ledger.Limit[vm.Identity]{Most: 1000, Owner: func(i *vm.Identity) string { return string(i.Account) }, What: "identities", Then: "delete one (`warren identity rm NAME`)"},
		Changed: func(_, _ *vm.Identity) { a.pokeExpiry() },
	})
	a.tokens = ledger.Add(l, ledger.Kind[vm.TokenID, vm.IdentityToken]{
		Name: "tokens", Key: func(t *vm.IdentityToken) vm.TokenID { return t.ID },
		Index: index[vm.IdentityToken]{
			byHash:     func(t *vm.IdentityToken) []string { return []string{t.Hash} },
			byIdentity: func(t *vm.IdentityToken) []string { return []string{string(t.Identity)} },
		},
		Limit:   ledger.Limit[vm.IdentityToken]{Most: 1000, Owner: func(t *vm.IdentityToken) string { return string(t.Account) }, What: "tokens", Then: "revoke one (`warren token revoke IDENTITY ID`)"},
		Changed: func(_, _ *vm.IdentityToken) { a.pokeExpiry() },
	})
	a.sshKeys = ledger.Add(l, ledger.Kind[vm.SSHKeyID, vm.IdentityKey]{
		Name: "ssh-keys", Key: func(k *vm.IdentityKey) vm.SSHKeyID { return k.ID },
		Index: index[vm.IdentityKey]{
			byFingerprint: func(k *vm.IdentityKey) []string { return []string{k.Fingerprint} },
			byIdentity:    func(k *vm.IdentityKey) []string { return []string{string(k.Identity)} },
		},
		Limit:   ledger.Limit[vm.IdentityKey]{Most: 1000, Owner: func(k *vm.IdentityKey) string { return string(k.Account) }, What: "SSH keys", Then: "remove one (`warren identity key rm IDENTITY KEY`)"},
		Changed: func(_, _ *vm.IdentityKey) { a.pokeExpiry() },
	})
	a.addGrants(l)
}

func (a *Access) addGrants(l *ledger.Ledger) {
	a.grants = ledger.Add(l, ledger.Kind[string, vm.VMPermission]{
		Name: "vm-permissions", Key: func(p *vm.VMPermission) string { return p.ID },
		Host: func(p *vm.VMPermission) *string { return &p.Host },
		Index: index[vm.VMPermission]{
			byGrant:    func(p *vm.VMPermission) []string { return []string{pair(p.Identity, p.VM)} },
			byIdentity: func(p *vm.VMPermission) []string { return []string{string(p.Identity)} },
			byVM:       func(p *vm.VMPermission) []string { return []string{string(p.VM)} },
		},
		Limit:   ledger.Limit[vm.VMPermission]{Most: 10_000, Owner: func(p *vm.VMPermission) string { return string(p.Account) }, What: "permissions for VMs", Then: "revoke some (`warren identity revoke`)"},
		Changed: func(_, _ *vm.VMPermission) { a.pokeExpiry() },
	})
	a.repos = ledger.Add(l, ledger.Kind[string, vm.GitPermission]{
		Name: "git-permissions", Key: func(p *vm.GitPermission) string { return p.ID },
		Index: index[vm.GitPermission]{
			byGrant:    func(p *vm.GitPermission) []string { return []string{pair(p.Identity, p.Repo)} },
			byIdentity: func(p *vm.GitPermission) []string { return []string{string(p.Identity)} },
			byRepo:     func(p *vm.GitPermission) []string { return []string{p.Repo} },
		},
		Limit:   ledger.Limit[vm.GitPermission]{Most: 10_000, Owner: func(p *vm.GitPermission) string { return string(p.Account) }, What: "permissions for repositories", Then: "revoke some"},
		Changed: func(_, _ *vm.GitPermission) { a.pokeExpiry() },
	})
}

// first returns the one record with an index value.
func first[K ~string, T any](t *ledger.Table[K, T], index, value string) (rec T, ok bool) {
	if list := t.By(index, value); len(list) > 0 {
		return list[0], true
	}
	return rec, false
}

// dropAll removes records one after the other and stops at the first failure.
func dropAll[T any](ctx context.Context, list []T, drop func(context.Context, T) error) error {
	for _, rec := range list {
		if err := drop(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}
