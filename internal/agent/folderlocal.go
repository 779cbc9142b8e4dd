// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/binary"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
)

// Operations of FUSE (include/uapi/linux/fuse.h) that the agent knows.
const (
	opGetattr     = 3
	opSetattr     = 4
	opSymlink     = 6
	opMknod       = 8
	opMkdir       = 9
	opUnlink      = 10
	opRmdir       = 11
	opRename      = 12
	opLink        = 13
	opRelease     = 18
	opSetxattr    = 21
	opGetxattr    = 22
	opRemovexattr = 24
	opReleasedir  = 29
	opCreate      = 35
	opIoctl       = 39
	opRename2     = 45
	opTmpfile     = 51
)

// local answers a request that needs no host; nil = it does. A message to the
// host and back takes half a millisecond under emulation, and the kernel sends
// some for nothing: it asks of each file that is opened by many a program
// whether it is a terminal, of each that is written first for its capabilities,
// and for a directory's attributes after each change of its own in it. With tell
// the request goes to the host all the same, which doesn't answer it.
func (f *folder) local(request []byte) (answer []byte, tell bool) {
	if len(request) < inHeader {
		return nil, true
	}
	le := binary.LittleEndian
	number, nudge := le.Uint64(request[8:]), le.Uint32(request[28:]) == link.NudgeGID
	switch le.Uint32(request[4:]) {
	case opIoctl: // a folder has none
		return answerTo(number, syscall.ENOTTY, nil), false
	case opGetxattr: // the host gives none but those of users
		if head := inHeader + 8; len(request) > head && !bytes.HasPrefix(request[head:], []byte("user.")) {
			return answerTo(number, syscall.ENODATA, nil), false
		}
	case opGetattr:
		if attrs := f.ahead.of(le.Uint64(request[16:])); attrs != nil && !nudge {
			return answerTo(number, 0, attrs), false
		}
	case opRelease, opReleasedir: // nobody waits for it, and it cannot fail
		le.PutUint64(request[8:], 0)
		return answerTo(number, 0, nil), true
	case opSetattr, opSymlink, opMknod, opMkdir, opUnlink, opRmdir, opRename, opRename2, opLink, opSetxattr, opRemovexattr, opCreate, opTmpfile:
		f.ahead.change(number)
	}
	return nil, true
}

func answerTo(number uint64, no syscall.Errno, body []byte) []byte {
	out := make([]byte, outHeader, outHeader+len(body))
	binary.LittleEndian.PutUint32(out, uint32(outHeader+len(body)))
	binary.LittleEndian.PutUint32(out[4:], uint32(-int32(no)))
	binary.LittleEndian.PutUint64(out[8:], number)
	return append(out, body...)
}

// aheadFor is how long attributes that were sent ahead are good for: the next
// operation of the program that changed the directory.
const aheadFor = 200 * time.Millisecond

// ahead are the attributes of the directory that the guest has changed last, as
// they were after that change. The host sends them before its answer. They are
// given out only where nothing can have changed since they were taken: the
// change was the only one under way, none has been asked for after it, and the
// host has told of none.
type ahead struct {
	mu    sync.Mutex
	under map[uint64]bool // the changes under way, by their number
	last  uint64          // the last one that was asked for
	alone bool            // no other was under way then
	node  uint64          // the directory; 0 = nothing is known
	attrs []byte
	taken time.Time
}

// change notes a change that the host is about to be asked for.
func (a *ahead) change(number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under == nil {
		a.under = map[uint64]bool{}
	}
	a.last, a.alone, a.node = number, len(a.under) == 0, 0
	a.under[number] = true
}

// answered notes an answer of the host.
func (a *ahead) answered(number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.under, number)
}

// told takes attributes that are sent ahead. Whatever else the host tells makes
// those that are known worthless, and is for others to pass on.
func (a *ahead) told(message []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node = 0
	le := binary.LittleEndian
	if le.Uint32(message[4:]) != link.FolderAhead {
		return false
	}
	if body := message[outHeader:]; len(body) > 16 && le.Uint64(body[8:]) == a.last && a.alone {
		a.node, a.attrs, a.taken = le.Uint64(body), bytes.Clone(body[16:]), time.Now()
	}
	return true
}

// of returns the attributes of a directory, or nil.
func (a *ahead) of(node uint64) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node != node || node == 0 || time.Since(a.taken) > aheadFor {
		return nil
	}
	return a.attrs
}
