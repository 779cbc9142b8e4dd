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

// local answers a request without the host, or returns nil if the host must answer. A
// round trip to the host takes half a millisecond under emulation, and many requests
// of the kernel need none: is an opened file a terminal, what capabilities does a file
// have before its first write, what attributes has a directory after each change in
// it. If tell is true, the request also goes to the host, which does not answer it.
func (f *folder) local(request []byte) (answer []byte, tell bool) {
	if len(request) < inHeader {
		return nil, true
	}
	le := binary.LittleEndian
	number, nudge := le.Uint64(request[8:]), le.Uint32(request[28:]) == link.NudgeGID
	switch le.Uint32(request[4:]) {
	case opIoctl: // folders support no ioctl
		return answerTo(number, syscall.ENOTTY, nil), false
	case opGetxattr: // the host returns only user attributes
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

// aheadFor limits the age of attributes that the host sent ahead: they are
// for the next operation of the program that changed the directory.
const aheadFor = 200 * time.Millisecond

// ahead holds the attributes that the guest's last changed directory had after that change.
// The host sends them before its answer. They are used only if nothing can have changed since:
// no other change was in progress, none was requested later, and the host reported none.
type ahead struct {
	mu    sync.Mutex
	under map[uint64]bool // the changes in progress, by request number
	last  uint64          // the last one that was requested
	alone bool            // no other was in progress then
	node  uint64          // the directory; 0 = unknown
	attrs []byte
	taken time.Time
}

// change notes a change before its request goes to the host.
func (a *ahead) change(number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under == nil {
		a.under = map[uint64]bool{}
	}
	a.last, a.alone, a.node = number, len(a.under) == 0, 0
	a.under[number] = true
}

// answered notes an answer from the host.
func (a *ahead) answered(number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.under, number)
}

// told takes attributes that the host sends ahead. Any other notification invalidates the
// known attributes; told then returns false, and the caller must forward the message.
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

// of returns the known attributes of a directory, or nil.
func (a *ahead) of(node uint64) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node != node || node == 0 || time.Since(a.taken) > aheadFor {
		return nil
	}
	return a.attrs
}
