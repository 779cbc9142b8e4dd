// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// The measures that may confine a process, as Of and Probe name them.
const (
	OwnRoot         = "own root"
	OwnMounts       = "own mounts"
	OwnPIDs         = "own process ids"
	OwnNetwork      = "own network"
	OwnIPC          = "own ipc"
	OwnUsers        = "own users"
	Landlock        = "landlock"
	Seccomp         = "seccomp"
	NoNewPrivileges = "no new privileges"
	NoCapabilities  = "no capabilities"
)

// All are the measures of a host that allows everything; root needs no OwnUsers.
var All = []string{OwnRoot, OwnMounts, OwnPIDs, OwnNetwork, OwnIPC, Landlock, Seccomp, NoNewPrivileges, NoCapabilities}

// Of returns the measures that confine a process of this program, in the order of
// All. Landlock cannot be seen from outside: it applies if the kernel has it.
func Of(pid int) ([]string, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	var held []string
	own, err := os.Stat("/")
	its, ierr := os.Stat(fmt.Sprintf("/proc/%d/root", pid))
	if err == nil && ierr == nil && !os.SameFile(own, its) {
		held = append(held, OwnRoot)
	}
	for _, ns := range [][2]string{{"mnt", OwnMounts}, {"pid", OwnPIDs}, {"net", OwnNetwork}, {"ipc", OwnIPC}, {"user", OwnUsers}} {
		mine, err := os.Readlink("/proc/self/ns/" + ns[0])
		its, ierr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns[0]))
		if err == nil && ierr == nil && mine != its {
			held = append(held, ns[1])
		}
	}
	if LandlockVersion() > 0 {
		held = append(held, Landlock)
	}
	for _, line := range [][2]string{
		{"Seccomp:\t2\n", Seccomp}, {"NoNewPrivs:\t1\n", NoNewPrivileges}, {"CapPrm:\t0000000000000000\n", NoCapabilities},
	} {
		if strings.Contains(string(status), line[0]) {
			held = append(held, line[1])
		}
	}
	return held, nil
}

// Probe starts a harmless program confined and returns which measures confined it
// on this host. dir is a directory in which one can be made.
func Probe(ctx context.Context, dir string) (held []string, err error) {
	return probeHost(ctx, dir, Start)
}

// probeHost is Probe with the function that starts the program.
func probeHost(ctx context.Context, dir string, start func(*exec.Cmd, Plan) error) (held []string, err error) {
	root, err := os.MkdirTemp(dir, "confine")
	if err != nil {
		return nil, err
	}
	defer os.Remove(root)
	path, err := exec.LookPath("cat")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Dir = "/"
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		_ = theirIn.Close()
		return nil, err
	}
	defer out.Close()
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	plan := Plan{Read: []string{"/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"}, Root: root}
	err = start(cmd, plan)
	_, _ = theirIn.Close(), theirOut.Close() // the program has its own copy; ours would keep the pipe open
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = in.Close()
		err = errors.Join(err, cmd.Wait())
	}()
	// When it answers it is the program and no longer the shim.
	if _, err := in.Write([]byte{'\n'}); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return nil, err
	}
	return Of(cmd.Process.Pid)
}
