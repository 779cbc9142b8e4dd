// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/link"
)

// server answers one guest's messages about one folder.
type server struct {
	rw      bool
	log     *slog.Logger
	root    *node
	owner   owner
	nodes   *table
	handles handles
	watch   *watch // nil = changes on the host are not watched
	rules   *Rules
	asking  atomic.Int32   // messages that wait for a decision
	waits   sync.WaitGroup // their goroutines
	stream
}

// stream carries the messages between this process and the guest's kernel.
type stream struct {
	conn  net.Conn
	turn  sync.Mutex // guards from
	from  *bufio.Reader
	write sync.Mutex // serialises writes of messages
}

// owner is the host's user that owns the folder. In the guest its files belong to
// root, all others to nobody.
type owner struct{ uid, gid uint32 }

// Serve answers the messages on conn until it or ctx ends, and closes it. It
// returns an error when the guest sent a malformed message, or when it could not
// take the owner's rights. dir is what Open returned; the caller closes it.
func Serve(ctx context.Context, conn net.Conn, dir *os.File, o Options) error {
	s, err := newServer(conn, dir, o)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var wg sync.WaitGroup
	ended := make(chan error, workers)
	for range workers {
		wg.Go(func() { ended <- s.worker(ctx) })
	}
	o.Rules.serve(s)
	defer o.Rules.serve(nil)
	if s.watch != nil {
		wg.Go(func() { s.watch.run(ctx) })
	}
	err = <-ended
	cancel()
	conn.Close()
	wg.Wait()
	s.waits.Wait()
	return err
}

func newServer(conn net.Conn, dir *os.File, o Options) (*server, error) {
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	root := &node{id: rootID, fd: fd, key: fileKey{st.Dev, st.Ino}, lookups: 1, told: st.Ctim}
	s := &server{rw: o.RW, log: o.log(), root: root, owner: owner{st.Uid, st.Gid}, nodes: newTable(root), rules: o.Rules}
	s.conn, s.from = conn, bufio.NewReaderSize(conn, 64<<10)
	s.handles.nodes = s.nodes
	if s.watch, err = newWatch(s); err != nil {
		s.log.Warn("the guest is not notified of changes in a folder and polls instead", "err", err)
	}
	return s, nil
}

func (s *server) close() {
	s.handles.closeAll()
	s.nodes.closeAll()
	if s.watch != nil {
		s.watch.close()
	}
}

// receive reads the next message that wants an answer. The workers take turns: the
// one that has read a message answers it while another reads. forget gets the messages
// that end lookups. It returns nil when the connection has ended.
func (s *stream) receive(forget func(message)) ([]byte, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	for {
		head, err := s.from.Peek(4)
		if err != nil {
			return nil, nil //nolint:nilerr // the reason does not matter
		}
		n := le.Uint32(head)
		if n < inHeader || n > maxMessage {
			return nil, errShort
		}
		b := buffer(int(n))
		if _, err := io.ReadFull(s.from, b); err != nil {
			return nil, nil //nolint:nilerr // as above
		}
		m, err := parse(b)
		if err != nil {
			return nil, err
		}
		switch m.op {
		case opForget, opBatchForget: // in order; no request waits for it
			forget(m)
			recycle(b)
		case opInterrupt, opDestroy: // an interrupted request is answered soon anyway
			recycle(b)
		default:
			return b, nil
		}
	}
}

func (s *server) forget(m message) {
	m.forgets(func(id, count uint64) {
		if wd, dir := s.nodes.forget(id, count); wd != 0 && s.watch != nil {
			s.watch.remove(wd, dir)
		}
	})
}

// forgets calls drop for each node whose lookups the message ends.
func (m *message) forgets(drop func(id, count uint64)) {
	if m.op == opForget {
		drop(m.node, m.body.u64())
		return
	}
	m.body.skip(8) // the count; the message's length gives it
	for len(m.body.b) >= 16 {
		id, count := m.body.u64(), m.body.u64()
		drop(id, count)
	}
}

// worker answers messages until the connection ends, with the folder owner's rights
// if the server is root. Its thread, which has the owner's ids, ends with it.
func (s *server) worker(ctx context.Context) error {
	if s.owner.foreign() {
		runtime.LockOSThread()
		if err := s.owner.become(); err != nil {
			return err
		}
	}
	for {
		b, err := s.receive(s.forget)
		if b == nil || err != nil {
			return err
		}
		m, err := parse(b)
		if err != nil {
			return err
		}
		if need := s.reply(&m); need != nil {
			s.later(ctx, &m, b, need)
		}
		recycle(b)
		if m.op == opLookup || m.op == opReaddirplus {
			s.relieve()
		}
	}
}

// foreign reports whether this process must take the owner's rights; only root
// can.
func (o owner) foreign() bool { return os.Geteuid() == 0 && o.uid != 0 }

// become gives the thread's file calls the owner's ids, without other groups.
func (o owner) become() error {
	if err := unix.Setgroups(nil); err != nil { // of this thread only
		return err
	}
	if err := unix.Setfsgid(int(o.gid)); err != nil {
		return err
	}
	return unix.Setfsuid(int(o.uid))
}

// send writes messages whole. A failed write ends the connection.
func (s *stream) send(b []byte) {
	s.write.Lock()
	defer s.write.Unlock()
	if _, err := s.conn.Write(b); err != nil {
		s.conn.Close()
	}
}

