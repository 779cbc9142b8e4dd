// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/warren-vm/warren/vm"
)

// KindRow says how one kind of failure looks outside.
type KindRow struct {
	Kind   vm.Kind
	Status int    // HTTP status
	Code   string // contract code when the error names none; known to the SDKs
	Exit   int    // exit status of the command line
	Retry  bool   // the same request may succeed later
	Means  string // for help texts
}

// Kinds is the table of failures. Server, client and command line use this one.
var Kinds = []KindRow{
	{vm.Internal, http.StatusInternalServerError, "INTERNAL_ERROR", 1, false, "a bug in Warren"},
	{vm.Invalid, http.StatusBadRequest, "INVALID_REQUEST", 2, false, "the request is malformed or contradicts itself"},
	{vm.NotFound, http.StatusNotFound, "NOT_FOUND", 3, false, "no such VM, image, process or path"},
	{vm.Unauthenticated, http.StatusUnauthorized, "UNAUTHORIZED_ERROR", 4, false, "no or unknown API key"},
	{vm.Denied, http.StatusForbidden, "FORBIDDEN", 4, false, "this key may not do that"},
	{vm.Exists, http.StatusConflict, "BAD_REQUEST", 5, false, "the name or id is taken"},
	{vm.WrongState, http.StatusConflict, "BAD_REQUEST", 6, false, "not possible in the VM's state"},
	{vm.Busy, http.StatusConflict, "STILL_CREATING", 7, true, "another operation is under way"},
	{vm.Limit, http.StatusTooManyRequests, "BAD_REQUEST", 8, true, "a limit or the host's memory is reached"},
	{vm.NoSpace, http.StatusInsufficientStorage, "NO_LOCAL_STORAGE_CAPACITY", 8, true, "no disk space"},
	{vm.Unsupported, http.StatusNotImplemented, "BAD_REQUEST", 9, false, "this host, image or version cannot do that"},
	{vm.Unavailable, http.StatusServiceUnavailable, "INTERNAL_ERROR", 10, true, "the server is not there or not ready"},
	{vm.Timeout, http.StatusGatewayTimeout, "VM_START_TIMEOUT", 11, true, "a deadline has passed"},
	{vm.GuestFault, http.StatusBadGateway, "RESUMED_VM_NON_RESPONSIVE", 12, false, "the guest does not answer or answers wrongly"},
	{vm.Corrupt, http.StatusInternalServerError, "CORRUPT_VM_RECORD", 13, false, "data failed its check"},
	{vm.Cancelled, 499, "INTERNAL_ERROR", 130, true, "interrupted"},
}

// RowOf returns the row of a kind; that of Internal for an unknown one.
func RowOf(k vm.Kind) KindRow {
	for _, r := range Kinds {
		if r.Kind == k {
			return r
		}
	}
	return Kinds[0]
}

// codeStatus holds the statuses of codes that differ from their kind's.
var codeStatus = map[string]int{
	"VM_NOT_RUNNING":              http.StatusBadRequest,
	"EXEC_TIMED_OUT":              http.StatusRequestTimeout,
	"VM_DELETED":                  http.StatusGone,
	"VM_SETUP_FAILED":             http.StatusInternalServerError,
	"VM_EXIT_DURING_START":        http.StatusInternalServerError,
	"NO_LOCAL_STORAGE_CAPACITY":   http.StatusServiceUnavailable,
	"VM_LIMIT_EXCEEDED":           http.StatusForbidden,
	"EVENTS_GONE":                 http.StatusGone,
	"RESUMED_VM_NON_RESPONSIVE":   http.StatusInternalServerError,
	"SNAPSHOT_IS_ACCOUNT_DEFAULT": http.StatusConflict,
}

// Status returns the HTTP status that err is answered with.
func Status(err error) int {
	e := vm.AsError(err)
	if s, ok := codeStatus[e.Code]; ok {
		return s
	}
	return RowOf(e.Kind).Status
}

// ExitCode returns the exit status of a command that ended with err; 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	return RowOf(vm.KindOf(err)).Exit
}

// ErrorBody is every error answer: the contract's members, ours beside them,
// and the error's own fields at the top level.
type ErrorBody struct {
	Code      string         `json:"code"`
	Error     string         `json:"error"`   // the code again, for older readers
	Message   string         `json:"message"` // what, on what, why
	Kind      vm.Kind        `json:"kind"`
	Op        vm.Op          `json:"op,omitempty"`
	Subject   string         `json:"subject,omitempty"`
	Hint      string         `json:"hint,omitempty"`
	RequestID vm.RequestID   `json:"requestId,omitempty"`
	Fields    map[string]any `json:"-"`
}

// EncodeError returns the body for err.
func EncodeError(err error, request vm.RequestID) ErrorBody {
	e := vm.AsError(err)
	code := e.Code
	if code == "" {
		code = RowOf(e.Kind).Code
	}
	msg := e.Error()
	if e.Kind == vm.Internal {
		msg += fmt.Sprintf(" (report it with request %s)", request)
	}
	return ErrorBody{
		Code: code, Error: code, Message: msg, Kind: e.Kind, Op: e.Op, Subject: e.Subject,
		Hint: e.Hint, RequestID: request, Fields: e.Fields,
	}
}

// plainBody has ErrorBody's members without its methods.
type plainBody ErrorBody

// MarshalJSON puts the fields beside the named members, which win.
func (b ErrorBody) MarshalJSON() ([]byte, error) {
	named, err := json.Marshal(plainBody(b))
	if err != nil || len(b.Fields) == 0 {
		return named, err
	}
	all := maps.Clone(b.Fields)
	if err := json.Unmarshal(named, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// UnmarshalJSON keeps members that have no name here in Fields.
func (b *ErrorBody) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainBody)(b)); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &b.Fields); err != nil {
		return err
	}
	for _, name := range []string{"code", "error", "message", "kind", "op", "subject", "hint", "requestId"} {
		delete(b.Fields, name)
	}
	return nil
}

// remote is a server's message, shown as it came.
type remote string

func (r remote) Error() string { return string(r) }

// DecodeError rebuilds the error that the server had, so that errors.Is works
// on both sides. The message is the server's own.
func DecodeError(b ErrorBody) *vm.Error {
	kind := b.Kind
	if kind == "" {
		kind = vm.Internal
	}
	return &vm.Error{Kind: kind, Code: b.Code, Hint: b.Hint, Fields: b.Fields, Err: remote(b.Message)}
}
