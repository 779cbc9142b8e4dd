// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// Metrics is what the contract's lists show of a VM's use.
type Metrics struct {
	WallTimeSeconds float64 `json:"wallTimeSeconds"` // with a machine, on that day
	BillingDay      string  `json:"billingDay"`      // today, in UTC
	IsActiveToday   bool    `json:"isActiveToday"`
}

// UsageList answers GET /v1/usage.
type UsageList struct {
	Accounts []vm.Usage `json:"accounts"` // sums, of VMs that are gone, too
	VMs      []vm.Usage `json:"vms"`      // newest first; of those that are gone the last two hundred
}
