// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// The Connect protocol, with JSON: https://connectrpc.com/docs/protocol.

const (
	maxMessage = 8 << 20 // bytes of a message of a client
	flagEnd    = 2
)

// rpcError is an error of the Connect protocol.
type rpcError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// codes of the Connect protocol with their HTTP status.
var rpcStatus = map[string]int{
	"invalid_argument": 400, "unauthenticated": 401, "permission_denied": 403, "not_found": 404, "already_exists": 409,
	"resource_exhausted": 429, "unavailable": 503, "deadline_exceeded": 504, "unimplemented": 501, "internal": 500, "canceled": 499,
}

// rpcCode is the Connect code of an error.
func rpcCode(err error) string {
	if vm.AsError(err).Code == "USER_NOT_FOUND" {
		return "unauthenticated"
	}
	switch vm.KindOf(err) {
	case vm.Invalid, vm.Unsupported:
		return "invalid_argument"
	case vm.Unauthenticated:
		return "unauthenticated"
	case vm.Denied:
		return "permission_denied"
	case vm.NotFound:
		return "not_found"
	case vm.Exists:
		return "already_exists"
	case vm.Limit, vm.NoSpace:
		return "resource_exhausted"
	case vm.WrongState, vm.Busy, vm.Unavailable, vm.GuestFault:
		return "unavailable"
	case vm.Timeout:
		return "deadline_exceeded"
	case vm.Cancelled:
		return "canceled"
	}
	return "internal"
}

// unary answers a call that has one answer.
func unary[In, Out any](d *Door, f func(c *visitor, in *In) (*Out, error)) func(http.ResponseWriter, *http.Request, *visitor) {
	return func(w http.ResponseWriter, r *http.Request, c *visitor) {
		in := new(In)
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		if err == nil && len(data) > 0 {
			err = json.Unmarshal(data, in)
		}
		if err != nil {
			send(w, http.StatusBadRequest, rpcError{"invalid_argument", "the message is malformed, or larger than 8 MiB: " + err.Error()})
			return
		}
		out, err := f(c, in)
		if err != nil {
			code := rpcCode(err)
			send(w, rpcStatus[code], rpcError{code, d.text(err)})
			return
		}
		send(w, http.StatusOK, out)
	}
}

// stream is a call with several answers.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	mu    sync.Mutex // serialises frames
	begun bool
}

// readFrame reads the one message of a client's call.
func readFrame(w http.ResponseWriter, r *http.Request, in any) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+json") {
		return invalid("Content-Type", "the call is not application/connect+json")
	}
	var head [5]byte
	body := http.MaxBytesReader(w, r.Body, maxMessage+int64(len(head)))
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return invalid("message", "the frame is cut off")
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] != 0:
		return invalid("message", "the frame has flags, such as for compression, that are not supported")
	case size > maxMessage:
		return invalid("message", "the frame is larger than 8 MiB")
	}
	data, err := io.ReadAll(io.LimitReader(body, int64(size)))
	if err != nil || len(data) < int(size) {
		return invalid("message", "the frame is cut off")
	}
	if err := json.Unmarshal(data, in); err != nil {
		return invalid("message", "the message is malformed: %s", err.Error())
	}
	return nil
}

// newStream begins an answer in frames.
func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "application/connect+json")
	return &stream{w: w, flush: http.NewResponseController(w)}
}

// send sends one message.
func (s *stream) send(v any) error { return s.frame(0, v) }

func (s *stream) frame(flag byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	out := make([]byte, 5, 5+len(data))
	out[0] = flag
	binary.BigEndian.PutUint32(out[1:], uint32(len(data)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	if _, err := s.w.Write(append(out, data...)); err != nil {
		return err
	}
	return s.flush.Flush()
}

// end sends the last frame; nil = the call has succeeded.
func (s *stream) end(d *Door, err error) {
	var last struct {
		Error *rpcError `json:"error,omitempty"`
	}
	if err != nil {
		last.Error = &rpcError{rpcCode(err), d.text(err)}
	}
	_ = s.frame(flagEnd, last) // an error means that the caller is gone
}

// pingInterval is how often the client wants a sign of life.
func pingInterval(r *http.Request) time.Duration {
	n, err := strconv.Atoi(r.Header.Get("Keepalive-Ping-Interval"))
	if err != nil || n < 1 || n > 3600 {
		n = 90
	}
	return time.Duration(n) * time.Second
}

// deadline is the time that the client gives a call; 0 = no limit.
func deadline(r *http.Request) time.Duration {
	n, err := strconv.ParseInt(r.Header.Get("Connect-Timeout-Ms"), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(min(n, 1<<40))*time.Millisecond, vm.MaxDuration)
}
