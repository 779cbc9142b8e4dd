// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/http"

	"github.com/warren-vm/warren/vm"
)

// monitorCalls are the calls that a VM's monitor makes for itself, by method and path. The
// guest cannot make them: its requests keep the host name that it asked for.
func (s *server) monitorCalls() map[string]func(*request, vm.VM) error {
	return map[string]func(*request, vm.VM) error{
		"POST /path-ask":         s.askPath,
		"POST /secret-use":       s.useSecret,
		"POST /secret-misplaced": s.misplacedSecret,
		"POST /connections":      s.connectionsOf,
	}
}

// ServeMonitor answers a call of a VM's monitor.
func (h Handler) ServeMonitor(w http.ResponseWriter, r *http.Request, id vm.ID) {
	s := h.server
	v, ok := s.Engine.VMOf(id)
	call, known := s.monitorCalls()[r.Method+" "+r.URL.Path]
	q := &request{Request: r, w: w, call: &vm.Call{Actor: vm.Actor{Account: v.Account, VM: v.ID}, Request: vm.NewRequestID()}, room: s.large, wait: s.patience}
	defer q.letGo()
	var err error
	switch {
	case !ok:
		err = vm.Errorf(vm.NotFound, string(id), "this VM is not known")
	case !known:
		err = vm.Errorf(vm.NotFound, r.URL.Path, "the server has no such call for monitors")
	default:
		err = call(q, v)
	}
	if err != nil {
		q.fail(s, err)
	}
}
