// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// disk is a guest's file tree. It outlives machines.
type disk struct {
	capacity int64

	mu sync.Mutex
	// guarded by mu
	nodes map[string]*node // by clean absolute path
	users map[string]int   // uid by name
	watch map[chan vm.FileEvent]string
	units map[string]*unit // what systemd has loaded, by name
}

type node struct {
	kind   vm.FileKind
	data   []byte
	target string
	mode   uint32
	uid    int
	mtime  time.Time
	attrs  map[string]string
}

func newDisk(capacity int64) *disk {
	d := &disk{capacity: capacity, nodes: map[string]*node{}, users: map[string]int{"root": 0, "nobody": 65534}, watch: map[chan vm.FileEvent]string{}, units: map[string]*unit{}}
	for _, p := range []string{"/", "/root", "/work", "/workspace", "/tmp", "/etc", "/home", "/var"} {
		d.nodes[p] = &node{kind: vm.FileDirectory, mode: 0o755, mtime: time.Now()}
	}
	d.nodes["/etc/hostname"] = &node{kind: vm.FileRegular, mode: 0o644, data: []byte("sim\n"), mtime: time.Now()}
	return d
}

// uid checks a Linux user; "" = root.
func (d *disk) uid(user string) (int, error) {
	if user == "" {
		return 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id, ok := d.users[user]
	if !ok {
		return 0, vm.Errorf(vm.NotFound, user, "no such Linux user").WithCode("USER_NOT_FOUND")
	}
	return id, nil
}

// home is a user's home directory.
func home(user string) string {
	if user == "" || user == "root" {
		return "/root"
	}
	return "/home/" + user
}

func (d *disk) addUser(name string, makeHome bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.users[name]; taken {
		return false
	}
	id := 999 + len(d.users)
	d.users[name] = id
	if makeHome {
		d.nodes[home(name)] = &node{kind: vm.FileDirectory, mode: 0o755, uid: id, mtime: time.Now()}
	}
	return true
}

// resolve makes p absolute and follows symlinks in all but its last element.
func (d *disk) resolve(user, p string) string {
	if !path.IsAbs(p) {
		p = path.Join(home(user), p)
	}
	p = path.Clean(p)
	for range 8 {
		dir := path.Dir(p)
		n := d.nodes[dir]
		if n == nil || n.kind != vm.FileSymlink {
			break
		}
		t := n.target
		if !path.IsAbs(t) {
			t = path.Join(path.Dir(dir), t)
		}
		p = path.Join(t, path.Base(p))
	}
	return p
}

// begin is the directory in which a program starts; "" = the user's home.
func (d *disk) begin(user, cwd string) (string, error) {
	if cwd == "" {
		return home(user), nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.follow(user, cwd)
	if n := d.nodes[p]; n == nil || n.kind != vm.FileDirectory {
		return "", noFile(cwd)
	}
	return p, nil
}

// follow resolves p and, if it is a symlink, its target.
func (d *disk) follow(user, p string) string {
	p = d.resolve(user, p)
	for range 8 {
		n := d.nodes[p]
		if n == nil || n.kind != vm.FileSymlink {
			break
		}
		if path.IsAbs(n.target) {
			p = path.Clean(n.target)
		} else {
			p = path.Join(path.Dir(p), n.target)
		}
	}
	return p
}

func noFile(p string) error {
	return vm.Errorf(vm.NotFound, p, "no such file or directory").WithCode("FILE_NOT_FOUND", "path", p)
}

func badFile(p, why string) error {
	return vm.Errorf(vm.Invalid, p, "%s", why).WithCode("FILES_BAD_REQUEST", "message", p+": "+why)
}

func info(p string, n *node) vm.FileInfo {
	return vm.FileInfo{
		Name: path.Base(p), Path: p, Kind: n.kind, Size: int64(len(n.data)), Mode: n.mode,
		UID: n.uid, GID: n.uid, ModTime: n.mtime, Target: n.target, Attrs: maps.Clone(n.attrs),
	}
}

// children lists the entries directly below dir.
func (d *disk) children(dir string) []vm.FileInfo {
	var list []vm.FileInfo
	for p, n := range d.nodes {
		if p != "/" && path.Dir(p) == dir {
			list = append(list, info(p, n))
		}
	}
	slices.SortFunc(list, func(a, b vm.FileInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// put writes a whole file.
func (d *disk) put(user, p string, data []byte, mode uint32, parents bool) (vm.FileInfo, error) {
	uid, err := d.uid(user)
	if err != nil {
		return vm.FileInfo{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p = d.follow(user, p)
	if old := d.nodes[p]; old != nil && old.kind == vm.FileDirectory {
		return vm.FileInfo{}, badFile(p, "is a directory")
	}
	if err := d.parent(p, uid, parents); err != nil {
		return vm.FileInfo{}, err
	}
	if d.used()+int64(len(data)) > d.capacity {
		return vm.FileInfo{}, vm.Errorf(vm.NoSpace, p, "the guest's disk is full")
	}
	if mode == 0 {
		mode = 0o644
	}
	kind := "create"
	if old := d.nodes[p]; old != nil {
		kind, mode = "modify", old.mode
	}
	n := &node{kind: vm.FileRegular, data: data, mode: mode, uid: uid, mtime: time.Now()}
	d.nodes[p] = n
	if p == "/etc/passwd" {
		d.learnUsers(string(data))
	}
	d.tell(kind, p)
	return info(p, n), nil
}

// learnUsers adds the users of a password file.
func (d *disk) learnUsers(text string) {
	for line := range strings.Lines(text) {
		if f := strings.Split(line, ":"); len(f) > 3 {
			d.users[f[0]], _ = strconv.Atoi(f[2]) // else 0
		}
	}
}

func (d *disk) used() int64 {
	var sum int64
	for _, n := range d.nodes {
		sum += int64(len(n.data))
	}
	return sum
}

// parent checks the directory of p, and with make creates it.
func (d *disk) parent(p string, uid int, make bool) error {
	dir := path.Dir(p)
	switch n := d.nodes[dir]; {
	case n == nil && !make:
		return noFile(dir)
	case n == nil:
		if err := d.parent(dir, uid, true); err != nil {
			return err
		}
		d.nodes[dir] = &node{kind: vm.FileDirectory, mode: 0o755, uid: uid, mtime: time.Now()}
	case n.kind != vm.FileDirectory:
		return badFile(dir, "is not a directory")
	}
	return nil
}

func (d *disk) mkdir(user, p string, mode uint32, parents bool) error {
	uid, err := d.uid(user)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p = d.resolve(user, p)
	if n := d.nodes[p]; n != nil {
		if parents && n.kind == vm.FileDirectory {
			return nil
		}
		return badFile(p, "file exists")
	}
	if err := d.parent(p, uid, parents); err != nil {
		return err
	}
	if mode == 0 {
		mode = 0o755
	}
	d.nodes[p] = &node{kind: vm.FileDirectory, mode: mode, uid: uid, mtime: time.Now()}
	d.tell("create", p)
	return nil
}

func (d *disk) remove(user, p string, recursive bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p = d.resolve(user, p)
	n := d.nodes[p]
	if n == nil {
		return noFile(p)
	}
	if n.kind == vm.FileDirectory && len(d.children(p)) > 0 && !recursive {
		return badFile(p, "directory not empty")
	}
	for q := range d.nodes {
		if q == p || strings.HasPrefix(q, p+"/") {
			delete(d.nodes, q)
		}
	}
	d.tell("delete", p)
	return nil
}

func (d *disk) rename(user, from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, to = d.resolve(user, from), d.resolve(user, to)
	if d.nodes[from] == nil {
		return noFile(from)
	}
	if err := d.parent(to, 0, false); err != nil {
		return err
	}
	moved := map[string]*node{}
	for q, n := range d.nodes {
		if q == from || strings.HasPrefix(q, from+"/") {
			moved[to+strings.TrimPrefix(q, from)] = n
			delete(d.nodes, q)
		}
	}
	for q, n := range moved {
		d.nodes[q] = n
	}
	d.tell("rename", to)
	return nil
}

// tell sends an event to the watches that cover p.
func (d *disk) tell(kind, p string) {
	for c, root := range d.watch {
		if p == root || strings.HasPrefix(p, strings.TrimSuffix(root, "/")+"/") {
			select {
			case c <- vm.FileEvent{Type: kind, Path: p}:
			default: // a watch that is not read loses events
			}
		}
	}
}
