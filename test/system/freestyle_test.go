// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFreestyle: a program with Freestyle's current SDK, unmodified, runs against Warren with its
// base URL and a key changed. test/contract has every row, against the simulator.
func TestFreestyle(t *testing.T) {
	t.Parallel()
	h := &sandboxHost{host: newHost(t), dir: must(t, "the directory of the scripts", absolute("../contract"), nil)}
	npmInstall(t, h.dir)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatalf("no key: %v", err)
	}
	h.rows(t, []string{
		"a VM is made", "a command has output, a status and a user", "a command in the background of a connection is answered later", "files keep their bytes",
		"a large file arrives in chunks", "a terminal is joined again", "a VM is made from a snapshot and keeps its processes", "a command wakes a paused VM",
		"what a VM may reach is changed", "an identity reaches its VM only", "the command line runs a command", "a VM is deleted",
	}, []string{"FREESTYLE_API_URL=http://" + h.listen, "FREESTYLE_API_KEY=" + strings.TrimSpace(string(key))}, "node", "v5/real.mjs")
}
