// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) retentionRoutes() []route {
	return []route{
		{"GET", "/v1/usage", key, s.usage, "What the account's VMs have used, those that are gone too; for admins with all=true of every account.", nil, api.UsageList{}, false, "all"},
		{"GET", "/v1/vms/{vm}/usage", key, s.usageOf, "What one VM has used; by its id also when it is gone.", nil, vm.Usage{}, false, ""},
	}
}

func (s *server) usage(q *request) error {
	all, err := q.bool("all")
	if err != nil {
		return err
	}
	sums, vms, err := s.Engine.Usage(q.Context(), q.call, all)
	if err != nil {
		return err
	}
	return q.ok(api.UsageList{Accounts: append([]vm.Usage{}, sums...), VMs: append([]vm.Usage{}, vms...)})
}

func (s *server) usageOf(q *request) error {
	u, err := s.Engine.UsageOf(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(u)
}

// showUsage puts what a VM has used into the contract's members.
func showUsage(row *api.VM, u vm.Usage) {
	row.CPUTimeSeconds = u.CPUSeconds
	row.Metrics = &api.Metrics{WallTimeSeconds: u.DaySeconds, BillingDay: u.Day, IsActiveToday: u.DaySeconds > 0}
}
