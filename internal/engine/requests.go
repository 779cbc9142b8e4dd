// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// ForkRequest asks for running copies of a VM; the zero value for one.
type ForkRequest struct {
	Count       int                     // 0 = 1
	Prefix      string                  // the children are PREFIX-1 to PREFIX-N; "" = no names
	Persistence *vm.Persistence         // nil = the parent's
	IdleTimeout vm.Optional[vm.Seconds] // absent = the parent's
	TTL         vm.Optional[vm.Seconds] // absent and null = no limit
	Volumes     string                  // for mounted volumes: VolumesCut, VolumesRO, VolumesDetach; "" = refuse
	Folders     string                  // the children's access to its directories of the host: FoldersRW, FoldersNone; "" = read-only

	Network vm.NetworkSpec // narrower than the parent's; "" = the parent's

	Labels map[string]string // added to the parent's, or replacing those with the same keys

	Sandbox *vm.Sandbox // of each child; nil = the children are no sandboxes
}

// Forked is the result of a fork.
type Forked struct {
	Parent     vm.VM
	Children   []vm.VM
	Generation vm.Generation
	Pause      time.Duration // how long the parent was paused; 0 if it was suspended
	Caveats    []string      // what the children share because no reset can change it
	First      bool          // no earlier fork of the parent or its ancestors is known
}

// SnapshotRequest asks for a generation that is kept under a name.
type SnapshotRequest struct {
	Name        string
	Note        string          // for people; at most 200 bytes are kept
	Persistence *vm.Persistence // nil = sticky, priority 5
	DiskOnly    bool            // no memory; the file system is frozen for the instant
	Volumes     string          // for mounted volumes: VolumesCut, VolumesDetach; "" = refuse
	Template    *vm.Template    // what sandboxes made of it have; nil = nothing
}

// TurnRequest marks a turn.
type TurnRequest struct {
	Note     string // what it tries
	DiskOnly bool   // without memory: going back to it boots the VM on that disk
}

// RollbackRequest names the generation to go back to.
type RollbackRequest struct {
	To       string        // a generation's or snapshot's id or name; "" = the VM's newest
	Deadline time.Duration // 0 = the server's
	Volumes  string        // for volumes mounted now or then: VolumesCut, VolumesDetach; "" = refuse
}

// RolledBack is the result of a rollback.
type RolledBack struct {
	VM        vm.VM
	To        vm.Generation
	Before    vm.Generation // the state before; go back to it to undo the rollback
	NotUndone []string
}

// SuspendRequest holds the options of a suspend.
type SuspendRequest struct {
	Cold bool // compress and encrypt the memory at once
}

// Suspended is the result of a suspend.
type Suspended struct {
	vm.VM
	MemoryBytes int64 // of the generation's files
	DiskBytes   int64 // allocated by the VM's own disk layer
	LogBytes    int64 // of the host's logs of the VM
}

// Taken is a captured snapshot.
type Taken struct {
	vm.Generation
	Instance string // of the captured VM
}

// Lineage lists VMs and generations with their origins.
type Lineage struct {
	VMs         []vm.VM
	Generations []vm.Generation // oldest first
}

// Kept is the result of Keep.
type Kept struct {
	VM   vm.VM // the winner, under its new name
	Over vm.VM // the VM that it replaced; renamed, or deleted
}

// ResizeRequest holds the new sizes; zero fields do not change.
type ResizeRequest struct {
	Size     vm.Size
	Deadline time.Duration // of a start if one is needed; 0 = the server's
}

// Resized is the result of a resize.
type Resized struct {
	VM  vm.VM
	How map[string]string // "cpu", "memory", "disk" to "live", "restart" or "at-next-start"
	Why map[string]string // why a part could not be changed while the VM ran
}
