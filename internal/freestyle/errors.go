// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/warren-vm/warren/vm"
)

// failure is the body of every error. The SDK throws FreestyleApiError with its code and message.
type failure struct {
	Code    string       `json:"code"`
	Message string       `json:"message"`
	Hint    string       `json:"hint,omitempty"` // also at the end of the message, which is all that the SDK shows
	Request vm.RequestID `json:"requestId,omitempty"`
}

// row is how a kind or code of Warren's appears to the SDK.
type row struct {
	status int
	code   string
}

// Codes of the door's own errors; codes says how they appear.
const (
	largeBody    = "large-body"
	foreignLogin = "foreign-login"
	badRange     = "bad-range"
	unstorable   = "unstorable"
)

var kinds = map[vm.Kind]row{
	vm.Invalid: {400, "BAD_REQUEST"}, vm.Unauthenticated: {401, "INVALID_API_KEY"}, vm.Denied: {403, "FORBIDDEN"}, vm.NotFound: {404, "NOT_FOUND"},
	vm.Exists: {409, "CONFLICT"}, vm.WrongState: {409, "CONFLICT"}, vm.Busy: {409, "CONFLICT"}, vm.NoSpace: {409, "CONFLICT"},
	vm.Limit: {429, "LIMIT_EXCEEDED"}, vm.Unsupported: {501, "UNSUPPORTED"}, vm.Unavailable: {503, "UNAVAILABLE"},
	vm.Timeout: {409, "VM_NON_RESPONSIVE"}, vm.GuestFault: {409, "VM_NON_RESPONSIVE"},
}

// codes are errors whose code says more than their kind.
var codes = map[string]row{
	"IDENTITY_NOT_FOUND": {404, "IDENTITY_NOT_FOUND"}, "VM_PERMISSION_NOT_FOUND": {404, "VM_PERMISSION_NOT_FOUND"},
	"DOMAIN_OWNERSHIP_ERROR": {403, "DOMAIN_NOT_OWNED"}, "DOMAIN_OWNERSHIP_NOT_VERIFIED": {403, "DOMAIN_NOT_OWNED"},
	"VERIFICATION_FAILED": {400, "VERIFICATION_FAILED"}, "INVALID_DOMAIN": {400, "INVALID_DOMAIN"}, "DOMAIN_ALREADY_EXISTS": {409, "CONFLICT"}, "USER_NOT_FOUND": {400, "BAD_REQUEST"},
	largeBody: {413, "PAYLOAD_TOO_LARGE"}, foreignLogin: {401, "INVALID_CLI_CREDENTIAL"}, badRange: {416, "RANGE_NOT_SATISFIABLE"},
	unstorable: {500, "BACKGROUND_RESULT_UNSTORABLE"},
}

// shownAs is how an error appears to the SDK.
func shownAs(err error) row {
	e := vm.AsError(err)
	if r, ok := codes[e.Code]; ok {
		return r
	}
	if r, ok := kinds[e.Kind]; ok {
		return r
	}
	return row{500, "INTERNAL_ERROR"}
}

// describe is the body of an error: what happened, and what to do about it.
func (d *Door) describe(err error, of vm.RequestID) failure {
	e := vm.AsError(d.Journal.Conceal(err))
	bare := *e
	bare.Op = ""
	out := failure{Code: shownAs(err).code, Message: bare.Error(), Hint: e.Hint, Request: of}
	if e.Hint != "" {
		out.Message += " (" + e.Hint + ")"
	}
	return out
}

// fail answers with an error.
func (d *Door) fail(w http.ResponseWriter, r *http.Request, err error) {
	send(w, d.failed(r, err, ""))
}

// failed is the answer for an error. The log has those that are a fault of Warren.
func (d *Door) failed(r *http.Request, err error, of vm.RequestID) stored {
	status := shownAs(err).status
	if status == http.StatusInternalServerError {
		d.Log.Error("request of a Freestyle SDK failed", "method", r.Method, "path", r.URL.Path, "request", of, "err", err)
	}
	return encode(answer{status, d.describe(err, of)})
}

// stored is an answer before it is sent.
type stored struct {
	status int
	body   []byte
}

func encode(a answer) stored {
	if a.body == nil {
		return stored{status: cmp.Or(a.status, http.StatusNoContent)}
	}
	data, err := json.Marshal(a.body)
	if err != nil { // the bodies are structs of plain types
		return stored{http.StatusInternalServerError, []byte(`{"code":"INTERNAL_ERROR","message":"the answer cannot be encoded"}`)}
	}
	return stored{a.status, data}
}

// send answers.
func send(w http.ResponseWriter, s stored) {
	if len(s.body) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(s.status)
	_, _ = w.Write(s.body) // an error means that the caller is gone
}

func invalid(subject, format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, subject, format, args...)
}

func unsupported(subject, format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Unsupported, subject, format, args...)
}
