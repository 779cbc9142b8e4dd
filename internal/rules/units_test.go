// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The units leave VMs alone on a restart, and drain them at a shutdown only.
func TestUnits(t *testing.T) {
	for name, want := range map[string][]string{
		"warren.service":            {"KillMode=process", "Delegate=cpu memory io pids", "OOMPolicy=continue", "RuntimeDirectoryPreserve=yes", "ExecStart=/usr/local/bin/warren serve", "StateDirectoryMode=0710"},
		"warren-drain.service":      {"After=warren.service", "RemainAfterExit=yes", "ExecStop=/usr/local/bin/warren drain"},
		"user/warren.service":       {"KillMode=process", "Delegate=cpu memory io pids", "OOMPolicy=continue", "ExecStart=%h/.local/bin/warren serve"},
		"user/warren-drain.service": {"After=warren.service", "RemainAfterExit=yes", "ExecStop=%h/.local/bin/warren drain"},
	} {
		data, err := os.ReadFile(filepath.Join("../../deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(data), "\n")
		for _, w := range want {
			if !slices.Contains(lines, w) {
				t.Errorf("%s lacks %s", name, w)
			}
		}
		if slices.Contains(want, "KillMode=process") && !strings.Contains(string(data), "\nExecStopPost=-/bin/sh -c 'g=/sys/fs/cgroup") {
			t.Errorf("%s leaves its control group divided, and cannot be started again", name)
		}
		for _, line := range lines { // these would stop it, or the VMs, with a restart of serve
			for _, bad := range []string{"PartOf=", "BindsTo=", "Requires=", "PrivateTmp=", "ProtectSystem=", "NoNewPrivileges="} {
				if strings.HasPrefix(line, bad) {
					t.Errorf("%s has %s", name, line)
				}
			}
		}
	}
}
