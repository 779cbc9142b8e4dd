// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// SetSecret asks to keep a secret, or to replace the value of one. Only the name and the value
// are needed to replace.
type SetSecret struct {
	Name    string   `json:"name"`
	Host    string   `json:"host,omitempty"`
	Port    int      `json:"port,omitempty"` // 0 = 443
	Header  string   `json:"header,omitempty"`
	Methods []string `json:"methods,omitempty"` // none = all
	Paths   []string `json:"paths,omitempty"`   // patterns; none = all
	Env     string   `json:"env,omitempty"`     // "" = the name in upper case
	Value   string   `json:"value"`             // never shown again; for OAuth the refresh token
	OAuth   *OAuth   `json:"oauth,omitempty"`
	// RotateURL is that of a rotator, which gives new values.
	RotateURL string `json:"rotateUrl,omitempty"`
}

// String hides the values from logs.
func (s SetSecret) String() string { return "api.SetSecret " + s.Name }

// OAuth says where access tokens come from.
type OAuth struct {
	TokenURL     string `json:"tokenUrl"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret,omitempty"` // never shown
	Scope        string `json:"scope,omitempty"`
	RevokeURL    string `json:"revokeUrl,omitempty"` // where a replaced refresh token is revoked, as RFC 7009 says
}

// String hides the client's secret from logs.
func (o OAuth) String() string { return "api.OAuth " + o.ClientID }

// Secret is a secret without its value.
type Secret struct {
	Name      string     `json:"name"`
	Host      string     `json:"host"`
	Port      int        `json:"port"`
	Header    string     `json:"header"`
	Methods   []string   `json:"methods,omitempty"`
	Paths     []string   `json:"paths,omitempty"`
	Env       string     `json:"env"`
	OAuth     *OAuth     `json:"oauth,omitempty"`
	RotateURL string     `json:"rotateUrl,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
	RotatedAt *time.Time `json:"rotatedAt,omitempty"` // when its value was last replaced
	// Replaced says that the request gave an existing secret a new value.
	Replaced bool `json:"replaced,omitempty"`
	// VMs may use it; only in the answer about one secret.
	VMs []SecretVM `json:"vms,omitempty"`
}

// SecretVM is a VM that may use a secret.
type SecretVM struct {
	ID          vm.ID  `json:"id"`
	Name        string `json:"name,omitempty"`
	Placeholder string `json:"placeholder"` // what its programs hold
	// Reachable says whether the VM's network policy allows the secret's host.
	Reachable bool `json:"reachable"`
}

// SecretList answers GET /v1/secrets.
type SecretList struct {
	Secrets []Secret `json:"secrets"` // by name; never null
}
