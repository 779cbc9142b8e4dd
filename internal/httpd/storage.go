// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func (s *server) storageRoutes() []route {
	return []route{
		{"GET", "/v1/storage", key, s.storage, "The use of the disk, and what would be removed next; accounts that are not admins see their own.", nil, vm.Storage{}, false, ""},
		{"POST", "/v1/storage/prune", key, s.prune, "Free what the budget requires plus the requested bytes: layers first, then sticky VMs that do not run; accounts that are not admins prune their own.", api.Prune{}, vm.Pruned{}, false, ""},
		{"GET", "/v1/quota", key, s.ownQuota, "The quota and use of the caller's account.", nil, vm.QuotaState{}, false, ""},
		{"GET", "/v1/accounts/{account}/quota", admin, s.quota, "The quota and use of an account.", nil, vm.QuotaState{}, false, ""},
		{"PUT", "/v1/accounts/{account}/quota", admin, s.setQuota, "Set the quota of an account; 0 or absent = no limit.", vm.Quota{}, vm.QuotaState{}, false, ""},
	}
}

func (s *server) storage(q *request) error {
	out, err := s.Engine.Storage(q.Context(), q.call)
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) prune(q *request) error {
	var in api.Prune
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	out, err := s.Engine.Prune(q.Context(), q.call, engine.PruneRequest{DryRun: in.DryRun, Free: in.Free})
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) ownQuota(q *request) error {
	out, err := s.Engine.Quota(q.Context(), q.call, "")
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) quota(q *request) error {
	out, err := s.Engine.Quota(q.Context(), q.call, vm.AccountID(q.values["account"]))
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) setQuota(q *request) error {
	var in vm.Quota
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	out, err := s.Engine.SetQuota(q.Context(), q.call, vm.AccountID(q.values["account"]), in)
	if err != nil {
		return err
	}
	return q.ok(out)
}
