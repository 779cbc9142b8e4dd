// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"math"
	"strconv"
	"time"

	"github.com/warren-vm/warren/vm"
)

// seconds reads the time between two samples.
func (q *request) seconds() (time.Duration, error) {
	text := q.query().Get("seconds")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 1e6 {
		return 0, vm.Errorf(vm.Invalid, "seconds", "is not a number of seconds").WithCode("INVALID_REQUEST")
	}
	return time.Duration(n * float64(time.Second)), nil
}

func (s *server) top(q *request) error {
	apart, err := q.seconds()
	if err != nil {
		return err
	}
	brief, err := q.bool("brief")
	if err != nil {
		return err
	}
	t, err := s.Inside.Top(q.Context(), q.call, q.ref(), apart, brief)
	if err != nil {
		return err
	}
	return q.ok(t)
}

func (s *server) diagnose(q *request) error {
	apart, err := q.seconds()
	if err != nil {
		return err
	}
	d, err := s.Inside.Diagnose(q.Context(), q.call, q.ref(), apart)
	if err != nil {
		return err
	}
	return q.ok(d)
}

// followService sends a journal's lines as they arrive, each as a line of JSON.
func (s *server) followService(q *request, lines int) error {
	ctx, cancel := s.streaming(q)
	defer cancel()
	f, err := s.Inside.FollowService(ctx, q.call, q.ref(), q.user(), q.values["service"], lines, q.query().Get("since"))
	if err != nil {
		return err
	}
	out := q.ndjson()
	out.f.Flush()
	if err := f.Run(func(l vm.UnitLog) error { return out.message(l) }); err != nil && ctx.Err() == nil {
		return out.message(s.errorBody(q.Context(), err, q.call, q.ref()))
	}
	return nil
}
