// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"slices"
	"strings"
	"time"
)

// Profile sets the defaults and limits of a VM by how far it is trusted.
type Profile struct {
	Name    string        `json:"name"`
	For     string        `json:"for"`               // its purpose
	Network NetworkMode   `json:"network,omitempty"` // the default; "" = the server's default
	Closed  bool          `json:"closed,omitempty"`  // allows only a closed network
	TTL     time.Duration `json:"-"`                 // the default; 0 = no limit
	Volumes bool          `json:"volumes"`           // volumes can be mounted
	Folders bool          `json:"writableFolders"`   // may write to directories of the host; reading is always allowed
}

// The names of the profiles.
const (
	ProfileUntrusted = "untrusted"
	ProfileAgent     = "agent"
	ProfileDev       = "dev"
)

// Profiles are all profiles, the least trusted first. The default is ProfileAgent.
var Profiles = []Profile{
	{Name: ProfileUntrusted, For: "generated and third-party code: copy in, run, copy out", Network: NetClosed, Closed: true, TTL: time.Hour},
	{Name: ProfileAgent, For: "an agent's own work, kept in volumes", Volumes: true},
	{Name: ProfileDev, For: "a trusted workflow that fetches packages", Network: NetPackages, Volumes: true, Folders: true},
}

// FindProfile returns a profile by its name, "" = ProfileAgent; kind Invalid.
func FindProfile(name string) (Profile, error) {
	if name == "" {
		name = ProfileAgent
	}
	i := slices.IndexFunc(Profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range Profiles {
			names = append(names, p.Name)
		}
		return Profile{}, Errorf(Invalid, name, "is not a profile").WithHint("use %s", strings.Join(names, ", "))
	}
	return Profiles[i], nil
}

// Forbids returns the error for a request that a profile does not allow.
func (p Profile) Forbids(ref, what string) *Error {
	return Errorf(Denied, ref, "its profile %s forbids %s", p.Name, what).WithCode("FORBIDDEN", "reason", "PROFILE", "profile", p.Name)
}
