// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"math"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

func (s *server) identityRoutes() []route {
	const base = "/identity/v1/identities"
	const one = base + "/{identity}"
	return []route{
		{"POST", base, key, s.createIdentity, "Make an identity, which has no rights yet.", api.NewIdentity{}, api.Identity{}, false, ""},
		{"GET", base, key, s.identities, "Identities of the account, oldest first.", nil, api.IdentityList{}, false, "limit offset includeManaged"},
		{"DELETE", one, key, s.deleteIdentity, "Delete an identity with its tokens, keys and permissions; its connections are closed.", nil, okBody{}, false, ""},
		{"POST", one + "/tokens", key, s.createToken, "Make a token, shown once.", api.NewToken{}, api.CreatedToken{}, false, ""},
		{"GET", one + "/tokens", key, s.tokens, "Tokens of an identity, without their secrets.", nil, api.TokenList{}, false, ""},
		{"DELETE", one + "/tokens/{token}", key, s.revokeToken, "Revoke a token at once.", nil, okBody{}, false, ""},
		{"POST", one + "/permissions/vm/{vm}", key, s.grantVM, "Let an identity use a VM; allowedUsers null: as any Linux user.", api.GrantVM{}, api.VMPermission{}, false, ""},
		{"PUT", one + "/permissions/vm/{vm}", key, s.changeGrant, "Replace the Linux users of a permission; absent: no change.", api.GrantVM{}, api.VMPermission{}, false, ""},
		{"GET", one + "/permissions/vm/{vm}", key, s.vmPermission, "An identity's permission for a VM.", nil, api.VMPermission{}, false, ""},
		{"DELETE", one + "/permissions/vm/{vm}", key, s.revokeVM, "Remove a permission; connections that use it are closed.", nil, okBody{}, false, ""},
		{"GET", one + "/permissions/vm", key, s.vmPermissions, "An identity's permissions for VMs, oldest first.", nil, api.VMPermissionList{}, false, "limit offset"},
		{"POST", one + "/permissions/git/{repo}", key, s.grantRepo(false), "Let an identity read, or read and write, a repository.", api.GrantRepo{}, okBody{}, false, ""},
		{"PUT", one + "/permissions/git/{repo}", key, s.grantRepo(true), "Change what an identity may do with a repository.", api.GrantRepo{}, okBody{}, false, ""},
		{"GET", one + "/permissions/git/{repo}", key, s.repoPermission, "What an identity may do with a repository; null: nothing.", nil, api.RepoPermission{}, false, ""},
		{"DELETE", one + "/permissions/git/{repo}", key, s.revokeRepo, "Remove a permission for a repository.", nil, okBody{}, false, ""},
		{"GET", one + "/permissions/git", key, s.repoPermissions, "Repositories that an identity may use.", nil, api.GrantedRepoList{}, false, "limit offset"},
		{"POST", one + "/keys", key, s.addSSHKey, "Let the holder of an SSH key act as an identity.", api.NewSSHKey{}, api.SSHKey{}, false, ""},
		{"GET", one + "/keys", key, s.sshKeys, "SSH keys of an identity.", nil, api.SSHKeyList{}, false, ""},
		{"DELETE", one + "/keys/{key}", key, s.removeSSHKey, "Remove an SSH key, named by id, name or fingerprint; connections that use it are closed.", nil, okBody{}, false, ""},
	}
}

// identity is the identity in the path, by id or name.
func (q *request) identity() string { return q.values["identity"] }

// page reads limit and offset.
func (q *request) page() (access.Page, error) {
	limit, err := q.int("limit", 0)
	if err != nil {
		return access.Page{}, err
	}
	offset, err := q.int("offset", 0)
	return access.Page{Limit: int(min(limit, math.MaxInt32)), Offset: int(min(offset, math.MaxInt32))}, err
}

func shownIdentity(i vm.Identity) api.Identity {
	return api.Identity{ID: i.ID, Name: i.Name, CreatedAt: i.CreatedAt}
}

func (s *server) createIdentity(q *request) error {
	var in api.NewIdentity
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	i, err := s.Access.CreateIdentity(q.Context(), q.call, in.Name)
	if err != nil {
		return err
	}
	return q.ok(shownIdentity(i))
}

func (s *server) identities(q *request) error {
	p, err := q.page()
	if err != nil {
		return err
	}
	list, total, err := s.Access.Identities(q.Context(), q.call, p)
	if err != nil {
		return err
	}
	out := api.IdentityList{Identities: []api.Identity{}, Offset: p.Offset, Total: total}
	for _, i := range list {
		out.Identities = append(out.Identities, shownIdentity(i))
	}
	return q.ok(out)
}

func (s *server) deleteIdentity(q *request) error {
	if _, err := s.Access.DeleteIdentity(q.Context(), q.call, q.identity()); err != nil {
		return err
	}
	return q.ok(okBody{})
}

// moment returns nil for a zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (s *server) createToken(q *request) error {
	var in api.NewToken
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	var r access.TokenRequest
	if in.TTL.Set && !in.TTL.Null {
		r.TTL = &in.TTL.Value
	}
	if in.ExpiresAt != nil {
		r.ExpiresAt = *in.ExpiresAt
	}
	t, secret, err := s.Access.CreateToken(q.Context(), q.call, q.identity(), r)
	if err != nil {
		return err
	}
	return q.ok(api.CreatedToken{ID: t.ID, Token: secret, ExpiresAt: moment(t.ExpiresAt)})
}

