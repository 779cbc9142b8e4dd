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
// own, so that the server and its machines end with it. The directory becomes the root of its mounts: in a chroot the
// kernel makes no user namespaces, which the build of an image needs.
const installed = `set -e
mount --bind "$1" "$1"
cd "$1"
mkdir -p old
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
pivot_root . old
exec chroot . /bin/sh -ec '
umount -l /old
begun=$(date +%s)
{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy ./warren.deb $1; } >apt.log 2>&1 || { tail -n 30 apt.log; exit 1; }
echo "installed after $(($(date +%s) - begun)) s"
useradd --create-home --shell /bin/bash ann
for tool in go gcc make; do
    if command -v $tool; then echo "it is not bare: it has $tool"; exit 1; fi
done
su - ann -c "warren up --name first"
su - ann -c "warren exec first -- uname -sn"
echo "first exec after $(($(date +%s) - begun)) s"
su - ann -c "warren fork first --name copy && warren exec copy-1 -- uname -sn"
su - ann -c "warren doctor" | head -n 3
' sh "$2"`

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
	// What docs/install.md says for a host without a desktop.
	few := "--no-install-recommends ca-certificates dbus-user-session"
	for _, c := range []struct{ suite, more string }{{"bookworm", ""}, {"bookworm", few}, {"trixie", ""}} {
		t.Run(c.suite+" "+c.more, func(t *testing.T) { installOn(t, c.suite, debs[0], c.more) })
	}
}

// installOn installs a package on a suite of Debian. more are further words for apt.
func installOn(t *testing.T, suite, deb, more string) {
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
	if err := os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost\n::1 localhost\n"), 0o644); err != nil { // as Debian's installer does
		t.Fatal(err)
	}
	text, err := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", installed, "sh", root, more).CombinedOutput()
	t.Logf("%s", text)
	if err != nil {
		t.Fatalf("on %s: %v", suite, err)
	}
	for _, want := range []string{"Linux first\n", "Linux copy-1\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("on %s no machine answered %q", suite, want)
		}
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
