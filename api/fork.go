// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// ForkVM is the body of a fork. All members may be absent.
type ForkVM struct {
	Count       *int                    `json:"count,omitempty"` // 1
	Persistence *vm.Persistence         `json:"persistence,omitempty"`
	IdleTimeout vm.Optional[vm.Seconds] `json:"idleTimeoutSeconds,omitzero"`

	// Ours.
	Name    string                  `json:"name,omitempty"` // the children are NAME-1, NAME-2, ...
	TTL     vm.Optional[vm.Seconds] `json:"ttlSeconds,omitzero"`
	Volumes string                  `json:"volumes,omitempty"` // if volumes are mounted: "cut", "ro", "detach"; absent = refused
	Folders string                  `json:"folders,omitempty"` // what children get of its directories of the host: "ro" (default), "rw", "none"

	Network vm.NetworkSpec `json:"network,omitempty"` // narrower than the parent's; absent = the parent's

	Labels map[string]string `json:"labels,omitempty"` // in addition to the parent's; the same key replaces the parent's value
}

// ForkedVM answers a fork.
type ForkedVM struct {
	VMID  vm.ID  `json:"vmId"` // the parent
	Forks []Fork `json:"forks"`

	// Ours.
	GenerationID vm.GenerationID `json:"generationId"`
	PauseMs      float64         `json:"pauseMs"` // how long the parent was paused
	Durable      bool            `json:"durable"` // the generation's files are durable
	Caveats      []string        `json:"caveats"` // state that the children share despite the resets
	First        bool            `json:"first"`   // the first known fork of the VM or of its parents
}

// Fork is one child.
type Fork struct {
	ID         vm.ID    `json:"id"`
	Domains    []string `json:"domains"`
	ConsoleURL *string  `json:"consoleUrl"`

	// Ours.
	Name        string         `json:"name,omitempty"`
	Persistence vm.Persistence `json:"persistence"`
	IdleTimeout *vm.Seconds    `json:"idleTimeoutSeconds"`
	ExpiresAt   time.Time      `json:"expiresAt,omitzero"`
}

// SuspendVM is the body of a suspend; it may be absent.
type SuspendVM struct {
	Cold bool `json:"cold,omitempty"` // compress and encrypt the memory at once
}

// SuspendedVM answers a suspend.
type SuspendedVM struct {
	ID              vm.ID           `json:"id"`
	VMInstanceID    string          `json:"vmInstanceId"`
	SnapshotLayerID vm.GenerationID `json:"snapshotLayerId"`

	Remains     Remains `json:"remains"`
	MemoryBytes int64   `json:"memoryBytes"` // disk space of the memory
}

// DrainedVMs answers POST /v1/drain.
type DrainedVMs struct {
	VMs []DrainedVM `json:"vms"` // VMs that ran; never null
}

// Undrained answers DELETE /v1/drain.
type Undrained struct {
	Resumed int `json:"resumed"` // VMs that continue
}

// SetOnBoot is the body of PUT on-boot.
type SetOnBoot struct {
	OnBoot string `json:"onBoot"` // resume, stay; "" = by its persistence type
}

// DrainedVM is the result for one VM that ran.
type DrainedVM struct {
	ID            vm.ID  `json:"id"`
	Name          string `json:"name,omitempty"`
	State         string `json:"state"`           // suspended, or its state if that failed
	ResumesOnBoot bool   `json:"resumesOnBoot"`   // the next start of the server resumes it
	Error         string `json:"error,omitempty"` // why it still runs
}

// TakeSnapshot is the body of POST /v1/vms/{vm}/snapshot.
type TakeSnapshot struct {
	Name        string          `json:"name,omitempty"`
	Persistence *vm.Persistence `json:"persistence,omitempty"`
	DiskOnly    bool            `json:"diskOnly,omitempty"` // ours: no memory
	Volumes     string          `json:"volumes,omitempty"`  // ours: "cut", "detach"; as in ForkVM
}

// TakenSnapshot answers POST /v1/vms/{vm}/snapshot.
type TakenSnapshot struct {
	SnapshotID         vm.SnapshotID `json:"snapshotId"`
	SourceVMID         vm.ID         `json:"sourceVmId"`
	SourceVMInstanceID string        `json:"sourceVmInstanceId,omitempty"`

	Snapshot Snapshot `json:"snapshot"` // ours
}

// NameSnapshot renames a snapshot.
type NameSnapshot struct {
	Name string `json:"name"`
}

