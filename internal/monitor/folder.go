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
	"github.com/warren-vm/warren/internal/proxy"
	"github.com/warren-vm/warren/vm"
)

// folders are the directories of the host that the machine's guest has.
type folders struct {
	change chan struct{} // capacity one: taken while a folder is mounted or unmounted and noted
	mu     sync.Mutex    // guards list
	list   []*served
}

// begin waits until no other folder is mounted or unmounted, because two mounts on
// one path must not overlap.
func (l *folders) begin(ctx context.Context) error {
	select {
	case l.change <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *folders) done() { <-l.change }

// served is one folder. Whenever its stream ends it is mounted again, until it is
// unmounted.
type served struct {
	vm.Folder
	from source
	ctx  context.Context
	end  context.CancelFunc
	over chan struct{} // closed when serving has ended
}

// source is what a folder shows. Close it once, when serving has ended.
type source struct {
	dir     *os.File
	rules   *folder.Rules   // with dir
	objects *folder.Objects // in place of dir
}

func (s source) close() {
	if s.objects != nil {
		s.objects.Close()
		return
	}
	s.dir.Close()
}

// source opens what a folder shows. It refuses if the path is another directory than the
// one that was checked.
func (m *machine) source(f vm.Folder) (s source, err error) {
	if !vm.IsObjects(f.Host) {
		if s.dir, err = folder.Reopen(f.Host, f.Is); err != nil {
			return s, err
		}
		s.rules = folder.NewRules(f.Path, m.askPath)
		if err = m.rule(s, f.Path, m.pathRules()); err != nil {
			s.close()
		}
		return s, err
	}
	bucket, prefix, err := vm.ParseObjects(f.Host)
	if err == nil {
		s.objects, err = folder.NewObjects(folder.NewBucket(proxy.Client(m.serverRun().Inside(), m.spec.ID), bucket, prefix), m.spec.Dir)
	}
	return s, err
}

// serve answers the guest's messages about a folder until the connection ends.
func (m *machine) serve(f *served, conn net.Conn) error {
	if f.from.objects != nil {
		return f.from.objects.Serve(f.ctx, conn)
	}
	return folder.Serve(f.ctx, conn, f.from.dir, folder.Options{RW: f.RW, Log: m.log, Rules: f.from.rules})
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
	f.from.close()
}

// addFolder mounts a folder and serves it. The caller has called begin.
func (m *machine) addFolder(ctx context.Context, spec vm.Folder) error {
	if m.folders.at(spec.Path) != nil {
		return vm.Errorf(vm.Exists, spec.Path, "a folder is mounted there")
	}
	from, err := m.source(spec)
	if err != nil {
		return err
	}
	conn, err := m.guest.MountFolder(ctx, spec.Path, spec.RW, spec.Over)
	if err != nil {
		from.close()
		return err
	}
	f := &served{Folder: spec, from: from, over: make(chan struct{})}
	f.ctx, f.end = context.WithCancel(m.lifetime)
	m.folders.mu.Lock()
	m.folders.list = append(m.folders.list, f)
	m.folders.mu.Unlock()
	m.wg.Go(func() { m.serveFolder(f, conn) })
	return nil
}

const (
	folderWait = 20 * time.Second // for one mount attempt
	folderRest = 200 * time.Millisecond
)

// folderRetry is the pause after that many consecutive failures: the guest is asked
// less and less often, and the log stays short.
func folderRetry(before int) time.Duration {
	return min(time.Second<<min(before, 5), 30*time.Second)
}

// serveFolder serves a folder, and mounts it again after the link was lost.
func (m *machine) serveFolder(f *served, conn net.Conn) {
	defer close(f.over)
	for failed := 0; ; {
		if conn != nil {
			if err := m.serve(f, conn); err != nil {
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

// mountAgain mounts a folder whose stream has ended, unless it was unmounted.
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

// dropFolder unmounts a folder; an absent one is no error, and a mount that the
// guest made there itself stays. While programs use the folder it stays mounted and
// the error names them, unless force. The caller has called begin.
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

// wantFolders changes the list of the machine's folders, also for a monitor that
// re-attaches.
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

// giveFolder mounts a folder and notes it in the machine's list. If the note fails,
// the folder is unmounted.
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

// takeFolder unmounts a folder and removes it from the machine's list.
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

// forgetFolder notes that a folder is gone, even if the note cannot be written. In
// that case the engine later removes from a new monitor each folder that the VM's
// record lacks.
func (m *machine) forgetFolder(path string) {
	err := m.wantFolders(func(l []vm.Folder) []vm.Folder {
		return slices.DeleteFunc(l, func(f vm.Folder) bool { return f.Path == path })
	})
	if err != nil {
		m.log.Warn("the removal of a folder of the host is not recorded", "path", path, "err", err)
	}
}

// mountFolders mounts the folders that a guest lacks, when its machine starts or is
// adopted. A folder that cannot be mounted is missing: its path fails, or shows the
// directory below, and the log says why. The result is whether another attempt may
// succeed.
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

// mountWanted mounts a folder of the machine's list, unless it is mounted or no
// longer in the list.
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

// keepMounting mounts folders until the guest has every one that can be mounted: an
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

// The unmounting continues if its caller disconnects, so that it is not left half
// done.
func (s *server) dropFolder(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	err := s.m.takeFolder(context.WithoutCancel(r.Context()), q.Get("path"), q.Get("force") != "")
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

// MountFolder mounts a directory of the host in the guest. Kinds: Exists, Invalid,
// WrongState when the directory is not the one that was checked.
func (c *Client) MountFolder(ctx context.Context, f vm.Folder) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	return c.call(ctx, "POST", "/folder", f, nil)
}

// UnmountFolder unmounts a folder; an absent one is no error. Kind Busy while
// programs use it, with their names; force kills them.
func (c *Client) UnmountFolder(ctx context.Context, path string, force bool) error {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	q := url.Values{"path": {path}}
	if force {
		q.Set("force", "1")
	}
	return c.call(ctx, "DELETE", "/folder?"+q.Encode(), nil, nil)
}
