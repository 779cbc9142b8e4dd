// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// reported is a server that records, unless it is away.
func reported(t *testing.T) (*reporter, chan vm.ConnectionBatch, *atomic.Bool) {
	t.Helper()
	got, away := make(chan vm.ConnectionBatch, 1000), &atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var b vm.ConnectionBatch
		if away.Load() || json.NewDecoder(q.Body).Decode(&b) != nil || q.URL.Path != "/connections" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got <- b
	}))
	t.Cleanup(s.Close)
	c := s.Client()
	c.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Listener.Addr().String())
	}}
	return newReporter(c, filepath.Join(t.TempDir(), "left.json"), slog.New(slog.DiscardHandler)), got, away
}

// TestReports: a connection is reported soon, and what is left is at the machine's end.
func TestReports(t *testing.T) {
	r, got, _ := reported(t)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	r.add(vm.Connection{Name: "one", Allowed: true})
	if b := <-got; b.First != 1 || len(b.List) != 1 || b.List[0].Name != "one" {
		t.Errorf("the first report is %+v, want connection 1", b)
	}
	r.add(vm.Connection{Name: "two"})
	end()
	<-done
	if b := <-got; b.First != 2 || len(b.List) != 1 || b.List[0].Name != "two" {
		t.Errorf("the last report is %+v, want connection 2", b)
	}
}

// TestServerAwayAtTheEnd: connections that cannot be reported at the machine's end are left in
// a file, after those of an earlier machine, with the numbers that they have.
func TestServerAwayAtTheEnd(t *testing.T) {
	r, _, away := reported(t)
	away.Store(true)
	if err := layout.WriteJSON(r.left, []vm.ConnectionBatch{{First: 7, List: []vm.Connection{{Name: "earlier"}}}}, 0o600); err != nil {
		t.Fatal(err)
	}
	for range reportBatch + 1 {
		r.add(vm.Connection{Name: "later"})
	}
	r.sum, r.dropped = &vm.ConnectionsSum{Refused: 9}, 3
	ended, end := context.WithCancel(t.Context())
	end()
	r.run(ended)
	var left []vm.ConnectionBatch
	if err := layout.ReadJSON(r.left, &left); err != nil || len(left) != 4 {
		t.Fatalf("%d batches are left (%v), want 4", len(left), err)
	}
	if b := left[0]; b.First != 7 || len(b.List) != 1 {
		t.Errorf("the batch of the earlier machine is %+v", b)
	}
	if b := left[1]; b.First != 1 || b.Dropped != 3 || len(b.List) != reportBatch {
		t.Errorf("the first batch has %d connections from %d and %d dropped, want %d from 1 and 3", len(b.List), b.First, b.Dropped, reportBatch)
	}
	if b := left[2]; b.First != reportBatch+1 || b.Dropped != 0 || len(b.List) != 1 {
		t.Errorf("the second batch has %d connections from %d and %d dropped, want 1 from %d", len(b.List), b.First, b.Dropped, reportBatch+1)
	}
	if b := left[3]; b.Sum == nil || b.Sum.Refused != 9 {
		t.Errorf("the last batch is %+v, want the sum", b)
	}
}

// TestServerAway: while the server is away, the backlog grows up to its bound; then no
// connection is allowed, refusals are counted, and nothing that was allowed is lost.
func TestServerAway(t *testing.T) {
	r, got, away := reported(t)
	away.Store(true)
	now := time.Now()
	for i := range maxBacklog {
		if why := r.full(); why != "" {
			t.Fatalf("connection %d is refused: %s", i, why)
		}
		if i%hourlyBudget == 0 {
			now = now.Add(time.Hour)
			r.now = func() time.Time { return now }
		}
		r.add(vm.Connection{Allowed: true})
	}
	now = now.Add(time.Hour)
	if r.full() == "" {
		t.Error("with a full backlog a new connection is allowed, want a refusal")
	}
	for range 7 {
		r.add(vm.Connection{})
	}
	r.add(vm.Connection{Name: "open before", Allowed: true})
	if err := r.flush(t.Context(), false); err == nil {
		t.Error("a report to a server that is away succeeds, want an error")
	}
	away.Store(false)
	if err := r.flush(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	total, dropped := 0, int64(0)
	for len(got) > 0 {
		b := <-got
		if b.First != int64(total+1) {
			t.Errorf("a report begins with connection %d, want %d", b.First, total+1)
		}
		total, dropped = total+len(b.List), dropped+b.Dropped
	}
	if total != maxBacklog+1 || dropped != 7 || r.full() != "" {
		t.Errorf("%d connections and %d dropped refusals were reported, want %d and 7", total, dropped, maxBacklog+1)
	}
}

// TestBudget: beyond the budget of an hour, connections are counted in a sum.
func TestBudget(t *testing.T) {
	r, got, _ := reported(t)
	now := time.Now()
	r.now = func() time.Time { return now }
	for range hourlyBudget + 50 {
		r.add(vm.Connection{Up: 2})
	}
	now = now.Add(sumEvery)
	if err := r.flush(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	single, sum := 0, int64(0)
	for len(got) > 0 {
		b := <-got
		if single += len(b.List); b.Sum != nil {
			sum += b.Sum.Refused
		}
	}
	if single != hourlyBudget || sum != 50 || r.sum != nil {
		t.Errorf("%d records and a sum of %d were reported, want %d and 50", single, sum, hourlyBudget)
	}
}
