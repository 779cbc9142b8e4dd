// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// A volume whose disk is not opened in time, as by a hostile header or a slow
// disk, holds up nobody's other volume.
func TestSlowUnlockIsAlone(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stuck, release := make(chan struct{}), make(chan struct{})
	var slow vm.VolumeID
	s.World.Volumes.OnOpen = func(id vm.VolumeID) {
		if id == slow {
			close(stuck)
			<-release
		}
	}
	e, c := open(t, s)
	slow = newVolume(t, e, c, "slow").ID
	newVolume(t, e, c, "other")
	ended := make(chan error, 1)
	go func() {
		_, _, err := e.UnlockVolume(t.Context(), c, ref("slow"), engine.UnlockRequest{})
		ended <- err
	}()
	<-stuck
	other := make(chan error, 1)
	go func() {
		_, _, err := e.UnlockVolume(t.Context(), c, ref("other"), engine.UnlockRequest{})
		other <- err
	}()
	select {
	case err := <-other:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("another volume waits for the slow one")
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
