// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestServices: a unit is installed, listed, started, stopped and removed, and its
// journal read.
func TestServices(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx := t.Context()
	r, err := e.AddService(ctx, c, "box", "", vm.Unit{Name: "job", Mode: vm.UnitOneshot, Exec: []string{"echo done"}})
	if err != nil || !r.Success || r.ServiceID != "job.service" {
		t.Fatalf("add: %+v, %v", r, err)
	}
	_, err = e.AddService(ctx, c, "box", "", vm.Unit{Name: "job", Exec: []string{"true"}})
	wantCode(t, err, vm.Exists, "SERVICE_ALREADY_EXISTS")
	st, err := e.Service(ctx, c, "box", "", "job")
	if err != nil || st.ActiveState != "active" || st.SubState != "exited" {
		t.Errorf("status %+v, %v", st, err)
	}
	l, err := e.ServiceLogs(ctx, c, "box", "", "job", 1, "")
	if err != nil || len(l) != 1 || l[0].Message != "done" {
		t.Errorf("logs %+v, %v", l, err)
	}
	list, err := e.Services(ctx, c, "box", "")
	if err != nil || len(list) != 1 || list[0].Name != "job.service" {
		t.Errorf("list %+v, %v", list, err)
	}
	res, err := e.SwitchServices(ctx, c, "box", "", "stop", []string{"job", "none"})
	if err != nil || len(res) != 2 || !res[0].Success || res[1].Success || !strings.Contains(res[1].Message, "no such service") {
		t.Errorf("stop %+v, %v", res, err)
	}
	if st, err := e.Service(ctx, c, "box", "", "job.service"); err != nil || st.ActiveState != "inactive" {
		t.Errorf("after stop %+v, %v", st, err)
	}
	if r, err := e.RemoveService(ctx, c, "box", "", "job"); err != nil || !r.Success {
		t.Errorf("remove %+v, %v", r, err)
	}
	_, err = e.Service(ctx, c, "box", "", "job")
	wantCode(t, err, vm.NotFound, "SERVICE_NOT_FOUND")
}

// TestServicesRefused: bad units are refused before the guest is asked, and an unknown
// user has no services.
func TestServicesRefused(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx := t.Context()
	_, err := e.AddService(ctx, c, "box", "", vm.Unit{Name: "x"})
	wantCode(t, err, vm.Invalid, "EXEC_EMPTY")
	_, err = e.AddService(ctx, c, "box", "", vm.Unit{Name: "../x", Exec: []string{"true"}})
	wantCode(t, err, vm.Invalid, "SERVICE_NAME_INVALID_PREFIX")
	_, err = e.Services(ctx, c, "box", "bob")
	wantCode(t, err, vm.NotFound, "USER_NOT_FOUND")
	_, err = e.ServiceLogs(ctx, c, "box", "", "x", 0, "whenever")
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	_, err = e.SwitchServices(ctx, c, "box", "", "mask", []string{"x"})
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	// A service that does not start is installed anyway; the answer says why.
	r, err := e.AddService(ctx, c, "box", "", vm.Unit{Name: "bad", Mode: vm.UnitOneshot, Exec: []string{"false"}})
	if err != nil || r.Success || !strings.Contains(r.Message, "failed") {
		t.Errorf("failing service: %+v, %v", r, err)
	}
}
