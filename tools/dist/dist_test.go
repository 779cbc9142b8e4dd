// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// packed makes a package and a tar.gz of a small program, in a directory of its own.
func packed(t *testing.T, umask int) (deb, tgz string) {
	t.Helper()
	old := syscall.Umask(umask)
	defer syscall.Umask(old)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := release{root: root, program: "1.2", version: "1.2", made: time.Unix(1_790_000_000, 0).UTC(), work: dir, out: dir}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "root")
	if err := r.tree(tree, program, texts{"usr/share/man/man1/warren.1.gz": []byte("page")}); err != nil {
		t.Fatal(err)
	}
	if err := r.units(tree, "/usr/bin/warren"); err != nil {
		t.Fatal(err)
	}
	deb, tgz = filepath.Join(dir, "warren_1.2_amd64.deb"), filepath.Join(dir, "warren_1.2_linux_amd64.tar.gz")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.deb(ctx, tree, "amd64", deb); err != nil {
		t.Fatal(err)
	}
	if err := r.tarball(tree, tgz); err != nil {
		t.Fatal(err)
	}
	return deb, tgz
}

func said(t *testing.T, env []string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Two runs give the same bytes, whatever the umask, the directory and the time are. What is in the package has no
// owner of this machine.
func TestSameBytes(t *testing.T) {
	deb, tgz := packed(t, 0o022)
	deb2, tgz2 := packed(t, 0o077)
	for _, pair := range [][2]string{{deb, deb2}, {tgz, tgz2}} {
		a, err := os.ReadFile(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs from that of a second run", filepath.Base(pair[0]))
		}
	}
	list, err := said(t, []string{"TZ=UTC"}, "dpkg-deb", "--contents", deb)
	if err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, list)
	}
	for _, want := range []string{
		"-rwxr-xr-x root/root         9 2026-09-21 14:13 ./usr/bin/warren\n", "./usr/bin/mvmctl -> warren\n", "./usr/lib/systemd/system/warren.service\n",
		"./usr/lib/systemd/user/warren-drain.service\n", "./usr/share/man/man1/warren.1.gz\n", "./usr/share/doc/warren/copyright\n",
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the package has no %q:\n%s", want, list)
		}
	}
	list, err = said(t, []string{"TZ=UTC"}, "tar", "-tvzf", tgz)
	if err != nil {
		t.Fatalf("tar: %v: %s", err, list)
	}
	if want := "-rwxr-xr-x root/root         9 2026-09-21 14:13 warren_1.2_linux_amd64/bin/warren\n"; !strings.Contains(list, want) {
		t.Errorf("the tar.gz has no %q:\n%s", want, list)
	}
}

// A package needs what deploy/install-deps.sh installs, and its units start the program that it brings.
func TestPackageOfDebian(t *testing.T) {
	deb, _ := packed(t, 0o022)
	depends, err := said(t, nil, "dpkg-deb", "--field", deb, "Depends")
	if err != nil {
		t.Fatal(err)
	}
	if want := "passwd, qemu-system-x86, qemu-utils, mmdebstrap, uidmap, e2fsprogs, util-linux, xz-utils, git, openssh-client\n"; depends != want {
		t.Errorf("the package depends on %q, want %q", depends, want)
	}
	dir := t.TempDir()
	if out, err := said(t, nil, "dpkg-deb", "--raw-extract", deb, dir); err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	for _, unit := range []string{"system/warren.service", "user/warren.service"} {
		text, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd", unit))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nExecStart=/usr/bin/warren serve\n") {
			t.Errorf("%s does not start the package's program:\n%s", unit, text)
		}
	}
}

// A system on which Warren was not tested is refused before anything is unpacked, in a sentence that says what to do.
func TestPreinst(t *testing.T) {
	for name, c := range map[string]struct{ release, want string }{
		"Debian 12":      {"ID=debian\nVERSION_ID=\"12\"\n", ""},
		"Debian 13":      {"ID=debian\nVERSION_ID=\"13\"\n", ""},
		"Debian testing": {"ID=debian\n", ""},
		"Debian 11":      {"ID=debian\nVERSION_ID=\"11\"\n", "upgrade this host to Debian 12"},
		"Debian 9":       {"ID=debian\nVERSION_ID=\"9\"\n", "upgrade this host to Debian 12"},
		"Ubuntu":         {"ID=ubuntu\nVERSION_ID=\"24.04\"\n", "this system is not Debian"},
	} {
		file := filepath.Join(t.TempDir(), "os-release")
		if err := os.WriteFile(file, []byte(c.release), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := said(t, []string{"WARREN_OS_RELEASE=" + file}, "sh", "../../deploy/deb/preinst", "install")
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: the script ends with %v and says %q", name, err, out)
		}
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: the script says %q, want %q", name, out, c.want)
		}
	}
}

// A bundle has the package, the image, and a text with the commands for a host without a network.
func TestBundle(t *testing.T) {
	deb, _ := packed(t, 0o022)
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "base.tar.zst")
	if err := os.WriteFile(image, []byte("an image"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := release{root: root, version: "1.2", made: time.Unix(1_790_000_000, 0).UTC(), work: dir, out: dir}
	bundle, err := r.bundle(deb, image, "SHA256:abc")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := said(t, nil, "tar", "-xf", bundle, "-C", dir); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	within := filepath.Join(dir, "warren_1.2_amd64_offline")
	if out, err := said(t, nil, "sh", "-c", "cd "+within+" && sha256sum -c SHA256SUMS"); err != nil {
		t.Errorf("the digests in the bundle do not match: %v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(within, "README"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sudo apt install ./warren_1.2_amd64.deb\n", "warren image import file:base.tar.zst --trust SHA256:abc\n", "qemu-system-x86, "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the bundle's text lacks %q:\n%s", want, text)
		}
	}
}

// dpkg takes each later build as newer, and a release as newer than the builds before it.
func TestVersions(t *testing.T) {
	first, second := time.Unix(1_790_000_000, 0).UTC(), time.Unix(1_790_000_060, 0).UTC()
	order := []string{
		debVersion("ffffffff", first), debVersion("08380cc9", second), debVersion("08380cc9-dirty", second),
		debVersion("v0.9.0", first), debVersion("v0.9.0-3-gffffffff", first), debVersion("v0.9.0-4-g08380cc9", second), debVersion("v0.10.0", second),
	}
	for i, v := range order[1:] {
		if out, err := said(t, nil, "dpkg", "--compare-versions", order[i], "lt", v); err != nil {
			t.Errorf("%s is not older than %s: %v %s", order[i], v, err, out)
		}
	}
}
