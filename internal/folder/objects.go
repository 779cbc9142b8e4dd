// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Objects are the objects of a bucket as files that nobody can change. Every file that the
// guest's kernel knows is one object with its bytes: a newer version is another file.
type Objects struct {
	bucket *Bucket
	cache  *blocks
	since  time.Time // of directories
}

// NewObjects returns the objects of a bucket. Parts of their bytes are kept in a file of
// dir that has no name, of at most 256 MiB. Close it once, after every Serve has returned.
func NewObjects(b *Bucket, dir string) (*Objects, error) {
	cache, err := newBlocks(dir)
	if err != nil {
		return nil, err
	}
	return &Objects{bucket: b, cache: cache, since: time.Now()}, nil
}

// Close gives the cache's space back.
func (o *Objects) Close() { o.cache.close() }

// How long what is known of names is believed: by this process, and by the guest's kernel.
const (
	listedFor  = 5 * time.Second
	knownFor   = time.Second
	maxFiles   = 100_000
	manyFiles  = maxFiles * 3 / 4
	maxListed  = 2 * maxNames // names in all the lists that are kept
	blockSpace = 512          // bytes of a block of stat
)

// objectServer answers one guest's messages about objects.
type objectServer struct {
	*Objects
	stream
	ctx context.Context

	mu      sync.Mutex
	next    uint64
	files   map[uint64]*objectFile
	opened  map[uint64]*openFile
	listed  map[*objectFile]*listing
	inLists int // names in listed
}

// objectFile is a directory or an object that the guest's kernel knows.
type objectFile struct {
	object
	id     uint64
	parent *objectFile // nil = the root

	// guarded by the server's mu
	version  string // with which it was opened last; "" = never
	lookups  uint64
	children map[string]*objectFile // the newest of each name
}

// listing is what a directory has.
type listing struct {
	at     time.Time
	list   []object
	byName map[string]int
}

// openFile is a file or a directory that the guest has open.
type openFile struct {
	file    *objectFile
	key     string
	version string
	list    []object // of a directory
}

// Serve answers the messages on conn until it or ctx ends, and closes it. It returns an
// error when the guest sent a malformed message.
func (o *Objects) Serve(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root := &objectFile{object: object{dir: true}, id: rootID, lookups: 1}
	s := &objectServer{Objects: o, ctx: ctx, next: rootID, files: map[uint64]*objectFile{rootID: root}, opened: map[uint64]*openFile{}, listed: map[*objectFile]*listing{}}
	s.conn, s.from = conn, bufio.NewReaderSize(conn, 64<<10)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var wg sync.WaitGroup
	ended := make(chan error, workers)
	for range workers {
		wg.Go(func() { ended <- s.worker() })
	}
	err := <-ended
	cancel()
	conn.Close()
	wg.Wait()
	return err
}

// worker answers messages until the connection ends.
func (s *objectServer) worker() error {
	for {
		b, err := s.receive(func(m message) { m.forgets(s.forget) })
		if b == nil || err != nil {
			return err
		}
		m, err := parse(b)
		if err != nil {
			return err
		}
		out, err := s.do(&m)
		if err == nil && m.body.short {
			err = errShort
		}
		if out == nil || err != nil {
			out = answer(0)
		}
		out = finish(out, m.unique, errno(err))
		op := m.op
		recycle(b)
		if m.unique != 0 { // the agent has answered a release
			s.send(out)
		}
		recycle(out)
		if op == opLookup || op == opReaddirplus {
			s.relieve()
		}
	}
}

// do answers one message. Whatever would change something is refused.
func (s *objectServer) do(m *message) ([]byte, error) {
	switch m.op {
	case opInit:
		return m.init()
	case opLookup:
		return s.lookup(m)
	case opGetattr:
		f, err := s.get(m.node)
		if err != nil {
			return nil, err
		}
		return s.attr(put32(put64(answer(104), uint64(knownFor/time.Second)), 0, 0), f), nil
	case opOpen, opOpendir:
		return s.open(m)
	case opRead:
		return s.read(m)
	case opReaddir, opReaddirplus:
		return s.readdir(m)
	case opRelease, opReleasedir:
		id := m.body.u64()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.opened, id)
		return nil, nil
	case opFsync, opFsyncdir:
		return nil, nil
	case opStatfs:
		return put32(put64(answer(80), 0, 0, 0, 0, 0), 4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0), nil
	case opGetxattr:
		return nil, unix.ENODATA
	case opListxattr:
		if m.body.u32() == 0 {
			return put32(answer(8), 0, 0), nil
		}
		return answer(0), nil
	}
	if changes[m.op] != nil {
		return nil, unix.EROFS
	}
	return nil, unix.ENOSYS
}

func (s *objectServer) get(id uint64) (*objectFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[id]; f != nil {
		return f, nil
	}
	return nil, unix.ESTALE
}

