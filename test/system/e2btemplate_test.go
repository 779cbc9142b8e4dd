// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"strings"
	"testing"
)

// TestE2BTemplate: the SDKs of E2B, unmodified, build templates from a VM's image: with files,
// commands, variables and a start command that runs already in each sandbox.
func TestE2BTemplate(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	h.install(t)
	t.Run("JavaScript", func(t *testing.T) {
		h.rows(t, []string{
			"a template is built in steps", "a sandbox is created of it by its name", "it has the files, variables, user and directory of the steps",
			"its start command answers already", "a failed step is a build error", "tags name builds", "a template is deleted, and its sandbox stays",
		}, h.env, "node", "template/template.mjs")
	})
	t.Run("Python", func(t *testing.T) {
		h.rows(t, []string{"a template is built and used", "a failed step is a build exception"}, h.env, h.venv(t, "requirements.txt"), "template/template.py")
	})
	if left := h.list(); len(left) > 0 {
		t.Errorf("after the builds there are the VMs %v, want none", left)
	}
	if files := h.ok("snapshot", "ls"); !strings.Contains(files, "sdk-py") {
		t.Errorf("the template is not among the snapshots:\n%s", files)
	}
}
