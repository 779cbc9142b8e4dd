// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// inBackground answers with do's result when it comes within the time, else
// with 202 and an id under which the result can be had for an hour. The work
// then goes on without the caller; it ends with the server.
func (s *server) inBackground(q *request, after time.Duration, do func(context.Context) (int, any, error)) error {
	type result struct {
		status int
		body   []byte
	}
	id := q.call.Request
	began := time.Now().UTC()
	running := engine.Result{Request: id, Account: q.call.Actor.Account, Created: began, Logs: []engine.ResultLog{{Timestamp: began, Message: "started"}}}
	ctx := context.WithoutCancel(q.Context())
	if s.Lifetime != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		context.AfterFunc(s.Lifetime, stop)
	}
	done := make(chan result, 1)
	go func() { // ends with do, which ends with the server; the engine waits for its calls
		status, v, err := do(ctx)
		if err != nil {
			status, v = api.Status(err), api.EncodeError(err, id)
		}
		body, err := json.Marshal(v)
		if err != nil {
			s.Log.Error("background answer", "request", id, "err", err)
		}
		done <- result{status, body}
		rec := running
		rec.Done, rec.Status, rec.Body = true, status, body
		rec.Logs = []engine.ResultLog{running.Logs[0], {Timestamp: time.Now().UTC(), Message: "done"}}
		if err := s.Engine.SaveResult(ctx, q.call, rec); err != nil {
			s.Log.Warn("background result", "request", id, "err", err)
		}
	}()
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case r := <-done:
		q.header("application/json")
		q.w.WriteHeader(r.status)
		_, _ = q.w.Write(r.body)
		return nil
	case <-timer.C:
	}
	if _, err := s.Engine.Result(q.Context(), q.call, id); err != nil {
		if err := s.Engine.SaveResult(q.Context(), q.call, running); err != nil {
			return err
		}
	}
	q.w.Header().Set(api.HeaderBackgroundID, string(id))
	return q.send(http.StatusAccepted, api.Background{RequestID: id, Status: "running"})
}

// background replays the answer of a background request.
func (s *server) background(q *request) error {
	id := vm.RequestID(q.values["request"])
	r, err := s.Engine.Result(q.Context(), q.call, id)
	if err != nil {
		// The SDK polls for ever on an error without a code that it knows.
		return vm.Errorf(vm.NotFound, string(id), "no such background request, or it is over an hour old").WithCode("NOT_FOUND")
	}
	if !r.Done {
		return q.send(http.StatusAccepted, api.Background{RequestID: id, Status: "running"})
	}
	q.header("application/json")
	q.w.WriteHeader(r.Status)
	_, _ = q.w.Write(r.Body)
	return nil
}

// logs answers the log lines of a background request; of anything else there
// are none here.
func (s *server) logs(q *request) error {
	out := api.Logs{Logs: []api.LogLine{}}
	if id := q.query().Get("requestId"); id != "" {
		if r, err := s.Engine.Result(q.Context(), q.call, vm.RequestID(id)); err == nil {
			for _, l := range r.Logs {
				out.Logs = append(out.Logs, api.LogLine{Message: l.Message, Timestamp: l.Timestamp})
			}
		}
	}
	return q.ok(out)
}
