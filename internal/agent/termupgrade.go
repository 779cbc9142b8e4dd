// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// heirTerm is a terminal that an agent passes to its successor.
type heirTerm struct {
	Session vm.TerminalSession `json:"session"`
	Start   uint64             `json:"start"`
	Master  int                `json:"master"` // descriptors; -1 = its program has ended
	Tape    int                `json:"tape"`
	End     int64              `json:"end"`    // of the tape
	Screen  int                `json:"screen"` // output that redraws it
}

// freeze stops this agent's work on a terminal. It has no viewers any more.
func (t *terminal) freeze() {
	t.mu.Lock()
	if t.expiry != nil {
		t.expiry.Stop()
	}
	if t.master != nil {
		_ = t.pidfd.SetReadDeadline(time.Unix(1, 0))
		_ = t.master.SetReadDeadline(time.Unix(1, 0))
	}
	t.mu.Unlock()
	t.waiter.Wait()
	t.pumps.Wait()
}

// thaw undoes freeze.
func (t *terminal) thaw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over() {
		t.expire(keepExited)
		return
	}
	_ = t.pidfd.SetReadDeadline(time.Time{})
	_ = t.master.SetReadDeadline(time.Time{})
	t.run()
}

// bequeath describes a frozen terminal and returns the descriptors to keep.
func (t *terminal) bequeath() (heirTerm, []int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := heirTerm{Session: t.info, Start: t.started, Master: -1, Tape: t.tape.fd, End: t.tape.end}
	fd, err := fill(t.screen.Redraw())
	if err != nil {
		return h, nil, err
	}
	h.Screen = fd
	keep := []int{h.Tape, h.Screen}
	if t.master != nil {
		if h.Master, err = rawFD(t.master); err != nil {
			return h, nil, err
		}
		keep = append(keep, h.Master)
	}
	return h, keep, nil
}

// inherit adds the terminals of the previous agent.
func (l *terminals) inherit(h *heritage) error {
	l.next, l.expired = h.NextTerm, h.Expired
	l.lost = slices.DeleteFunc(l.lost, func(t vm.TerminalSession) bool {
		return slices.ContainsFunc(h.Terminals, func(ht heirTerm) bool { return ht.Session.ID == t.ID })
	})
	l.byID = make(map[string]*terminal)
	for _, ht := range h.Terminals {
		for _, fd := range []int{ht.Tape, ht.Screen, ht.Master} {
			if fd >= 0 {
				_ = setCloexec(fd, true)
			}
		}
		t := newTerminal(l, ht.Session)
		t.started = ht.Start
		screen := os.NewFile(uintptr(ht.Screen), "screen")
		_, err := io.Copy(t.screen, io.NewSectionReader(screen, 0, math.MaxInt64))
		_ = screen.Close()
		if err != nil {
			return err
		}
		if t.tape, err = mapTape(ht.Tape, ht.End); err != nil {
			return err
		}
		l.byID[ht.Session.ID] = t
		if ht.Master < 0 {
			close(t.ended)
			t.expire(keepExited)
			continue
		}
		t.master = os.NewFile(uintptr(ht.Master), "terminal")
		if t.pidfd, err = pidfdOpen(ht.Session.PID); err != nil {
			return err // its program is our child and not reaped, so it must exist
		}
		t.signalOK = true
		t.run()
	}
	return nil
}
