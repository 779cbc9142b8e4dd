// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/doctor"
	"github.com/warren-vm/warren/vm"
)

// TestSensitiveFolders: directories with keys, credentials or the system's files, and
// those that contain one, are not shown to a VM; what lies beside them is.
func TestSensitiveFolders(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		"homes/ann/.ssh/old", "homes/ann/.config/gh", "homes/ann/.aws", "homes/ann/code", "homes/ann/.cache",
		"homes/me/work", "homes/service/data", "vault/keys/ssh", "homes/linked", "data/vms", "srv/site",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "vault/keys/ssh"), filepath.Join(root, "homes/linked/.ssh")); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(root, "passwd")
	text := strings.ReplaceAll("ann:x:1000:1000::ROOT/homes/ann:/bin/bash\nlinked:x:1001:1001::ROOT/homes/linked/:/bin/zsh\n"+
		"service:x:99:99::ROOT/homes/service:/usr/sbin/nologin\nnone:x:98:98::/:/bin/sh\nbroken\n", "ROOT", root)
	if err := os.WriteFile(users, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f := folders{backing: doctor.Host(), own: []string{filepath.Join(root, "data")}, users: users, home: filepath.Join(root, "homes/me")}
	for path, want := range map[string]string{
		"/": "it contains Warren's own keys", "/etc": "it is /etc", "/root": "it is ", "/var": "it is /var", "/boot": "it is /boot", "/run": "it is /run", "/home": "it is /home",
		"/proc": "the kernel's own", "/sys": "the kernel's own", "/dev": "the kernel's own",
		"homes/ann": "it is a home directory", "homes/me": "it is a home directory", "homes/linked": "it is a home directory",
		"homes": "it contains ", "homes/ann/.ssh": "it is in ", "homes/ann/.ssh/old": "it is in ", "homes/ann/.config/gh": "it is in ", "homes/ann/.aws": "it is in ",
		"vault/keys/ssh": "it is in ", "vault/keys": "it contains ", "vault": "it contains ", "data": "Warren's own keys", "data/vms": "Warren's own keys",
	} {
		dir := path
		if !filepath.IsAbs(path) {
			dir = filepath.Join(root, path)
		}
		if _, err := os.Stat(dir); err != nil {
			continue // this host has none
		}
		_, _, _, err := f.Check(dir)
		e := vm.AsError(err)
		if err == nil || e.Kind != vm.Denied || e.Code != "HOST_PATH_INVALID" || !strings.Contains(e.Msg, want) || e.Hint == "" {
			t.Errorf("%s: %v, want a refusal with %q and a hint", path, err, want)
		}
	}
	for _, path := range []string{"homes/ann/code", "homes/ann/.cache", "homes/me/work", "homes/service", "homes/service/data", "srv", "srv/site"} {
		if _, _, _, err := f.Check(filepath.Join(root, path)); err != nil {
			t.Errorf("%s is refused: %v", path, err)
		}
	}
}
