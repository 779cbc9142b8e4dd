// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/warren-vm/warren/vm"
)

// fail makes err a *vm.Error and sets its verb and subject unless it has them. It returns
// nil for nil.
func fail(op vm.Op, subject string, err error) error {
	if errors.Is(err, ErrDied) {
		return err
	}
	return vm.WithOp(op, subject, err)
}

func notFound(ref string) *vm.Error {
	return vm.Errorf(vm.NotFound, ref, "no such VM").
		WithCode("VM_NOT_FOUND", "vmId", ref).
		WithHint("`warren ls` lists ids and names")
}

func busy(id vm.ID, running vm.Op) *vm.Error {
	code := ""
	if running == vm.OpCreate {
		code = "STILL_CREATING"
	}
	return vm.Errorf(vm.Busy, string(id), "%s is in progress", running).
		WithCode(code, "vmId", string(id), "operation", string(running)).
		WithHint("try again when it has ended")
}

// notLegal adds the API's code to a refusal of vm.State.Allow.
func notLegal(rec vm.VM, err error) error {
	return vm.AsError(err).WithCode("VM_NOT_RUNNING", "vmId", string(rec.ID), "state", string(rec.State))
}

// badCreate returns the refusal of a create request.
func badCreate(subject, format string, args ...any) *vm.Error {
	e := vm.Errorf(vm.Invalid, subject, format, args...)
	return e.WithCode("CREATE_VM_BAD_REQUEST", "message", e.Msg)
}

// cause returns the cause of an ended context instead of the bare context error that a
// call below returned.
func cause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if c := context.Cause(ctx); vm.KindOf(err) == vm.Cancelled || vm.KindOf(err) == vm.Timeout {
		return c
	}
	return err
}
