// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"slices"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

func (s *server) pathRules(q *request) error {
	v, err := s.Engine.Get(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(api.PathRules{Rules: s.Engine.ShowPaths(v)})
}

// addPath puts a rule before all others, in place of one with the same pattern.
func (s *server) addPath(q *request) error {
	var in api.AddPath
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return s.editPaths(q, func(_ vm.VM, list []vm.PathRule) ([]vm.PathRule, error) {
		r, err := pathrule.Canonical(in.Action, in.Path, in.Mount)
		if err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(old vm.PathRule) bool { return old.Path == r.Path })
		return append([]vm.PathRule{r}, list...), nil
	})
}

func (s *server) setPaths(q *request) error {
	var in api.SetPaths
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return s.editPaths(q, func(vm.VM, []vm.PathRule) ([]vm.PathRule, error) { return canonicalPaths(in.Rules) })
}

// canonicalPaths makes rules of what a caller wrote, in this order.
func canonicalPaths(in []api.AddPath) (list []vm.PathRule, err error) {
	for _, p := range in {
		r, err := pathrule.Canonical(p.Action, p.Path, p.Mount)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// removePath removes the rule that has an id or a pattern.
func (s *server) removePath(q *request) error {
	want := q.query().Get("rule")
	pattern := want
	if r, err := pathrule.Canonical(vm.PathDeny, want, q.query().Get("mount")); err == nil {
		pattern = r.Path
	}
	return s.editPaths(q, func(v vm.VM, list []vm.PathRule) ([]vm.PathRule, error) {
		left := slices.DeleteFunc(list, func(r vm.PathRule) bool { return r.ID == want || r.Path == want || r.Path == pattern })
		if len(left) == len(v.Paths) {
			return nil, vm.Errorf(vm.NotFound, vm.GuestPath(vm.Clip(want, 200)).String(), "the VM has no such path rule").
				WithCode("PATH_RULE_NOT_FOUND", "rule", want).WithHint("`warren path show` lists them")
		}
		return left, nil
	})
}

func (s *server) editPaths(q *request, edit func(vm.VM, []vm.PathRule) ([]vm.PathRule, error)) error {
	v, err := s.Engine.EditPaths(q.Context(), q.call, q.ref(), edit)
	if err != nil {
		return err
	}
	return q.ok(api.PathRules{Rules: s.Engine.ShowPaths(v)})
}

// pathPatience is how long a question about a path waits: the guest's call blocks meanwhile.
const pathPatience = 30 * time.Second

// askPath answers a monitor that asks about a path of a folder: it waits for the decision of
// the account. Without one the answer is no.
func (s *server) askPath(q *request, v vm.VM) error {
	var in vm.PathQuestion
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	ask := vm.Ask{Account: v.Account, VM: v.ID, Verb: vm.OpRead, What: vm.Clip(vm.GuestPath(in.Path).String(), 4096), Details: map[string]string{"path": vm.Clip(in.Path, 4096)}}
	if in.Write {
		ask.Verb = vm.OpWrite
	}
	// The monitor asks, not a program of the VM, which may see only what it proposed itself.
	c := vm.Call{Actor: vm.Actor{Account: v.Account, System: "path rule"}, Request: q.call.Request, AskFor: pathPatience}
	_, err := s.Asks.Call(q.Context(), &c, ask)
	switch {
	case err == nil:
		return q.ok(vm.PathDecision{Allowed: true})
	case vm.AsError(err).Code == "ASK_DENIED":
		return q.ok(vm.PathDecision{})
	}
	return err
}
