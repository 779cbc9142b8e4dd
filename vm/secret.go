// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"
)

// Secret is a value that the host puts into requests of VMs. No VM ever holds it.
type Secret struct {
	ID      string    `json:"id"` // a UUID
	Name    string    `json:"name"`
	Account AccountID `json:"account"`
	On      string    `json:"on"`     // the host whose key seals it
	Host    string    `json:"host"`   // the one server that gets it: exact, lower case
	Port    int       `json:"port"`   // TCP, with TLS
	Header  string    `json:"header"` // the one header, in canonical form
	// Methods are the HTTP methods in upper case, and Paths the patterns of the paths, of
	// the requests that get it; none = all.
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Env     string   `json:"env"` // environment variable in the guest that holds the placeholder
	OAuth   *OAuth   `json:"oauth,omitempty"`
	// RotateURL is that of the rotator, which gives new values; "" = none.
	RotateURL string `json:"rotateUrl,omitempty"`
	// Prefix and Shape are what the placeholders of VMs look like: Shape is a random one.
	Prefix    string    `json:"prefix,omitempty"`
	Shape     string    `json:"shape"`
	Sealed    []byte    `json:"sealed"` // the value, under the host's key
	CreatedAt time.Time `json:"createdAt"`
	RotatedAt time.Time `json:"rotatedAt,omitzero"` // when its value was last replaced
}

// OAuth says that a secret's value is a refresh token, and where access tokens come from.
type OAuth struct {
	TokenURL string `json:"tokenUrl"`
	ClientID string `json:"clientId"`
	Scope    string `json:"scope,omitempty"`
	Sealed   []byte `json:"sealed,omitempty"` // the client's secret, under the host's key; none = a public client
	// RevokeURL is where a replaced refresh token is revoked (RFC 7009); "" = nowhere. Replaced
	// is one that still has to be, under the host's key.
	RevokeURL string `json:"revokeUrl,omitempty"`
	Replaced  []byte `json:"replaced,omitempty"`
}

// The ways in which Warren can rotate a secret: give it a new value at its service.
const (
	RotatesByOAuth   = "oauth"   // a refresh gives another refresh token
	RotatesByRotator = "rotator" // the rotator gives another value
)

// RotatesBy is the way in which Warren can rotate the secret; "" = it cannot.
func (s Secret) RotatesBy() string {
	switch {
	case s.OAuth != nil:
		return RotatesByOAuth
	case s.RotateURL != "":
		return RotatesByRotator
	}
	return ""
}

// Rotation asks to rotate a secret.
type Rotation struct {
	Name   string
	ID     string // of the secret; "" = whichever has the name
	VM     ID     // whose job has ended; "" = none
	Reason string // for the audit record and the rotator
}

// Use is the use of the secret by a VM that holds the placeholder.
func (s Secret) Use(placeholder string) SecretUse {
	return SecretUse{
		ID: s.ID, Name: s.Name, Env: s.Env, Placeholder: placeholder, Prefix: s.Prefix,
		Host: s.Host, Port: s.Port, Header: s.Header, Methods: slices.Clone(s.Methods), Paths: slices.Clone(s.Paths),
	}
}

// Holds reports whether a placeholder is the VM's own for this use, or inherited.
func (u SecretUse) Holds(placeholder string) bool {
	return placeholder != "" && (u.Placeholder == placeholder || slices.Contains(u.Inherited, placeholder))
}

// Placeholders returns all that the programs of the VM may hold.
func (u SecretUse) Placeholders() []string { return append([]string{u.Placeholder}, u.Inherited...) }

// maxInherited bounds the placeholders of ancestors that still work.
const maxInherited = 8

// ForChild returns the uses for a fork: each has a new placeholder. The parent's still work
// in the child, for the programs that were running.
func ForChild(uses []SecretUse) []SecretUse {
	var out []SecretUse
	for _, u := range uses {
		old := append(slices.Clone(u.Inherited), u.Placeholder)
		u.Inherited = old[max(0, len(old)-maxInherited):]
		u.Placeholder = PlaceholderLike(u.Placeholder, u.Prefix)
		out = append(out, u)
	}
	return out
}

// The sizes of a placeholder's random part.
const (
	minPlaceholder = 24 // so that it never occurs by chance
	minRest        = 16 // what must follow a prefix
)

// knownPrefixes begin tokens of well-known services and tell only their kind. Longer ones
// come before those that begin like them. No other beginning of a value is shown to a guest:
// it may be a part of the secret.
var knownPrefixes = []string{
	"sk-ant-api03-", "sk-ant-oat01-", "sk-ant-", "sk-proj-", "sk-svcacct-", "sk-or-v1-", "sk-",
	"sk_live_", "sk_test_", "rk_live_", "rk_test_", "github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
	"glpat-", "npm_", "pypi-", "hf_", "gsk_", "xoxb-", "xoxp-", "xapp-", "dop_v1_", "shpat_",
}

// PlaceholderPrefix returns the beginning of a secret's value that tells its kind and no
// secret, such as "sk-ant-api03-" and "ghp_"; "" if it is not well known, or where the rest
// would be short.
func PlaceholderPrefix(value string) string {
	for _, p := range knownPrefixes {
		if strings.HasPrefix(value, p) && len(value)-len(p) >= minRest {
			return p
		}
	}
	return ""
}

// PlaceholderLike returns a random text with a prefix, the length of like, and its kinds of
// characters: a placeholder tells no character of the value but the prefix.
func PlaceholderLike(like, prefix string) string {
	rest := strings.TrimPrefix(like, prefix)
	alphabet := alphabetOf(rest)
	out := make([]byte, 0, max(len(like), len(prefix)+minPlaceholder))
	out = append(out, prefix...)
	var b [1]byte
	for i := 0; len(out) < cap(out); i++ {
		if i < len(rest) && rest[i] == '.' { // as in a JSON Web Token
			out = append(out, '.')
			continue
		}
		for {
			_, _ = rand.Read(b[:]) // never fails
			if int(b[0]) < 256/len(alphabet)*len(alphabet) {
				break
			}
		}
		out = append(out, alphabet[int(b[0])%len(alphabet)])
	}
	return string(out)
}

// alphabetOf returns the kinds of characters of a value: hex digits, letters of one or both
// cases and digits, and "-" and "_" where it has one of them.
func alphabetOf(value string) string {
	const digits, lower, upper = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	has := func(set string) bool { return strings.ContainsAny(value, set) }
	switch {
	case value == "":
		return digits + lower
	case strings.Trim(value, digits+"abcdef") == "":
		return digits + "abcdef"
	case strings.Trim(value, digits+"ABCDEF") == "":
		return digits + "ABCDEF"
	}
	out := digits
	if has(lower) || !has(upper) {
		out += lower
	}
	if has(upper) {
		out += upper
	}
	if has("-_") {
		out += "-_"
	}
	return out
}
