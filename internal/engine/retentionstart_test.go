// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestRetentionBeforeStart: while the machine of a new VM is still to be
// launched, its record already says how it is kept, until when and what an idle
// timeout does, be it asked for or not.
//
// 003-01
func TestRetentionBeforeStart(t *testing.T) {
	for name, tc := range map[string]struct {
		ask   engine.CreateRequest
		keep  string
		idle  time.Duration
		lives time.Duration
	}{
		"asked":   {engine.CreateRequest{Persistence: &vm.Persistence{Type: vm.Persistent}, IdleTimeout: vm.Some(vm.Seconds(77 * time.Second)), TTL: vm.Some(vm.Seconds(900 * time.Second))}, "persistent", 77 * time.Second, 15 * time.Minute},
		"default": {engine.CreateRequest{}, "sticky", 5 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, e, c := site(t)
			reached, release := s.World.Hold("launch")
			made := make(chan error, 1)
			tc.ask.Name = "box"
			go func() {
				_, err := e.Create(t.Context(), &vm.Call{Actor: c.Actor}, tc.ask)
				made <- err
			}()
			<-reached
			v, err := e.Get(t.Context(), c, "box")
			if err != nil || v.State == vm.Running || len(s.World.Running()) != 0 {
				t.Errorf("it is %q before its launch, %v", v.State, err)
			}
			if string(v.Persistence.Type) != tc.keep || v.IdleTimeout == nil || time.Duration(*v.IdleTimeout) != tc.idle {
				t.Errorf("%+v, idle %v", v.Persistence, v.IdleTimeout)
			}
			if tc.lives == 0 && !v.ExpiresAt.IsZero() || tc.lives != 0 && !v.ExpiresAt.Equal(v.CreatedAt.Add(tc.lives)) {
				t.Errorf("created at %v, it ends at %v", v.CreatedAt, v.ExpiresAt)
			}
			release()
			if err := <-made; err != nil {
				t.Error(err)
			}
		})
	}
}
