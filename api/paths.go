// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// PathRules answers the routes of path rules: the rules in the order in which they decide.
type PathRules struct {
	Rules []vm.PathRuleShown `json:"rules"` // never null
}

// AddPath is one path rule as a caller writes it.
type AddPath struct {
	Action vm.PathAction `json:"action"`          // allow, read-only, ask, deny, hide
	Path   string        `json:"path"`            // a pattern; without a leading slash it matches at any depth
	Mount  string        `json:"mount,omitempty"` // the pattern is about what is below this path
}

// SetPaths is the body of PUT paths.
type SetPaths struct {
	Rules []AddPath `json:"rules"`
}
