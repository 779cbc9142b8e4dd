// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"context"
	"errors"
	"os"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// Asker asks for a decision about a path in the guest and blocks until there is one, or ctx
// ends. nil = approved, for as long as the result says; 0 = while the folder is mounted. An
// error of kind Denied is a decision; any other is not.
type Asker func(ctx context.Context, path string, write bool) (time.Duration, error)

// Rules hold the path rules of one folder, which may change while it is served.
type Rules struct {
	at  string // the mount point in the guest
	ask Asker  // nil = nobody can be asked

	set atomic.Pointer[pathrule.Set]

	mu      sync.Mutex
	server  *server // that serves now
	decided map[decision]decided
	asking  map[decision]chan struct{} // closed when the answer has come
}

// decision is what a decision was about.
type decision struct {
	path  string
	write bool
}

type decided struct {
	ok    bool
	until time.Time // zero = until the rules change
}

// NewRules makes rules, none at first, for a folder that is mounted at a path of the guest.
func NewRules(at string, ask Asker) *Rules {
	return &Rules{at: path.Clean(at), ask: ask, decided: map[decision]decided{}, asking: map[decision]chan struct{}{}}
}

// Set replaces the rules. What the guest has open and may no longer use fails from now on, and
// earlier decisions are forgotten.
func (r *Rules) Set(s *pathrule.Set) {
	if !s.Reaches(r.at) {
		s = nil
	}
	r.mu.Lock()
	r.set.Store(s)
	clear(r.decided)
	serving := r.server
	r.mu.Unlock()
	if serving != nil {
		serving.tighten()
	}
}

// serve notes the server that serves now; nil = none.
func (r *Rules) serve(s *server) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = s
}

func (r *Rules) current() *pathrule.Set {
	if r == nil {
		return nil
	}
	return r.set.Load()
}

// Bounds of asking.
const (
	askWait    = 30 * time.Second // that an operation of the guest waits
	maxAsking  = 16               // operations that wait at once
	maxDecided = 4096             // decisions that are remembered
)

// decision returns what was decided about a path or a directory above it, as far up as the same
// rule decides.
func (r *Rules) decision(p string, write bool) (ok, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := r.current()
	rule := set.Judge(p).Rule
	for at := p; set.Judge(at).Rule == rule; at = path.Dir(at) {
		for _, w := range []bool{true, write} { // who may write may read
			d, has := r.decided[decision{at, w}]
			if has && (d.until.IsZero() || time.Now().Before(d.until)) && (d.ok || w == write) {
				return d.ok, true
			}
		}
		if at == r.at || at == "/" {
			break
		}
	}
	return false, false
}

// decide asks about a path and remembers the decision; false = there is none.
func (r *Rules) decide(ctx context.Context, n *needed) bool {
	set, what := r.current(), decision{n.path, n.write}
	ctx, stop := context.WithTimeout(ctx, askWait)
	defer stop()
	r.mu.Lock()
	if other := r.asking[what]; other != nil { // one question for all who wait
		r.mu.Unlock()
		select {
		case <-other:
			_, known := r.decision(n.path, n.write)
			return known || r.current() != set
		case <-ctx.Done():
			return false
		}
	}
	over := make(chan struct{})
	r.asking[what] = over
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.asking, what)
		r.mu.Unlock()
		close(over)
	}()
	lasts, err := r.ask(ctx, n.path, n.write)
	if err != nil && vm.KindOf(err) != vm.Denied {
		return false
	}
	d := decided{ok: err == nil}
	if lasts > 0 {
		d.until = time.Now().Add(lasts)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current() != set { // the rules have changed meanwhile
		return true
	}
	if len(r.decided) >= maxDecided {
		clear(r.decided)
	}
	r.decided[what] = d
	return true
}

// needed is the error of an operation that needs a decision first.
type needed struct {
	path  string
	write bool
}

func (*needed) Error() string { return "folder: the operation needs a decision" }

// use is what an operation does with a path.
type use int

const (
	see  use = iota // its name and attributes
	peek            // its attributes of users, without asking
	read
	write
)

// pathOf is the path in the guest of a node, or of a name in a directory.
func (s *server) pathOf(n *node, name string) string {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	p := name
	for at := n; at.parent != nil; at = at.parent {
		p = path.Join(at.name, p)
	}
	return path.Join(s.rules.at, p)
}

// check reports whether the rules allow a use of a node, or of a name in a directory.
func (s *server) check(n *node, name string, u use) error {
	set := s.rules.current()
	if set == nil {
		return nil
	}
	p := s.pathOf(n, name)
	return s.rules.check(set.Judge(p), p, u)
}

