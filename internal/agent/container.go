// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// containerFile is what the container image of this guest says of its program; the zero value = it was made of none.
type containerFile struct {
	mtime  time.Time
	size   int64
	config vm.ContainerConfig
}

// read reads the file again if it changed.
func (c *containerFile) read(path string) vm.ContainerConfig {
	st, err := os.Stat(path)
	if err != nil || st.Size() > 4<<20 {
		*c = containerFile{}
		return c.config
	}
	if st.ModTime().Equal(c.mtime) && st.Size() == c.size {
		return c.config
	}
	*c = containerFile{mtime: st.ModTime(), size: st.Size()}
	if b, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(b, &c.config) // a file that a user broke is as good as none
	}
	return c.config
}

// container returns what the guest's container image says of its program.
func (u *userDB) container() vm.ContainerConfig {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.containerLocked()
}

func (u *userDB) containerLocked() vm.ContainerConfig {
	return u.image.read(filepath.Join(u.etc, strings.TrimPrefix(vm.ContainerFile, "/etc/")))
}

// isContainer reports whether the disk was made of a container image.
func isContainer() bool { return syscall.Access(vm.ContainerFile, 0) == nil }

// bare returns a user that no file of the guest has: root, a number, or NAME:GROUP as container images write
// it. An image may be without /etc/passwd.
func (u *userDB) bare(want string, lookup func(name string) (linuxUser, bool)) (linuxUser, bool) {
	name, group, both := strings.Cut(want, ":")
	a, ok := lookup(name)
	if !ok && (name == "root" || name == "0") {
		a, ok = linuxUser{name: "root", home: "/root", shell: "/bin/sh"}, true
	}
	// A number alone has to be a user of the guest, unless its image named it.
	if n, err := strconv.ParseUint(name, 10, 32); !ok && err == nil && want == u.containerLocked().User {
		a, ok = linuxUser{name: name, uid: uint32(n), home: "/", shell: "/bin/sh"}, true
	}
	if !ok || !both {
		return a, ok
	}
	if n, err := strconv.ParseUint(group, 10, 32); err == nil {
		a.gid = uint32(n)
		return a, true
	}
	for _, l := range u.group.read(filepath.Join(u.etc, "group")) {
		f := strings.Split(l, ":")
		if n, err := strconv.ParseUint(f[min(2, len(f)-1)], 10, 32); len(f) == 4 && f[0] == group && err == nil {
			a.gid = uint32(n)
			return a, true
		}
	}
	return a, false
}
