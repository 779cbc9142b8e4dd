// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"
	"maps"
	"sync"
	"time"

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

// look starts the tasks for VMs that run, commits what VMs that no longer run had written,
// gives forks their records, and drops those of VMs that are gone.
func (m *Memories) look() {
	parents, known := map[vm.ID]bool{}, map[vm.ID]bool{}
	var gone []vm.Memory
	for _, rec := range m.table.All() {
		known[rec.VM] = true
		v, there := m.cfg.Engine.VMOf(rec.VM)
		if !there && m.owns(rec.Host) {
			gone = append(gone, rec)
		}
		if !rec.Enabled {
			continue
		}
		parents[rec.VM] = true
		switch {
		case !there:
		case v.State == vm.Running && m.claim(rec.VM):
			m.tasks.Go(func() { m.watch(rec.VM) })
		case (v.State == vm.Suspended || v.State == vm.Stopped) && m.isDirty(rec.VM):
			m.quiet(rec.VM)
		}
	}
	if len(parents) > 0 {
		for _, v := range m.cfg.Engine.VMsWhere(func(v *vm.VM) bool { return parents[v.Parent] && !known[v.ID] }) {
			m.inherit(v)
		}
	}
	m.dropGone(gone)
}

// dropGone drops the records of VMs that are gone, and what is known of them. A record
// from which a VM that is made from a snapshot would inherit stays as long as the snapshot.
func (m *Memories) dropGone(list []vm.Memory) {
	if len(list) > 0 {
		kept := m.cfg.Engine.Snapshotted()
		for _, rec := range list {
			if rec.Enabled && kept[rec.VM] {
				continue
			}
			if err := m.table.Drop(m.life, rec.VM); err != nil && vm.KindOf(err) != vm.NotFound && m.life.Err() == nil {
				m.cfg.Log.Warn("the record of a memory remains, whose VM is gone", "vm", rec.VM, "err", err)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	isGone := func(id vm.ID) bool {
		_, there := m.table.Get(id)
		return !there && !m.watched[id]
	}
	maps.DeleteFunc(m.dirty, func(id vm.ID, _ bool) bool { return isGone(id) })
	maps.DeleteFunc(m.syncing, func(id vm.ID, l *sync.Mutex) bool {
		if !isGone(id) || !l.TryLock() {
			return false // a commit holds it
		}
		l.Unlock()
		return true
	})
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
	if dirty {
		m.dirty[id] = true
	} else {
		delete(m.dirty, id)
	}
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
