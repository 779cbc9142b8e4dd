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
	// GuestVerbs are what the programs in the VM may do with it; see PolicyHost.
	GuestVerbs []GuestVerb `json:"guestVerbs"`
}

// GuestVerb is what a program in a VM may do with that VM, through PolicyHost.
type GuestVerb string

// The guest verbs. Those that change something have the name of their Op.
const (
	GuestWhy        GuestVerb = "why"        // what the policy says of a request
	GuestStatus     GuestVerb = "status"     // the VM, its network and its mounts
	GuestFilesystem GuestVerb = "filesystem" // which places exist and which last
	GuestAsk        GuestVerb = "ask"        // propose a rule of the policy
	GuestTurn       GuestVerb = "turn"
	GuestSnapshot   GuestVerb = "snapshot"
	GuestFork       GuestVerb = "fork"
)

// GuestVerbs are all guest verbs, in the order in which people read them.
var GuestVerbs = []GuestVerb{GuestWhy, GuestStatus, GuestFilesystem, GuestAsk, GuestTurn, GuestSnapshot, GuestFork}

// Grants reports whether the programs in a VM with this profile may use a verb.
func (p Profile) Grants(verb GuestVerb) bool { return slices.Contains(p.GuestVerbs, verb) }

// The names of the profiles.
const (
	ProfileUntrusted = "untrusted"
	ProfileAgent     = "agent"
	ProfileDev       = "dev"
)

// Profiles are all profiles, the least trusted first. The default is ProfileAgent.
var Profiles = []Profile{
	{Name: ProfileUntrusted, For: "generated and third-party code: copy in, run, copy out", Network: NetClosed, Closed: true, TTL: time.Hour, GuestVerbs: GuestVerbs[:3]},
	{Name: ProfileAgent, For: "an agent's own work, kept in volumes", Volumes: true, GuestVerbs: GuestVerbs[:5]},
	{Name: ProfileDev, For: "a trusted workflow that fetches packages", Network: NetPackages, Volumes: true, Folders: true, GuestVerbs: GuestVerbs},
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
