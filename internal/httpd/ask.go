// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/http"
	"strconv"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/vm"
)

func (s *server) askRoutes() []route {
	return []route{
		{"GET", "/v1/asks", token, s.asks, "What waits for a decision and what was decided lately, the newest first. An identity gets its own.", nil, api.AskList{}, false, "state kind vm"},
		{"GET", "/v1/asks/{ask}", token, s.ask, "One ask, with everything that an approval would let happen.", nil, vm.Ask{}, false, ""},
		{"POST", "/v1/asks/{ask}/approve", key, s.approveAsk, "Let it happen: a proposed rule is in force at once, a waiting call runs.", api.ApproveAsk{}, vm.Ask{}, false, ""},
		{"POST", "/v1/asks/{ask}/deny", key, s.denyAsk, "Refuse it.", api.DenyAsk{}, vm.Ask{}, false, ""},
	}
}

// askTimeout reads the header that says how long a call waits for an approval.
func askTimeout(h http.Header) (time.Duration, error) {
	text := h.Get(api.HeaderAskTimeout)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if most := int(asks.MaxCallWait / time.Second); err != nil || n < 1 || n > most {
		return 0, vm.Errorf(vm.Invalid, api.HeaderAskTimeout, "it is not a number of seconds from 1 to %d", most).WithHint("leave it out: the default is %d", int(asks.CallWait/time.Second))
	}
	return time.Duration(n) * time.Second, nil
}

func (s *server) asks(q *request) error {
	v := q.query()
	list, err := s.Asks.List(q.Context(), q.call, asks.Filter{VM: v.Get("vm"), State: vm.AskState(v.Get("state")), Kind: vm.AskKind(v.Get("kind"))})
	if err != nil {
		return err
	}
	return q.ok(api.AskList{Asks: orEmpty(list)})
}

func (s *server) ask(q *request) error {
	a, err := s.Asks.Get(q.Context(), q.call, q.values["ask"])
	if err != nil {
		return err
	}
	return q.ok(a)
}

func (s *server) approveAsk(q *request) error {
	var in api.ApproveAsk
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	a, err := s.Asks.Approve(q.Context(), q.call, q.values["ask"], time.Duration(in.For), in.Note)
	if err != nil {
		return err
	}
	return q.ok(a)
}

func (s *server) denyAsk(q *request) error {
	var in api.DenyAsk
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	a, err := s.Asks.Deny(q.Context(), q.call, q.values["ask"], in.Note)
	if err != nil {
		return err
	}
	return q.ok(a)
}
