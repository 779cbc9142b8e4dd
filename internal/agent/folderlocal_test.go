// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-vm/warren/internal/link"
)

// fuseRequest is a message of the kernel.
func fuseRequest(op uint32, number, node uint64, gid uint32, body string) []byte {
	le := binary.LittleEndian
	b := make([]byte, inHeader, inHeader+len(body))
	le.PutUint32(b, uint32(inHeader+len(body)))
	le.PutUint32(b[4:], op)
	le.PutUint64(b[8:], number)
	le.PutUint64(b[16:], node)
	le.PutUint32(b[28:], gid)
	return append(b, body...)
}

// sentAhead is a message of the host with attributes of a directory.
func sentAhead(node, number uint64, attrs string) []byte {
	b := answerTo(0, 0, nil)
	binary.LittleEndian.PutUint32(b[4:], link.FolderAhead)
	b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, node), number)
	return append(b, attrs...)
}

// TestFolderLocal: requests whose answer does not depend on the host are
// answered here, and others are not.
func TestFolderLocal(t *testing.T) {
	var f folder
	size := "\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, c := range []struct {
		request []byte
		want    syscall.Errno // 0 = the host is asked
	}{
		{fuseRequest(opIoctl, 7, 2, 0, ""), syscall.ENOTTY},
		{fuseRequest(opGetxattr, 7, 2, 0, size+"security.capability\x00"), syscall.ENODATA},
		{fuseRequest(opGetxattr, 7, 2, 0, size+"user.x\x00"), 0},
		{fuseRequest(opGetxattr, 7, 2, 0, ""), 0},
		{fuseRequest(opGetattr, 7, 2, 0, ""), 0},
		{fuseRequest(opCreate, 7, 2, 0, ""), 0},
		{[]byte("short"), 0},
	} {
		var want []byte
		if c.want != 0 {
			want = answerTo(7, c.want, nil)
		}
		if got, tell := f.local(c.request); !bytes.Equal(got, want) || tell != (want == nil) {
			t.Errorf("the request %v is answered with %v, passed on %v, want %v", c.request, got, tell, want)
		}
	}
	release := fuseRequest(opRelease, 7, 2, 0, "handle")
	if got, tell := f.local(release); !bytes.Equal(got, answerTo(7, 0, nil)) || !tell || !bytes.Equal(release, fuseRequest(opRelease, 0, 2, 0, "handle")) {
		t.Errorf("a release: %v, %v; the host is told %v", got, tell, release)
	}
}

// TestFolderAhead: attributes that were sent ahead are used only if nothing
// can have changed since.
func TestFolderAhead(t *testing.T) {
	const dir = 2
	getattr := fuseRequest(opGetattr, 99, dir, 0, "")
	changed := func(f *folder, number uint64) { // and told, and answered
		f.local(fuseRequest(opCreate, number, dir, 0, ""))
		f.ahead.told(sentAhead(dir, number, "attrs"))
		f.ahead.answered(number)
	}
	for name, c := range map[string]struct {
		does func(*folder)
		want string
	}{
		"after a change": {func(f *folder) { changed(f, 1) }, "attrs"},
		"after the second": {func(f *folder) {
			changed(f, 1)
			changed(f, 2)
		}, "attrs"},
		"while it is in progress": {func(f *folder) {
			f.local(fuseRequest(opUnlink, 1, dir, 0, ""))
		}, ""},
		"once another is in progress": {func(f *folder) {
			changed(f, 1)
			f.local(fuseRequest(opUnlink, 2, dir, 0, ""))
		}, ""},
		"when another was in progress": {func(f *folder) {
			f.local(fuseRequest(opUnlink, 1, dir, 0, ""))
			changed(f, 2)
			f.ahead.answered(1)
		}, ""},
		"of a change before the last": {func(f *folder) {
			f.local(fuseRequest(opCreate, 1, dir, 0, ""))
			f.ahead.answered(1)
			f.local(fuseRequest(opCreate, 2, dir, 0, ""))
			f.ahead.told(sentAhead(dir, 1, "attrs"))
		}, ""},
		"when the host tells of a change of its own": {func(f *folder) {
			changed(f, 1)
			f.ahead.told(answerTo(0, 0, nil))
		}, ""},
		"too late": {func(f *folder) {
			changed(f, 1)
			time.Sleep(2 * aheadFor)
		}, ""},
		"of another directory": {func(f *folder) {
			f.local(fuseRequest(opCreate, 1, 3, 0, ""))
			f.ahead.told(sentAhead(3, 1, "attrs"))
			f.ahead.answered(1)
		}, ""},
		"cut": {func(f *folder) {
			f.local(fuseRequest(opCreate, 1, dir, 0, ""))
			f.ahead.told(sentAhead(dir, 1, "")[:outHeader+10])
			f.ahead.answered(1)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f folder
				c.does(&f)
				var want []byte
				if c.want != "" {
					want = answerTo(99, 0, []byte(c.want))
				}
				if got, _ := f.local(getattr); !bytes.Equal(got, want) {
					t.Errorf("the attributes are answered with %q, want %q", got, want)
				}
				if got, _ := f.local(fuseRequest(opGetattr, 99, dir, link.NudgeGID, "")); got != nil {
					t.Error("a nudge is the host's business")
				}
			})
		})
	}
}
