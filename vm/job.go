// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Remaining lists what a host still has of a VM, which may be deleted.
type Remaining struct {
	VM    ID     `json:"vmId"`
	Name  string `json:"name,omitempty"`
	State State  `json:"state,omitempty"` // "" = deleted

	DiskBytes   int64 `json:"diskBytes"`   // its own disk layer and other files in its directory
	MemoryBytes int64 `json:"memoryBytes"` // the generation that it is suspended on
	LogBytes    int64 `json:"logBytes"`    // its console, monitor and QEMU
	OtherBytes  int64 `json:"otherBytes"`  // automatic generations, and those that forks depend on

	Folders   []Folder            `json:"folders"` // its folders of the host
	Volumes   []RemainingVolume   `json:"volumes"` // existing volumes that it has, or had, mounted
	Snapshots []RemainingSnapshot `json:"snapshots"`
	Forks     []RemainingVM       `json:"forks"`               // VMs made from its memory and disk, and VMs made from those
	Copies    []Copy              `json:"copies"`              // what was copied out, published, committed or bundled, newest first
	Artifacts []Artifact          `json:"artifacts,omitempty"` // versions of objects that come from it and are stored, newest first
	Receipts  []string            `json:"receipts"`
	// Credentials are the secrets that the VM could ever use, by name.
	Credentials []Credential `json:"credentials,omitempty"`
	// Omitted counts the omitted entries of each list: the record of a job has a limited size.
	Omitted map[string]int `json:"omitted,omitempty"`
}

// Credential is a secret that the programs of a VM could use. They never held its value, but
// could make requests with it.
type Credential struct {
	ID      string    `json:"id,omitempty"` // of the secret; "" = the records of an older Warren do not name it
	Name    string    `json:"name"`
	Host    string    `json:"host,omitempty"`     // the one that gets it
	Uses    int       `json:"uses"`               // requests that it was put into
	LastUse time.Time `json:"lastUse,omitzero"`   // zero = never
	Granted bool      `json:"granted"`            // the VM may still use it
	Removed bool      `json:"removed,omitempty"`  // there is no such secret any more
	Others  int       `json:"otherVMs,omitempty"` // other VMs that may use it; a new value is for them, too
	// RotatesBy is the way in which Warren can rotate it: oauth or rotator; "" = it cannot.
	RotatesBy string    `json:"rotatesBy,omitempty"`
	RotatedAt time.Time `json:"rotatedAt,omitzero"` // by the VM's done, after its last use; zero = not
	// NotRotated is why the last rotation by the VM's done failed.
	NotRotated string `json:"notRotated,omitempty"`
}

// RemainingVolume is a managed volume that a VM has used.
type RemainingVolume struct {
	ID       VolumeID `json:"id"`
	Name     string   `json:"name"`
	Project  string   `json:"project"`
	Path     string   `json:"path,omitempty"` // where the VM has it mounted; "" = no longer mounted
	Unlocked bool     `json:"unlocked"`
	Bytes    int64    `json:"bytes"`
	UsedBy   []string `json:"usedBy,omitempty"` // other VMs that have it mounted
}

// RemainingSnapshot is a snapshot of a VM that can still be started.
type RemainingSnapshot struct {
	ID     SnapshotID `json:"snapshotId"`
	Name   string     `json:"name,omitempty"`
	Bytes  int64      `json:"bytes"`
	Memory bool       `json:"memory"` // with processes and their data
}

// RemainingVM is a VM that was made from another.
type RemainingVM struct {
	ID    ID     `json:"vmId"`
	Name  string `json:"name,omitempty"`
	State State  `json:"state"`
}

// Copy is something that was copied out of a VM.
type Copy struct {
	Time time.Time `json:"time"`
	Path string    `json:"path"`
	To   string    `json:"to,omitempty"` // HOST:PATH, as the caller named it, or an object; "" = not named
	// SHA256 is the digest of a file, hex; of a tree that of its files' digests as sha256sum
	// prints them, sorted; "" = only the audit record has one.
	SHA256  string `json:"sha256,omitempty"`
	Receipt string `json:"receipt"`
}

// Artifact is a stored version of an object that comes from a VM: published, stored at the
// end of its job, or written by its programs.
type Artifact struct {
	ObjectRef
	Size    int64     `json:"size"`
	SHA256  string    `json:"sha256,omitempty"`
	Path    string    `json:"path,omitempty"` // in the guest, of a published one
	At      time.Time `json:"at"`
	Receipt string    `json:"receipt"`
}

// Shredded lists what became unreadable with a VM, and what did not.
type Shredded struct {
	Unreadable []string `json:"unreadable"` // their keys are destroyed
	Readable   []string `json:"readable"`   // never encrypted, or needed by others
}

// What is kept of a VM after its job.
const (
	RetainStop    = "stop"    // its disk
	RetainSuspend = "suspend" // its disk and its memory, compressed and encrypted
	RetainNothing = "destroy"
)

// StepState is the state of a step at the end of a job.
type StepState string

// The states of a step.
const (
	StepDone StepState = "done"
	StepOpen StepState = "open"
	StepNone StepState = "none" // nothing to do
)

// The steps of the end of a job.
const (
	StepCompute     = "compute"     // no machine runs
	StepVolumes     = "volumes"     // every managed volume is locked
	StepMounts      = "mounts"      // unneeded mounts are removed
	StepSnapshots   = "snapshots"   // snapshots without a purpose are deleted
	StepCredentials = "credentials" // credentials that generated code could reach are rotated
	StepReceipts    = "receipts"    // the ids of the audit records are in the record of the job
	StepLogs        = "logs"        // a person has read them before they are passed on
	StepRemains     = "remains"     // what stopping did not erase is listed
	StepShipped     = "shipped"     // logs and the record are in object storage; only if that was asked for
)

// JobStep is one step, its state and the reason.
type JobStep struct {
	Step  string    `json:"step"`
	State StepState `json:"state"`
	Why   string    `json:"why"`
}

// Shipped is an object that keeps a part of what is left of a VM.
type Shipped struct {
	ObjectRef
	What   string `json:"what"` // logs/console.log, record.json, ...
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Job is the record of finished work in a VM.
type Job struct {
	VM        ID        `json:"vmId"`
	Account   AccountID `json:"accountId"`
	Name      string    `json:"name,omitempty"`
	Label     string    `json:"label,omitempty"` // the caller's name for the job: a ticket, a run
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended"`     // time of the last `done`
	Retention string    `json:"retention"` // what happened to the VM: stop, suspend, destroy; "" = nothing yet
	Complete  bool      `json:"complete"`  // no step is open
	Steps     []JobStep `json:"steps"`
	Remains   Remaining `json:"remains"` // with the ids of the audit records

	// CredentialsConfirmed says that a person confirmed that they are rotated.
	CredentialsConfirmed bool `json:"credentialsConfirmed,omitempty"`

	KeptSnapshots []SnapshotID `json:"keptSnapshots,omitempty"` // confirmed to have a purpose
	Shipped       []Shipped    `json:"shipped,omitempty"`       // objects with its logs and its record

	Host string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
}
