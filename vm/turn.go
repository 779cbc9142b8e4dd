// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// RestoreRequest asks that one path of a VM comes back from an older state.
type RestoreRequest struct {
	Path GuestPath `json:"path"`
	// From is a state as in DiffRequest, or the number of a turn; "" = the newest turn.
	From   string `json:"from,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"` // only say what would change
	// IfUnchanged is the State of an earlier answer: the restore is refused if the path
	// has changed since. "" = any.
	IfUnchanged string `json:"ifUnchanged,omitempty"`
	NoTurn      bool   `json:"noTurn,omitempty"` // do not mark a turn before
}

// Restored is what a restore did, or would do.
type Restored struct {
	Path GuestPath `json:"path"`
	From DiffSide  `json:"from"`
	// State is a digest of what the restore changes: it stays the same until the path
	// changes.
	State   string       `json:"state"`
	Stat    DiffStat     `json:"stat"`
	Changes []FileChange `json:"changes"` // of the VM's disk, the first ones
	More    int          `json:"more,omitempty"`
	NotKept []string     `json:"notKept,omitempty"` // what a restore cannot bring back, for people
	Turn    *Turn        `json:"turn,omitempty"`    // the state before
	DryRun  bool         `json:"dryRun,omitempty"`  // nothing was changed
}

// ExecSummary is what a command changed on the disk of its VM, with all that other
// programs changed meanwhile.
type ExecSummary struct {
	Stat    DiffStat  `json:"stat"`
	Workdir GuestPath `json:"workdir"` // the command's
	// Outside are changed paths that are not below Workdir, without caches and logs: the
	// first ones. OutsideMore counts the rest of them, Noise those in caches and logs.
	Outside     []GuestPath `json:"outside"`
	OutsideMore int         `json:"outsideMore,omitempty"`
	Noise       int         `json:"noise,omitempty"`
	Alerts      []Alert     `json:"alerts,omitempty"`
	CostMs      float64     `json:"costMs"` // what the summary itself took, beside the command
	// Error says why there is no summary; the other fields are then empty.
	Error string `json:"error,omitempty"`
}

// CompareRequest asks how VMs differ from what they were made from.
type CompareRequest struct {
	VMs     []string `json:"vms"`                 // ids or names
	Run     string   `json:"run,omitempty"`       // a command that is run in each, in its working directory
	User    string   `json:"user,omitempty"`      // Linux user of the command; "" = root
	Cwd     string   `json:"cwd,omitempty"`       // the working directory; "" = each VM's own
	Timeout Millis   `json:"timeoutMs,omitempty"` // of the command; 0 = 10 minutes
}

// ForkComparison shows VMs beside each other.
type ForkComparison struct {
	// Common is the state from which all of them were forked; "" = they come from
	// different ones.
	Common     GenerationID `json:"common,omitempty"`
	Candidates []Candidate  `json:"candidates"` // in the order of the request
}

// Candidate is one VM of a comparison.
type Candidate struct {
	VM   ID       `json:"vm"`
	Name string   `json:"name,omitempty"`
	From DiffSide `json:"from"` // what it was forked or made from
	Stat DiffStat `json:"stat"` // since then
	// Outside counts changed paths outside the working directory and of nested
	// repositories, without caches and logs. OutsidePaths are the first ones.
	Outside      int           `json:"outside"`
	OutsidePaths []GuestPath   `json:"outsidePaths,omitempty"`
	Workdir      string        `json:"workdir,omitempty"`
	Alerts       []Alert       `json:"alerts,omitempty"`
	Run          *CandidateRun `json:"run,omitempty"`
	Error        string        `json:"error,omitempty"` // why it could not be compared: Stat says nothing then
}

// CandidateRun is how the command of a comparison ended in one VM.
type CandidateRun struct {
	ExitCode int     `json:"exitCode"`
	TimedOut bool    `json:"timedOut,omitempty"`
	Seconds  float64 `json:"seconds"`
	Tail     string  `json:"tail"`            // the last lines of its output
	Error    string  `json:"error,omitempty"` // why it has no exit code
}
