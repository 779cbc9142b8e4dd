// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// Metrics is the part of a VM's usage that the contract's lists show.
type Metrics struct {
	WallTimeSeconds float64 `json:"wallTimeSeconds"` // running time on that day
	BillingDay      string  `json:"billingDay"`      // today, in UTC
	IsActiveToday   bool    `json:"isActiveToday"`
}

// DeletedVM answers a delete.
type DeletedVM struct {
	ID       vm.ID `json:"id"`
	Recreate bool  `json:"recreate"`

	Shredded *vm.Shredded `json:"shredded,omitempty"` // ours: with shred=true
}

// FinishVM is the body of POST /v1/vms/{vm}/done. All members may be absent:
// then the steps are only listed.
type FinishVM struct {
	Label         string          `json:"label,omitempty"`         // the caller's name for the job: a ticket, a run
	Retention     string          `json:"retention,omitempty"`     // stop, suspend (compressed and encrypted), destroy; "" = leave the VM as it is
	DropSnapshots []vm.SnapshotID `json:"dropSnapshots,omitempty"` // snapshots of the VM to delete
	KeepSnapshots bool            `json:"keepSnapshots,omitempty"` // confirms that the others have a purpose
	LockVolumes   bool            `json:"lockVolumes,omitempty"`   // unmount its volumes and folders of the host, and lock the volumes that no other VM has
	RevokeTokens  bool            `json:"revokeTokens,omitempty"`  // of the identities that were granted the VM
	Rotate        bool            `json:"rotate,omitempty"`        // give the secrets that the VM could use new values at their services, where Warren can
	Rotated       bool            `json:"rotated,omitempty"`       // credentials that code in it could reach are no longer valid
	LogsReviewed  bool            `json:"logsReviewed,omitempty"`
	Ship          *vm.ObjectRef   `json:"ship,omitempty"` // store its logs and the record as objects whose keys begin with this key
}

// JobList answers GET /v1/jobs.
type JobList struct {
	Jobs []vm.Job `json:"jobs"` // newest first
}

// UsageList answers GET /v1/usage.
type UsageList struct {
	Accounts []vm.Usage `json:"accounts"` // sums, including deleted VMs
	VMs      []vm.Usage `json:"vms"`      // newest first; at most 200 deleted VMs
}
