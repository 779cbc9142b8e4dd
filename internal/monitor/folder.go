// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/folder"
	"github.com/warren-vm/warren/vm"
)

// folders are the directories of the host that the machine's guest has.
type folders struct {
	change chan struct{} // has what holds it while one is mounted or taken away, with the note of it
	mu     sync.Mutex    // guards list
	list   []*served
}

// begin waits until no other folder is mounted or taken away, as mountings of
// one path must not meet.
func (l *folders) begin(ctx context.Context) error {
	select {
	case l.change <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *folders) done() { <-l.change }

// served is one folder. It is mounted again whenever its stream has ended,
// until it is taken away.
type served struct {
	vm.Folder
	dir  *os.File
	ctx  context.Context
	end  context.CancelFunc
	over chan struct{} // closed when nothing serves it any more
}

func (l *folders) at(path string) *served {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.list, func(f *served) bool { return f.Path == path }); i >= 0 {
		return l.list[i]
	}
	return nil
}

func folderPaths(list []vm.Folder) (out []string) {
	for _, f := range list {
		out = append(out, f.Path)
	}
	return out
}

func (l *folders) remove(f *served) {
	l.mu.Lock()
	l.list = slices.DeleteFunc(l.list, func(o *served) bool { return o == f })
	l.mu.Unlock()
	f.end()
	<-f.over
	f.dir.Close()
}

// addFolder mounts a folder and serves it from now on. The directory is the one
// that was checked, or none. The caller has begun.
func (m *machine) addFolder(ctx context.Context, spec vm.Folder) error {
	if m.folders.at(spec.Path) != nil {
		return vm.Errorf(vm.Exists, spec.Path, "a folder is mounted there")
	}
	dir, err := folder.Reopen(spec.Host, spec.Is)
	if err != nil {
		return err
	}
	conn, err := m.guest.MountFolder(ctx, spec.Path, spec.RW, spec.Over)
	if err != nil {
		dir.Close()
		return err
	}
	f := &served{Folder: spec, dir: dir, over: make(chan struct{})}
	f.ctx, f.end = context.WithCancel(m.lifetime)
	m.folders.mu.Lock()
	m.folders.list = append(m.folders.list, f)
	m.folders.mu.Unlock()
	m.wg.Go(func() { m.serveFolder(f, conn) })
	return nil
}

const (
	folderWait = 20 * time.Second // for one mount
	folderRest = 200 * time.Millisecond
)

// folderRetry is the pause after so many failures before in a row: a guest that
// cannot have a folder is asked, and the log told, ever more seldom.
func folderRetry(before int) time.Duration {
	return min(time.Second<<min(before, 5), 30*time.Second)
}

// serveFolder serves a folder, and mounts it again when the link was lost.
func (m *machine) serveFolder(f *served, conn net.Conn) {
	defer close(f.over)
	for failed := 0; ; {
		if conn != nil {
			if err := folder.Serve(f.ctx, conn, f.dir, folder.Options{RW: f.RW, Log: m.log}); err != nil {
				m.log.Warn("folder", "path", f.Path, "err", err)
			}
		}
		pause(f.ctx, folderRest)
		if f.ctx.Err() != nil {
			return
		}
		var err error
		if conn, err = m.mountAgain(f); err != nil {
			conn = nil
			m.log.Warn("folder", "path", f.Path, "err", err)
			pause(f.ctx, folderRetry(failed))
			failed++
			continue
		}
		failed = 0
	}
}

// mountAgain mounts a folder whose stream has ended, unless it was taken away.
func (m *machine) mountAgain(f *served) (net.Conn, error) {
	if err := m.folders.begin(f.ctx); err != nil {
		return nil, err
	}
	defer m.folders.done()
	ctx, cancel := context.WithTimeout(f.ctx, folderWait)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return m.guest.MountFolder(ctx, f.Path, f.RW, true)
}

// dropFolder unmounts a folder; one that is not there is no error, and what the
// guest itself has mounted there stays. While programs use it, it stays and they
// are named, unless force. The caller has begun.
func (m *machine) dropFolder(ctx context.Context, path string, force bool) error {
	f := m.folders.at(path)
	if f == nil && !m.wants(path) {
		return m.guest.LeaveFolder(ctx, path)
	}
	if err := m.guest.Unmount(ctx, path, force); err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	m.folders.remove(f)
	return nil
}

// wantFolders changes what the machine's folders are to be, also for a monitor
// that re-attaches.
func (m *machine) wantFolders(change func([]vm.Folder) []vm.Folder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spec.Folders = change(slices.Clone(m.spec.Folders))
	return m.save(m.spec.Network)
}

// wants reports whether the machine is to have a folder at a path.
func (m *machine) wants(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.spec.Folders, func(f vm.Folder) bool { return f.Path == path })
}