func (s *server) tokens(q *request) error {
	list, err := s.Access.Tokens(q.Context(), q.call, q.identity())
	if err != nil {
		return err
	}
	out := api.TokenList{Tokens: []api.Token{}}
	for _, t := range list {
		out.Tokens = append(out.Tokens, api.Token{ID: t.ID, CreatedAt: t.CreatedAt, ExpiresAt: moment(t.ExpiresAt), LastUsed: moment(t.LastUsed)})
	}
	return q.ok(out)
}

func (s *server) revokeToken(q *request) error {
	if err := s.Access.RevokeToken(q.Context(), q.call, q.identity(), vm.TokenID(q.values["token"])); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func shownPermission(p vm.VMPermission) api.VMPermission {
	out := api.VMPermission{ID: p.ID, VMID: p.VM, IdentityID: p.Identity, Ask: p.Ask, GrantedAt: p.GrantedAt, GrantedBy: p.GrantedBy}
	if p.AllowedUsers != nil {
		out.AllowedUsers = &p.AllowedUsers
	}
	return out
}

func (s *server) grantVM(q *request) error {
	var in api.GrantVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	p, err := s.Access.GrantVM(q.Context(), q.call, q.identity(), q.ref(), in.AllowedUsers.Value, in.Ask.Value...)
	if err != nil {
		return err
	}
	return q.ok(shownPermission(p))
}

func (s *server) changeGrant(q *request) error {
	var in api.GrantVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	var users *[]string // nil = no change
	if in.AllowedUsers.Set {
		users = &in.AllowedUsers.Value
	}
	var ask *[]vm.AskRight
	if in.Ask.Set {
		ask = &in.Ask.Value
	}
	p, err := s.Access.ChangeGrant(q.Context(), q.call, q.identity(), q.ref(), users, ask)
	if err != nil {
		return err
	}
	return q.ok(shownPermission(p))
}

func (s *server) vmPermission(q *request) error {
	p, err := s.Access.VMPermission(q.Context(), q.call, q.identity(), q.ref())
	if err != nil {
		return err
	}
	return q.ok(shownPermission(p))
}

func (s *server) revokeVM(q *request) error {
	if err := s.Access.RevokeVM(q.Context(), q.call, q.identity(), q.ref()); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) vmPermissions(q *request) error {
	p, err := q.page()
	if err != nil {
		return err
	}
	list, total, err := s.Access.VMPermissions(q.Context(), q.call, q.identity(), p)
	if err != nil {
		return err
	}
	out := api.VMPermissionList{Permissions: []api.VMPermission{}, Offset: p.Offset, Total: total}
	for _, one := range list {
		out.Permissions = append(out.Permissions, shownPermission(one))
	}
	return q.ok(out)
}

// grantRepo handles the grant of a repository, or the change of one.
func (s *server) grantRepo(change bool) func(*request) error {
	return func(q *request) error {
		var in api.GrantRepo
		if err := q.decode(&in, maxBody); err != nil {
			return err
		}
		if err := s.Access.GrantRepo(q.Context(), q.call, q.identity(), q.values["repo"], in.Permission, change, in.Branches...); err != nil {
			return err
		}
		return q.ok(okBody{})
	}
}

func (s *server) repoPermission(q *request) error {
	p, err := s.Access.RepoAccess(q.Context(), q.call, q.identity(), q.values["repo"])
	if err != nil {
		return err
	}
	out := api.RepoPermission{Identity: p.Identity, Repo: p.Repo}
	if p.Access != "" {
		out.AccessLevel = &p.Access
	}
	return q.ok(out)
}

func (s *server) revokeRepo(q *request) error {
	if err := s.Access.RevokeRepo(q.Context(), q.call, q.identity(), q.values["repo"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) repoPermissions(q *request) error {
	p, err := q.page()
	if err != nil {
		return err
	}
	list, err := s.Access.RepoPermissions(q.Context(), q.call, q.identity(), p)
	if err != nil {
		return err
	}
	out := api.GrantedRepoList{Repositories: []api.GrantedRepo{}}
	for _, one := range list {
		r := api.GrantedRepo{ID: one.Repo, Name: one.Repository.Name, AccountID: one.Repository.Account, Permissions: one.Access, Visibility: "private"}
		if one.Repository.Public {
			r.Visibility = "public"
		}
		out.Repositories = append(out.Repositories, r)
	}
	return q.ok(out)
}

func shownSSHKey(k vm.IdentityKey) api.SSHKey {
	return api.SSHKey{ID: k.ID, Name: k.Name, PublicKey: k.Line, Fingerprint: k.Fingerprint, ForwardAgent: k.ForwardAgent, CreatedAt: k.CreatedAt}
}

func (s *server) addSSHKey(q *request) error {
	var in api.NewSSHKey
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	k, err := s.Access.AddSSHKey(q.Context(), q.call, q.identity(), in.Name, in.PublicKey, in.ForwardAgent)
	if err != nil {
		return err
	}
	return q.ok(shownSSHKey(k))
}

func (s *server) sshKeys(q *request) error {
	list, err := s.Access.SSHKeys(q.Context(), q.call, q.identity())
	if err != nil {
		return err
	}
	out := api.SSHKeyList{Keys: []api.SSHKey{}}
	for _, k := range list {
		out.Keys = append(out.Keys, shownSSHKey(k))
	}
	return q.ok(out)
}

func (s *server) removeSSHKey(q *request) error {
	if err := s.Access.RemoveSSHKey(q.Context(), q.call, q.identity(), q.values["key"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}