// ahead is an unrequested message with the attributes of a directory in which a
// request has changed a name: the guest's kernel has dropped them and will ask for
// them next. nil = the request changed no name, or failed.
func (s *server) ahead(m *message, out []byte) []byte {
	switch m.op {
	case opCreate, opMknod, opMkdir, opSymlink, opLink, opUnlink, opRmdir, opRename, opRename2:
	default:
		return nil
	}
	if le.Uint32(out[4:]) != 0 || m.gid == nudgeGID {
		return nil
	}
	dir, err := s.nodes.get(m.node)
	if err != nil {
		return nil
	}
	defer s.nodes.put(dir)
	st, err := stat(dir.fd)
	if err != nil {
		return nil
	}
	return notice(link.FolderAhead, append(put64(nil, m.node, m.unique), s.attrAnswer(dir, &st)[outHeader:]...))
}

// reply answers one message, unless that needs a decision first.
func (s *server) reply(m *message) *needed {
	out, need := s.answer(m)
	if need != nil {
		return need
	}
	if ahead := s.ahead(m, out); ahead != nil {
		out = append(ahead, out...)
	}
	if m.unique != 0 { // the agent has answered a release
		s.send(out)
	}
	recycle(out)
	return nil
}

// answer handles one message.
func (s *server) answer(m *message) ([]byte, *needed) {
	out, err := s.do(m)
	if err == nil && m.body.short {
		err = errShort
	}
	if need := asNeeded(err); need != nil {
		return nil, need
	}
	if out == nil || err != nil {
		out = answer(0)
	}
	return finish(out, m.unique, errno(err)), nil
}

// reads are the operations that change nothing, whatever their arguments; open is
// checked further.
var reads = map[uint32]func(*server, *message) ([]byte, error){
	opInit:        (*server).init,
	opLookup:      (*server).lookup,
	opGetattr:     (*server).getattr,
	opReadlink:    (*server).readlink,
	opOpen:        (*server).open,
	opRead:        (*server).read,
	opStatfs:      (*server).statfs,
	opRelease:     (*server).release,
	opReleasedir:  (*server).release,
	opFsync:       (*server).fsync,
	opFsyncdir:    (*server).fsync,
	opGetxattr:    (*server).getxattr,
	opListxattr:   (*server).listxattr,
	opOpendir:     (*server).opendir,
	opReaddir:     (*server).readdir,
	opReaddirplus: (*server).readdir,
	opLseek:       (*server).lseek,
}

// changes are the others.
var changes = map[uint32]func(*server, *message) ([]byte, error){
	opSetattr:       (*server).setattr,
	opSymlink:       (*server).symlink,
	opMknod:         (*server).mknod,
	opMkdir:         (*server).mkdir,
	opUnlink:        (*server).unlink,
	opRmdir:         (*server).unlink,
	opRename:        (*server).rename,
	opRename2:       (*server).rename,
	opLink:          (*server).link,
	opWrite:         (*server).writeFile,
	opSetxattr:      (*server).setxattr,
	opRemovexattr:   (*server).removexattr,
	opCreate:        (*server).create,
	opTmpfile:       (*server).create,
	opFallocate:     (*server).fallocate,
	opCopyFileRange: (*server).copyRange,
}

func (s *server) do(m *message) ([]byte, error) {
	if m.gid == nudgeGID {
		if out, ok, err := s.nudged(m); ok {
			return out, err
		}
	}
	if f := reads[m.op]; f != nil {
		return f(s, m)
	}
	f := changes[m.op]
	switch {
	case f == nil:
		return nil, unix.ENOSYS
	case !s.rw:
		return nil, unix.EROFS
	}
	return f(s, m)
}

// init negotiates the protocol with the guest's kernel.
func (s *server) init(m *message) ([]byte, error) { return m.init() }

// init is the answer to a negotiation.
func (m *message) init() ([]byte, error) {
	major, minor, ahead, flags := m.body.u32(), m.body.u32(), m.body.u32(), m.body.u32()
	if major != protoMajor || minor < minMinor || m.body.short {
		return nil, unix.EPROTO
	}
	out := put32(answer(64), protoMajor, min(minor, protoMinor), min(ahead, maxData), flags&initWanted)
	out = le.AppendUint16(out, 16) // in the background
	out = le.AppendUint16(out, 12) // of them, before it is called congested
	out = put32(out, maxData, 1)   // a write; times to the nanosecond
	out = le.AppendUint16(out, maxData/4096)
	out = le.AppendUint16(out, 0)
	return put32(out, make([]uint32, 8)...), nil
}

// relieve makes a guest that knows very many files forget some.
func (s *server) relieve() {
	for _, at := range s.nodes.some(256) {
		s.invalidateEntry(at.dir, at.name)
	}
}

func (s *stream) invalidateEntry(dir uint64, name string) {
	b := put64(nil, dir)
	b = put32(b, uint32(len(name)), 0)
	s.send(notice(invalEntry, append(append(b, name...), 0)))
}

func (s *server) invalidateInode(n *node) {
	s.send(notice(invalInode, put64(nil, n.id, 0, 0)))
}

// buffers are pooled by size: most messages are small.
var (
	small = sync.Pool{New: func() any { b := make([]byte, 8<<10); return &b }}
	large = sync.Pool{New: func() any { b := make([]byte, outHeader+maxMessage); return &b }}
)

func buffer(n int) []byte {
	pool := &small
	if n > 8<<10 {
		pool = &large
	}
	return (*pool.Get().(*[]byte))[:n]
}

func recycle(b []byte) {
	switch b = b[:cap(b)]; len(b) {
	case 8 << 10:
		small.Put(&b)
	case outHeader + maxMessage:
		large.Put(&b)
	}
}
