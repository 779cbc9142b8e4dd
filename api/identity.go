// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// NewIdentity is the body of POST /identity/v1/identities; it may be absent.
type NewIdentity struct {
	Name string `json:"name,omitempty"`
}

// Identity is an identity as answers show it.
type Identity struct {
	ID        vm.IdentityID `json:"id"`
	Managed   bool          `json:"managed"` // never: no identity is made implicitly
	Name      string        `json:"name,omitempty"`
	CreatedAt time.Time     `json:"createdAt"`
}

// IdentityList is one page of identities.
type IdentityList struct {
	Identities []Identity `json:"identities"`
	Offset     int        `json:"offset"`
	Total      int        `json:"total"`
}

// NewToken is the body of POST …/tokens; it may be absent. A token without an
// expiry is valid until it is revoked.
type NewToken struct {
	ExpiresAt *time.Time              `json:"expiresAt,omitempty"`
	TTL       vm.Optional[vm.Seconds] `json:"ttlSeconds,omitzero"` // in place of ExpiresAt
}

// Token is a token as answers show it.
type Token struct {
	ID        vm.TokenID `json:"id"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	LastUsed  *time.Time `json:"lastUsed,omitempty"`
}

// CreatedToken is a new token with its secret, which is shown only here.
type CreatedToken struct {
	ID        vm.TokenID `json:"id"`
	Token     string     `json:"token"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// TokenList answers GET …/tokens.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// GrantVM is the body of POST and PUT …/permissions/vm/{vm}: null = any Linux
// user. A PUT without it leaves the users as they are.
type GrantVM struct {
	AllowedUsers vm.Optional[[]string] `json:"allowedUsers,omitzero"`
	// Ask are the rights of which each use waits for approval. A PUT without it leaves them
	// as they are; null and [] = none.
	Ask vm.Optional[[]vm.AskRight] `json:"ask,omitzero"`
}

// VMPermission is the permission of an identity for a VM.
type VMPermission struct {
	ID           string        `json:"id"`
	VMID         vm.ID         `json:"vmId"`
	IdentityID   vm.IdentityID `json:"identityId"`
	AllowedUsers *[]string     `json:"allowedUsers"`
	Ask          []vm.AskRight `json:"ask,omitempty"` // rights of which each use waits for approval
	GrantedAt    time.Time     `json:"grantedAt"`
	GrantedBy    string        `json:"grantedBy"` // the account
}

// VMPermissionList is one page of permissions.
type VMPermissionList struct {
	Permissions []VMPermission `json:"permissions"`
	Offset      int            `json:"offset"`
	Total       int            `json:"total"`
}

// GrantRepo is the body of POST and PUT …/permissions/git/{repo}.
type GrantRepo struct {
	Permission vm.GitAccess `json:"permission"`
	// Branches are patterns of the branches that it may push to, and of tags as
	// refs/tags/v*; none = agent/**.
	Branches []string `json:"branches,omitempty"`
}

// RepoPermission answers GET …/permissions/git/{repo}.
type RepoPermission struct {
	Identity    vm.IdentityID `json:"identity"`
	Repo        string        `json:"repo"`
	AccessLevel *vm.GitAccess `json:"accessLevel"`
}

// GrantedRepo is a repository that an identity may use.
type GrantedRepo struct {
	ID          string       `json:"id"`
	Name        string       `json:"name,omitempty"`
	AccountID   vm.AccountID `json:"accountId"`
	Permissions vm.GitAccess `json:"permissions"`
	Visibility  string       `json:"visibility"` // public, private
}

// GrantedRepoList answers GET …/permissions/git.
type GrantedRepoList struct {
	Repositories []GrantedRepo `json:"repositories"`
}

// NewSSHKey is the body of POST …/keys.
type NewSSHKey struct {
	Name         string `json:"name,omitempty"` // absent = the key's comment
	PublicKey    string `json:"publicKey"`      // one line of an authorized_keys file
	ForwardAgent bool   `json:"forwardAgent"`   // its sessions may use the client's SSH agent
}

// SSHKey is an SSH public key of an identity.
type SSHKey struct {
	ID           vm.SSHKeyID `json:"id"`
	Name         string      `json:"name"`
	PublicKey    string      `json:"publicKey"`
	Fingerprint  string      `json:"fingerprint"`
	ForwardAgent bool        `json:"forwardAgent"`
	CreatedAt    time.Time   `json:"createdAt"`
}

// SSHKeyList answers GET …/keys.
type SSHKeyList struct {
	Keys []SSHKey `json:"keys"`
}
