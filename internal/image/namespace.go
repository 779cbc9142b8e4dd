// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// namespaceIDs is how many users and groups a user namespace of a build has.
const namespaceIDs = 65_536

// rootsIDs is the first user and group of the namespace when root itself builds, and /etc/subuid
// gives it none. No program of a host uses them.
const rootsIDs = 1_900_000_000

// A namespace is a user namespace in which the files of a container image can be owned by all its users,
// while nothing in it has rights on this host: not even when root builds.
type namespace struct {
	holder *exec.Cmd
	end    io.Closer
}

// openNamespace makes a namespace. It lasts until close, or until this process ends.
func openNamespace(ctx context.Context) (*namespace, error) {
	uid, gid, err := subIDs()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("cat") // does nothing until its input ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, Setpgid: true}
	direct := os.Geteuid() == 0
	if direct {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: namespaceIDs}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: namespaceIDs}}
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, vm.Errorf(vm.Unsupported, "user namespace", "this host gives none: %w", err).
			WithHint("`warren doctor` says what is missing")
	}
	n := &namespace{holder: cmd, end: in}
	if !direct {
		err = errors.Join(n.mapIDs(ctx, "newuidmap", uid), n.mapIDs(ctx, "newgidmap", gid))
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *namespace) mapIDs(ctx context.Context, program string, first int) error {
	args := []string{strconv.Itoa(n.holder.Process.Pid), "0", strconv.Itoa(first), strconv.Itoa(namespaceIDs)}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return vm.Errorf(vm.Unsupported, program, "%s: %w", strings.TrimSpace(string(out)), err).
			WithHint("`warren doctor` says what is missing")
	}
	return nil
}

func (n *namespace) close() error {
	err := n.end.Close()
	_ = n.holder.Wait() // its status says nothing
	return err
}

// script returns the arguments that run a bash script as the namespace's root, with mounts and processes
// of its own, and without a network unless it needs one.
func (n *namespace) script(text string, network bool, args ...string) []string {
	argv := []string{
		"nsenter", fmt.Sprintf("--user=/proc/%d/ns/user", n.holder.Process.Pid), "--setuid=0", "--setgid=0", "--",
		"unshare", "--mount", "--ipc", "--uts", "--pid", "--fork", "--kill-child",
	}
	if !network {
		argv = append(argv, "--net")
	}
	return append(append(argv, "--", "bash", "-c", text, "warren-import"), args...)
}

// subIDs returns the first of the users and of the groups that this user may give to namespaces.
func subIDs() (uid, gid int, err error) {
	if uid, err = subID("/etc/subuid"); err != nil {
		return 0, 0, err
	}
	gid, err = subID("/etc/subgid")
	return uid, gid, err
}

func subID(file string) (int, error) {
	me := []string{strconv.Itoa(os.Geteuid())}
	if u, err := user.Current(); err == nil {
		me = append(me, u.Username)
	}
	data, _ := os.ReadFile(file) // absent = no line
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] != me[0] && f[0] != me[len(me)-1] {
			continue
		}
		first, err := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err == nil && err2 == nil && count >= namespaceIDs {
			return first, nil
		}
	}
	if os.Geteuid() == 0 {
		return rootsIDs, nil
	}
	return 0, vm.Errorf(vm.Unsupported, file, "gives this user no %d ids for a user namespace", namespaceIDs).
		WithHint("`warren doctor` says the line that is missing")
}