func (r *Rules) check(v pathrule.Verdict, p string, u use) error {
	switch {
	case v.Hidden() && u != write:
		return unix.ENOENT
	case v.Hidden(), v.Below:
		return unix.EACCES
	case u == see, v.Action == vm.PathAllow, v.Action == vm.PathReadOnly && u != write:
		return nil
	case v.Action == vm.PathReadOnly:
		return unix.EROFS
	case v.Action != vm.PathAsk, u == peek:
		return unix.EACCES
	}
	ok, known := r.decision(p, u == write)
	switch {
	case ok:
		return nil
	case known || r.ask == nil:
		return unix.EACCES
	}
	return &needed{p, u == write}
}

// movable reports whether the rules allow to rename an entry: both names may be written, and
// nothing below a directory gets another verdict. Otherwise a program must copy, entry by entry.
func (s *server) movable(from *node, old string, to *node, name string) error {
	set := s.rules.current()
	if set == nil {
		return nil
	}
	if err := s.check(from, old, write); err != nil {
		return err
	}
	if err := s.check(to, name, write); err != nil {
		return err
	}
	fd, st, err := at(from, old)
	if err != nil {
		return err
	}
	_ = unix.Close(fd)
	if isDir(&st) && !set.Alike(s.pathOf(from, old), s.pathOf(to, name)) {
		return unix.EXDEV
	}
	return nil
}

// veiled reports whether the guest may not hear of a name.
func (s *server) veiled(dir *node, name string) bool { return s.check(dir, name, see) != nil }

// tighten applies new rules to what the guest has open and knows.
func (s *server) tighten() {
	set := s.rules.current()
	s.handles.judge(func(h *handle) bool {
		v := set.Judge(s.pathOf(h.node, ""))
		if h.writes {
			return v.Writes()
		}
		return v.Reads()
	})
	s.nodes.mu.Lock()
	var names []place
	var ids []*node
	for _, n := range s.nodes.byID {
		if n.parent != nil {
			names = append(names, place{n.parent.id, n.name})
		}
		ids = append(ids, n)
	}
	s.nodes.mu.Unlock()
	for _, at := range names {
		s.invalidateEntry(at.dir, at.name)
	}
	for _, n := range ids {
		s.invalidateInode(n)
	}
}

// wait asks what a message needs, and then answers it. It runs on a thread of its own, which
// ends with it.
func (s *server) wait(ctx context.Context, b []byte, n *needed) {
	if s.owner.foreign() {
		runtime.LockOSThread()
		if s.owner.become() != nil {
			return
		}
	}
	for tries := 0; tries < 3 && s.rules.decide(ctx, n); tries++ { // a rename needs two
		m, err := parse(b)
		if err != nil {
			return
		}
		if n = s.reply(&m); n == nil {
			return
		}
	}
	m, err := parse(b)
	if err == nil {
		s.send(finish(answer(0), m.unique, unix.EACCES))
	}
}

// later answers a message once a decision has come, without keeping a worker. When too much
// waits already, the guest gets an error at once.
func (s *server) later(ctx context.Context, m *message, b []byte, n *needed) {
	if s.asking.Add(1) > maxAsking {
		s.asking.Add(-1)
		s.send(finish(answer(0), m.unique, unix.EACCES))
		return
	}
	kept := append([]byte(nil), b...)
	s.waits.Go(func() {
		defer s.asking.Add(-1)
		s.wait(ctx, kept, n)
	})
}

// HoldsRules reports whether rules by name hold in a directory: not on file systems that know
// one file by several names. Kind Unsupported.
func HoldsRules(dir *os.File) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return vm.Errorf(vm.Internal, dir.Name(), "%w", err)
	}
	switch st.Type {
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, ntfsMagic, ntfs3Magic, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, hfsMagic:
		return vm.Errorf(vm.Unsupported, dir.Name(), "its file system knows one file by several names, so path rules cannot hold there").
			WithHint("move it to ext4, xfs, btrfs or zfs, or remove the rules about it")
	}
	return nil
}

// Magic numbers that the unix package lacks.
const (
	ntfsMagic  = 0x5346544e
	ntfs3Magic = 0x7366746e
	hfsMagic   = 0x482b
)

// asNeeded returns the decision that an error stands for, or nil.
func asNeeded(err error) (n *needed) {
	_ = errors.As(err, &n)
	return n
}
