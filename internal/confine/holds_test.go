// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A host that gives no namespaces is asked by a second start, which must find
// the pipes to the program open.
func TestProbeWithoutNamespaces(t *testing.T) {
	asked := false
	refuse := func(*syscall.SysProcAttr) *syscall.SysProcAttr {
		asked = true
		return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_FS} // the kernel takes no such pair
	}
	held, err := probeHost(t.Context(), t.TempDir(), func(cmd *exec.Cmd, p Plan) error { return startIn(cmd, p, refuse) })
	if err != nil || !asked {
		t.Fatal(asked, err)
	}
	if !slices.Contains(held, Seccomp) || slices.Contains(held, OwnPIDs) {
		t.Errorf("held by %v", held)
	}
}
