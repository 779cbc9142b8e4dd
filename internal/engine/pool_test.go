// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// usePool makes the next engine of the site keep one machine ready. The clock is stopped:
// a taken member is not replaced until it moves.
func usePool(s *vmtest.Site, on bool) *vmtest.Clock {
	s.Settings.Pool, s.Clock = 0, nil
	if !on {
		return nil
	}
	clock := vmtest.NewClock()
	s.Settings.Pool, s.Clock = 1, clock
	return clock
}

func poolOf(t *testing.T, e *vmtest.House, c *vm.Call) engine.PoolInfo {
	t.Helper()
	h, err := e.Host(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return h.Pool
}

// ready waits until the pool has n members, and moves the clock meanwhile.
func ready(t *testing.T, e *vmtest.House, c *vm.Call, clock *vmtest.Clock, n int) {
	t.Helper()
	inTime(t, clock, fmt.Sprintf("the pool has %d members", n), func() bool { return poolOf(t, e, c).Ready == n })
}

// pooledSite is a site with an engine whose pool has its one member, whose id is the last
// result.
func pooledSite(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call, *vmtest.Clock, vm.ID) {
	t.Helper()
	s, e, _ := site(t)
	closeEngine(t, e)
	clock := usePool(s, true)
	e, c := open(t, s)
	ready(t, e, c, clock, 1)
	ids := s.World.Running()
	if len(ids) != 1 || !s.World.Held(ids[0]) {
		t.Fatalf("machines %v; want one, that stands still", ids)
	}
	return s, e, c, clock, ids[0]
}

// TestPool: a create takes the pooled machine, which becomes an ordinary VM, and another
// one replaces it.
func TestPool(t *testing.T) {
	s, e, c, clock, id := pooledSite(t)
	if vms, total, _, err := e.List(t.Context(), c, engine.Filter{}); err != nil || total != 0 {
		t.Errorf("a member of the pool is listed: %v, %v", vms, err)
	}
	v := create(t, e, c, engine.CreateRequest{Name: "box", Network: "open"})
	if v.ID != id || s.World.Launches() != 1 {
		t.Errorf("VM %s after %d launches; want %s, the member of the pool", v.ID, s.World.Launches(), id)
	}
	if s.World.Held(id) {
		t.Error("it stands still")
	}
	if got := s.World.Policy(id).Mode; got != vm.NetOpen {
		t.Errorf("its network is %q", got)
	}
	if out, _ := sh(t, e, c, "box", "cat /etc/hostname"); out != "box\n" {
		t.Errorf("its host name is %q", out)
	}
	if list, err := e.Processes(t.Context(), c, "box"); err != nil || len(list) > 1 { // that of sh
		t.Errorf("it was born with processes: %v, %v", list, err)
	}
	if spec, _ := s.World.Spec(id); spec.Pooled || len(spec.Reset.HostKeys) == 0 {
		t.Errorf("its reset: %+v", spec.Reset)
	}
	for _, ev := range s.Events.All() {
		if ev.Type == "vm.created" && ev.Data["pooled"] != true {
			t.Errorf("the event says %v", ev.Data)
		}
	}
	consistent(t, s)

	clock.Advance(time.Minute)
	ready(t, e, c, clock, 1)
	if got := poolOf(t, e, c); got.Hits != 1 || got.Misses != 0 || got.Size != 1 {
		t.Errorf("pool: %+v", got)
	}
	if _, err := e.Delete(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	nothingLeft(t, s)
}

// TestPoolTwoIdentities: two VMs of the pool share no secret and no name.
func TestPoolTwoIdentities(t *testing.T) {
	s, e, c, clock, _ := pooledSite(t)
	a := create(t, e, c, engine.CreateRequest{})
	clock.Advance(time.Minute)
	ready(t, e, c, clock, 1)
	b := create(t, e, c, engine.CreateRequest{})
	if s.World.Launches() != 2 {
		t.Fatalf("%d launches", s.World.Launches())
	}
	one, _ := s.World.Spec(a.ID)
	two, _ := s.World.Spec(b.ID)
	for name, differs := range map[string]bool{
		"host name": one.Reset.Hostname != two.Reset.Hostname, "machine id": one.Reset.MachineID != two.Reset.MachineID,
		"boot id": one.Reset.BootID != two.Reset.BootID, "link key": !slices.Equal(one.Reset.LinkKey, two.Reset.LinkKey),
		"host key": one.Reset.HostKeys["ssh_host_ed25519_key"] != two.Reset.HostKeys["ssh_host_ed25519_key"],
	} {
		if !differs {
			t.Errorf("they share their %s", name)
		}
	}
}

// TestPoolKinds: a kind that is requested twice is kept ready, too, and dropped when it
// is no longer requested.
func TestPoolKinds(t *testing.T) {
	s, e, c, clock, member := pooledSite(t)
	big := engine.CreateRequest{Size: vm.Size{MemoryMiB: 1024}}
	first := create(t, e, c, big)
	if first.ID == member {
		t.Error("a VM has a machine of another size")
	}
	clock.Advance(time.Minute)
	create(t, e, c, big)
	clock.Advance(time.Minute)
	ready(t, e, c, clock, 2)
	if create(t, e, c, big); s.World.Launches() != 4 {
		t.Errorf("%d launches, want 4: two VMs, a member of each size", s.World.Launches())
	}
	clock.Advance(time.Minute)
	ready(t, e, c, clock, 2)
	clock.Advance(poolForgets)
	ready(t, e, c, clock, 1)
}

// poolForgets is longer than a requested size is remembered, and shorter than a member
// lives.
const poolForgets = 15 * time.Minute

// TestPoolStale: a stale member is never handed out.
func TestPoolStale(t *testing.T) {
	for name, spoil := range map[string]func(*vmtest.Site, *vmtest.Clock, vm.ID){
		"warm key": func(s *vmtest.Site, _ *vmtest.Clock, _ vm.ID) { s.World.Rewarm() },
		"agent":    func(s *vmtest.Site, _ *vmtest.Clock, _ vm.ID) { s.World.Upgrade("beef", "7.2.0") },
		"qemu":     func(s *vmtest.Site, _ *vmtest.Clock, _ vm.ID) { s.World.Upgrade("d00d", "8.0.0") },
		"image":    func(s *vmtest.Site, _ *vmtest.Clock, _ vm.ID) { s.World.AddImage(vmtest.NewImage("base")) },
		"age": func(s *vmtest.Site, clock *vmtest.Clock, _ vm.ID) {
			s.World.Fail("launch", vm.Errorf(vm.Internal, "", "not now")) // none takes its place
			clock.Advance(2 * time.Hour)
		},
		"dead":   func(s *vmtest.Site, _ *vmtest.Clock, id vm.ID) { s.World.End(id, "qemu-crash") },
		"silent": func(s *vmtest.Site, _ *vmtest.Clock, _ vm.ID) { s.World.Hold("pause") },
	} {
		t.Run(name, func(t *testing.T) {
			s, e, c, clock, id := pooledSite(t)
			spoil(s, clock, id)
			s.World.Fail("launch", nil)
			v := create(t, e, c, engine.CreateRequest{Name: "box"})
			if v.ID == id {
				t.Error("it was handed out")
			}
			if out, _ := sh(t, e, c, "box", "echo ok"); out != "ok\n" {
				t.Errorf("the VM says %q", out)
			}
			closeEngine(t, e) // which ends what is still going
			consistent(t, s)
		})
	}
}

// TestPoolImageGone: members of an image that was removed end.
func TestPoolImageGone(t *testing.T) {
	s, e, c, clock, _ := pooledSite(t)
	s.World.RemoveImages()
	clock.Advance(2 * time.Minute)
	ready(t, e, c, clock, 0)
	eventually(t, "nothing is left", func() bool { return len(s.World.Running()) == 0 })
}

// TestPoolGivesWay: a pooled machine never prevents a VM from being made, started or
// forked.
func TestPoolGivesWay(t *testing.T) {
	// 512 MiB for the VM, the reserve of 512, and 128 for the growth of a
	// member or of a VM that runs: the second of the two is too many.
	const tight = (512 + 512 + 128 + 64) << 20
	t.Run("create", func(t *testing.T) {
		s, e, c, _, id := pooledSite(t)
		create(t, e, c, engine.CreateRequest{Name: "one", Size: vm.Size{DiskMiB: 4096}})
		s.World.SetFree(tight, 1<<40)
		if v := create(t, e, c, engine.CreateRequest{Name: "two", Size: vm.Size{DiskMiB: 4096}}); v.ID == id {
			t.Error("it has the member's disk")
		}
		consistent(t, s)
	})
	t.Run("start", func(t *testing.T) {
		s, e, c, clock, _ := pooledSite(t)
		create(t, e, c, engine.CreateRequest{Name: "box"})
		if _, err := e.Stop(t.Context(), c, "box"); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Minute)
		ready(t, e, c, clock, 1)
		s.World.SetFree(1100<<20, 1<<40)
		if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
			t.Error(err)
		}
		consistent(t, s)
	})
	t.Run("fork", func(t *testing.T) {
		s, e, c, clock, _ := pooledSite(t)
		create(t, e, c, engine.CreateRequest{Name: "box"})
		clock.Advance(time.Minute)
		ready(t, e, c, clock, 1)
		s.World.SetFree((512+128+200)<<20, 1<<40)
		if _, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{Count: 1}); err != nil {
			t.Error(err)
		}
		if n := poolOf(t, e, c).Ready; n != 0 {
			t.Errorf("%d members are left", n)
		}
	})
}

