// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"slices"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func (s *server) idleRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/idle", granted, s.idle, "Since when the VM is idle, what keeps it awake, when it falls asleep; does not wake it.", nil, vm.Idle{}, false, ""},
		{"GET", "/v1/vms/{vm}/holds", key, s.holds, "The holds that keep the VM awake.", nil, api.HoldList{}, false, ""},
		{"POST", "/v1/vms/{vm}/holds", key, s.hold, "Keep the VM awake for a while.", api.NewHold{}, vm.Hold{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/holds/{hold}", key, s.release, "End a hold early.", nil, okBody{}, false, ""},
	}
}

// shownHolds removes the server's id from holds: it is only for the record.
func shownHolds(list []vm.Hold) []vm.Hold {
	list = slices.Clone(list)
	for i := range list {
		list[i].Host = ""
	}
	return list
}

func (s *server) idle(q *request) error {
	i, err := s.Engine.Idle(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	i.Holds = shownHolds(i.Holds)
	return q.ok(i)
}

func (s *server) holds(q *request) error {
	l, err := s.Engine.Holds(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(api.HoldList{Holds: shownHolds(l)})
}

func (s *server) hold(q *request) error {
	var in api.NewHold
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r := engine.HoldRequest{Reason: in.Reason}
	if in.For != nil {
		if *in.For <= 0 || *in.For > vm.Seconds(vm.MaxHold) {
			return vm.Errorf(vm.Invalid, "seconds", "%s is not within 1 to %s", *in.For, vm.Seconds(vm.MaxHold)).WithCode("INVALID_REQUEST")
		}
		r.For = time.Duration(*in.For)
	}
	h, err := s.Engine.Hold(q.Context(), q.call, q.ref(), r)
	if err != nil {
		return err
	}
	h.Host = ""
	return q.ok(h)
}

func (s *server) release(q *request) error {
	if err := s.Engine.Release(q.Context(), q.call, q.ref(), vm.HoldID(q.values["hold"])); err != nil {
		return err
	}
	return q.ok(okBody{})
}
