// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"net/http"
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
		return &request{Request: r, room: room}
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