// asked lets time pass until the pool has checked the host and has acted.
func asked(s *vmtest.Site, clock *vmtest.Clock, step time.Duration) {
	for range 2 { // the second look comes after what the first one led to
		reached, release := s.World.Hold("capacity")
		for waits := true; waits; {
			clock.Advance(step)
			select {
			case <-reached:
				waits = false
			case <-time.After(5 * time.Millisecond):
			}
		}
		release()
	}
}

// TestPoolNeedsRoom: the pool takes no room that a VM could need, and waits for an idle
// host, but not forever.
func TestPoolNeedsRoom(t *testing.T) {
	s, e, c, clock, _ := pooledSite(t)
	create(t, e, c, engine.CreateRequest{})
	s.World.SetFree(1500<<20, 1<<40) // no room for a member and one more VM
	asked(s, clock, time.Second)
	s.World.SetFree(64<<30, 1<<20) // nor on the disk
	asked(s, clock, time.Second)
	if n := s.World.Launches(); n != 1 {
		t.Errorf("%d launches on a host that is full", n)
	}
}

// TestPoolWaitsForQuiet: members are made when the host is idle, or has not been idle for
// long.
func TestPoolWaitsForQuiet(t *testing.T) {
	s, e, c, clock, _ := pooledSite(t)
	create(t, e, c, engine.CreateRequest{})
	s.World.SetWaiting(90)
	asked(s, clock, 100*time.Millisecond)
	if n := s.World.Launches(); n != 1 {
		t.Errorf("%d launches on a busy host", n)
	}
	clock.Advance(time.Minute)
	ready(t, e, c, clock, 1)
}

