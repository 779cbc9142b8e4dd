// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// guest is the simulated agent: it implements engine.Guest over a disk and a
// shell.
type guest struct {
	m    *machine
	disk *disk
	hung chan struct{}
	once sync.Once

	mu sync.Mutex
	// guarded by mu
	procs   map[string]*process
	terms   map[string]*terminal
	seq     int
	listens map[string]bool // addresses of ListenSocket

	mounts mounts
}

func newGuest(m *machine, d *disk) *guest {
	g := &guest{m: m, disk: d, hung: make(chan struct{}), procs: map[string]*process{}, terms: map[string]*terminal{}, listens: map[string]bool{}}
	g.become(m.spec.Reset)
	return g
}

// become writes the identity of a reset to the disk.
func (g *guest) become(r vm.Reset) {
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	g.disk.nodes["/etc/hostname"].data = []byte(r.Hostname + "\n")
}

func (g *guest) hang() { g.once.Do(func() { close(g.hung) }) }

// enter begins every verb: it fails when the machine is gone, and blocks while the guest
// hangs.
func (g *guest) enter(ctx context.Context, verb string) error {
	for _, step := range []string{"guest", "guest." + verb} {
		if err := g.m.w.step(ctx, step); err != nil {
			return err
		}
	}
	select {
	case <-g.m.gone:
		return vm.Errorf(vm.GuestFault, string(g.m.spec.ID), "the link is broken")
	case <-g.hung:
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.m.gone:
			return vm.Errorf(vm.GuestFault, string(g.m.spec.ID), "the link is broken")
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

func (g *guest) greeting() vm.AgentHello {
	return vm.AgentHello{Protocol: 1, Version: "test", Digest: g.m.spec.AgentDigest, Booted: true, BootID: g.m.spec.Reset.BootID, Kernel: "6.1.0-sim", Systemd: true}
}

func (g *guest) Hello(ctx context.Context) (vm.AgentHello, error) {
	if err := g.enter(ctx, "hello"); err != nil {
		return vm.AgentHello{}, err
	}
	return g.greeting(), nil
}

func (g *guest) Stats(ctx context.Context) (vm.Stats, error) {
	if err := g.enter(ctx, "stats"); err != nil {
		return vm.Stats{}, err
	}
	g.disk.mu.Lock()
	used := g.disk.used()
	g.disk.mu.Unlock()
	total := int64(g.m.spec.Size.MemoryMiB) << 20
	return vm.Stats{
		Time: time.Now().UTC(), UptimeSeconds: time.Since(g.m.started).Seconds(), VCPU: g.m.spec.Size.VCPU,
		MemTotal: total, MemAvailable: total / 2, DiskTotal: g.disk.capacity, DiskFree: g.disk.capacity - used,
		Processes: []vm.SystemProcess{{PID: 1, User: "root", State: "S", Command: "/sbin/init"}},
		Ports:     []vm.ListeningPort{{Proto: "tcp", Address: "0.0.0.0", Port: 7, PID: 1, Command: "echo"}},
	}, nil
}

// Evidence is State with a load of half a CPU.
func (g *guest) Evidence(ctx context.Context, all bool) (vm.Evidence, error) {
	w, err := g.State(ctx)
	if err != nil {
		return vm.Evidence{}, err
	}
	st, err := g.Stats(ctx)
	ev := vm.Evidence{State: w, CPUSeconds: w.UptimeSeconds / 2, VCPU: st.VCPU, MemTotal: st.MemTotal, MemAvailable: st.MemAvailable, Counters: []vm.Counter{}}
	for _, p := range w.Processes {
		ev.Counters = append(ev.Counters, vm.Counter{PID: p.PID})
	}
	ev.State.Mounts = []vm.GuestMount{{Path: "/", Source: "/dev/vda", Type: "ext4", Total: st.DiskTotal, Free: st.DiskFree}}
	if all {
		ev.Kernel = []vm.KernelLine{{Time: w.Time, Text: "Out of memory: Killed process 99 (node) total-vm:1kB, anon-rss:2048kB"}}
	}
	return ev, err
}

// State describes a guest with an echo service on port 7, a port 81 that listens but
// cannot be reached, a port that only the guest reaches, and Redis on port 81.
func (g *guest) State(ctx context.Context) (vm.GuestState, error) {
	if err := g.enter(ctx, "state"); err != nil {
		return vm.GuestState{}, err
	}
	port := func(address string, n, pid int, command string) vm.GuestPort {
		return vm.GuestPort{ListeningPort: vm.ListeningPort{Proto: "tcp", Address: address, Port: n, PID: pid, Command: command}}
	}
	inside := port("127.0.0.1", 5000, 12, "app")
	inside.Probe = vm.Probe{OK: true, Kind: "http", Status: 204, From: "guest"}
	out := vm.GuestState{
		Time: time.Now().UTC(), UptimeSeconds: time.Since(g.m.started).Seconds(),
		Ports: []vm.GuestPort{port("0.0.0.0", 7, 10, "echo"), port("0.0.0.0", 81, 11, "redis-server *:81"), inside},
		Roles: []vm.GuestRole{{Role: vm.RoleDatabase, PID: 11, Program: "redis-server", Alive: true, Seen: "Redis", Why: "its program is redis-server"}},
	}
	out.Processes = append(out.Processes, vm.GuestProcess{SystemProcess: vm.SystemProcess{PID: 1, User: "root", State: "S", Command: "/sbin/init"}, System: true})
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.procs {
		if v := p.snapshot(); v.ExitCode == nil {
			out.Processes = append(out.Processes, vm.GuestProcess{
				SystemProcess: vm.SystemProcess{PID: v.PID, PPID: 1, User: v.User, State: "S", Command: strings.Join(v.Argv, " ")}, Exec: v.ID,
			})
		}
	}
	for _, t := range g.terms {
		if v := t.view(); v.Running() {
			out.Terminals = append(out.Terminals, vm.GuestTerminal{Name: "pts/" + strconv.Itoa(v.PID), Leader: v.PID, User: v.User})
		}
	}
	return out, nil
}

func (g *guest) Stat(ctx context.Context, user, p string) (vm.FileInfo, error) {
	if err := g.enter(ctx, "stat"); err != nil {
		return vm.FileInfo{}, err
	}
	if _, err := g.disk.uid(user); err != nil {
		return vm.FileInfo{}, err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	p = g.disk.resolve(user, p)
	n := g.disk.nodes[p]
	if n == nil {
		return vm.FileInfo{}, noFile(p)
	}
	return info(p, n), nil
}

func (g *guest) ReadDir(ctx context.Context, user, p string) ([]vm.FileInfo, error) {
	if err := g.enter(ctx, "readdir"); err != nil {
		return nil, err
	}
	if _, err := g.disk.uid(user); err != nil {
		return nil, err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	p = g.disk.follow(user, p)
	switch n := g.disk.nodes[p]; {
	case n == nil:
		return nil, noFile(p)
	case n.kind != vm.FileDirectory:
		return nil, badFile(p, "is not a directory")
	}
	return g.disk.children(p), nil
}

func (g *guest) Open(ctx context.Context, user, p string) (vm.FileInfo, io.ReadCloser, error) {
	if err := g.enter(ctx, "open"); err != nil {
		return vm.FileInfo{}, nil, err
	}
	if _, err := g.disk.uid(user); err != nil {
		return vm.FileInfo{}, nil, err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	p = g.disk.follow(user, p)
	n := g.disk.nodes[p]
	switch {
	case n == nil:
		return vm.FileInfo{}, nil, noFile(p)
	case n.kind != vm.FileRegular:
		return vm.FileInfo{}, nil, badFile(p, "is a directory")
	}
	return info(p, n), &guestReader{g: g, ctx: ctx, r: bytes.NewReader(n.data)}, nil
}

// guestReader fails midway when the machine ends or the guest hangs.
type guestReader struct {
	g   *guest
	ctx context.Context
	r   io.Reader
}

func (r *guestReader) Read(p []byte) (int, error) {
	if err := r.g.enter(r.ctx, "read"); err != nil {
		return 0, err
	}
	return r.r.Read(p[:min(len(p), 64<<10)])
}

func (r *guestReader) Close() error { return nil }

func (g *guest) WriteFile(ctx context.Context, user, p string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error) {
	if err := g.enter(ctx, "write"); err != nil {
		return vm.FileInfo{}, err
	}
	data, err := readAll(ctx, r)
	if err != nil {
		return vm.FileInfo{}, err
	}
	if o.Size >= 0 && int64(len(data)) != o.Size {
		return vm.FileInfo{}, badFile(p, "the stream does not have the announced length")
	}
	i, err := g.disk.put(user, p, data, o.Mode, o.Parents)
	if err == nil {
		g.disk.mu.Lock()
		defer g.disk.mu.Unlock()
		if n := g.disk.nodes[i.Path]; n != nil {
			n.attrs, i.Attrs = o.Attrs, maps.Clone(o.Attrs)
		}
	}
	return i, err
}

// readAll reads until EOF, or until ctx ends.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // ends with r, which its owner closes
		data, err := io.ReadAll(r)
		done <- result{data, err}
	}()
	select {
	case res := <-done:
		return res.data, res.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (g *guest) TarDown(ctx context.Context, user, p string) (io.ReadCloser, error) {
	if err := g.enter(ctx, "tardown"); err != nil {
		return nil, err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	root := g.disk.resolve(user, p)
	if g.disk.nodes[root] == nil {
		return nil, noFile(root)
	}
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	if err := g.disk.pack(tw, root, "."); err != nil {
		return nil, err
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return &guestReader{g: g, ctx: ctx, r: &buf}, nil
}

// pack writes the tree at p to tw under a name, parents before children.
func (d *disk) pack(tw *tar.Writer, p, name string) error {
	n := d.nodes[p]
	h := &tar.Header{Name: name, Mode: int64(n.mode), ModTime: n.mtime, Size: int64(len(n.data)), Typeflag: tar.TypeReg}
	switch n.kind {
	case vm.FileDirectory:
		h.Name, h.Typeflag = name+"/", tar.TypeDir
	case vm.FileSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.target
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if _, err := tw.Write(n.data); err != nil {
		return err
	}
	if n.kind != vm.FileDirectory {
		return nil
	}
	for _, c := range d.children(p) {
		if err := d.pack(tw, c.Path, path.Join(name, c.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (g *guest) TarUp(ctx context.Context, user, p string, r io.Reader) error {
	if err := g.enter(ctx, "tarup"); err != nil {
		return err
	}
	data, err := readAll(ctx, r)
	if err != nil {
		return err
	}
	tr := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return badFile(p, "not a tar stream: "+err.Error())
		}
		name := path.Join(p, path.Clean("/"+h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = g.disk.mkdir(user, name, uint32(h.Mode)&0o7777, true)
		case tar.TypeSymlink:
			err = g.putSymlink(user, h.Linkname, name)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(tr); err == nil {
				_, err = g.disk.put(user, name, content, uint32(h.Mode)&0o7777, true)
			}
		}
		if err != nil {
			return err
		}
	}
}

// Restore implements engine.Guest.
func (g *guest) Restore(ctx context.Context, p string, r io.Reader) error {
	if err := g.enter(ctx, "restore"); err != nil {
		return err
	}
	data, err := readAll(ctx, r)
	if err != nil {
		return err
	}
	if err := g.disk.remove("", p, true); err != nil && vm.KindOf(err) != vm.NotFound {
		return err
	}
	tr := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return badFile(p, "not a tar stream: "+err.Error())
		}
		rest, ok := strings.CutPrefix(h.Name, "entry")
		if !ok {
			return badFile(p, "the archive holds "+h.Name)
		}
		name := path.Join(p, rest)
		switch h.Typeflag {
		case tar.TypeDir:
			err = g.disk.mkdir("", name, uint32(h.Mode)&0o7777, true)
		case tar.TypeSymlink:
			err = g.putSymlink("", h.Linkname, name)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(tr); err == nil {
				_, err = g.disk.put("", name, content, uint32(h.Mode)&0o7777, true)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (g *guest) Mkdir(ctx context.Context, user, p string, mode uint32, parents bool) error {
	if err := g.enter(ctx, "mkdir"); err != nil {
		return err
	}
	return g.disk.mkdir(user, p, mode, parents)
}

func (g *guest) Rename(ctx context.Context, user, from, to string) error {
	if err := g.enter(ctx, "rename"); err != nil {
		return err
	}
	return g.disk.rename(user, from, to)
}

func (g *guest) Remove(ctx context.Context, user, p string, recursive bool) error {
	if err := g.enter(ctx, "remove"); err != nil {
		return err
	}
	return g.disk.remove(user, p, recursive)
}

func (g *guest) Chmod(ctx context.Context, user, p string, mode uint32) error {
	if err := g.enter(ctx, "chmod"); err != nil {
		return err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	p = g.disk.follow(user, p)
	n := g.disk.nodes[p]
	if n == nil {
		return noFile(p)
	}
	n.mode = mode
	return nil
}

func (g *guest) Symlink(ctx context.Context, user, target, p string) error {
	if err := g.enter(ctx, "symlink"); err != nil {
		return err
	}
	return g.putSymlink(user, target, p)
}

func (g *guest) putSymlink(user, target, p string) error {
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	p = g.disk.resolve(user, p)
	if g.disk.nodes[p] != nil {
		return badFile(p, "file exists")
	}
	if err := g.disk.parent(p, 0, false); err != nil {
		return err
	}
	g.disk.nodes[p] = &node{kind: vm.FileSymlink, target: target, mode: 0o777, mtime: time.Now()}
	return nil
}

func (g *guest) Watch(ctx context.Context, user, p string, _ bool) (engine.Watch, error) {
	if err := g.enter(ctx, "watch"); err != nil {
		return nil, err
	}
	g.disk.mu.Lock()
	defer g.disk.mu.Unlock()
	p = g.disk.follow(user, p)
	if n := g.disk.nodes[p]; n == nil {
		return nil, noFile(p)
	}
	c := make(chan vm.FileEvent, 64)
	g.disk.watch[c] = strings.TrimSuffix(p, "/")
	return &watch{g: g, ctx: ctx, c: c, closed: make(chan struct{})}, nil
}

type watch struct {
	g      *guest
	ctx    context.Context
	c      chan vm.FileEvent
	closed chan struct{}
	once   sync.Once
}

func (w *watch) Next() (vm.FileEvent, error) {
	select {
	case ev := <-w.c:
		return ev, nil
	case <-w.closed:
		return vm.FileEvent{}, io.EOF
	case <-w.ctx.Done():
		return vm.FileEvent{}, context.Cause(w.ctx)
	case <-w.g.m.gone:
		return vm.FileEvent{}, vm.Errorf(vm.GuestFault, "", "the link is broken")
	}
}

func (w *watch) Close() error {
	w.once.Do(func() {
		w.g.disk.mu.Lock()
		delete(w.g.disk.watch, w.c)
		w.g.disk.mu.Unlock()
		close(w.closed)
	})
	return nil
}

// Under returns the guest itself: path rules are kept by the real agent.
func (g *guest) Under([]vm.PathRule) engine.Guest { return g }