// dir finds a directory with its path, which is "" or ends with a slash.
func (s *objectServer) dir(id uint64) (*objectFile, string, error) {
	f, err := s.get(id)
	if err != nil {
		return nil, "", err
	}
	if !f.dir {
		return nil, "", unix.ENOTDIR
	}
	return f, f.path(), nil
}

// path is the key without the mount's prefix. That of a directory ends with a slash.
func (f *objectFile) path() string {
	if f.parent == nil {
		return ""
	}
	at := f.parent.path() + f.name
	if f.dir {
		at += "/"
	}
	return at
}

// lookup finds a name in a directory: in a list that is fresh, else in the bucket.
func (s *objectServer) lookup(m *message) ([]byte, error) {
	name, err := m.body.name()
	if err != nil {
		return nil, err
	}
	dir, at, err := s.dir(m.node)
	if err != nil {
		return nil, err
	}
	o, listed, err := s.inList(dir, name)
	if !listed {
		o, err = s.bucket.find(s.ctx, at+name)
	}
	if err != nil {
		return nil, err
	}
	o.name = name
	f, err := s.add(dir, o)
	if err != nil {
		return nil, err
	}
	return s.entry(answer(entrySize), f), nil
}

// inList finds a name in a list that is fresh. listed is false if there is none.
func (s *objectServer) inList(dir *objectFile, name string) (o object, listed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.listed[dir]
	if l == nil || time.Since(l.at) > listedFor {
		return o, false, nil
	}
	if i, ok := l.byName[name]; ok {
		return l.list[i], true, nil
	}
	return o, true, unix.ENOENT
}

// list returns what a directory has, at most listedFor ago.
func (s *objectServer) list(dir *objectFile, at string) ([]object, error) {
	s.mu.Lock()
	l := s.listed[dir]
	s.mu.Unlock()
	if l != nil && time.Since(l.at) <= listedFor {
		return l.list, nil
	}
	begun := time.Now()
	list, err := s.bucket.list(s.ctx, at, 0)
	if err != nil {
		return nil, err
	}
	l = &listing{at: begun, list: list, byName: make(map[string]int, len(list))}
	for i, o := range list {
		l.byName[o.name] = i
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(dir)
	if s.inLists+len(list) > maxListed {
		clear(s.listed)
		s.inLists = 0
	}
	if s.files[dir.id] == dir {
		s.listed[dir], s.inLists = l, s.inLists+len(list)
	}
	return list, nil
}

// unlist forgets the list of a directory. The caller holds mu.
func (s *objectServer) unlist(dir *objectFile) {
	if l := s.listed[dir]; l != nil {
		s.inLists -= len(l.list)
		delete(s.listed, dir)
	}
}

// add counts another lookup of an object, or of a directory.
func (s *objectServer) add(dir *objectFile, o object) (*objectFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := dir.children[o.name]
	if f == nil || f.dir != o.dir || !o.dir && (f.etag != o.etag || f.size != o.size || !f.at.Equal(o.at)) {
		if len(s.files) >= maxFiles {
			return nil, unix.ENFILE
		}
		s.next++
		f = &objectFile{object: o, id: s.next, parent: dir}
		s.files[f.id] = f
		if dir.children == nil {
			dir.children = map[string]*objectFile{}
		}
		dir.children[o.name] = f
	}
	f.lookups++
	return f, nil
}

// forget subtracts lookups; the last one releases the file.
func (s *objectServer) forget(id, count uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if f == nil || id == rootID {
		return
	}
	if f.lookups -= min(f.lookups, count); f.lookups > 0 {
		return
	}
	delete(s.files, id)
	s.unlist(f)
	if f.parent.children[f.name] == f {
		delete(f.parent.children, f.name)
	}
}

// relieve makes a guest that knows very many files forget some.
func (s *objectServer) relieve() {
	var names []place
	s.mu.Lock()
	if len(s.files) > manyFiles {
		for _, f := range s.files {
			if f.parent != nil && len(f.children) == 0 {
				names = append(names, place{f.parent.id, f.name})
			}
			if len(names) == 256 {
				break
			}
		}
	}
	s.mu.Unlock()
	for _, at := range names {
		s.invalidateEntry(at.dir, at.name)
	}
}

// entry appends the answer to a lookup.
func (s *objectServer) entry(b []byte, f *objectFile) []byte {
	sec, nsec := uint64(knownFor/time.Second), uint32(knownFor%time.Second)
	return s.attr(put32(put64(b, f.id, 0, sec, sec), nsec, nsec), f)
}

// attr appends the attributes of a file: everybody may read it, and it belongs to root.
func (s *objectServer) attr(b []byte, f *objectFile) []byte {
	mode, at := uint32(unix.S_IFREG|0o444), f.at
	if f.dir {
		mode, at = unix.S_IFDIR|0o555, s.since
	}
	sec, nsec := uint64(at.Unix()), uint32(at.Nanosecond())
	b = put64(b, f.id, uint64(f.size), uint64((f.size+blockSpace-1)/blockSpace), sec, sec, sec)
	return put32(b, nsec, nsec, nsec, mode, 1, 0, 0, 0, blockBytes, 0)
}
