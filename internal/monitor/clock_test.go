// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"net/http"
	"testing"
	"time"
)

// TestSlowThawClock: a message that was slow to arrive has set the guest's clock to a past
// time. The monitor sets it once more.
func TestSlowThawClock(t *testing.T) {
	set := make(chan struct{}, clockTries)
	mux := http.NewServeMux()
	mux.HandleFunc("/thaw", func(http.ResponseWriter, *http.Request) { time.Sleep(2 * clockExact) })
	mux.HandleFunc("/clock", func(http.ResponseWriter, *http.Request) { set <- struct{}{} })
	m := answered(t, fakeSpec(t, ""), mux)
	if err := m.thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-set:
	case <-deadline(t).Done():
		t.Error("the clock was not set again")
	}
}