// TestPoolAdoptFails: a member that cannot become a VM ends, and the VM is started the
// ordinary way, with the same id.
func TestPoolAdoptFails(t *testing.T) {
	s, e, c, _, id := pooledSite(t)
	s.World.Fail("adopt", vm.Errorf(vm.GuestFault, "", "the reset was not acknowledged"))
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	if v.ID != id || s.World.Launches() != 2 {
		t.Errorf("VM %s after %d launches", v.ID, s.World.Launches())
	}
	if out, _ := sh(t, e, c, "box", "cat /etc/hostname"); out != "box\n" {
		t.Errorf("its host name is %q", out)
	}
	for _, ev := range s.Events.All() {
		if ev.Type == "vm.created" && ev.Data["pooled"] != false {
			t.Errorf("the event says %v", ev.Data)
		}
	}
	consistent(t, s)
}

// TestPoolRefusal: a create that is refused after taking a member gives it back.
func TestPoolRefusal(t *testing.T) {
	s, e, c, clock, _ := pooledSite(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	clock.Advance(time.Minute)
	ready(t, e, c, clock, 1)
	if _, err := e.Create(t.Context(), c, engine.CreateRequest{Name: "box", UniqueName: true}); vm.KindOf(err) != vm.Exists {
		t.Errorf("a create with a taken name gives %v, want that it exists", err)
	}
	if poolOf(t, e, c).Ready != 1 || s.World.Launches() != 2 {
		t.Error("the member is gone")
	}
}

// TestPoolMakingFails: a failure while a member is made leaves nothing, and is retried.
func TestPoolMakingFails(t *testing.T) {
	for _, step := range []string{"warm", "launch", "guest.exec", "guest.forget", "pause"} {
		t.Run(step, func(t *testing.T) {
			s, e, _ := site(t)
			closeEngine(t, e)
			clock := usePool(s, true)
			s.World.Fail(step, vm.Errorf(vm.Internal, "", "not now"))
			reached, release := s.World.Hold(step)
			e, c := open(t, s)
			<-reached
			release()
			eventually(t, "nothing is left", func() bool { return len(s.World.Running()) == 0 })
			s.World.Fail(step, nil)
			eventually(t, "it is tried again", func() bool {
				clock.Advance(time.Minute)
				return poolOf(t, e, c).Ready == 1
			})
			closeEngine(t, e)
			nothingLeft(t, s)
		})
	}
}

// TestPoolMakingGivesWay: a member that is being made is given up as well.
func TestPoolMakingGivesWay(t *testing.T) {
	s, e, _ := site(t)
	closeEngine(t, e)
	usePool(s, true)
	reached, release := s.World.Hold("guest.exec")
	defer release()
	e, c := open(t, s)
	<-reached
	s.World.SetFree(1100<<20, 1<<40)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	consistent(t, s)
}

// TestPoolSwept: the next engine sweeps what a crash leaves of the pool.
func TestPoolSwept(t *testing.T) {
	s, e, _ := site(t)
	closeEngine(t, e)
	clock := usePool(s, true)
	hit := false
	s.Fault = faultAt("delete:audit", engine.ErrDied, &hit)
	e, c := open(t, s)
	ready(t, e, c, clock, 1)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	clock.Advance(time.Minute)
	ready(t, e, c, clock, 1)
	if _, err := e.Delete(t.Context(), c, "box"); !hit {
		t.Fatalf("the engine did not die in the delete, which ended with %v", err)
	}
	closeEngine(t, e)
	if n := len(s.World.Running()); n != 2 {
		t.Fatalf("%d machines outlive the engine, want the VM and the member", n)
	}
	s.Fault = nil
	usePool(s, false)
	e, c = open(t, s)
	consistent(t, s)
	afterwards(t, e, c)
	nothingLeft(t, s)
}

// TestPoolClosesUnderACreate: a member that a create holds when the engine closes ends,
// too.
func TestPoolClosesUnderACreate(t *testing.T) {
	s, e, c, _, _ := pooledSite(t)
	reached, release := s.World.Hold("warm")
	done := make(chan error, 1)
	go func() {
		_, err := e.Create(t.Context(), c, engine.CreateRequest{})
		done <- err
	}()
	<-reached
	closeEngine(t, e)
	release()
	if err := <-done; vm.KindOf(err) != vm.Unavailable {
		t.Errorf("create: %v", err)
	}
	nothingLeft(t, s)
}
