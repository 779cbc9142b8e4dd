// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/folder"
	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// folderGuest is an agent that mounts folders and takes them away.
type folderGuest struct {
	mu    sync.Mutex
	has   []string
	asked []string
}

func (g *folderGuest) note(path, what string, has bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, what+" "+path)
	g.has = slices.DeleteFunc(g.has, func(p string) bool { return p == path })
	if has {
		g.has = append(g.has, path)
	}
}

func (g *folderGuest) mounted() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.has)
}

func (g *folderGuest) last() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[len(g.asked)-1]
}

// folderMachine is a machine with such a guest, and a folder that it may have.
func folderMachine(t *testing.T) (*machine, *folderGuest, vm.Folder) {
	t.Helper()
	spec := fakeSpec(t, "")
	dir, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	is, err := folder.Identity(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &folderGuest{}
	mux := http.NewServeMux()
	mux.HandleFunc("/folder", func(w http.ResponseWriter, r *http.Request) {
		g.note(r.URL.Query().Get("path"), "mount", true)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: warren-exec\r\n\r\n")
		_ = link.WriteFrame(conn, link.FrameStarted, nil)
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	})
	mux.HandleFunc("/unmount", func(_ http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("left") != "" {
			g.note(q.Get("path"), "leave", false)
			return
		}
		g.note(q.Get("path"), "unmount", false)
	})
	m := answered(t, spec, mux)
	return m, g, vm.Folder{Host: dir.Name(), Path: "/src", Is: is}
}

// answered returns a machine whose guest's agent answers with h.
func answered(t *testing.T, spec vm.MachineSpec, h http.Handler) *machine {
	t.Helper()
	m, err := newMachine(t.Context(), spec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(filepath.Dir(spec.RunDir), "agent"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	m.guest = guest.New(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
	})
	t.Cleanup(func() {
		m.end()
		m.wg.Wait()
		server.Close()
	})
	return m
}

// TestFolderNotNoted: a folder that cannot be written down is not given, and one
// that was taken away is gone whether or not that can be written down.
func TestFolderNotNoted(t *testing.T) {
	m, g, f := folderMachine(t)
	away := m.spec.Dir + "-away"
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(m.spec.Dir, away)
	if err := m.giveFolder(t.Context(), f); err == nil {
		t.Error("it is given without a note")
	}
	if has := g.mounted(); len(has)+len(m.spec.Folders) != 0 || m.folders.at(f.Path) != nil {
		t.Errorf("left: %q in the guest, %v wanted", has, m.spec.Folders)
	}
	move(away, m.spec.Dir)
	if err := m.giveFolder(t.Context(), f); err != nil || len(g.mounted()) != 1 || !m.wants(f.Path) {
		t.Errorf("giving the folder: %v, mounted %q, wanted %v, want it in both", err, g.mounted(), m.spec.Folders)
	}
	move(m.spec.Dir, away)
	defer move(away, m.spec.Dir)
	if err := m.takeFolder(t.Context(), f.Path, false); err != nil || len(g.mounted()) != 0 || m.wants(f.Path) {
		t.Errorf("taking the folder: %v, mounted %q, wanted %v, want it in neither", err, g.mounted(), m.spec.Folders)
	}
	if g.last() != "unmount /src" {
		t.Errorf("the guest was asked last: %s", g.last())
	}
	if err := m.takeFolder(t.Context(), f.Path, true); err != nil || g.last() != "leave /src" {
		t.Errorf("one that is not there: %v; the guest was asked %s", err, g.last())
	}
}

// TestFolderTakenMeanwhile: what was taken away is not mounted by who found it
// wanted before.
func TestFolderTakenMeanwhile(t *testing.T) {
	m, g, f := folderMachine(t)
	if err := m.mountWanted(t.Context(), f); err != nil || len(g.mounted()) != 0 {
		t.Errorf("not wanted any more: %v, %q", err, g.mounted())
	}
	m.spec.Folders = []vm.Folder{f}
	if err := m.folders.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.mountWanted(t.Context(), f) }()
	if err := m.dropFolder(t.Context(), f.Path, false); err != nil {
		t.Fatal(err)
	}
	m.forgetFolder(f.Path)
	m.folders.done()
	if err := <-done; err != nil || len(g.mounted()) != 0 {
		t.Errorf("taken away meanwhile: %v, %q", err, g.mounted())
	}
}
