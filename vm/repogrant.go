// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"slices"
	"time"
)

// RepoGrant lets a VM use a repository of its account.
type RepoGrant struct {
	Repo   string    `json:"repo"` // its id
	Access GitAccess `json:"access"`
	// Branches are patterns of the branches that the VM may push to; none = OwnBranches.
	Branches  []string  `json:"branches,omitempty"`
	GrantedAt time.Time `json:"grantedAt"`
}

// OwnBranches are patterns of the branches that the VM may push to unless a grant names
// others: those below agent/ID/ and agent/NAME/.
func (v *VM) OwnBranches() []string {
	out := []string{"agent/" + string(v.ID) + "/**"}
	if v.Name != "" {
		out = append(out, "agent/"+v.Name+"/**")
	}
	return out
}

// RepoGrant returns what the VM may do with a repository, with the patterns of the
// branches that it may push to. ok is false if it may do nothing with it.
func (v *VM) RepoGrant(repo string) (g RepoGrant, ok bool) {
	i := slices.IndexFunc(v.Repos, func(g RepoGrant) bool { return g.Repo == repo })
	if i < 0 {
		return RepoGrant{}, false
	}
	g = v.Repos[i]
	if len(g.Branches) == 0 {
		g.Branches = v.OwnBranches()
	}
	return g, true
}