// giveFolder mounts a folder and notes that the machine is to have it. Nothing is
// left of it when that cannot be noted.
func (m *machine) giveFolder(ctx context.Context, f vm.Folder) error {
	if err := m.folders.begin(ctx); err != nil {
		return err
	}
	defer m.folders.done()
	if err := m.addFolder(ctx, f); err != nil {
		return err
	}
	err := m.wantFolders(func(l []vm.Folder) []vm.Folder { return append(l, f) })
	if err == nil {
		return nil
	}
	if dropErr := m.dropFolder(context.WithoutCancel(ctx), f.Path, true); dropErr != nil {
		m.log.Warn("a folder of the host stays mounted", "path", f.Path, "err", dropErr)
	}
	m.forgetFolder(f.Path)
	return err
}

// takeFolder unmounts a folder and notes that the machine is not to have it.
func (m *machine) takeFolder(ctx context.Context, path string, force bool) error {
	if err := m.folders.begin(ctx); err != nil {
		return err
	}
	defer m.folders.done()
	if err := m.dropFolder(ctx, path, force); err != nil {
		return err
	}
	m.forgetFolder(path)
	return nil
}

// forgetFolder notes that a folder is gone, which is so whether or not it can be
// written down. Where it was not, the engine takes from a later monitor what the
// VM's record does not have.
func (m *machine) forgetFolder(path string) {
	err := m.wantFolders(func(l []vm.Folder) []vm.Folder {
		return slices.DeleteFunc(l, func(f vm.Folder) bool { return f.Path == path })
	})
	if err != nil {
		m.log.Warn("that a folder of the host is gone is not written down", "path", path, "err", err)
	}
}

// mountFolders gives a guest the folders that it does not have yet, when its
// machine starts or is found again. One that cannot be mounted is missing: its
// path fails, or is what it was without, and the log says why. It reports
// whether another try may do better.
func (m *machine) mountFolders(ctx context.Context) (again bool) {
	m.mu.Lock()
	list, lost := slices.Clone(m.spec.Folders), m.spec.LostFolders
	m.spec.LostFolders = nil
	m.mu.Unlock()
	for _, path := range lost {
		if err := m.guest.LeaveFolder(ctx, path); err != nil {
			m.log.Warn("folder", "path", path, "err", err)
		}
	}
	for _, f := range list {
		if err := m.mountWanted(ctx, f); err != nil {
			m.log.Warn("a folder of the host is missing", "path", f.Path, "host", f.Host, "err", err)
			k := vm.KindOf(err)
			again = again || k == vm.GuestFault || k == vm.Timeout || k == vm.Unavailable || k == vm.Cancelled
		}
	}
	return again
}

// mountWanted mounts a folder that the machine is to have, unless it has it or is
// not to have it any more.
func (m *machine) mountWanted(ctx context.Context, f vm.Folder) error {
	if err := m.folders.begin(ctx); err != nil {
		return err
	}
	defer m.folders.done()
	if m.folders.at(f.Path) != nil || !m.wants(f.Path) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, folderWait)
	defer cancel()
	f.Over = true
	return m.addFolder(ctx, f)
}

// keepMounting mounts folders until the guest has all that can be mounted: an
// agent on a busy host may answer late.
func (m *machine) keepMounting(ctx context.Context) {
	for failed := 0; m.mountFolders(ctx); failed++ {
		if pause(ctx, folderRetry(failed)); ctx.Err() != nil {
			return
		}
	}
}

func (s *server) addFolder(w http.ResponseWriter, r *http.Request) {
	var f vm.Folder
	err := readJSONBody(r, &f)
	if err == nil && !closed(s.m.started) {
		err = vm.Errorf(vm.Unavailable, string(s.m.spec.ID), "the machine is still being started")
	}
	if err == nil {
		err = s.m.giveFolder(r.Context(), f)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

// The unmounting continues when its caller goes away: half of it has
// happened.
func (s *server) dropFolder(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	err := s.m.takeFolder(context.WithoutCancel(r.Context()), q.Get("path"), q.Get("force") != "")
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

// MountFolder gives the guest a directory of the host. Kinds: Exists, Invalid,
// WrongState when the directory is not the one that was checked.
func (c *Client) MountFolder(ctx context.Context, f vm.Folder) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	return c.call(ctx, "POST", "/folder", f, nil)
}

// UnmountFolder takes one away; one that is not there is no error. Kind Busy,
// naming them, while programs use it, unless force: then they are killed.
func (c *Client) UnmountFolder(ctx context.Context, path string, force bool) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	q := url.Values{"path": {path}}
	if force {
		q.Set("force", "1")
	}
	return c.call(ctx, "DELETE", "/folder?"+q.Encode(), nil, nil)
}
