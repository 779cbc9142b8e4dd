// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"maps"
	"slices"
	"time"
)

// Limits of a sandbox.
const (
	MaxSandboxBytes = 64 << 10 // of its variables and metadata: a fork writes them for each child
	MaxSandboxRules = 256      // of its network
)

// Sandbox is what a VM has because a client of E2B's API made it. It is never changed in
// place.
type Sandbox struct {
	Template string            `json:"template"`           // as the client named it
	Env      map[string]string `json:"env,omitempty"`      // of all its commands
	Metadata map[string]string `json:"metadata,omitempty"` // to find it by
	Defaults *SandboxDefaults  `json:"defaults,omitempty"` // of its template; nil = none
	Builds   string            `json:"builds,omitempty"`   // the template that is built in it, which clients do not see; "" = none
	By       KeyID             `json:"by"`                 // the API key that made it or connected last; its token acts as this key

	// EndsAt is when it is ended if it runs then. A start sets it again if it has passed.
	EndsAt     time.Time `json:"endsAt"`
	Timeout    Seconds   `json:"timeoutSeconds"`       // from a start to EndsAt
	OnEnd      Op        `json:"onEnd"`                // OpDelete, OpSuspend or OpStop
	AutoResume bool      `json:"autoResume,omitempty"` // a request starts it again

	Private     bool     `json:"private,omitempty"` // its ports want a token
	MaskHost    string   `json:"maskHost,omitempty"`
	HTTPSPorts  []uint16 `json:"httpsPorts,omitempty"` // its servers that speak TLS
	AllowOut    []string `json:"allowOut,omitempty"`
	DenyOut     []string `json:"denyOut,omitempty"`
	NoInternet  bool     `json:"noInternet,omitempty"`
	HasInternet bool     `json:"hasInternet,omitempty"` // the client asked for it
}

// Clone returns a copy that shares nothing with s.
func (s *Sandbox) Clone() *Sandbox {
	if s == nil {
		return nil
	}
	c := *s
	c.Env, c.Metadata, c.Defaults = maps.Clone(s.Env), maps.Clone(s.Metadata), s.Defaults.Clone()
	c.HTTPSPorts, c.AllowOut, c.DenyOut = slices.Clone(s.HTTPSPorts), slices.Clone(s.AllowOut), slices.Clone(s.DenyOut)
	return &c
}

// Check refuses a sandbox that is too large or has no time-out.
func (s *Sandbox) Check() error {
	if s == nil {
		return nil
	}
	bytes, maps := 0, []map[string]string{s.Env, s.Metadata}
	if s.Defaults != nil {
		maps = append(maps, s.Defaults.Env)
	}
	for _, m := range maps {
		for k, v := range m {
			bytes += len(k) + len(v)
		}
	}
	switch {
	case bytes > MaxSandboxBytes:
		return Errorf(Limit, "", "the variables and the metadata of a sandbox have at most %d bytes, not %d", MaxSandboxBytes, bytes).
			WithHint("write the large ones to a file of the sandbox")
	case len(s.AllowOut)+len(s.DenyOut) > MaxSandboxRules || len(s.HTTPSPorts) > MaxSandboxRules:
		return Errorf(Limit, "network", "a sandbox has at most %d rules", MaxSandboxRules)
	case s.Timeout < Seconds(time.Second) || s.Timeout > Seconds(MaxDuration):
		return Errorf(Invalid, "timeout", "%s is not within 1 to %s", s.Timeout, Seconds(MaxDuration)).WithHint("name it in seconds")
	}
	return nil
}
