// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// ForkRequest asks for running copies of a VM. The zero value asks for one.
type ForkRequest struct {
	Count       int             // 0 = 1
	Prefix      string          // the children are PREFIX-1 to PREFIX-N; "" = no names
	Persistence *vm.Persistence // nil = the parent's
	IdleTimeout Optional[int64] // absent = the parent's
	TTLSeconds  Optional[int64] // absent and null = no limit
	Volumes     string          // of a VM that has volumes mounted: VolumesCut, VolumesRO, VolumesDetach; "" = refused
	Folders     string          // what children get of its directories of the host: FoldersRW, FoldersNone; "" = to read

	Labels map[string]string // beside the parent's, or in place of those of the same keys
}

// Forked is what a fork made.
type Forked struct {
	Parent     vm.VM
	Children   []vm.VM
	Generation vm.Generation
	Pause      time.Duration // the parent was paused for so long; 0 when it was suspended
	Caveats    []string      // what no reset can make different
	First      bool          // no earlier fork of the parent, nor of what it comes from, is known
}

// SnapshotRequest asks for a generation that is kept under a name.
type SnapshotRequest struct {
	Name        string
	Persistence *vm.Persistence // nil = sticky, priority 5
	DiskOnly    bool            // no memory; the file system is frozen for the instant
	Volumes     string          // of a VM that has volumes mounted: VolumesCut, VolumesDetach; "" = refused
}

// RollbackRequest says what to go back to.
type RollbackRequest struct {
	To       string        // a generation's or snapshot's id or name; "" = the newest of the VM
	Deadline time.Duration // 0 = the server's
	Volumes  string        // of a VM that has volumes mounted, or had then: VolumesCut, VolumesDetach; "" = refused
}

// RolledBack is what a rollback did.
type RolledBack struct {
	VM        vm.VM
	To        vm.Generation
	Before    vm.Generation // what was left: go back to it to undo the rollback
	NotUndone []string
}

// SuspendRequest says how to suspend.
type SuspendRequest struct {
	Cold bool // compress and encrypt the memory at once
}

// Suspended is what a suspend left.
type Suspended struct {
	vm.VM
	MemoryBytes int64 // that the generation's files take
	DiskBytes   int64 // allocated by the VM's own disk layer
	LogBytes    int64 // of the host's logs of the VM
}

// Taken is a snapshot that was captured.
type Taken struct {
	vm.Generation
	Instance string // of the VM that was captured
}

// Lineage is where VMs and generations come from.
type Lineage struct {
	VMs         []vm.VM
	Generations []vm.Generation // oldest first
}

// Kept is what keep did.
type Kept struct {
	VM   vm.VM // the winner, under its new name
	Over vm.VM // the one whose place it took; renamed, or deleted
}

// ResizeRequest names the sizes to change; zero fields stay.
type ResizeRequest struct {
	Size     vm.Size
	Deadline time.Duration // of a start that is needed; 0 = the server's
}

// Resized says what a resize did and how.
type Resized struct {
	VM  vm.VM
	How map[string]string // "cpu", "memory", "disk" to "live", "restart" or "at-next-start"
	Why map[string]string // why a part could not be changed while the VM ran
}
