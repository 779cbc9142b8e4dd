// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import "syscall"

// portBuffer is the most that the kernel returns from one read of the port.
const portBuffer = 4096

// read reads the available bytes from the port. If no host is connected, it waits for one if wait
// is set, and else returns errGone. Only kernel events wake it, so an idle guest stays idle.
func (p *port) read(b []byte, wait bool) (n int, err error) {
	rerr := p.raw.Read(func(fd uintptr) bool {
		for {
			var m int
			m, err = syscall.Read(int(fd), b[n:])
			switch {
			case err == syscall.EINTR:
				continue
			case n > 0 && (err != nil || m == 0): // return these first; the rest shows at the next read
				err = nil
				return true
			case err == syscall.EAGAIN:
				return false
			case err == nil && m == 0 && wait:
				return false
			}
			n += max(m, 0)
			if m < portBuffer || n == len(b) {
				return true
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case err != nil:
		return 0, err
	case n == 0:
		return 0, errGone
	}
	return n, nil
}
