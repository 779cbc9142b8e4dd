// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// longest is how long files that are written all the time wait for a commit.
const longest = time.Minute

// run looks which VMs with a memory run, and watches them. A VM whose files nobody writes
// costs only an open connection.
func (m *Memories) run() {
	tick := time.NewTicker(m.cfg.Look)
	defer tick.Stop()
	for {
		select {
		case <-m.life.Done():
			return
		case <-tick.C:
			m.look()
		}
	}
}

// look starts the tasks for VMs that run, and commits what VMs that no longer run had
// written.
func (m *Memories) look() {
	accounts := map[vm.AccountID]bool{}
	for _, rec := range m.table.All() {
		if !rec.Enabled {
			continue
		}
		accounts[rec.Account] = true
		v, err := m.cfg.Engine.Find(m.system(rec).Actor, string(rec.VM))
		if err != nil {
			continue
		}
		switch {
		case v.State == vm.Running && m.claim(rec.VM):
			m.tasks.Go(func() { m.watch(rec.VM) })
		case (v.State == vm.Suspended || v.State == vm.Stopped) && m.isDirty(rec.VM):
			m.quiet(rec.VM)
		}
	}
	for account := range accounts {
		list, _, _, err := m.cfg.Engine.List(m.life, &vm.Call{Actor: vm.Actor{Account: account, System: "memory"}}, engine.Filter{})
		if err != nil {
			continue
		}
		for _, v := range list {
			m.inherit(v)
		}
	}
}

// claim reports whether no task watches a VM yet, and notes that one does.
func (m *Memories) claim(id vm.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watched[id] {
		return false
	}
	m.watched[id] = true
	return true
}

func (m *Memories) isDirty(id vm.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dirty[id] && !m.watched[id]
}

func (m *Memories) mark(id vm.ID, dirty bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirty[id] = dirty
}

// watch commits a running VM's memory whenever it was written and is quiet again. It
// returns when the machine ends.
func (m *Memories) watch(id vm.ID) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watched, id)
	}()
	rec, ok := m.table.Get(id)
	if !ok {
		return
	}
	// A verb that only looks: it neither wakes the VM nor counts as use.
	v, err := m.cfg.Engine.Visit(m.life, m.system(rec), string(id), vm.OpState, "")
	if err != nil {
		return
	}
	defer v.End(nil, nil)
	v.CountTraffic() // it may be open for days
	w, err := v.Guest().Watch(v.Context(), "", vm.MemoryPath, true)
	if err != nil {
		m.cfg.Log.Debug("a memory cannot be watched", "vm", id, "err", err)
		return
	}
	written := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() { // ends when the watch is closed, or with the machine
		defer close(ended)
		for {
			if _, err := w.Next(); err != nil {
				return
			}
			m.mark(id, true)
			select {
			case written <- struct{}{}:
			default:
			}
		}
	}()
	m.quiet(id) // what was written while nobody watched
	m.serve(v.Context(), id, written, ended)
	_ = w.Close() // its connection ends with the visit
	<-ended
}

// serve commits at each quiet moment until ctx or the watch ends, or the memory is
// disabled.
func (m *Memories) serve(ctx context.Context, id vm.ID, written, ended <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-written:
		}
		if rec, ok := m.table.Get(id); !ok || !rec.Enabled {
			return
		}
		latest := time.NewTimer(longest)
		for waiting := true; waiting; {
			quiet := time.NewTimer(m.cfg.Quiet)
			select {
			case <-written:
			case <-quiet.C:
				waiting = false
			case <-latest.C:
				waiting = false
			case <-ended:
				waiting = false
			case <-ctx.Done():
				waiting = false
			}
			quiet.Stop()
		}
		latest.Stop()
		if ctx.Err() != nil {
			return // look commits from the disk, once the VM rests
		}
		m.quiet(id)
	}
}

// Flush commits what was written to a running VM's memory and is not committed yet. It
// reads the files, for a write of a moment ago may not have been reported yet.
func (m *Memories) Flush(ctx context.Context, id vm.ID) {
	rec, ok := m.table.Get(id)
	if !ok || !rec.Enabled {
		return
	}
	if v, err := m.cfg.Engine.Find(m.system(rec).Actor, string(id)); err != nil || v.State != vm.Running {
		return
	}
	ctx, stop := context.WithTimeout(ctx, flushLimit)
	defer stop()
	m.mark(id, false)
	if _, err := m.commit(ctx, m.system(rec), rec, ""); err != nil {
		m.mark(id, true)
		m.cfg.Log.Warn("a memory was not committed before a suspend", "vm", id, "err", err)
	}
}

// flushLimit is how long a suspend waits for a commit.
const flushLimit = 10 * time.Second

// quiet commits what was written, and notes a failure in the record.
func (m *Memories) quiet(id vm.ID) {
	rec, ok := m.table.Get(id)
	if !ok || !rec.Enabled {
		return
	}
	ctx, stop := context.WithTimeout(m.life, time.Minute)
	defer stop()
	m.mark(id, false)
	_, err := m.commit(ctx, m.system(rec), rec, "")
	if err == nil || m.life.Err() != nil {
		return
	}
	switch vm.KindOf(err) {
	case vm.Busy, vm.Unavailable, vm.Cancelled:
		m.mark(id, true) // again, when the VM has come to rest
		return
	case vm.WrongState: // its next start begins with a commit
		return
	}
	m.cfg.Log.Warn("a memory was not committed", "vm", id, "err", err)
	if rec, ok = m.table.Get(id); ok && rec.Error != err.Error() {
		rec.Error = vm.Clip(err.Error(), 1024)
		if _, err := m.save(m.life, rec); err != nil {
			m.cfg.Log.Warn("the record of a memory was not written", "vm", id, "err", err)
		}
	}
}
