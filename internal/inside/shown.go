// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"slices"

	"github.com/warren-vm/warren/vm"
)

// The agent lists the processes and files of all Linux users of a guest. This file
// removes those of users that the caller may not act as: a permission for one user does
// not allow reading what the others run.

// mayBeRoot reports whether the caller may read what only root can: the journal, the
// kernel's log, every directory.
func (v *visit) mayBeRoot() bool { return v.MayActAs("root") == nil }

// hides reports whether the caller may not see data of a Linux user. Data without a user
// is root's.
func (v *visit) hides(user string) bool { return v.MayActAs(user) != nil }

// hide removes from a guest's lists what the caller may not see. Ports stay, since
// everybody inside can reach them, but not the processes that listen on them. It returns
// the visible processes; nil = all.
func (v *visit) hide(w *vm.GuestState) (shown map[int]bool) {
	if v.actor.Identity == "" {
		return nil
	}
	w.Processes = slices.DeleteFunc(w.Processes, func(p vm.GuestProcess) bool { return v.hides(p.User) })
	w.Terminals = slices.DeleteFunc(w.Terminals, func(t vm.GuestTerminal) bool { return v.hides(t.User) })
	shown = make(map[int]bool, len(w.Processes))
	for _, p := range w.Processes {
		shown[p.PID] = true
	}
	w.Roles = slices.DeleteFunc(w.Roles, func(r vm.GuestRole) bool { return !shown[r.PID] })
	for i := range w.Ports {
		anonymous(&w.Ports[i].ListeningPort, shown)
	}
	return shown
}

// evidence is hide for a guest's evidence. A lock stays visible to the process that waits
// for it, without the path that only its holder has.
func (v *visit) evidence(ev *vm.Evidence) {
	shown := v.hide(&ev.State)
	if shown == nil {
		return
	}
	ev.Counters = slices.DeleteFunc(ev.Counters, func(c vm.Counter) bool { return !shown[c.PID] })
	ev.Deleted = slices.DeleteFunc(ev.Deleted, func(d vm.DeletedFile) bool { return !shown[d.PID] })
	for i := range ev.Locks {
		if !shown[ev.Locks[i].PID] {
			ev.Locks[i].Path = ""
		}
	}
	if !v.mayBeRoot() {
		ev.Kernel = nil
	}
}

// stats is hide for a guest's statistics.
func (v *visit) stats(st *vm.Stats) {
	if v.actor.Identity == "" {
		return
	}
	st.Processes = slices.DeleteFunc(st.Processes, func(p vm.SystemProcess) bool { return v.hides(p.User) })
	shown := make(map[int]bool, len(st.Processes))
	for _, p := range st.Processes {
		shown[p.PID] = true
	}
	for i := range st.Ports {
		anonymous(&st.Ports[i], shown)
	}
}

// anonymous removes the listening process from a port, unless it is visible.
func anonymous(p *vm.ListeningPort, shown map[int]bool) {
	if !shown[p.PID] {
		p.PID, p.Command = 0, ""
	}
}
