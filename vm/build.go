// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// BuildID names the preparation of a VM or snapshot: "bld-" and 20 characters.
type BuildID string

// NewBuildID returns a fresh random build id.
func NewBuildID() BuildID { return BuildID("bld-" + randomID(20)) }

// NewPhaseID returns a fresh id for a phase of a build: "bph-" and 20 characters.
func NewPhaseID() string { return "bph-" + randomID(20) }

// BuildState is how far a build is; the spellings are the contract's.
type BuildState string

// The states of a build.
const (
	BuildRunning   BuildState = "running"
	BuildSucceeded BuildState = "succeeded"
	BuildFailed    BuildState = "failed"
)

// Build is the record of a VM or snapshot that is made from a spec.
type Build struct {
	ID        BuildID      `json:"id"`
	Account   AccountID    `json:"account"`
	Request   RequestID    `json:"request,omitempty"`
	VM        ID           `json:"vm,omitempty"`       // the result
	Snapshot  SnapshotID   `json:"snapshot,omitempty"` // the result
	State     BuildState   `json:"state"`
	Key       string       `json:"key"` // digest of the spec on its source
	Failure   string       `json:"failure,omitempty"`
	Planned   []string     `json:"planned"` // names of the phases to come, in order
	Phases    []BuildPhase `json:"phases"`  // phases that have begun
	StartedAt time.Time    `json:"startedAt"`
	EndedAt   time.Time    `json:"endedAt,omitzero"`
	UpdatedAt time.Time    `json:"updatedAt"`

	Host string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
}

// BuildPhase is one step of a build.
type BuildPhase struct {
	ID         string       `json:"id"`
	Name       string       `json:"name"`
	Generation GenerationID `json:"generation,omitempty"` // a layer's, once it exists
	Cached     bool         `json:"cached,omitempty"`     // it existed already
	StartedAt  time.Time    `json:"startedAt"`
}
