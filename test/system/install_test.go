//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// installed is what a user types on a bare Debian, after the package was copied to it. It runs in namespaces of its
// own, so that the server and its machines end with it.
const installed = `set -e
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
begun=$(date +%s)
chroot "$1" sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy ./warren.deb' >"$1/apt.log" 2>&1 || { tail -n 30 "$1/apt.log"; exit 1; }
echo "installed after $(($(date +%s) - begun)) s"
chroot "$1" useradd --create-home --shell /bin/bash ann
chroot "$1" su - ann -c 'for tool in go gcc make; do ! command -v $tool || exit 1; done'
chroot "$1" su - ann -c 'warren up --name first'
chroot "$1" su - ann -c 'warren exec first -- sh -c "echo the guest says \$(uname -s)"'
echo "first exec after $(($(date +%s) - begun)) s"
chroot "$1" su - ann -c 'warren fork first copy && warren ls'
chroot "$1" su - ann -c 'man -w warren && warren doctor' || true
`

// TestInstall installs the package on bare Debian 12 and 13, each a directory that mmdebstrap fills and that the
// host's kernel runs. A user who is not root makes a machine there, without a compiler.
func TestInstall(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: two Debians are installed and two images are built, which takes ten minutes; `make soak` runs it")
	}
	if os.Getuid() != 0 {
		t.Skip("only root may enter another root directory")
	}
	out := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "run", "./tools/dist", "-arch", "amd64", "-out", out)
	build.Dir = "../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the package could not be made: %v\n%s", err, text)
	}
	debs, err := filepath.Glob(filepath.Join(out, "warren_*_amd64.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("the packages are %q: %v", debs, err)
	}
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) { installOn(t, suite, debs[0]) })
	}
}

func installOn(t *testing.T, suite, deb string) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	root := filepath.Join(t.TempDir(), "debian")
	if text, err := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=minbase", suite, root).CombinedOutput(); err != nil {
		t.Fatalf("no %s: %v\n%s", suite, err, text)
	}
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	copyInto(t, deb, filepath.Join(root, "warren.deb"))
	copyInto(t, "/etc/resolv.conf", filepath.Join(root, "etc/resolv.conf"))
	text, err := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", installed, "sh", root).CombinedOutput()
	t.Logf("%s", text)
	if err != nil {
		t.Fatalf("on %s: %v", suite, err)
	}
	if !strings.Contains(string(text), "the guest says Linux\n") {
		t.Errorf("on %s the machine did not answer", suite)
	}
}

func copyInto(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
