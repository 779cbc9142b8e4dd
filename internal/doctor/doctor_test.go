// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// host is a fixture: a machine that has everything.
func host(t *testing.T) Options {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	root := tree(t, map[string]string{
		"proc/meminfo":             "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:   6000000 kB\n",
		"proc/self/cgroup":         "0::/user.slice/warren\n",
		"proc/self/mountinfo":      mountLine("254:0", "/", "ext4", "/dev/mapper/c", "rw"),
		"sys/dev/block/254:0":      "->/sys/devices/dm-0",
		"sys/devices/dm-0/dm/uuid": "CRYPT-LUKS2-x",
		"sys/fs/cgroup/user.slice/warren/cgroup.controllers": "cpuset cpu io memory pids\n",
		"dev/kvm":        "",
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"etc/subuid":     "root:1:1\nann:100000:65536\n",
		"etc/subgid":     "1000:100000:65536\n",
	})
	dir, err := layout.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	img := vm.Image{Format: 1, ID: "im-abcdefghijklmnop", Name: "base", CreatedAt: time.Unix(1e9, 0)}
	if err := os.MkdirAll(dir.Warm(img.ID, "k"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(layout.WriteJSON(dir.ImageManifest(img.ID), img, 0o600),
		layout.WriteJSON(layout.GenerationDir(dir.Warm(img.ID, "k")).Manifest(), vm.Manifest{}, 0o600)); err != nil {
		t.Fatal(err)
	}
	return Options{
		Data: data, root: root, uid: 1000, user: "ann", arch: "amd64",
		look: func(name string) (string, error) { return "/usr/bin/" + name, nil },
		run: func(_ context.Context, name string, _ ...string) (string, error) {
			if strings.HasSuffix(name, "qemu-system-x86_64") {
				return "QEMU emulator version 8.1.0 (Debian)\nCopyright", nil
			}
			return "", nil
		},
		confined: func(context.Context, string) ([]string, error) { return confine.All, nil },
		Probe: func(context.Context) (vm.Accel, []string, time.Duration, error) {
			return vm.KVM, []string{"kvm: hello"}, time.Second, nil
		},
	}
}

func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check named %q", name)
	return Check{}
}

// On a host that has everything nothing is found wrong.
func TestHealthy(t *testing.T) {
	checks := host(t).checks(t.Context())
	for _, c := range checks {
		if c.Name == "free space" {
			continue // the real disk's
		}
		if c.Status != OK {
			t.Errorf("a healthy host fails the check %s with %s: %s", c.Name, c.Status, c.Detail)
		}
		if c.Fix != "" {
			t.Errorf("%s is well and has a remedy: %s", c.Name, c.Fix)
		}
	}
	data, err := json.Marshal(checks)
	if err != nil || !strings.Contains(string(data), `"status":"ok"`) {
		t.Errorf("as JSON: %s, %v", data, err)
	}
}

// Each thing that can be missing is found, with its remedy.
func TestAilments(t *testing.T) {
	missing := func(program string) func(*Options) {
		return func(o *Options) {
			o.look = func(name string) (string, error) {
				if name == program {
					return "", os.ErrNotExist
				}
				return "/usr/bin/" + name, nil
			}
		}
	}
	version := func(text string) func(*Options) {
		return func(o *Options) {
			o.run = func(context.Context, string, ...string) (string, error) { return text, nil }
		}
	}
	write := func(name, body string) func(*Options) {
		return func(o *Options) {
			p := filepath.Join(o.root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(body), 0o600)); err != nil {
				panic(err)
			}
		}
	}
	remove := func(name string) func(*Options) {
		return func(o *Options) {
			if err := os.Remove(filepath.Join(o.root, name)); err != nil {
				panic(err)
			}
		}
	}
	probe := func(a vm.Accel, err error) func(*Options) {
		return func(o *Options) {
			o.Probe = func(context.Context) (vm.Accel, []string, time.Duration, error) {
				return a, []string{"kvm: no hello in 5 s", "tcg: hello"}, 6 * time.Second, err
			}
		}
	}
	for _, c := range []struct {
		name        string
		spoil       func(*Options)
		check       string
		status      Status
		detail, fix string
	}{
		{"old Debian", write("etc/os-release", "ID=debian\nVERSION_ID=\"11\"\nPRETTY_NAME=\"Debian GNU/Linux 11\"\n"), "system", Fail, "Debian GNU/Linux 11; its QEMU is too old", "upgrade this host to Debian 12"},
		{"another system", write("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\nPRETTY_NAME=\"Ubuntu 24.04\"\n"), "system", Warn, "Ubuntu 24.04; Warren is tested on Debian", "Debian 12 or 13"},
		{"Debian testing", write("etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux trixie/sid\"\n"), "system", OK, "trixie", ""},
		{"unknown system", remove("etc/os-release"), "system", Warn, "unknown", "Debian 12"},
		{"another processor", func(o *Options) { o.arch = "arm64" }, "system", Fail, "on arm64; machines start on amd64 only", "WARREN_API_URL"},
		{"no qemu", missing("qemu-system-x86_64"), "qemu-system-x86_64", Fail, "not installed", "apt-get install"},
		{"old qemu", version("QEMU emulator version 7.1.9"), "qemu-system-x86_64", Fail, "7.2 or newer", "apt-get install"},
		{"newest old qemu", version("QEMU emulator version 7.2.0"), "qemu-system-x86_64", OK, "7.2.0", ""},
		{"strange qemu", version("hello"), "qemu-system-x86_64", Fail, "says no version", "apt-get"},
		{"no qemu-img", missing("qemu-img"), "qemu-img", Fail, "not installed", "qemu-utils"},
		{"no mmdebstrap", missing("mmdebstrap"), "mmdebstrap", Fail, "not installed", "mmdebstrap"},
		{"no newuidmap", missing("newuidmap"), "newuidmap", Fail, "not installed", "uidmap"},
		{"no git", missing("git"), "git", Warn, "not installed", "git"},
		{"no subuid", write("etc/subuid", "bob:1:1\n"), "subordinate ids", Fail, "no range for ann", "usermod --add-subuids"},
		{"no user namespaces", func(o *Options) {
			o.run = func(context.Context, string, ...string) (string, error) {
				return "unshare: Operation not permitted", errors.New("1")
			}
			write("proc/sys/kernel/unprivileged_userns_clone", "0\n")(o)
		}, "user namespaces", Fail, "not permitted", "unprivileged_userns_clone=1"},
		{"no kvm", remove("dev/kvm"), "/dev/kvm", Warn, "not there", "firmware"},
		{"tcg", probe(vm.TCG, nil), "accelerator", Warn, Emulated, "--require-kvm"},
		{"tcg says why", probe(vm.TCG, nil), "accelerator", Warn, "kvm: no hello in 5 s", "KVM"},
		{"no image to probe with", probe("", vm.Errorf(vm.NotFound, "base", "no image").WithHint("build it")), "accelerator", Warn, "no image", "build it"},
		{"probe fails", probe("", errors.New("boom")), "accelerator", Fail, "boom", ""},
		{"not probed", func(o *Options) { o.Probe = nil }, "accelerator", Warn, "not probed", ""},
		{"data directory open to all", func(o *Options) {
			if err := os.Chmod(o.Data, 0o755); err != nil { //nolint:gosec // the ailment
				panic(err)
			}
		}, "data directory", Warn, "open to others", "chmod 700"},
		{"data directory impossible", func(o *Options) { o.Data = "/proc/self/x/y" }, "data directory", Fail, "/proc/self", "mkdir"},
		{"plain disk", write("sys/devices/dm-0/dm/uuid", "LVM-x"), "encryption at rest", Warn, "not encrypted", "LUKS"},
		{"plain swap", write("proc/swaps", "Filename Type\n/dev/sdz1 partition\n"), "encryption at rest", Warn, "/dev/sdz1", "swapoff"},
		{"little memory", write("proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 100 kB\n"), "memory", Warn, "0.0 available", "--mem"},
		{"no memory file", remove("proc/meminfo"), "memory", Warn, "not known", ""},
		{"cgroup v1", write("proc/self/cgroup", "3:cpu:/\n0::/\n"), "cgroup delegation", Warn, "no cgroup v2", "Delegate"},
		{"cgroup without memory", write("sys/fs/cgroup/user.slice/warren/cgroup.controllers", "cpu pids"), "cgroup delegation", Warn, "memory", "Delegate"},
		{"no namespaces", func(o *Options) {
			o.confined = func(context.Context, string) ([]string, error) {
				return []string{confine.Landlock, confine.Seccomp, confine.NoNewPrivileges, confine.NoCapabilities}, nil
			}
		}, "containment of machines", Warn, "missing: own root, own mounts, own process ids, own network, own ipc", "unprivileged_userns_clone=1"},
		{"no landlock", func(o *Options) {
			o.confined = func(context.Context, string) ([]string, error) {
				return slices.DeleteFunc(slices.Clone(confine.All), func(s string) bool { return s == confine.Landlock }), nil
			}
		}, "containment of machines", Warn, "missing: landlock", "lsm="},
		{"as root", func(o *Options) { o.uid, o.switches = 0, true }, "containment of machines", OK, "a user id of its own", ""},
		{"as root, with a KVM of its own", func(o *Options) {
			o.uid, o.switches = 0, true
			if err := os.Chmod(filepath.Join(o.root, "dev/kvm"), 0o600); err != nil {
				panic(err)
			}
		}, "containment of machines", OK, "/dev/kvm is open to root alone", "chmod 660"},
		{"as root in a container", func(o *Options) { o.uid = 0 }, "containment of machines", OK, "the user id of root", ""},
		{"no filter", func(o *Options) {
			o.confined = func(context.Context, string) ([]string, error) { return nil, errors.New("seccomp: invalid argument") }
		}, "containment of machines", Fail, "seccomp: invalid argument", "seccomp"},
		{"yama", write("proc/sys/kernel/yama/ptrace_scope", "1\n"), "memory of machines", Warn, "is 1", "ptrace_scope=0"},
		{"no image", func(o *Options) { o.Data = filepath.Join(filepath.Dir(o.Data), "none") }, "default image", Warn, "not built", "warren image build base"},
		{"no warm generation", func(o *Options) {
			if err := os.RemoveAll(layout.Dir(o.Data).WarmRoot("im-abcdefghijklmnop")); err != nil {
				panic(err)
			}
		}, "warm generation", Warn, "none", "warren image build base"},
	} {
		o := host(t)
		c.spoil(&o)
		got := find(t, o.checks(t.Context()), c.check)
		if got.Status != c.status || !strings.Contains(got.Detail, c.detail) || !strings.Contains(got.Fix, c.fix) {
			t.Errorf("%s: %+v, want %s, %q, %q", c.name, got, c.status, c.detail, c.fix)
		}
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	o := host(t)
	o.Listen = []string{addr, "off", ""}
	checks := o.checks(t.Context())
	if c := find(t, checks, "port "+addr); c.Status != Fail || c.Fix == "" {
		t.Errorf("taken port: %+v", c)
	}
	if !Failed(checks) {
		t.Error("Failed overlooks a failure")
	}
	o.Serving = true
	if c := find(t, o.checks(t.Context()), "port "+addr); c.Status != OK {
		t.Errorf("port of the server itself: %+v", c)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.Serving = false
	if c := find(t, o.checks(t.Context()), "port "+addr); c.Status != OK {
		t.Errorf("free port: %+v", c)
	}
}

func TestSpace(t *testing.T) {
	for _, c := range []struct {
		free int64
		want Status
	}{{3 * gib, Fail}, {10 * gib, Warn}, {100 * gib, OK}} {
		if got := spaceCheck(c.free); got.Status != c.want || (got.Fix == "") != (c.want == OK) {
			t.Errorf("the check of %d free bytes: %+v, want %s", c.free, got, c.want)
		}
	}
}

// Run on the real host leaves nothing behind and says something of each thing.
func TestRunHere(t *testing.T) {
	data := t.TempDir()
	for _, c := range Run(t.Context(), Options{Data: data, Listen: []string{"127.0.0.1:0"}}) {
		if c.Name == "" || c.Detail == "" || c.Status == "" {
			t.Errorf("incomplete: %+v", c)
		}
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSealedGenerations(t *testing.T) {
	o := host(t)
	data := layout.Dir(o.Data)
	want := func(status Status, detail, fix string) {
		t.Helper()
		got := find(t, o.checks(t.Context()), "sealed generations")
		if got.Status != status || !strings.Contains(got.Detail, detail) || !strings.Contains(got.Fix, fix) {
			t.Errorf("the check of sealed generations: %+v, want %s, %q, %q", got, status, detail, fix)
		}
	}
	write := func(path string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(layout.GenerationDir(data.Generation("gn-1")).RAM())
	want(OK, "none; 1 with plain memory; the host key is made on first use as "+data.HostKey(), "")
	write(layout.GenerationDir(data.Generation("gn-2")).SealedRAM())
	want(Fail, "1 can't be opened: the host key is gone", "put back "+data.HostKey())
	write(data.HostKey())
	want(OK, "1 encrypted, 1 with plain memory; the host key is "+data.HostKey(), "")
	if err := os.Chmod(data.HostKey(), 0o640); err != nil {
		t.Fatal(err)
	}
	want(Fail, "which is refused: its mode is -rw-r-----", "chmod 600 "+data.HostKey())
}

// TestReleaseOfHost: the host's own system is found from any directory.
func TestReleaseOfHost(t *testing.T) {
	t.Chdir(t.TempDir())
	if c := (Options{arch: "amd64"}).release(); strings.HasPrefix(c.Detail, "unknown") {
		t.Errorf("the system is %s", c.Detail)
	}
}
