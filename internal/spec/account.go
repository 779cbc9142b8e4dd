// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var linuxName = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

const maxLinuxName = 32

func checkGroups(l Layer) error {
	seen := map[string]bool{}
	for _, g := range l.Groups {
		if err := checkGroup(g.Name); err != nil {
			return err
		}
		if seen[g.Name] {
			return refuse("DUPLICATE_GROUP_NAME", g.Name, "the group is named twice")
		}
		seen[g.Name] = true
	}
	return nil
}

func checkGroup(name string) error {
	switch {
	case name == "":
		return refuse("GROUP_NAME_EMPTY", name, "a group has no name")
	case name == "root":
		return refuse("GROUP_NAME_RESERVED", name, "the name is reserved")
	case len(name) > maxLinuxName:
		return refuse("GROUP_NAME_TOO_LONG", name, "longer than %d characters", maxLinuxName)
	case !linuxName.MatchString(name):
		return refuse("GROUP_NAME_INVALID_CHARS", name, "must match [a-z_][a-z0-9_-]*")
	}
	return nil
}

func checkUsers(l Layer) error {
	seen := map[string]bool{}
	for _, u := range l.Users {
		if err := u.check(); err != nil {
			return err
		}
		if seen[u.Name] {
			return refuse("DUPLICATE_USER_NAME", u.Name, "the user is named twice")
		}
		seen[u.Name] = true
	}
	return nil
}

func (u User) check() error {
	switch {
	case !linuxName.MatchString(u.Name) || len(u.Name) > maxLinuxName || u.Name == "root":
		return bad(u.Name, "not a name for a Linux user").WithHint("names match [a-z_][a-z0-9_-]*, at most %d characters", maxLinuxName)
	case u.UID != nil && (*u.UID < 0 || *u.UID > 65535):
		return refuse("USER_UID_OUT_OF_RANGE", u.Name, "uid %d is not within 0 to 65535", *u.UID)
	case u.System && u.UID != nil && *u.UID > 999:
		return refuse("USER_SYSTEM_FLAG_MISMATCH", u.Name, "a system user with uid %d", *u.UID)
	case u.Home != "" && !path.IsAbs(u.Home):
		return refuse("USER_HOME_INVALID", u.Name, "the home directory is not absolute")
	case u.Shell != "" && !path.IsAbs(u.Shell):
		return refuse("USER_SHELL_INVALID", u.Name, "the shell is not absolute")
	case slices.Contains(u.Groups, ""):
		return refuse("USER_GROUP_EMPTY", u.Name, "a group has no name")
	case strings.ContainsAny(u.Gecos, ":\n"):
		return bad(u.Name, "the comment holds a colon or a line end")
	}
	return nil
}

// Argv is the command that makes the group.
func (g Group) Argv() []string {
	argv := []string{"groupadd"}
	if g.System {
		argv = append(argv, "--system")
	}
	if g.GID != nil {
		argv = append(argv, "--gid", strconv.Itoa(*g.GID))
	}
	return append(argv, g.Name)
}

// Argv is the command that makes the user.
func (u User) Argv() []string {
	home, shell := u.Home, u.Shell
	argv := []string{"useradd"}
	if u.System {
		argv = append(argv, "--system", "--no-create-home")
		home, shell = or(home, "/"), or(shell, "/usr/sbin/nologin")
	} else {
		argv = append(argv, "--create-home")
		home, shell = or(home, "/home/"+u.Name), or(shell, "/bin/bash")
	}
	argv = append(argv, "--home-dir", home, "--shell", shell)
	if u.UID != nil {
		argv = append(argv, "--uid", strconv.Itoa(*u.UID))
	}
	if u.Gecos != "" {
		argv = append(argv, "--comment", u.Gecos)
	}
	if len(u.Groups) > 0 {
		argv = append(argv, "--groups", strings.Join(u.Groups, ","))
	}
	return append(argv, u.Name)
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
