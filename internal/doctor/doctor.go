// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor checks a host: what Warren needs, what the host has, and the one
// command that installs what is missing. It changes nothing but a few temporary
// files in the data directory. It starts no virtual machine itself: the
// accelerator's probe is passed in. For cmd/warren.
package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/vm"
)

// Status says how serious a finding is.
type Status string

// The statuses of a check.
const (
	OK   Status = "ok"
	Warn Status = "warn" // Warren works, with less
	Fail Status = "fail" // Warren, or a part that the check names, does not work
)

// Check is one finding.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // the command, or the setting, that fixes it
}

// Probe boots a probe guest. It returns the accelerator to use, a line for each
// thing that was tried, and how long that took.
type Probe func(ctx context.Context) (accel vm.Accel, tried []string, took time.Duration, err error)

// Options say what to check.
type Options struct {
	Data   string   // data directory; need not exist
	Listen []string // addresses that `serve` would listen on; "off" and "" are skipped
	// Serving says that a Warren server uses the first of these addresses.
	Serving bool
	Probe   Probe // nil = not probed, and the report says so
	// Pool is the state of the warm pool; "" = not reported.
	Pool string

	root string // prefix of /proc, /sys, /dev and /etc; "" outside tests
	arch string
	uid  int
	user string
	run  func(ctx context.Context, name string, args ...string) (string, error)
	// confined returns the measures that confined a program started like QEMU.
	confined func(ctx context.Context, dir string) ([]string, error)
	switches bool // machines can have user ids of their own
	look     func(name string) (string, error)
}

// Run makes every check, in a fixed order. It takes as long as the probe plus
// a second.
func Run(ctx context.Context, o Options) []Check {
	o.uid, o.user, o.arch = os.Getuid(), os.Getenv("USER"), runtime.GOARCH
	o.run, o.look, o.confined = output, lookPath, confine.Probe
	o.switches = confine.MaySwitchUsers()
	return o.checks(ctx)
}

// Failed reports whether any check failed.
func Failed(checks []Check) bool {
	for _, c := range checks {
		if c.Status == Fail {
			return true
		}
	}
	return false
}

func (o Options) checks(ctx context.Context) []Check {
	var out []Check
	add := func(cs ...Check) { out = append(out, cs...) }
	add(o.release(), o.qemu(ctx))
	for _, t := range tools {
		add(o.tool(t))
	}
	if o.uid != 0 {
		add(o.subuid())
	}
	add(o.userns(ctx), o.kvmDevice(), o.accelerator(ctx))
	add(o.dataDir()...)
	add(o.encryption(), o.cold())
	for _, a := range o.Listen {
		if a != "" && a != "off" {
			add(o.port(ctx, a))
		}
	}
	add(o.containment(ctx), o.memory(), o.cgroup(), o.yama())
	if o.Pool != "" {
		add(Check{Name: "warm pool", Status: OK, Detail: o.Pool})
	}
	add(o.images()...)
	return out
}

