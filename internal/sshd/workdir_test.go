// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"strings"
	"testing"

	"github.com/pkg/sftp"

	"github.com/warren-vm/warren/internal/engine"
)

// TestWorkdir: commands, shells and file transfers start in the VM's working
// directory, as through every other door.
func TestWorkdir(t *testing.T) {
	d := newDoor(t)
	if _, err := d.engine.Create(t.Context(), d.call, engine.CreateRequest{Name: "app", Workdir: "/work"}); err != nil {
		t.Fatal(err)
	}
	c := d.enter("app:" + d.secret)
	out, err := d.session(c).Output("pwd")
	if err != nil || string(out) != "/work\n" {
		t.Errorf("a command begins in %q, %v", out, err)
	}
	s := d.session(c)
	if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Output("pwd"); err != nil || strings.TrimSpace(string(out)) != "/work" {
		t.Errorf("a command with a terminal begins in %q, %v", out, err)
	}
	files, err := sftp.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if wd, err := files.Getwd(); err != nil || wd != "/work" {
		t.Errorf("sftp begins in %q, %v", wd, err)
	}
}
