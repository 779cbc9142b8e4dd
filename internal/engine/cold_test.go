// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
)

// While the large memory of one VM is being sealed, other sealed VMs are resumed.
func TestSealingHoldsUpNobody(t *testing.T) {
	s, e, c := site(t)
	for _, name := range []string{"sleeper", "large"} {
		create(t, e, c, engine.CreateRequest{Name: name})
	}
	if _, err := e.Suspend(t.Context(), c, "sleeper", engine.SuspendRequest{Cold: true}); err != nil {
		t.Fatal(err)
	}
	reached, release := s.World.Hold("seal")
	defer release()
	sealed := make(chan error, 1)
	go func() {
		_, err := e.Suspend(t.Context(), c, "large", engine.SuspendRequest{Cold: true})
		sealed <- err
	}()
	<-reached
	resumed := make(chan error, 1)
	go func() {
		_, err := e.Start(t.Context(), c, "sleeper", engine.StartRequest{})
		resumed <- err
	}()
	select {
	case err := <-resumed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a resume waits for the sealing of another VM's memory")
	}
	release()
	if err := <-sealed; err != nil {
		t.Error(err)
	}
}
