// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Kind is the kind of a failure. It is itself an error, so that errors.Is(err, vm.Busy)
// works on both sides of the wire. Clients see kinds, so they are never renamed.
type Kind string

// The kinds of failure.
const (
	Invalid         Kind = "invalid"         // malformed or contradictory request
	Unauthenticated Kind = "unauthenticated" // no or unknown credentials
	Denied          Kind = "denied"          // known caller, no right
	NotFound        Kind = "not-found"       // no such VM, image, process, path
	Exists          Kind = "exists"          // name or id is taken
	WrongState      Kind = "state"           // not legal in this state
	Busy            Kind = "busy"            // another operation holds the VM
	Limit           Kind = "limit"           // quota or memory exhausted
	NoSpace         Kind = "no-space"        // disk exhausted
	Unsupported     Kind = "unsupported"     // this hypervisor, image or host cannot
	Unavailable     Kind = "unavailable"     // starting, stopping, or not up yet
	Timeout         Kind = "timeout"         // Warren's deadline passed
	GuestFault      Kind = "guest"           // the guest answered wrongly or not at all
	Corrupt         Kind = "corrupt"         // data failed its check
	Internal        Kind = "internal"        // a bug
	Cancelled       Kind = "cancelled"       // the caller left
)

// Error makes a Kind usable as a target of errors.Is.
func (k Kind) Error() string { return string(k) }

// Error is the error type between packages and on the wire.
type Error struct {
	Op      Op             // verb that failed; empty = not yet known
	Kind    Kind           // never empty
	Code    string         // contract code, if more exact than the kind's own; see package api
	Subject string         // what it was done to: an id, a name, a path
	Msg     string         // the reason, lower case, without the subject
	Hint    string         // one sentence: what to do next
	Fields  map[string]any // additional top-level members of the wire error, camelCase
	Err     error          // cause; may be nil
}

// Error renders "op: on subject: why: cause".
func (e *Error) Error() string {
	var parts []string
	if e.Op != "" {
		parts = append(parts, string(e.Op))
	}
	if e.Subject != "" {
		parts = append(parts, e.Subject)
	}
	if e.Msg != "" {
		parts = append(parts, e.Msg)
	}
	if e.Err != nil && e.Err.Error() != "" {
		parts = append(parts, e.Err.Error())
	}
	if len(parts) == 0 {
		return string(e.Kind)
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Errorf returns an error of kind k about subject. The format may use %w.
func Errorf(k Kind, subject, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Subject: subject, Msg: err.Error(), Err: hidden{errors.Unwrap(err)}.orNil()}
}

// hidden keeps a cause reachable for errors.Is without printing it twice.
type hidden struct{ error }

func (h hidden) orNil() error {
	if h.error == nil {
		return nil
	}
	return h
}
func (h hidden) Error() string { return "" }
func (h hidden) Unwrap() error { return h.error }

// WithHint returns a copy of e that carries the hint.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithCode returns a copy of e that carries a contract code and its fields,
// given as name, value pairs.
func (e *Error) WithCode(code string, pairs ...any) *Error {
	c := *e
	c.Code = code
	c.Fields = make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		c.Fields[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return &c
}

// KindOf returns the kind of err: that of the first *Error in its chain,
// Cancelled or Timeout for context errors, else Internal. It returns "" for nil.
func KindOf(err error) Kind {
	var e *Error
	var k Kind
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Kind
	case errors.As(err, &k):
		return k
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	default:
		return Internal
	}
}

// WithOp returns err as an error of a verb on a subject, unless err already
// names them. It returns nil for nil.
func WithOp(op Op, subject string, err error) error {
	if err == nil {
		return nil
	}
	out := *AsError(err)
	out.Op = cmp.Or(out.Op, op)
	out.Subject = cmp.Or(out.Subject, subject)
	if out.Kind == Cancelled && out.Msg == "" {
		out.Msg = "the caller left"
	}
	return &out
}

// AsError returns the first *Error in err's chain, or wraps err in one.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: KindOf(err), Err: err}
}
