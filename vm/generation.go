// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Why is the reason of a capture.
type Why string

// The reasons of a capture.
const (
	WhyFork           Why = "fork"
	WhySuspend        Why = "suspend"
	WhySnapshot       Why = "snapshot"        // a user asked for it
	WhyBeforeRollback Why = "before-rollback" // the state before a rollback
	WhyBeforeBoot     Why = "before-boot"     // the memory before a start from the disk alone
	WhySchedule       Why = "schedule"        // periodic, see VM.CaptureEverySeconds
	WhyBeforeExec     Why = "before-exec"     // exec --capture-first
	WhyLayer          Why = "layer"           // a layer of a spec, kept to be built on
	WhyReseat         Why = "reseat"          // a re-seat: the VM has no private pages afterwards
)

// GenerationState is where a generation is in its life; the spellings are the
// contract's states of a snapshot.
type GenerationState string

// The states of a generation.
const (
	GenBuilding GenerationState = "building" // being captured
	GenReady    GenerationState = "ready"
	GenFailed   GenerationState = "failed"
	GenLost     GenerationState = "lost" // its files are gone or damaged
)

// Generation is the record of a generation: whose it is, where it comes
// from and why it is kept. What is needed to start on it is in the manifest
// beside its files (Generation).
type Generation struct {
	ID        GenerationID    `json:"id"`
	Account   AccountID       `json:"account"`
	VM        ID              `json:"vm,omitempty"`     // it was taken of; stays when that VM is gone
	VMName    string          `json:"vmName,omitempty"` // of that time
	Parent    GenerationID    `json:"parent,omitempty"` // the one before it in the history of its VM; "" = its image
	DiskOn    GenerationID    `json:"diskOn,omitempty"` // whose disk its disk layer lies on; "" = its image
	Image     ImageID         `json:"image"`
	Why       Why             `json:"why"`
	State     GenerationState `json:"state"`
	Failure   string          `json:"failure,omitempty"`
	Memory    bool            `json:"memory"`           // it has memory and device state, not only a disk
	Durable   bool            `json:"durable"`          // its files are fsynced and its manifest is written
	Sealed    bool            `json:"sealed,omitempty"` // compressed and encrypted; opened again on use
	Size      Size            `json:"size"`
	CreatedAt time.Time       `json:"createdAt"`
	DataBytes int64           `json:"dataBytes"`        // of the disk that its own files take
	PauseMs   float64         `json:"pauseMs"`          // how long the VM was paused
	BootID    string          `json:"bootId,omitempty"` // of the host, when it was captured
	Note      string          `json:"note,omitempty"`   // e.g. the command of a before-exec generation

	// Snapshot names it for API callers; "" = not a snapshot.
	Snapshot    SnapshotID  `json:"snapshot,omitempty"`
	Name        string      `json:"name,omitempty"` // label of a snapshot
	Persistence Persistence `json:"persistence,omitzero"`
	// VolumesSeen are the volumes whose contents its memory may hold.
	VolumesSeen []VolumeID `json:"volumesSeen,omitempty"`
	// Mounts are the volumes that its memory has mounted. Only the VM that it was
	// taken of continues with them; with Cut others may be started on it, too,
	// whose mounts then lead nowhere.
	Mounts []VolumeAt `json:"mounts,omitempty"`
	Cut    bool       `json:"cut,omitempty"`
	// Folders are the paths at which its memory has directories of the host.
	Folders []string `json:"folders,omitempty"`
	// Deleted says that the snapshot was deleted; VMs made of it may still need
	// the files.
	Deleted bool `json:"deleted,omitempty"`
	// DiskOnly says that memory and device state were dropped: only the disk is
	// still needed, by others.
	DiskOnly bool `json:"diskOnly,omitempty"`
	// Gone says that no file is left; the record stays for the history of its
	// descendants.
	Gone bool `json:"gone,omitempty"`
	// SealKey is the key under which its memory is sealed, wrapped by the host's.
	SealKey []byte `json:"sealKey,omitempty"`
	// Key is the digest of a layer's content; "" = not a layer. UsedAt is when
	// something was last made of the layer, to the day.
	Key    string    `json:"key,omitempty"`
	UsedAt time.Time `json:"usedAt,omitzero"`
	// Build is how a snapshot was made by a spec; "" = it was not.
	Build BuildID `json:"build,omitempty"`

	Host     string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
	Revision int64  `json:"-"`
}

// Whole reports whether a machine can be started on the generation's memory.
func (g Generation) Whole() bool {
	return g.State == GenReady && g.Memory && !g.DiskOnly && !g.Gone
}

// MayContain lists sensitive contents of a generation. Everybody who can
// start it can read all of it.
func (g Generation) MayContain() []string {
	held := []string{"files", "prompts", "credentials"}
	if g.Memory && !g.DiskOnly {
		held = append([]string{"memory", "processes"}, held...)
	}
	return held
}

// Caveats lists what no reset can make different in the copies of a running
// machine; it is part of the answer of fork and of a create from a snapshot.
var Caveats = []string{
	"random state inside programs that run already (a TLS library, a language's own generator) is the same in every copy until they reseed",
	"open connections to the outside belong to none of the copies: their next use fails, and programs connect again",
	"secrets and tokens in memory are in every copy",
}

// NotUndone lists what a rollback leaves as it is.
var NotUndone = []string{
	"volumes and shared folders",
	"commits that were pushed",
	"artifacts that were published",
	"effects of network requests on other systems",
}
