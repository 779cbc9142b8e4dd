// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net/http"

	"github.com/warren-vm/warren/internal/freestyle"
)

// current makes the door for Freestyle's current SDK.
func (s *stack) current(lifetime context.Context) *freestyle.Door {
	h := s.house
	return freestyle.New(freestyle.Config{
		Engine: h.Engine, Inside: h.Inside, Access: h.Access, Policy: h.Policy, Names: h.Names, Meter: h.Meter, Answers: h.Answers, Journal: h.Journal,
		Log: s.log, Lifetime: lifetime, Pace: s.pace,
	})
}

// taker is a door that answers some of the requests to the server's address.
type taker interface {
	http.Handler
	Takes(r *http.Request) bool
}

// withDoors sends a request to the first door that takes it, and all others to the API.
func withDoors(api http.Handler, doors ...taker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, d := range doors {
			if d.Takes(r) {
				d.ServeHTTP(w, r)
				return
			}
		}
		api.ServeHTTP(w, r)
	})
}
