// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/job"
	"github.com/warren-vm/warren/vm"
)

func (s *server) retentionRoutes() []route {
	return []route{
		{"GET", "/v1/usage", key, s.usage, "The usage of the account's VMs, including deleted ones; for admins with all=true of every account.", nil, api.UsageList{}, false, "all"},
		{"GET", "/v1/vms/{vm}/usage", key, s.usageOf, "The usage of one VM; a deleted VM is found by its id.", nil, vm.Usage{}, false, ""},
		{"GET", "/v1/vms/{vm}/remains", key, s.remains, "What this host holds of a VM: files, snapshots, forks, copies taken out, audit records; a deleted VM is found by its id.", nil, vm.Remaining{}, false, ""},
		{"POST", "/v1/vms/{vm}/done", key, s.done, "End the job of a VM: carry out the decided steps, return the open ones, and keep the record; a deleted VM is found by its id.", api.FinishVM{}, vm.Job{}, false, ""},
		{"GET", "/v1/jobs", key, s.jobs, "The last two hundred finished jobs, newest first.", nil, api.JobList{}, false, ""},
	}
}

func (s *server) remains(q *request) error {
	r, err := s.Job.Remains(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(r)
}

func (s *server) done(q *request) error {
	var in api.FinishVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	record, err := s.Job.Done(q.Context(), q.call, q.ref(), job.DoneRequest(in))
	if err != nil {
		return err
	}
	record.Host = "" // the server's id is only for the record
	return q.ok(record)
}

func (s *server) jobs(q *request) error {
	l, err := s.Job.Jobs(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.JobList{Jobs: append([]vm.Job{}, l...)}
	for i := range out.Jobs {
		out.Jobs[i].Host = ""
	}
	return q.ok(out)
}

func (s *server) usage(q *request) error {
	all, err := q.bool("all")
	if err != nil {
		return err
	}
	sums, vms, err := s.Meter.Usage(q.Context(), q.call, all)
	if err != nil {
		return err
	}
	return q.ok(api.UsageList{Accounts: append([]vm.Usage{}, sums...), VMs: append([]vm.Usage{}, vms...)})
}

func (s *server) usageOf(q *request) error {
	u, err := s.Meter.UsageOf(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(u)
}

// showUsage copies a VM's usage into the contract's members.
func showUsage(row *api.VM, u *vm.Usage) {
	row.CPUTimeSeconds = u.CPUSeconds
	row.Metrics = &api.Metrics{WallTimeSeconds: u.DaySeconds, BillingDay: u.Day, IsActiveToday: u.DaySeconds > 0}
}