// output runs a program for at most 10 s and returns what it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// lookPath also finds programs in /usr/sbin, which is not in every user's PATH.
func lookPath(name string) (string, error) {
	p, err := exec.LookPath(name)
	if err == nil {
		return p, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", err
}

func install(pkg string) string { return "apt-get install -y --no-install-recommends " + pkg }

// qemu checks for version 7.2.
func (o Options) qemu(ctx context.Context) Check {
	c := Check{Name: "qemu-system-x86_64", Status: Fail, Fix: install("qemu-system-x86")}
	path, err := o.look("qemu-system-x86_64")
	if err != nil {
		c.Detail = "not installed"
		return c
	}
	text, err := o.run(ctx, path, "--version")
	if err != nil {
		c.Detail = "does not run: " + err.Error()
		return c
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "QEMU emulator version %d.%d", &major, &minor); err != nil {
		c.Detail = "says no version: " + firstLine(text)
		return c
	}
	line := strings.TrimPrefix(firstLine(text), "QEMU emulator version ")
	if major < 7 || major == 7 && minor < 2 {
		c.Detail = fmt.Sprintf("version %s; 7.2 or newer is needed", line)
		return c
	}
	return Check{Name: c.Name, Status: OK, Detail: "version " + line}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// tool is a program of the host that Warren runs.
type tool struct{ name, pkg, need string }

var tools = []tool{
	{"qemu-img", "qemu-utils", "makes and checks disks"},
	{"mmdebstrap", "mmdebstrap", "builds images"},
	{"newuidmap", "uidmap", "builds images without root"},
	{"mke2fs", "e2fsprogs", "builds images"},
	{"git", "git", "hosts repositories"},
}

func (o Options) tool(t tool) Check {
	path, err := o.look(t.name)
	if err != nil {
		status := Fail
		if t.name == "git" || t.name == "newuidmap" && o.uid == 0 {
			status = Warn
		}
		return Check{Name: t.name, Status: status, Detail: "not installed; " + t.need, Fix: install(t.pkg)}
	}
	return Check{Name: t.name, Status: OK, Detail: path}
}

// subuid checks for a range of user ids for builds without root.
func (o Options) subuid() Check {
	c := Check{Name: "subordinate ids", Status: OK}
	for _, file := range []string{"subuid", "subgid"} {
		data, _ := os.ReadFile(filepath.Join(o.root, "/etc", file)) // absent = no range
		found := ""
		for _, line := range strings.Split(string(data), "\n") {
			f := strings.Split(strings.TrimSpace(line), ":")
			if len(f) == 3 && (f[0] == o.user || f[0] == fmt.Sprint(o.uid)) {
				found = f[1] + "+" + f[2]
			}
		}
		if found == "" {
			return Check{
				Name: c.Name, Status: Fail, Detail: fmt.Sprintf("/etc/%s has no range for %s; images cannot be built without one", file, o.user),
				Fix: fmt.Sprintf("usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s", o.user),
			}
		}
		c.Detail = strings.TrimPrefix(c.Detail+", "+file+" "+found, ", ")
	}
	return c
}

// userns tries to make a user namespace.
func (o Options) userns(ctx context.Context) Check {
	c := Check{Name: "user namespaces", Status: OK, Detail: "usable"}
	text, err := o.run(ctx, "unshare", "--user", "--map-root-user", "true")
	if err == nil {
		return c
	}
	c.Status, c.Detail = Fail, "refused: "+firstLine(text)
	if o.uid == 0 {
		c.Status = Warn
	}
	switch {
	case o.sysctl("kernel/unprivileged_userns_clone") == "0":
		c.Fix = "sysctl -w kernel.unprivileged_userns_clone=1"
	case o.sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		c.Fix = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case o.sysctl("user/max_user_namespaces") == "0":
		c.Fix = "sysctl -w user.max_user_namespaces=10000"
	default:
		c.Fix = "build images as root, or outside of the container that forbids it"
	}
	return c
}

// sysctl returns the value of a kernel setting, "" when it is absent.
func (o Options) sysctl(name string) string {
	data, _ := os.ReadFile(filepath.Join(o.root, "/proc/sys", name)) // absent = ""
	return strings.TrimSpace(string(data))
}

func (o Options) kvmDevice() Check {
	c := Check{Name: "/dev/kvm", Status: Warn}
	path := filepath.Join(o.root, "/dev/kvm")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case err == nil:
		_ = f.Close() // nothing was written
		return Check{Name: c.Name, Status: OK, Detail: "can be opened"}
	case os.IsNotExist(err):
		c.Detail = "not there: no hardware virtualisation, or not offered to this host"
		c.Fix = "switch on virtualisation in the firmware, or nested virtualisation for this machine"
	case os.IsPermission(err):
		c.Detail = "may not be opened by " + o.user
		c.Fix = "usermod --append --groups kvm " + o.user + " (and log in again)"
	default:
		c.Detail = "cannot be opened: " + err.Error()
	}
	return c
}

// Emulated is the warning wherever a machine runs, or would run, under TCG.
const Emulated = "emulated: not an isolation boundary"

func (o Options) accelerator(ctx context.Context) Check {
	c := Check{Name: "accelerator", Status: Warn}
	if o.Probe == nil {
		c.Detail = "not probed"
		return c
	}
	accel, tried, took, err := o.Probe(ctx)
	what := strings.Join(tried, "; ")
	if err != nil {
		c.Status, c.Detail = Fail, strings.TrimPrefix(what+": "+err.Error(), ": ")
		if vm.KindOf(err) == vm.NotFound {
			c.Status = Warn // no image to probe with yet
		}
		if e := vm.AsError(err); e.Hint != "" {
			c.Fix = e.Hint
		}
		return c
	}
	c.Detail = fmt.Sprintf("%s (%s, %.1f s)", accel, what, took.Seconds())
	if accel == vm.TCG {
		c.Detail = Emulated + "; " + c.Detail
		c.Fix = "use a host whose KVM boots a stock kernel; `warren serve --require-kvm` refuses to run on others"
		return c
	}
	c.Status = OK
	return c
}

// port tries to listen.
func (o Options) port(ctx context.Context, addr string) Check {
	c := Check{Name: "port " + addr, Status: OK, Detail: "free"}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		err = l.Close()
	}
	switch {
	case err == nil:
	case o.Serving:
		c.Detail = "in use by a Warren server"
	default:
		c.Status, c.Detail = Fail, "cannot be listened on: "+err.Error()
		c.Fix = "give `warren serve` another address, or end what uses it (ss -ltnp)"
	}
	return c
}
