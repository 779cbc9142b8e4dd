// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/vm"
)

// inBackground sends do's result if it arrives within the time, else 202 and an id under
// which the result is available for an hour. The work then continues without the caller.
// It ends with the server.
func (s *server) inBackground(q *request, after time.Duration, do work) error {
	call := *q.call // a copy: the engine writes the receipt into it
	ctx, cancel := context.WithCancel(context.WithoutCancel(q.Context()))
	stop := func() bool { return true }
	if s.Lifetime != nil {
		stop = context.AfterFunc(s.Lifetime, cancel)
	}
	done, detached := make(chan outcome, 1), make(chan answers.Result, 1)
	s.background.Go(func() {
		defer cancel()
		defer stop()
		out := s.carryOut(ctx, &call, q.ref(), do)
		done <- out
		if rec, ok := <-detached; ok {
			s.keep(ctx, &call, q.ref(), rec, out)
		}
	})
	defer close(detached)
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case out := <-done:
		return q.replay(out, call.Receipt)
	case <-timer.C:
	}
	began := answers.ResultLog{Timestamp: time.Now().UTC(), Message: "the request keeps running in the background"}
	rec := answers.Result{Request: call.Request, Account: call.Actor.Account, Created: began.Timestamp, Logs: []answers.ResultLog{began}}
	kept := *q.call
	if err := s.Answers.SaveResult(context.WithoutCancel(q.Context()), &kept, rec); err != nil {
		// Without a record nobody could fetch the answer, so the caller waits for it.
		s.Log.Warn("no record of a background request", "request", call.Request, "err", err)
		return q.replay(<-done, call.Receipt)
	}
	detached <- rec
	q.w.Header().Set(api.HeaderBackgroundID, string(call.Request))
	return q.send(http.StatusAccepted, api.Background{RequestID: call.Request, Status: "running"})
}

// work is a request's work, independent of its connection.
type work func(context.Context, *vm.Call) (any, error)

// outcome is an answer before it is sent.
type outcome struct {
	status int
	body   []byte
}

func (s *server) carryOut(ctx context.Context, c *vm.Call, ref string, do work) outcome {
	status := http.StatusOK
	v, err := do(ctx, c)
	if err != nil {
		status, v = api.Status(err), s.errorBody(ctx, err, c, ref)
	}
	body, err := json.Marshal(v)
	if err != nil {
		err = vm.Errorf(vm.Internal, "", "answer: %w", err)
		s.Log.Error("background answer", "request", c.Request, "err", err)
		status = api.Status(err)
		body, _ = json.Marshal(s.errorBody(ctx, err, c, ref)) // only strings: cannot fail
	}
	return outcome{status, body}
}

// keep stores an answer for later requests.
func (s *server) keep(ctx context.Context, c *vm.Call, ref string, rec answers.Result, out outcome) {
	rec.Done, rec.Status, rec.Body = true, out.status, out.body
	rec.Logs = append(rec.Logs, answers.ResultLog{Timestamp: time.Now().UTC(), Message: "the request has ended"})
	err := s.Answers.SaveResult(context.WithoutCancel(ctx), c, rec)
	if vm.KindOf(err) == vm.Limit { // the work is done: the stored answer says at least that
		rec.Status = api.Status(err)
		rec.Body, _ = json.Marshal(s.errorBody(ctx, err, c, ref)) // only strings and numbers: cannot fail
		err = s.Answers.SaveResult(context.WithoutCancel(ctx), c, rec)
	}
	if err != nil {
		s.Log.Error("a background answer is lost", "request", c.Request, "err", err)
	}
}

// replay sends a stored answer.
func (q *request) replay(out outcome, receipt string) error {
	q.call.Receipt = receipt
	q.header("application/json")
	q.w.WriteHeader(out.status)
	_, _ = q.w.Write(out.body) // an error means that the caller is gone
	return nil
}

// answerOf replays the answer of a background request.
func (s *server) answerOf(q *request) error {
	id := vm.RequestID(q.values["request"])
	r, err := s.Answers.Result(q.Context(), q.call, id)
	if err != nil {
		// The code matters: the SDK polls forever on an error with an unknown code.
		return vm.Errorf(vm.NotFound, string(id), "no such background request, or it is over an hour old").WithCode("NOT_FOUND")
	}
	if !r.Done {
		return q.send(http.StatusAccepted, api.Background{RequestID: id, Status: "running"})
	}
	return q.replay(outcome{r.Status, r.Body}, "")
}

// logs returns the log lines of a background request. Other requests have none.
func (s *server) logs(q *request) error {
	out := api.Logs{Logs: []api.LogLine{}}
	if id := q.query().Get("requestId"); id != "" {
		if r, err := s.Answers.Result(q.Context(), q.call, vm.RequestID(id)); err == nil {
			for _, l := range r.Logs {
				out.Logs = append(out.Logs, api.LogLine{Message: l.Message, Timestamp: l.Timestamp})
			}
		}
	}
	return q.ok(out)
}
