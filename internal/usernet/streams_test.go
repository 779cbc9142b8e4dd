// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/warren-vm/warren/vm"
)

// sends sends requests of plain HTTP/2 at once, and returns how many got which answer.
func sends(t *testing.T, tr *http.Transport, n int) map[int]int {
	t.Helper()
	got := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://apt.example/", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Errorf("a request ends with %v", err)
				return
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			got[resp.StatusCode]++
			if resp.StatusCode == http.StatusForbidden && !strings.Contains(string(body), "connections at once") {
				t.Errorf("a refused request says %q", body)
			}
		})
	}
	wg.Wait()
	return got
}

// atMost is a slow server that counts the requests which it serves at once.
type atMost struct{ now, most atomic.Int64 }

func (a *atMost) serve(http.ResponseWriter, *http.Request) {
	n := a.now.Add(1)
	defer a.now.Add(-1)
	for old := a.most.Load(); n > old && !a.most.CompareAndSwap(old, n); old = a.most.Load() {
	}
	<-time.After(200 * time.Millisecond)
}

// The requests of one connection of plain HTTP/2 are bounded, and so are the connections to
// the outside that they make: one to a host that takes them all.
func TestPlainHTTP2IsBounded(t *testing.T) {
	for _, streams := range []int{1, 100} { // that the host takes at once of one connection
		w := newWorld(t, named(t, vm.NetClosed, "apt.example"))
		var at atMost
		tr := http2Server(t, w, streams, at.serve)
		tr.MaxConnsPerHost = 1
		got := sends(t, tr, maxStreams)
		switch d := w.dials(); {
		case streams == 1 && at.most.Load() > maxOnward:
			t.Errorf("%d requests of one connection make %d connections at once, want %d at most", maxStreams, at.most.Load(), maxOnward)
		case streams == 100 && (len(d) != 1 || got[http.StatusOK] != maxStreams):
			t.Errorf("%d requests of one connection get %v and make %d connections, want one", maxStreams, got, len(d))
		}
	}
	w := newWorld(t, named(t, vm.NetClosed, "apt.example"))
	c := w.mustConnect("203.0.113.42:80")
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	frame, err := http2.NewFramer(c, c).ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v", frame)
	}
	if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n != maxStreams {
		t.Errorf("the network takes %d requests at once, want %d", n, maxStreams)
	}
}

// A limit of connections counts the requests of plain HTTP/2 that are open at once.
func TestPlainHTTP2Counts(t *testing.T) {
	p := named(t, vm.NetClosed, "apt.example")
	p.Rules[0].Limit = vm.NetLimit{Connections: 2}
	w := newWorld(t, p)
	var at atMost
	tr := http2Server(t, w, 0, at.serve)
	tr.MaxConnsPerHost = 1
	if got := sends(t, tr, 10); got[http.StatusOK] < 2 || got[http.StatusForbidden] == 0 || at.most.Load() > 2 {
		t.Errorf("10 requests at once get %v, and the host served %d of them at once, want 2", got, at.most.Load())
	}
	for range 3 { // none of them counts any more
		if got := sends(t, tr, 1); got[http.StatusOK] != 1 {
			t.Errorf("a request alone gets %v", got)
		}
	}
}

// A VM has a bounded number of plain requests open, whatever its connections.
func TestRequestsAreBounded(t *testing.T) {
	w := newWorld(t, named(t, vm.NetClosed, "apt.example"))
	tr := http2Server(t, w, 0, func(http.ResponseWriter, *http.Request) {})
	for range maxRequests {
		w.net.web.asked <- struct{}{}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://apt.example/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || len(w.dials()) > 0 {
		t.Errorf("one request more than %d gets %d, and the host dialled %v", maxRequests, resp.StatusCode, w.dials())
	}
	for range maxRequests {
		<-w.net.web.asked
	}
}
