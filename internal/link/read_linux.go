// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import "syscall"

// read reads from the port. When no host is connected it waits for one if
// wait is set, and returns errGone otherwise. It wakes by the kernel's events
// alone: an idle guest stays quiet.
func (p *port) read(b []byte, wait bool) (n int, err error) {
	rerr := p.raw.Read(func(fd uintptr) bool {
		for {
			n, err = syscall.Read(int(fd), b)
			switch {
			case err == syscall.EINTR:
				continue
			case err == syscall.EAGAIN:
				return false
			case err == nil && n == 0 && wait:
				return false
			}
			return true
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
