// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Remaining is what a host holds of a VM, also of a deleted one.
type Remaining struct {
	VM    ID     `json:"vmId"`
	Name  string `json:"name,omitempty"`
	State State  `json:"state,omitempty"` // "" = it is gone

	DiskBytes   int64 `json:"diskBytes"`   // of its own disk layer and what else lies in its directory
	MemoryBytes int64 `json:"memoryBytes"` // of the generation that it is suspended on
	LogBytes    int64 `json:"logBytes"`    // of its console, monitor and QEMU
	OtherBytes  int64 `json:"otherBytes"`  // of generations that were captured by themselves, or that forks lie on

	Folders   []Folder            `json:"folders"` // of the host, that it has
	Volumes   []RemainingVolume   `json:"volumes"` // that it has, or had, mounted and that are still there
	Snapshots []RemainingSnapshot `json:"snapshots"`
	Forks     []RemainingVM       `json:"forks"`  // made of its memory and disk, and what was made of those
	Copies    []Copy              `json:"copies"` // files that were copied out, newest first
	Receipts  []string            `json:"receipts"`
	// Omitted says how many of which list are left out: what is kept of a job has
	// bounds.
	Omitted map[string]int `json:"omitted,omitempty"`
}

// RemainingVolume is a managed volume that a VM worked in.
type RemainingVolume struct {
	ID       VolumeID `json:"id"`
	Name     string   `json:"name"`
	Project  string   `json:"project"`
	Path     string   `json:"path,omitempty"` // where the VM has it; "" = no longer
	Unlocked bool     `json:"unlocked"`
	Bytes    int64    `json:"bytes"`
	UsedBy   []string `json:"usedBy,omitempty"` // other VMs that have it mounted
}

// RemainingSnapshot is a snapshot of a VM that somebody can still start.
type RemainingSnapshot struct {
	ID     SnapshotID `json:"snapshotId"`
	Name   string     `json:"name,omitempty"`
	Bytes  int64      `json:"bytes"`
	Memory bool       `json:"memory"` // with processes and what they knew
}

// RemainingVM is a VM that comes from another.
type RemainingVM struct {
	ID    ID     `json:"vmId"`
	Name  string `json:"name,omitempty"`
	State State  `json:"state"`
}

// Copy is something that was copied out of a VM.
type Copy struct {
	Time    time.Time `json:"time"`
	Path    string    `json:"path"`
	To      string    `json:"to,omitempty"` // HOST:PATH, as whoever copied it has said; "" = it has not
	Receipt string    `json:"receipt"`
}

// Shredded says what became unreadable with a VM, and what did not.
type Shredded struct {
	Unreadable []string `json:"unreadable"` // their keys are destroyed
	Readable   []string `json:"readable"`   // what there was never a key of, or what others need
}

// What is kept of a VM when its job is done.
const (
	RetainStop    = "stop"    // its disk
	RetainSuspend = "suspend" // its disk and its memory, compressed and encrypted
	RetainNothing = "destroy"
)

// StepState is how far a step of the end of a job is.
type StepState string

// The states of a step.
const (
	StepDone StepState = "done"
	StepOpen StepState = "open"
	StepNone StepState = "none" // there is nothing to do
)

// The steps of the end of a job.
const (
	StepCompute     = "compute"     // no machine runs
	StepVolumes     = "volumes"     // every managed volume is locked
	StepMounts      = "mounts"      // what is not needed is no longer mounted
	StepSnapshots   = "snapshots"   // those without a purpose are deleted
	StepCredentials = "credentials" // what generated code could reach is rotated
	StepReceipts    = "receipts"    // the ids of the audit records are in the record of the job
	StepLogs        = "logs"        // a person has read them before they are passed on
	StepRemains     = "remains"     // what stopping did not erase is listed
)

// JobStep is one step and why it is where it is.
type JobStep struct {
	Step  string    `json:"step"`
	State StepState `json:"state"`
	Why   string    `json:"why"`
}

// Job is the record of work in a VM that was said to be done.
type Job struct {
	VM        ID        `json:"vmId"`
	Account   AccountID `json:"accountId"`
	Name      string    `json:"name,omitempty"`
	Label     string    `json:"label,omitempty"` // the caller's name for the job: a ticket, a run
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended"`     // when it was last said to be done
	Retention string    `json:"retention"` // what became of the VM: stop, suspend, destroy; "" = nothing yet
	Complete  bool      `json:"complete"`  // no step is open
	Steps     []JobStep `json:"steps"`
	Remains   Remaining `json:"remains"` // with the ids of the audit records

	KeptSnapshots []SnapshotID `json:"keptSnapshots,omitempty"` // confirmed to have a purpose

	Host     string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
	Revision int64  `json:"-"`
}
