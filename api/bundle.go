// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// OpenedBundle is what was made from a bundle.
type OpenedBundle struct {
	VMID         vm.ID              `json:"vmId"` // "" = the bundle has no machine
	Name         string             `json:"name"`
	State        vm.State           `json:"state"`
	Memory       bool               `json:"memory"` // a start continues its processes
	Repositories []OpenedRepository `json:"repositories"`
	Bucket       string             `json:"bucket"`   // a new one, with the objects as BUCKET/KEY, and the receipts in receipts.json
	Objects      int                `json:"objects"`  // versions of objects in it
	Receipts     int                `json:"receipts"` // audit records of the other server; this server's chain has only its own
	Server       string             `json:"server"`   // id of the server that packed it
	Signer       string             `json:"signer"`   // fingerprint
	Notes        []string           `json:"notes"`    // what differs from what was packed
}

// OpenedRepository is a repository that was made from a bundle.
type OpenedRepository struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Signer identifies the key that signs a server's bundles and backups.
type Signer struct {
	Fingerprint string `json:"fingerprint"` // SHA256: and base64
}
