// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// Identity is a principal of an account that may use only the VMs granted to it.
type Identity struct {
	ID        IdentityID `json:"id"`
	Account   AccountID  `json:"account"`
	Name      string     `json:"name,omitempty"` // unique in the account; "" = none
	CreatedAt time.Time  `json:"createdAt"`
}

// IdentityToken is the record of a token, with which a program acts as an
// identity. Only the hash of the secret is stored.
type IdentityToken struct {
	ID        TokenID    `json:"id"`
	Identity  IdentityID `json:"identity"`
	Account   AccountID  `json:"account"`
	Hash      string     `json:"hash"` // hex SHA-256 of the secret, which has 248 random bits
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt time.Time  `json:"expiresAt,omitzero"` // zero = valid until it is revoked
	LastUsed  time.Time  `json:"lastUsed,omitzero"`
}

// IdentityKey is an SSH public key with which a person acts as an identity.
type IdentityKey struct {
	ID           SSHKeyID   `json:"id"`
	Identity     IdentityID `json:"identity"`
	Account      AccountID  `json:"account"`
	Name         string     `json:"name"`         // unique in the identity
	Line         string     `json:"publicKey"`    // in the format of authorized_keys: type, key, comment
	Fingerprint  string     `json:"fingerprint"`  // "SHA256:..."
	ForwardAgent bool       `json:"forwardAgent"` // its sessions may use the client's SSH agent
	CreatedAt    time.Time  `json:"createdAt"`
}

// VMPermission grants an identity the use of a VM.
type VMPermission struct {
	ID       string     `json:"id"`
	Identity IdentityID `json:"identityId"`
	Account  AccountID  `json:"account"`
	VM       ID         `json:"vmId"`
	// AllowedUsers are the Linux users that it may act as; nil = any.
	AllowedUsers []string `json:"allowedUsers"`
	// Ask are the rights that depend on approval: each use waits for a decision.
	Ask       []AskRight `json:"ask,omitempty"`
	GrantedAt time.Time  `json:"grantedAt"`
	GrantedBy string     `json:"grantedBy"`      // the account
	Host      string     `json:"host,omitempty"` // id of the server that its VM belongs to; "" = written by an older warren
}

// Digest names a permission by its content: 64 hex digits, the SHA-256 of its JSON.
func (p VMPermission) Digest() string {
	data, err := json.Marshal(p)
	if err != nil {
		return "" // it has only types that JSON can write
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Allows reports whether the permission is for a Linux user; "" = root.
func (p VMPermission) Allows(user string) bool {
	if user == "" {
		user = "root"
	}
	return p.AllowedUsers == nil || slices.Contains(p.AllowedUsers, user)
}

// GitAccess is an identity's access to a repository.
type GitAccess string

// The accesses to a repository.
const (
	GitRead  GitAccess = "read"
	GitWrite GitAccess = "write" // includes read
)

// GitPermission grants an identity the use of a repository.
type GitPermission struct {
	ID       string     `json:"id"`
	Identity IdentityID `json:"identityId"`
	Account  AccountID  `json:"account"`
	Repo     string     `json:"repo"`
	Access   GitAccess  `json:"access"`
	// Branches are patterns of the branches that it may push to, and of tags as
	// "refs/tags/..."; none = AgentBranches. See MatchBranch.
	Branches  []string  `json:"branches,omitempty"`
	GrantedAt time.Time `json:"grantedAt"`
}

// Expired reports whether the token's time has passed.
func (t IdentityToken) Expired(now time.Time) bool {
	return !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}
