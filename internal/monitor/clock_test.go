// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"log/slog"
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

// TestPatienceWithSlowGuest: an agent may take ten seconds to answer, one that was slow before four times as
// long, and none more than a minute.
func TestPatienceWithSlowGuest(t *testing.T) {
	for _, c := range []struct{ slow, want time.Duration }{
		{0, 10 * time.Second}, {100 * time.Millisecond, 10 * time.Second}, {5 * time.Second, 20 * time.Second}, {time.Hour, time.Minute},
	} {
		l := newAgentLink("app", "", nil, nil, slog.New(slog.DiscardHandler))
		l.learn(c.slow)
		if got := l.patience(); got != c.want {
			t.Errorf("after an answer that took %v it waits %v, want %v", c.slow, got, c.want)
		}
	}
}
