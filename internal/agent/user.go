// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// linuxUser is one Linux user of the guest.
type linuxUser struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32 // supplementary, without gid
	home   string
	shell  string
	rules  *pathrule.Set // of the request; nil = none
}

// userDB reads /etc/passwd, /etc/group and /etc/environment, and caches each
// until it changes: a restored guest then only checks the modification time.
type userDB struct {
	etc string

	mu          sync.Mutex
	passwd      cachedFile
	group       cachedFile
	environment cachedFile
	givenFile   cachedFile
	image       containerFile
}

// cachedFile is the lines of a small file.
type cachedFile struct {
	mtime time.Time
	size  int64
	lines []string
}

func (c *cachedFile) read(path string) []string {
	st, err := os.Stat(path)
	if err != nil {
		*c = cachedFile{}
		return nil
	}
	if st.ModTime().Equal(c.mtime) && st.Size() == c.size {
		return c.lines
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	*c = cachedFile{mtime: st.ModTime(), size: st.Size(), lines: strings.Split(string(b), "\n")}
	return c.lines
}

// find returns a user by name; "" is the agent's own user, root. A decimal
// name that no user has counts as a uid.
func (u *userDB) find(name string) (linuxUser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	want := name
	if name == "" {
		want = strconv.Itoa(os.Geteuid())
		if want == "0" {
			want = "root"
		}
	}
	lines := u.passwd.read(filepath.Join(u.etc, "passwd"))
	a, ok := findAccount(lines, 0, want)
	if !ok {
		if a, ok = findAccount(lines, 2, want); !ok && name == "" {
			a, ok = linuxUser{name: "root", uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()), home: "/root", shell: "/bin/sh"}, true
		}
	}
	if !ok {
		a, ok = u.bare(want, func(name string) (linuxUser, bool) {
			a, ok := findAccount(lines, 0, name)
			if !ok {
				a, ok = findAccount(lines, 2, name)
			}
			return a, ok
		})
	}
	if !ok {
		return linuxUser{}, vm.Errorf(vm.NotFound, name, "the guest has no such Linux user").WithCode("USER_NOT_FOUND", "username", name)
	}
	if a.uid != 0 {
		a.groups = findGroups(u.group.read(filepath.Join(u.etc, "group")), a.name, a.gid)
	}
	return a, nil
}

// findAccount searches a field of passwd lines for want.
func findAccount(lines []string, field int, want string) (linuxUser, bool) {
	for _, l := range lines {
		f := strings.Split(l, ":")
		if len(f) != 7 || f[field] != want {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 == nil && err2 == nil {
			return linuxUser{name: f[0], uid: uint32(uid), gid: uint32(gid), home: f[5], shell: f[6]}, true
		}
	}
	return linuxUser{}, false
}

func findGroups(lines []string, name string, except uint32) []uint32 {
	var out []uint32
	for _, l := range lines {
		f := strings.Split(l, ":")
		if len(f) != 4 {
			continue
		}
		for m := range strings.SplitSeq(f[3], ",") {
			if gid, err := strconv.ParseUint(f[2], 10, 32); m == name && err == nil && uint32(gid) != except {
				out = append(out, uint32(gid))
			}
		}
	}
	return out
}

// name returns the name of a uid, or the number as text.
func (u *userDB) name(uid uint32) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := strconv.FormatUint(uint64(uid), 10)
	if a, ok := findAccount(u.passwd.read(filepath.Join(u.etc, "passwd")), 2, s); ok {
		return a.name
	}
	return s
}

// environ returns the assignments of /etc/environment.
func (u *userDB) environ() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for _, l := range u.environment.read(filepath.Join(u.etc, "environment")) {
		l = strings.TrimPrefix(strings.TrimSpace(l), "export ")
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" || strings.HasPrefix(k, "#") {
			continue
		}
		if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
			v = v[1 : n-1]
		}
		out = append(out, k+"="+v)
	}
	return out
}

// given returns the assignments of the host's file of variables.
func (u *userDB) given(path string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	lines := u.givenFile.read(path)
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// directory returns the user's home, or / if it does not exist.
func (a *linuxUser) directory() string {
	if st, err := os.Stat(a.home); a.home == "" || err != nil || !st.IsDir() {
		return "/"
	}
	return a.home
}
