// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestState: the state over HTTP: lists are never null, a stopped VM
// answers too, an unknown one does not.
func TestState(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	look := func() (w vm.GuestState) {
		t.Helper()
		b.do("GET", "/v1/vms/box/state", nil).lacks(t, ":null").into(t, &w)
		return w
	}
	w := look()
	if !w.Live {
		t.Error("a running VM's state is not live")
	}
	if len(w.Ports) != 3 || !w.Ports[0].Probe.OK || w.Ports[1].Probe.OK {
		t.Errorf("the ports are %+v, want three, the first answering and the second not", w.Ports)
	}
	if len(w.Services) != 2 {
		t.Errorf("the services are %+v, want two", w.Services)
	}
	b.do("POST", "/v1/vms/box/stop", nil).ok(t)
	if w := look(); w.Live || w.State != vm.Stopped {
		t.Errorf("a stopped VM's state is %q, live %v", w.State, w.Live)
	}
	b.do("GET", "/v1/vms/none/state", nil).wants(t, 404, "VM_NOT_FOUND")
}