// ChangedSnapshot answers a rename or a delete; in snake case, as the contract
// has it.
type ChangedSnapshot struct {
	SnapshotID vm.SnapshotID `json:"snapshot_id"`
	Name       string        `json:"name,omitempty"`
}

// RollbackVM is the body of a rollback.
type RollbackVM struct {
	Volumes string `json:"volumes,omitempty"` // if volumes are mounted, or were mounted then: "cut", "detach"; absent = refused
	To      string `json:"to,omitempty"`      // a generation, or a snapshot's id or name; "" = the newest of the VM
}

// RolledBackVM answers a rollback.
type RolledBackVM struct {
	ID        vm.ID         `json:"id"`
	VM        VM            `json:"vm"`
	To        vm.Generation `json:"to"`
	Before    vm.Generation `json:"before"`    // roll back to it to undo the rollback
	NotUndone []string      `json:"notUndone"` // things that a rollback does not undo
}

// ResizedVM answers a resize; its body is Sizes. The members are ours: the
// contract's answer is empty.
type ResizedVM struct {
	How    map[string]string `json:"how"`           // "cpu", "memory", "disk" to "live", "restart" or "at-next-start"
	Why    map[string]string `json:"why,omitempty"` // why a part could not be changed while the VM ran
	Sizing Sizing            `json:"sizing"`
	Losses []string          `json:"losses,omitempty"` // parts that a restart did not restore
}

// Lineage is the history of VMs and generations.
type Lineage struct {
	VMs         []VM            `json:"vms"`
	Generations []vm.Generation `json:"generations"` // oldest first
}

// KeepVM is the body of a keep.
type KeepVM struct {
	Over   string `json:"over"`             // the VM that it replaces
	Remove bool   `json:"remove,omitempty"` // delete that VM afterwards

	RemoveOthers bool `json:"removeOthers,omitempty"` // delete the other VMs that were forked from the same state
}

// KeptVM answers a keep.
type KeptVM struct {
	VM   VM `json:"vm"`
	Over VM `json:"over"`

	Removed []vm.ID `json:"removed,omitempty"` // the others
}

// Schedule is the interval of automatic generations.
type Schedule struct {
	CaptureEvery vm.Seconds `json:"captureEverySeconds"` // 0 = never
}

// Snapshot is a snapshot as the contract shows it.
type Snapshot struct {
	SnapshotID          vm.SnapshotID  `json:"snapshotId"`
	State               string         `json:"state"`
	CreatedAt           time.Time      `json:"createdAt"`
	Name                string         `json:"name,omitempty"`
	AccountID           string         `json:"accountId"`
	Failed              bool           `json:"failed"`
	Cancelled           bool           `json:"cancelled"`
	Lost                bool           `json:"lost"`
	Deleted             bool           `json:"deleted"`
	SnapshotPersistence vm.Persistence `json:"snapshotPersistence"`
	VCPUCount           int            `json:"vcpuCount"`
	MemSizeMib          int            `json:"memSizeMib"`
	RootfsSizeMb        int            `json:"rootfsSizeMb"`
	SourceVMID          vm.ID          `json:"sourceVmId,omitempty"`
	FailureReason       string         `json:"failureReason,omitempty"`
	BuildID             vm.BuildID     `json:"buildId,omitempty"`

	// Ours.
	GenerationID vm.GenerationID `json:"generationId,omitempty"`
	Parent       vm.GenerationID `json:"parent,omitempty"`
	Why          vm.Why          `json:"why,omitempty"`
	Memory       bool            `json:"memory,omitempty"` // with memory: a start continues its programs
	DataBytes    int64           `json:"dataBytes,omitempty"`
	// VolumesSeen are the volumes whose contents the memory may hold.
	VolumesSeen  []vm.VolumeID `json:"volumesSeen,omitempty"`
	PauseMs      float64       `json:"pauseMs,omitempty"`
	SourceVMName string        `json:"sourceVmName,omitempty"`
	// MayContain lists kinds of data that it may contain: "memory",
	// "processes", "files", "prompts", "credentials".
	MayContain []string `json:"mayContain,omitempty"`
}

// SnapshotList answers GET /v1/vms/snapshots.
type SnapshotList struct {
	Snapshots      []Snapshot `json:"snapshots"`
	TotalCount     int        `json:"totalCount"`
	BuildingCount  int        `json:"buildingCount"`
	ReadyCount     int        `json:"readyCount"`
	FailedCount    int        `json:"failedCount"`
	CancelledCount int        `json:"cancelledCount"`
	LostCount      int        `json:"lostCount"`
	DeletedCount   int        `json:"deletedCount"`
}
