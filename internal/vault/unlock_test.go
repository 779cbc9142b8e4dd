// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// A volume whose disk opens slowly, because of a hostile header or a slow disk, delays no
// other volume.
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
		_, _, err := e.UnlockVolume(t.Context(), c, ref("slow"), vault.UnlockRequest{})
		ended <- err
	}()
	<-stuck
	other := make(chan error, 1)
	go func() {
		_, _, err := e.UnlockVolume(t.Context(), c, ref("other"), vault.UnlockRequest{})
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

// The wait after refused secrets survives a restart of the server, and setting the clock
// back does not make it longer.
func TestRefusedSecretsOutliveRestart(t *testing.T) {
	onBoth(t, func(t *testing.T, s *vmtest.Site) {
		clock := vmtest.NewClock()
		s.Clock = clock
		e, c := open(t, s)
		if _, err := e.CreateVolume(t.Context(), c, vault.VolumeRequest{Name: "safe", Slot: vm.VolumeSlotSpec{Passphrase: "right"}}); err != nil {
			t.Fatal(err)
		}
		try := func(p string) error {
			_, _, err := e.UnlockVolume(t.Context(), c, ref("safe"), vault.UnlockRequest{Secret: vm.VolumeSecret{Passphrase: p}})
			return err
		}
		restart := func() {
			shut(t, e)
			e, c = open(t, s)
		}
		for range 3 { // a restart after each is no new first try
			refused(t, try("wrong"), vm.Denied, "VOLUME_SECRET_REFUSED")
			restart()
		}
		refused(t, try("right"), vm.Limit, "VOLUME_UNLOCK_RATE_LIMITED")
		for range 20 {
			clock.Advance(5*time.Minute + time.Second)
			refused(t, try("wrong"), vm.Denied, "VOLUME_SECRET_REFUSED")
		}
		restart()
		err := try("right")
		refused(t, err, vm.Limit, "VOLUME_UNLOCK_RATE_LIMITED")
		if after, _ := vm.AsError(err).Fields["retryAfterSeconds"].(int64); after < 290 || after > 301 {
			t.Errorf("the next try is in %d s", after)
		}
		clock.Advance(-24 * time.Hour)
		err = try("right")
		refused(t, err, vm.Limit, "VOLUME_UNLOCK_RATE_LIMITED")
		if after, _ := vm.AsError(err).Fields["retryAfterSeconds"].(int64); after > 301 {
			t.Errorf("with the clock put back the next try is in %d s", after)
		}
		clock.Advance(6 * time.Minute)
		if err := try("right"); err != nil {
			t.Fatal(err)
		}
		restart()
		for range 2 { // it counts from the start again
			refused(t, try("wrong"), vm.Denied, "VOLUME_SECRET_REFUSED")
		}
		if err := try("right"); err != nil {
			t.Error(err)
		}
	})
}

// TestVolumeSecrets: each wrong secret makes the next wait longer; a right one during the
// wait is refused unchecked.
func TestVolumeSecrets(t *testing.T) {
	s, e, _ := site(t)
	shut(t, e)
	clock := vmtest.NewClock()
	s.Clock = clock
	e, c := open(t, s)
	if _, err := e.CreateVolume(t.Context(), c, vault.VolumeRequest{Name: "safe", Slot: vm.VolumeSlotSpec{Passphrase: "right"}}); err != nil {
		t.Fatal(err)
	}
	try := func(p string) error {
		_, _, err := e.UnlockVolume(t.Context(), c, ref("safe"), vault.UnlockRequest{Secret: vm.VolumeSecret{Passphrase: p}, TTL: vm.Seconds(time.Minute)})
		return err
	}
	for range 3 {
		refused(t, try("wrong"), vm.Denied, "VOLUME_SECRET_REFUSED")
	}
	refused(t, try("right"), vm.Limit, "VOLUME_UNLOCK_RATE_LIMITED")
	clock.Advance(2 * time.Second)
	refused(t, try("wrong"), vm.Denied, "VOLUME_SECRET_REFUSED")
	clock.Advance(time.Second)
	refused(t, try("right"), vm.Limit, "VOLUME_UNLOCK_RATE_LIMITED")
	clock.Advance(time.Minute)
	if err := try("right"); err != nil {
		t.Fatal(err)
	}
	volumeIs(t, e, c, "safe", true, 0)
	clock.Advance(61 * time.Second)
	eventually(t, "its time is up", func() bool {
		v, err := e.VolumeOf(t.Context(), c, ref("safe"))
		return err == nil && !v.Unlocked
	})
}
