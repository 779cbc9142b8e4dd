// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/http"

	"github.com/warren-vm/warren/vm"
)

func (s *server) diffRoutes() []route {
	const query = "from to path hunks all patch"
	return []route{
		{"GET", "/v1/vms/{vm}/diff", granted, s.diff, "What differs between two states of VMs: a generation, a snapshot, a turn, image, parent, vm:NAME or now. An identity needs a permission for root.", nil, vm.Diff{}, false, query},
		{"POST", "/v1/vms/{vm}/diff", granted, s.diff, "Like GET, with the question in the body.", vm.DiffRequest{}, vm.Diff{}, false, ""},
		{"GET", "/v1/vms/{vm}/diff/patch", granted, s.patch, "The difference as a patch that `git apply` takes, with what it leaves out as comments.", nil, nil, true, "from to path"},
		{"GET", "/v1/vms/{vm}/truth", granted, s.truth, "Where the authoritative copy of each tree of a VM is (the machine, a repository, a volume), what differs between the copies, and what exists nowhere else. An identity needs a permission for root.", nil, vm.Truth{}, false, ""},
	}
}

// diffRequest reads the question from the query or the body.
func (q *request) diffRequest() (r vm.DiffRequest, err error) {
	if q.Method == http.MethodPost {
		return r, q.decode(&r, maxBody)
	}
	v := q.query()
	r.From, r.To = v.Get("from"), v.Get("to")
	for _, p := range v["path"] {
		r.Paths = append(r.Paths, vm.GuestPath(p))
	}
	if r.Hunks, err = q.bool("hunks"); err != nil {
		return r, err
	}
	if r.Patch, err = q.bool("patch"); err != nil {
		return r, err
	}
	r.All, err = q.bool("all")
	return r, err
}

func (s *server) diff(q *request) error {
	r, err := q.diffRequest()
	if err != nil {
		return err
	}
	d, err := s.Changes.Diff(q.Context(), q.call, q.ref(), r)
	if err != nil {
		return err
	}
	return q.ok(d)
}

func (s *server) patch(q *request) error {
	r, err := q.diffRequest()
	if err != nil {
		return err
	}
	r.Patch, r.All = true, true
	d, err := s.Changes.Diff(q.Context(), q.call, q.ref(), r)
	if err != nil {
		return err
	}
	q.header("text/x-patch; charset=utf-8")
	_ = d.WritePatch(q.w) // an error means that the caller is gone
	return nil
}

func (s *server) truth(q *request) error {
	t, err := s.Changes.Truth(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(t)
}
