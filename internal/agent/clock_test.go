// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/url"
	"strconv"
	"testing"
	"time"
)

type clockOnly struct {
	System
	at time.Time
}

func (c *clockOnly) SetClock(t time.Time) error {
	c.at = t
	return nil
}

// A late clock is set forward; any other is left alone.
func TestSetForward(t *testing.T) {
	sys := &clockOnly{}
	a := &Agent{sys: sys}
	ask := func(at time.Time) {
		t.Helper()
		if err := a.setForward(&request{query: url.Values{"time": {strconv.FormatInt(at.UnixNano(), 10)}}}); err != nil {
			t.Fatal(err)
		}
	}
	ask(time.Now().Add(-time.Second))
	if !sys.at.IsZero() {
		t.Errorf("set back to %v", sys.at)
	}
	late := time.Now().Add(time.Minute)
	ask(late)
	if !sys.at.Equal(late) {
		t.Errorf("the clock is set to %v, want %v", sys.at, late)
	}
}
