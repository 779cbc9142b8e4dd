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
	WhySchedule       Why = "schedule"        // periodic, see VM.CaptureEvery
	WhyBeforeExec     Why = "before-exec"     // before a command, by an older warren; now it is a turn
	WhyTurn           Why = "turn"            // marks what somebody tries, see Turn
	WhyLayer          Why = "layer"           // a layer of a spec, kept as a base
	WhyReseat         Why = "reseat"          // a reseat: the VM has no private pages afterwards
	WhyBundle         Why = "bundle"          // for a bundle, or from one
	WhyReview         Why = "review"          // the disk for a comparison; of each VM the newest is kept
)

// GenerationState is the state of a generation, in the contract's spelling for snapshots.
type GenerationState string

// The states of a generation.
const (
	GenBuilding GenerationState = "building" // being captured
	GenReady    GenerationState = "ready"
	GenFailed   GenerationState = "failed"
	GenLost     GenerationState = "lost" // its files are gone or damaged
)

// Generation is the record of a generation: its owner, its origin and why it is kept.
// What a machine needs to start from it is in the manifest next to its files (Manifest).
type Generation struct {
	ID      GenerationID    `json:"id"`
	Account AccountID       `json:"account"`
	VM      ID              `json:"vm,omitempty"`     // its source; stays after that VM is deleted
	VMName  string          `json:"vmName,omitempty"` // at that time
	Parent  GenerationID    `json:"parent,omitempty"` // the previous generation of its VM; "" = the image
	DiskOn  GenerationID    `json:"diskOn,omitempty"` // the generation whose disk is the base of its disk; "" = the image
	Image   ImageID         `json:"image"`
	Why     Why             `json:"why"`
	State   GenerationState `json:"state"`
	Failure string          `json:"failure,omitempty"`
	Memory  bool            `json:"memory"`  // it has memory and device state, not only a disk
	Durable bool            `json:"durable"` // its files are fsynced and its manifest is written
	// Synced says that its disk has all that programs had written at the capture.
	Synced    bool      `json:"synced,omitempty"`
	Sealed    bool      `json:"sealed,omitempty"` // compressed and encrypted; decrypted on use
	Size      Size      `json:"size"`
	CreatedAt time.Time `json:"createdAt"`
	DataBytes int64     `json:"dataBytes"`        // disk space of its own files
	PauseMs   float64   `json:"pauseMs"`          // how long the VM was paused
	BootID    string    `json:"bootId,omitempty"` // boot id of the host at the capture
	Note      string    `json:"note,omitempty"`   // e.g. what a turn tries
	// CommitRepo and Commit are the repository and the id of the newest commit that was
	// made from its disk; "" = none.
	CommitRepo string `json:"commitRepo,omitempty"`
	Commit     string `json:"commit,omitempty"`
	// Published are the newest objects that were published from its disk.
	Published []PublishedAs `json:"published,omitempty"`

	// Snapshot names it for API callers; "" = not a snapshot.
	Snapshot    SnapshotID  `json:"snapshot,omitempty"`
	Name        string      `json:"name,omitempty"` // label of a snapshot
	Template    *Template   `json:"template,omitempty"`
	Persistence Persistence `json:"persistence,omitzero"`
	// VolumesSeen are the volumes whose contents its memory may hold.
	VolumesSeen []VolumeID `json:"volumesSeen,omitempty"`
	// Mounts are the volumes that its memory has mounted. Only its own VM keeps them. With
	// Cut, other VMs may start from it, too, but every access to these mounts then fails.
	Mounts []VolumeAt `json:"mounts,omitempty"`
	Cut    bool       `json:"cut,omitempty"`
	// Folders are the paths at which its memory has directories of the host.
	Folders []string `json:"folders,omitempty"`
	// Deleted says that the snapshot was deleted; VMs made from it may still need the files.
	Deleted bool `json:"deleted,omitempty"`
	// DiskOnly says that memory and device state were dropped: other
	// generations or VMs still need the disk.
	DiskOnly bool `json:"diskOnly,omitempty"`
	// Gone says that no file is left; the record stays for the history of its descendants.
	Gone bool `json:"gone,omitempty"`
	// SealKey is the key under which its memory is sealed, wrapped by the host's.
	SealKey []byte `json:"sealKey,omitempty"`
	// Key is the digest of a layer's content; "" = not a layer. UsedAt is the
	// day on which the layer was last used.
	Key    string    `json:"key,omitempty"`
	UsedAt time.Time `json:"usedAt,omitzero"`
	// Build is the build that made a snapshot from a spec; "" = none.
	Build BuildID `json:"build,omitempty"`

	// Turn is the number of a turn among those of its VM; 0 = not a turn. Actor is who
	// marked it, as audit records name callers.
	Turn  int    `json:"turn,omitempty"`
	Actor string `json:"actor,omitempty"`
	// NoMemory says that the memory of a turn is no longer kept for the turn's sake.
	NoMemory bool `json:"noMemory,omitempty"`
	// StatTo is the generation with which a turn was compared, with the result Stat.
	StatTo GenerationID `json:"statTo,omitempty"`
	Stat   *DiffStat    `json:"stat,omitempty"`

	Host string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
}

// Whole reports whether a machine can start from the generation's memory.
func (g Generation) Whole() bool {
	return g.State == GenReady && g.Memory && !g.DiskOnly && !g.Gone
}

// MayContain lists sensitive contents of a generation. Everybody who can
// start from it can read all of it.
func (g Generation) MayContain() []string {
	held := []string{"files", "prompts", "credentials"}
	if g.Memory && !g.DiskOnly {
		held = append([]string{"memory", "processes"}, held...)
	}
	return held
}

// Caveats lists state that copies of a running machine share despite all
// resets; the answers of fork and of a create from a snapshot contain it.
var Caveats = []string{
	"random state inside programs that run already (a TLS library, a language's own generator) is the same in every copy until they reseed",
	"open connections to the outside belong to none of the copies: their next use fails, and programs connect again",
	"secrets and tokens in memory are in every copy",
}

// NotUndone lists what a rollback does not undo.
var NotUndone = []string{
	"volumes and shared folders",
	"commits that were pushed",
	"artifacts that were published",
	"effects of network requests on other systems",
}
