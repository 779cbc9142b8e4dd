// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"slices"
	"strings"
	"time"
)

// Profile is how far a VM is trusted: its defaults and its limits.
type Profile struct {
	Name    string        `json:"name"`
	For     string        `json:"for"`               // what it is meant for
	Network NetworkMode   `json:"network,omitempty"` // when nothing else is asked for; "" = the server's default
	Closed  bool          `json:"closed,omitempty"`  // nothing but a closed network can be asked for
	TTL     time.Duration `json:"-"`                 // when none is asked for; 0 = no limit
	Volumes bool          `json:"volumes"`           // volumes can be mounted
	Folders bool          `json:"writableFolders"`   // directories of the host can be given to be written to; to be read they always can
}

// The names of the profiles.
const (
	ProfileUntrusted = "untrusted"
	ProfileAgent     = "agent"
	ProfileDev       = "dev"
)

// Profiles are all profiles, the least trusted first. A VM without one has
// that of an agent.
var Profiles = []Profile{
	{Name: ProfileUntrusted, For: "generated and third-party code: copy in, run, copy out", Network: NetClosed, Closed: true, TTL: time.Hour},
	{Name: ProfileAgent, For: "an agent's own work, kept in volumes", Volumes: true},
	{Name: ProfileDev, For: "a trusted workflow that fetches packages", Network: NetPackages, Volumes: true, Folders: true},
}

// FindProfile finds a profile by its name, "" = that of an agent; kind Invalid.
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
		return Profile{}, Errorf(Invalid, name, "not a profile").WithHint("use %s", strings.Join(names, ", "))
	}
	return Profiles[i], nil
}

// Forbids is the error for a request that a profile does not allow.
func (p Profile) Forbids(ref, what string) *Error {
	return Errorf(Denied, ref, "its profile %s forbids %s", p.Name, what).WithCode("FORBIDDEN", "reason", "PROFILE", "profile", p.Name)
}
