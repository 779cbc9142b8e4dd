// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// The messages are those of Linux' include/uapi/linux/fuse.h. Both ends are
// little-endian machines.
var le = binary.LittleEndian

// Operations.
const (
	opLookup        = 1
	opForget        = 2
	opGetattr       = 3
	opSetattr       = 4
	opReadlink      = 5
	opSymlink       = 6
	opMknod         = 8
	opMkdir         = 9
	opUnlink        = 10
	opRmdir         = 11
	opRename        = 12
	opLink          = 13
	opOpen          = 14
	opRead          = 15
	opWrite         = 16
	opStatfs        = 17
	opRelease       = 18
	opFsync         = 20
	opSetxattr      = 21
	opGetxattr      = 22
	opListxattr     = 23
	opRemovexattr   = 24
	opInit          = 26
	opOpendir       = 27
	opReaddir       = 28
	opReleasedir    = 29
	opFsyncdir      = 30
	opCreate        = 35
	opInterrupt     = 36
	opDestroy       = 38
	opBatchForget   = 42
	opFallocate     = 43
	opReaddirplus   = 44
	opRename2       = 45
	opLseek         = 46
	opCopyFileRange = 47
	opTmpfile       = 51
)

// Kinds of notifications. Those from nudgeCreate on are for the agent: see nudge.
const (
	invalInode = 2
	invalEntry = 3
)

const (
	inHeader   = 40
	outHeader  = 16
	entrySize  = 128
	rootID     = 1
	protoMajor = 7
	protoMinor = 36 // of Linux 6.1
	minMinor   = 31 // of Linux 5.4
)

// Flags of the negotiation.
const (
	initAsyncRead     = 1 << 0
	initAtomicTrunc   = 1 << 3
	initBigWrites     = 1 << 5
	initAutoInval     = 1 << 12
	initReaddirplus   = 1 << 13
	initReaddirAuto   = 1 << 14
	initParallelDirs  = 1 << 18
	initMaxPages      = 1 << 22
	initCacheSymlinks = 1 << 23
	initKillpriv      = 1 << 28 // this side removes set-user-ID on each write
	initWanted        = initAsyncRead | initAtomicTrunc | initBigWrites | initAutoInval | initReaddirplus | initReaddirAuto |
		initParallelDirs | initMaxPages | initCacheSymlinks | initKillpriv
)

// Flags of an opened file.
const (
	keepCache = 1 << 1
	cacheDir  = 1 << 3
)

// writeCache marks a write of pages of the guest's kernel.
const writeCache = 1 << 0

// The attributes that a setattr sets.
const (
	setMode     = 1 << 0
	setUID      = 1 << 1
	setGID      = 1 << 2
	setSize     = 1 << 3
	setAtime    = 1 << 4
	setMtime    = 1 << 5
	setHandle   = 1 << 6
	setAtimeNow = 1 << 7
	setMtimeNow = 1 << 8
)

// errShort is a message that is shorter than it must be.
var errShort = errors.New("folder: the guest's message is too short")

// message is one request of the guest's kernel.
type message struct {
	op     uint32
	unique uint64
	node   uint64
	gid    uint32
	body   reader
}

// parse reads the head of a request. The operation reads the rest.
func parse(b []byte) (message, error) {
	if len(b) < inHeader {
		return message{}, errShort
	}
	return message{op: le.Uint32(b[4:]), unique: le.Uint64(b[8:]), node: le.Uint64(b[16:]), gid: le.Uint32(b[28:]), body: reader{b: b[inHeader:]}}, nil
}

// reader takes fields from a message. After the first missing field all are zero
// and short is set.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || len(r.b) < n {
		r.short = true
		return make([]byte, max(n, 0))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u32() uint32 { return le.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return le.Uint64(r.take(8)) }
func (r *reader) skip(n int)  { _ = r.take(n) }

// text takes bytes up to a zero byte.
func (r *reader) text() string {
	i := bytes.IndexByte(r.b, 0)
	if r.short || i < 0 {
		r.short = true
		return ""
	}
	s := string(r.b[:i])
	r.b = r.b[i+1:]
	return s
}

// name takes the name of a file in a directory and refuses anything else.
func (r *reader) name() (string, error) {
	s := r.text()
	return s, goodName(s)
}

func goodName(s string) error {
	switch {
	case s == "" || s == "." || s == ".." || bytes.ContainsAny([]byte(s), "/\x00"):
		return unix.EINVAL
	case len(s) > 255:
		return unix.ENAMETOOLONG
	}
	return nil
}

// answer is the beginning of a reply, with room for its head.
func answer(size int) []byte { return make([]byte, outHeader, outHeader+size) }

// finish fills in the head of a reply.
func finish(b []byte, unique uint64, errno unix.Errno) []byte {
	if errno != 0 {
		b = b[:outHeader]
	}
	le.PutUint32(b, uint32(len(b)))
	le.PutUint32(b[4:], uint32(-int32(errno)))
	le.PutUint64(b[8:], unique)
	return b
}

// notice is a message without a request.
func notice(kind int, body []byte) []byte {
	b := append(answer(len(body)), body...)
	b = finish(b, 0, 0)
	le.PutUint32(b[4:], uint32(kind))
	return b
}

func put32(b []byte, list ...uint32) []byte {
	for _, n := range list {
		b = le.AppendUint32(b, n)
	}
	return b
}

func put64(b []byte, list ...uint64) []byte {
	for _, n := range list {
		b = le.AppendUint64(b, n)
	}
	return b
}

// errno is the number by which the guest gets an error.
func errno(err error) unix.Errno {
	var no unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &no):
		return no
	case errors.Is(err, errShort):
		return unix.EINVAL
	}
	return unix.EIO
}
