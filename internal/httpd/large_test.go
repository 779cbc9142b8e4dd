// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/warren-vm/warren/vm"
)

// TestLargeFilesShareMemory: files in JSON wait for memory that others have, and
// give it back.
func TestLargeFilesShareMemory(t *testing.T) {
	room := semaphore.NewWeighted(10)
	asks := func(ctx context.Context) *request {
		r, err := http.NewRequestWithContext(ctx, "PUT", "http://api/v1/vms/box/files/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		return &request{Request: r, room: room, wait: largePatience}
	}
	first := asks(t.Context())
	if err := first.reserve(8); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := asks(gone).reserve(8); vm.KindOf(err) != vm.Unavailable {
		t.Errorf("without room: %v", err)
	}
	got := make(chan error)
	go func() { got <- asks(t.Context()).reserve(8) }()
	first.letGo()
	first.letGo()
	if err := <-got; err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// TestAnnouncedLengthReservesNothing: memory is reserved for what has arrived
// of a body. A length costs whoever announces it nothing.
func TestAnnouncedLengthReservesNothing(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/vms/%s/exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", id, b.admin, 300<<20)
	line, err := bufio.NewReader(conn).ReadString('\n') // comes when the body is about to be read
	if err != nil || !strings.Contains(line, " 100 ") {
		t.Fatalf("the announced body is answered %q (%v), want 100", line, err)
	}
	if !b.handler.large.TryAcquire(maxLarge) {
		t.Error("memory is reserved for a body of which nothing has come")
	}
}

// TestOutputSharesMemory: captured output takes memory that others have only when
// they let go of it, and gives it back; without, it is cut and says so.
func TestOutputSharesMemory(t *testing.T) {
	b := newBench(t)
	b.handler.patience = 0
	id := b.create(nil)
	b.do("PUT", "/v1/vms/"+id+"/raw/%2Flong", strings.Repeat("x", 2_000_000)).ok(t)
	path, long := "/v1/vms/"+id+"/exec-await", `{"command":"cat /long"}`
	if !b.handler.large.TryAcquire(maxLarge) {
		t.Fatal("memory is taken")
	}
	if a := b.do("POST", path, long); a.status != 200 || a.json["truncated"] != true || len(a.body) > 2*captureStep {
		t.Errorf("without memory: %d, truncated %v, %d bytes", a.status, a.json["truncated"], len(a.body))
	}
	b.handler.large.Release(maxLarge)
	b.handler.patience = largePatience
	if a := b.do("POST", path, long); a.status != 200 || a.json["truncated"] == true || len(a.body) < 2_000_000 {
		t.Errorf("with memory: %d, truncated %v, %d bytes", a.status, a.json["truncated"], len(a.body))
	}
	b.server.Close() // when all handlers have returned
	if !b.handler.large.TryAcquire(maxLarge) {
		t.Error("memory was not given back")
	}
}
