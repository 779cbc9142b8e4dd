// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

var linuxName = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

const maxLinuxName = 32

func (s Setup) empty() bool { return len(s.Groups)+len(s.Users)+len(s.Files) == 0 }

// check refuses what could not be carried out, with the contract's codes.
func (s Setup) check() error {
	seen := map[string]bool{}
	for _, g := range s.Groups {
		if err := checkGroup(g.Name); err != nil {
			return err
		}
		if seen[g.Name] {
			return invalid("DUPLICATE_GROUP_NAME", g.Name, "the group is named twice")
		}
		seen[g.Name] = true
	}
	clear(seen)
	for _, u := range s.Users {
		if err := u.check(); err != nil {
			return err
		}
		if seen[u.Name] {
			return invalid("DUPLICATE_USER_NAME", u.Name, "the user is named twice")
		}
		seen[u.Name] = true
	}
	for _, f := range s.Files {
		if !path.IsAbs(f.Path) || strings.ContainsRune(f.Path, 0) || strings.HasSuffix(f.Path, "/") {
			return badCreate(f.Path, "not the absolute path of a file")
		}
	}
	return nil
}

func checkGroup(name string) error {
	switch {
	case name == "":
		return invalid("GROUP_NAME_EMPTY", name, "a group has no name")
	case name == "root":
		return invalid("GROUP_NAME_RESERVED", name, "the name is reserved")
	case len(name) > maxLinuxName:
		return invalid("GROUP_NAME_TOO_LONG", name, "longer than %d characters", maxLinuxName)
	case !linuxName.MatchString(name):
		return invalid("GROUP_NAME_INVALID_CHARS", name, "must match [a-z_][a-z0-9_-]*")
	}
	return nil
}

func (u SetupUser) check() error {
	switch {
	case !linuxName.MatchString(u.Name) || len(u.Name) > maxLinuxName || u.Name == "root":
		return badCreate(u.Name, "not a name for a Linux user").WithHint("names match [a-z_][a-z0-9_-]*, at most %d characters", maxLinuxName)
	case u.UID != nil && (*u.UID < 0 || *u.UID > 65535):
		return invalid("USER_UID_OUT_OF_RANGE", u.Name, "uid %d is not within 0 to 65535", *u.UID)
	case u.System && u.UID != nil && *u.UID > 999:
		return invalid("USER_SYSTEM_FLAG_MISMATCH", u.Name, "a system user with uid %d", *u.UID)
	case u.Home != "" && !path.IsAbs(u.Home):
		return invalid("USER_HOME_INVALID", u.Name, "the home directory is not absolute")
	case u.Shell != "" && !path.IsAbs(u.Shell):
		return invalid("USER_SHELL_INVALID", u.Name, "the shell is not absolute")
	case slices.Contains(u.Groups, ""):
		return invalid("USER_GROUP_EMPTY", u.Name, "a group has no name")
	case strings.ContainsAny(u.Gecos, ":\n"):
		return badCreate(u.Name, "the comment holds a colon or a line end")
	}
	return nil
}

func invalid(code, subject, format string, args ...any) error {
	return vm.Errorf(vm.Invalid, subject, format, args...).WithCode(code)
}

// setUp carries out a checked setup: groups, users, then files.
func (e *Engine) setUp(ctx context.Context, g Guest, s Setup) error {
	if s.empty() {
		return nil
	}
	for _, group := range s.Groups {
		if err := runSetup(ctx, g, "group "+group.Name, group.argv()); err != nil {
			return err
		}
	}
	for _, user := range s.Users {
		if err := runSetup(ctx, g, "user "+user.Name, user.argv()); err != nil {
			return err
		}
	}
	for _, f := range s.Files {
		mode := uint32(0o644)
		if f.Executable {
			mode = 0o755
		}
		o := vm.WriteOptions{Mode: mode, Parents: true, Size: int64(len(f.Content))}
		if _, err := g.WriteFile(ctx, "", f.Path, o, bytes.NewReader(f.Content)); err != nil {
			return setupFailed("file "+f.Path, err.Error(), err)
		}
	}
	return nil
}

func (g SetupGroup) argv() []string {
	argv := []string{"groupadd"}
	if g.System {
		argv = append(argv, "--system")
	}
	if g.GID != nil {
		argv = append(argv, "--gid", strconv.Itoa(*g.GID))
	}
	return append(argv, g.Name)
}

func (u SetupUser) argv() []string {
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

// runSetup runs one program of the setup to its end.
func runSetup(ctx context.Context, g Guest, what string, argv []string) error {
	x, err := g.Exec(ctx, vm.ExecSpec{Argv: argv})
	if err != nil {
		return setupFailed(what, err.Error(), err)
	}
	var out, errOut limitedBuffer
	st, err := x.Run(&out, &errOut)
	if err != nil {
		return setupFailed(what, err.Error(), err)
	}
	if st.Code != 0 {
		return setupFailed(what, fmt.Sprintf("%s exited with %d: %s", argv[0], st.Code, strings.TrimSpace(errOut.String())), nil)
	}
	return nil
}

func setupFailed(what, reason string, err error) error {
	if isCancel(err) {
		return err
	}
	// Without the cause, which has a code of its own: the reason says it all.
	out := &vm.Error{Kind: vm.GuestFault, Subject: what, Msg: reason}
	return out.WithCode("VM_SETUP_FAILED", "failedReason", what+": "+reason)
}

// limitedBuffer keeps the first 4 KiB that are written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, 4096-b.Len()))])
	return len(p), nil
}
