// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// activityInterval is the time over which traffic is added up before it is held
// against a VM's threshold.
const activityInterval = 10 * time.Second

// notedEvery is how exactly the time of the last byte is known.
const notedEvery = 100 * time.Millisecond

// looks reports whether a verb only looks at a VM: it neither wakes it nor
// counts as activity.
func looks(verb vm.Op) bool { return verb == vm.OpStats || verb == vm.OpState }

// kindOf is the activity that a call is.
func kindOf(c *vm.Call, verb vm.Op) vm.ActivityKind {
	switch {
	case looks(verb):
		return vm.ActivityNone
	case c.Via != vm.ActivityNone:
		return c.Via
	}
	switch verb {
	case vm.OpExec, vm.OpSignal, vm.OpService:
		return vm.ActivityExec
	case vm.OpTerminal:
		return vm.ActivityPTY
	case vm.OpDial, vm.OpSocket:
		return vm.ActivityGateway
	}
	return vm.ActivityFiles
}

// activeLocked notes that a VM was used.
func (e *Engine) activeLocked(s *slot, kind vm.ActivityKind) {
	if kind != vm.ActivityNone {
		s.rec.LastActive, s.rec.LastKind = e.now(), kind
	}
}

// arriveLocked counts a call into a guest. While it is there the VM does not
// fall asleep.
func (e *Engine) arriveLocked(s *slot, kind vm.ActivityKind) {
	s.attached++
	if s.calls == nil {
		s.calls = map[vm.ActivityKind]int{}
	}
	s.calls[kind]++
	e.activeLocked(s, kind)
}

// leaveLocked counts it no longer.
func (e *Engine) leaveLocked(s *slot, kind vm.ActivityKind) {
	s.attached--
	if s.calls[kind]--; s.calls[kind] == 0 {
		delete(s.calls, kind)
	}
	e.activeLocked(s, kind)
}

// countAs makes a visit that would be only a look an activity.
func (v *visit) countAs(kind vm.ActivityKind) {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.e.leaveLocked(v.slot, v.kind)
	v.kind = kind
	v.e.arriveLocked(v.slot, kind)
}

// loosen makes a visit count as activity by what goes through it, no longer by
// being there: it may be silent for days.
func (v *visit) loosen() {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.loose = true
	v.slot.loose++
	v.e.leaveLocked(v.slot, v.kind)
	v.e.poke()
}

// touch notes activity.
func (v *visit) touch() {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.e.activeLocked(v.slot, v.kind)
}

// moved notes bytes of a loosened visit. Fewer within the interval than the
// VM's threshold are no activity.
func (v *visit) moved(n int64) {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	s := v.slot
	if s.rec.ActivityThreshold > 0 {
		now := v.e.now()
		if now.Sub(s.trafficFrom) >= activityInterval || now.Before(s.trafficFrom) {
			s.trafficFrom, s.traffic = now, 0
		}
		if s.traffic += n; s.traffic < s.rec.ActivityThreshold {
			return
		}
	}
	v.e.activeLocked(s, v.kind)
}

// traffic adds up the bytes of a loosened visit, so that not each of them asks
// for the engine's lock.
type traffic struct {
	v *visit

	mu    sync.Mutex
	n     int64     // guarded by mu
	noted time.Time // guarded by mu
}

// count notes bytes that went through.
func (t *traffic) count(n int) {
	if n <= 0 {
		return
	}
	now := t.v.e.now()
	t.mu.Lock()
	t.n += int64(n)
	bytes := int64(0)
	if now.Sub(t.noted) >= notedEvery || now.Before(t.noted) {
		bytes, t.n, t.noted = t.n, 0, now
	}
	t.mu.Unlock()
	if bytes > 0 {
		t.v.moved(bytes)
	}
}

// dialled is a connection to a port of a guest. What goes through it is
// activity; that it is open is not.
type dialled struct {
	net.Conn
	v       *visit
	traffic *traffic
	unheld  func() bool // it need no longer be closed when the right to it is lost
}

func (d *dialled) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	d.traffic.count(n)
	return n, err
}

func (d *dialled) Write(p []byte) (int, error) {
	n, err := d.Conn.Write(p)
	d.traffic.count(n)
	return n, err
}

// CloseWrite ends this side's bytes; the other's may go on.
func (d *dialled) CloseWrite() error {
	if c, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (d *dialled) Close() error {
	d.unheld()
	err := d.Conn.Close()
	d.v.end(nil, nil)
	return err
}
