// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"encoding/json"
)

// WireError is an Error as JSON between the parts of Warren: the guest's agent, the VM's monitor
// and the server. The public API has its own form, set by a contract; see api.ErrorBody.
type WireError struct {
	Op      Op             `json:"op,omitempty"`
	Kind    Kind           `json:"kind"`
	Code    string         `json:"code,omitempty"`
	Subject string         `json:"subject,omitempty"`
	Msg     string         `json:"msg,omitempty"`
	Message string         `json:"message,omitempty"` // used by monitors of older versions in place of Msg
	Hint    string         `json:"hint,omitempty"`
	Fields  map[string]any `json:"fields,omitempty"`
}

// ToWire returns the wire form of err. Causes become part of its message; fields
// that cannot be JSON are left out.
func ToWire(err error) *WireError {
	e := AsError(err)
	w := &WireError{Op: e.Op, Kind: e.Kind, Code: e.Code, Subject: e.Subject, Msg: e.Msg, Hint: e.Hint, Fields: e.Fields}
	if e.Err != nil && e.Err.Error() != "" {
		if w.Msg != "" {
			w.Msg += ": "
		}
		w.Msg += e.Err.Error()
	}
	if _, err := json.Marshal(w.Fields); err != nil {
		w.Fields = nil
	}
	return w
}

// Error returns the *Error with the wire form w.
func (w *WireError) Error() *Error {
	return &Error{Op: w.Op, Kind: w.Kind, Code: w.Code, Subject: w.Subject, Msg: cmp.Or(w.Msg, w.Message), Hint: w.Hint, Fields: w.Fields}
}
