// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// failure is the body of an error of the control API and of /files. The SDKs of JavaScript
// test the code in it, not the status.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// status is the HTTP status of an error for the SDKs.
func status(err error) int {
	if errors.Is(err, access.ErrPace) {
		return http.StatusTooManyRequests
	}
	switch vm.KindOf(err) {
	case vm.Limit:
		return http.StatusTooManyRequests
	case vm.Unsupported:
		return http.StatusBadRequest
	case vm.NoSpace:
		return http.StatusInsufficientStorage
	case vm.Busy:
		return http.StatusConflict
	}
	return api.Status(err)
}

// text is what a client reads of an error: what happened, and what to do about it.
func (d *Door) text(err error) string {
	e := vm.AsError(d.Journal.Conceal(err))
	bare := *e
	bare.Op = ""
	out := bare.Error()
	if e.Hint != "" {
		out += " (" + e.Hint + ")"
	}
	return out
}

// fail answers with an error.
func (d *Door) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := status(err)
	if vm.KindOf(err) == vm.Internal {
		d.Log.Error("request of an E2B SDK failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	d.refuse(w, code, d.text(err))
}

func (d *Door) refuse(w http.ResponseWriter, code int, message string) {
	send(w, code, failure{code, message})
}

// send answers with JSON.
func send(w http.ResponseWriter, code int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(data) // an error means that the caller is gone
}

func pathOf(escaped string) (string, error) { return url.PathUnescape(escaped) }

func invalid(subject, format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, subject, format, args...)
}
