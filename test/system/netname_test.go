// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// reach says whether the guest gets an answer from a URL.
func (h *host) reach(name, url string) string {
	h.t.Helper()
	return h.sh(name, "curl -s -o /dev/null --max-time 30 "+url+" && echo reached || echo refused")
}

// archive is the URL of the first archive of packages that the guest's apt uses.
func (h *host) archive(name string) string {
	h.t.Helper()
	return h.sh(name, `grep -rhoE 'https?://[^ ]+' /etc/apt/sources.list.d /etc/apt/sources.list 2>/dev/null | head -n 1`)
}

// network is what `net show --json` says.
func (h *host) network(name string) (n api.Network) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.ok("net", "show", name, "--json")), &n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// TestNetByName: a VM with a closed network is opened by name while it runs, and closed
// again; the package managers work through it.
func TestNetByName(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "box", "--net", "closed", "--idle", "never")
	archive := h.archive("box")
	t.Run("open by name", func(t *testing.T) { in(h, t).netOpened(archive) })
	t.Run("named policy", func(t *testing.T) { in(h, t).netNamed(archive) })
	t.Run("tightened", func(t *testing.T) { in(h, t).netTightened(archive) })
	t.Run("kept", func(t *testing.T) { in(h, t).netKept(archive) })
	t.Run("apt", func(t *testing.T) { in(h, t).netApt(archive) })
	t.Run("pip", func(t *testing.T) { in(h, t).netPip() })
	t.Run("cargo", func(t *testing.T) { in(h, t).netCargo() })
	t.Run("npm", func(t *testing.T) { in(h, t).netNPM() })
}

// in is the host for a subtest.
func in(h *host, t *testing.T) *host {
	t.Helper()
	own := *h
	own.t = t
	return &own
}

// netOpened: a refusal is logged and explained, and the command of the explanation opens
// that host at once, and no other.
func (h *host) netOpened(archive string) {
	t := h.t
	if got := h.reach("box", archive); got != "refused" {
		t.Errorf("with a closed network %s is %s", archive, got)
	}
	if r := h.run("net", "check", "box", archive); r.code != api.ExitCode(vm.Errorf(vm.Denied, "", "")) {
		t.Errorf("net check of what is refused: %s", r)
	}
	var log []vm.Connection
	if err := json.Unmarshal([]byte(h.ok("net", "log", "box", "--refused", "--json")), &log); err != nil || len(log) == 0 || log[0].How != vm.NetRefused {
		t.Fatalf("net log has %+v (%v), want a refused connection", log, err)
	}
	said := h.ok("net", "explain", "box")
	command := regexp.MustCompile(`to allow it: warren (net allow box \S+)\n`).FindStringSubmatch(said)
	if command == nil {
		t.Fatalf("net explain names no command: %s", said)
	}
	h.ok(strings.Fields(command[1])...)
	if got := h.reach("box", archive); got != "reached" {
		t.Errorf("after `%s` %s is %s", command[1], archive, got)
	}
	if got := h.reach("box", "https://example.com"); got != "refused" {
		t.Errorf("after `%s` another host is %s", command[1], got)
	}
	if r := h.run("net", "check", "box", archive); r.code != 0 {
		t.Errorf("net check of what is allowed: %s", r)
	}
	rules := h.network("box").Rules
	if len(rules) != 1 {
		t.Fatalf("the VM has the rules %+v, want one", rules)
	}
	if log := h.ok("net", "log", "box"); !strings.Contains(log, vm.NetPassed) || !strings.Contains(log, rules[0].ID) {
		t.Errorf("net log shows no connection that the rule %s let through: %s", rules[0].ID, log)
	}
	h.ok("net", "rm", "box", rules[0].ID)
	if got := h.reach("box", archive); got != "refused" {
		t.Errorf("after net rm %s is %s", archive, got)
	}
}

// netNamed: a change of a named policy reaches the VM that uses it, and the policy cannot
// be removed meanwhile.
func (h *host) netNamed(archive string) {
	t := h.t
	h.ok("policy", "set", "ci", "a.example.com")
	h.ok("net", "set", "box", "ci")
	if got := h.reach("box", archive); got != "refused" {
		t.Errorf("with a policy for another host %s is %s", archive, got)
	}
	h.ok("policy", "set", "ci", "a.example.com", hostOf(archive))
	if got := h.reach("box", archive); got != "reached" {
		t.Errorf("after a change of its policy %s is %s", archive, got)
	}
	if r := h.run("policy", "rm", "ci"); r.code == 0 || !strings.Contains(r.stderr, "box") {
		t.Errorf("policy rm of one in use: %s", r)
	}
	h.ok("net", "set", "box", "closed")
	h.ok("policy", "rm", "ci")
}

// hostOf is the host of a URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// TestNetLast: a connection that is open when its VM ends has a record, whoever ends the VM,
// and also if the server is away.
func TestNetLast(t *testing.T) {
	h := newHost(t)
	for _, c := range []struct {
		name string
		end  func(id string)
	}{
		{"removed", func(id string) { h.ok("rm", id) }},
		{"switched off by its guest", func(id string) {
			h.run("exec", id, "--", "sh", "-c", "echo o > /proc/sysrq-trigger; sleep 60")
		}},
		{"killed while the server is away", func(id string) {
			h.stopServer()
			if err := syscall.Kill(h.pidOf(id, "qemu"), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			h.eventually("its monitor has ended", func() bool { return h.livePid(id, "monitor") == 0 })
			h.serve()
		}},
	} {
		id := strings.TrimSpace(h.ok("up", "-d", "--net", "open"))
		archive := h.archive(id)
		job := strings.TrimSpace(h.ok("exec", "-d", id, "--", "python3", "-u", "-c", halfRead, archive))
		h.eventually("the guest has an open connection", func() bool { return h.run("logs", id, job).stdout == "open\n" })
		c.end(id)
		var list []vm.AuditRecord
		h.eventually(c.name+": the connection has a record", func() bool {
			if err := json.Unmarshal([]byte(h.ok("audit", "ls", "--json", "--vm", id, "--verb", "connection")), &list); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(list, func(r vm.AuditRecord) bool { return strings.HasPrefix(r.Subject, "tcp "+hostOf(archive)) })
		})
	}
}

// halfRead begins a download, does not read on, and says when the connection is closed.
const halfRead = `
import platform, select, socket, sys, urllib.parse
u = urllib.parse.urlparse(sys.argv[1])
s = socket.create_connection((u.hostname, 80), 30)
path = u.path.rstrip("/") + "/dists/" + platform.freedesktop_os_release()["VERSION_CODENAME"] + "/main/binary-amd64/Packages.xz"
s.sendall(("GET " + path + " HTTP/1.1\r\nHost: " + u.hostname + "\r\n\r\n").encode())
s.recv(1)
print("open")
p = select.poll()
p.register(s, select.POLLRDHUP)
print("closed" if p.poll(100000) else "still open")
`

// netTightened: a change that allows less closes the open connection; a dry run says so and
// closes nothing.
func (h *host) netTightened(archive string) {
	t := h.t
	h.ok("net", "set", "box", hostOf(archive))
	id := strings.TrimSpace(h.ok("exec", "-d", "box", "--", "python3", "-u", "-c", halfRead, archive))
	output := func() string { return h.run("logs", "box", id).stdout }
	h.eventually("the guest has an open connection", func() bool { return output() == "open\n" })
	if got := h.ok("net", "set", "box", "closed", "--dry-run"); !strings.Contains(got, "would close: tcp "+hostOf(archive)) {
		t.Errorf("a dry run does not name the connection: %s", got)
	}
	if n := h.network("box"); n.Mode != vm.NetClosed || len(n.Rules) != 1 || output() != "open\n" {
		t.Errorf("a dry run changed the network to %+v, or closed the connection: %s", n, output())
	}
	var list []struct{ Cut int }
	if err := json.Unmarshal([]byte(h.ok("net", "set", "box", "closed", "--json")), &list); err != nil || len(list) != 1 || list[0].Cut != 1 {
		t.Errorf("net set --json says %+v (%v), want one connection closed", list, err)
	}
	h.eventually("the guest's connection is closed", func() bool { return output() == "open\nclosed\n" })
}

// netKept: the policy survives suspend and start; a fork has it, or a narrower one; a VM
// made from a snapshot has the default.
func (h *host) netKept(archive string) {
	t := h.t
	h.ok("net", "allow", "box", hostOf(archive))
	if r := h.run("fork", "box", "--name", "wide", "--net", "open"); r.code == 0 || !strings.Contains(r.stderr, "net allow") {
		t.Errorf("a fork with a wider network: %s", r)
	}
	h.ok("fork", "box", "--name", "same")
	h.ok("fork", "box", "--name", "narrow", "--net", "closed")
	h.ok("snapshot", "create", "box", "--name", "snap")
	h.ok("up", "snap", "--name", "made")
	h.ok("suspend", "box")
	h.ok("start", "box")
	for name, want := range map[string]string{"box": "reached", "same-1": "reached", "narrow-1": "refused", "made": "refused"} {
		if got := h.reach(name, archive); got != want {
			t.Errorf("from %s %s is %s, want %s", name, archive, got, want)
		}
	}
	h.ok("rm", "same-1", "narrow-1", "made")
}

// netApt: apt works with packages. It fetches one small list: TestPackages installs something.
func (h *host) netApt(archive string) {
	h.ok("net", "set", "box", "packages")
	h.installs("updates", `. /etc/os-release; echo "deb `+archive+` $VERSION_CODENAME-updates main" > /tmp/updates.list
		apt-get update -qq -o Dir::Etc::sourcelist=/tmp/updates.list -o Dir::Etc::sourceparts=- && ls /var/lib/apt/lists/*-updates_main_binary-amd64_Packages* > /dev/null && echo updates`)
}

// fetchPip fetches the newest pip, which runs from its wheel.
const fetchPip = `python3 -c '
import json, urllib.request
q = urllib.request.Request("https://pypi.org/simple/pip/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
wheels = [f for f in json.load(urllib.request.urlopen(q))["files"] if f["filename"].endswith(".whl") and f["filename"].split("-")[1].replace(".", "").isdigit()]
newest = max(wheels, key=lambda f: [int(n) for n in f["filename"].split("-")[1].split(".")])
urllib.request.urlretrieve(newest["url"], "/tmp/pip.whl")'`

// netPip: pip works with its index by name.
func (h *host) netPip() {
	h.ok("net", "set", "box", "packages", "pypi.org:443", "files.pythonhosted.org:443")
	h.installs("iniconfig", fetchPip+" && python3 /tmp/pip.whl/pip install -q --cert /etc/ssl/certs/ca-certificates.crt --target /tmp/lib --no-compile iniconfig && ls -d /tmp/lib/iniconfig | xargs -n 1 basename")
}

// netCargo: cargo works with its registry by name.
func (h *host) netCargo() {
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		h.t.Skip("needs a Rust toolchain on the host, which the guest borrows cargo from")
	}
	version, err := exec.Command("rustc", "-vV").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	h.ok("cp", filepath.Join(strings.TrimSpace(string(out)), "bin", "cargo"), "box:/usr/local/bin/cargo")
	h.ok("net", "set", "box", "index.crates.io:443", "static.crates.io:443")
	// To fetch, cargo asks the compiler only for its version: the 500 MiB of the compiler can stay on the host.
	h.sh("box", "printf '#!/bin/sh\\ncat <<E\\n"+strings.ReplaceAll(strings.TrimSpace(string(version)), "\n", "\\n")+"\\nE\\n' > /usr/local/bin/rustc; chmod +x /usr/local/bin/rustc")
	if got := h.sh("box", `mkdir -p /tmp/c/src && cd /tmp/c && printf '[package]\nname="c"\nversion="0.1.0"\nedition="2021"\n[dependencies]\nitoa="1"\n' > Cargo.toml && echo > src/lib.rs && cargo vendor -q >/dev/null && ls vendor`); got != "itoa" {
		h.t.Errorf("cargo fetched %q, want itoa", got)
	}
}

// netNPM: npm works with its registry by name.
func (h *host) netNPM() {
	if os.Getenv("WARREN_SOAK") == "" {
		h.t.Skip("WARREN_SOAK is not set: an emulated npm takes minutes; `make soak` runs it")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		h.t.Skip("needs Node and npm on the host, which the guest borrows")
	}
	modules, err := exec.Command("npm", "root", "-g").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	h.ok("cp", node, "box:/usr/local/bin/node")
	h.ok("cp", "-r", filepath.Join(strings.TrimSpace(string(modules)), "npm"), "box:/opt/")
	registry, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	at, err := url.Parse(strings.TrimSpace(string(registry)))
	if err != nil {
		h.t.Fatal(err)
	}
	h.ok("net", "set", "box", at.Hostname()+":443")
	h.installs("is-number", "mkdir -p /tmp/n && cd /tmp/n && node /opt/npm/bin/npm-cli.js install --no-audit --no-fund --no-update-notifier is-number@7 && ls node_modules")
}

// installs runs a package manager to its end: an emulated one takes longer than a command of
// the tests may. Its last line of output is what it installed.
func (h *host) installs(want, line string) {
	h.t.Helper()
	id := strings.TrimSpace(h.ok("exec", "-d", "box", "--", "sh", "-c", "{ "+line+"\n} 2>&1; echo status $?"))
	output := func() string { return h.run("logs", "box", id).stdout }
	for end := time.Now().Add(10 * time.Minute); !strings.Contains(output(), "status "); <-time.After(200 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("after 10 minutes %s is not installed: %s", want, output())
		}
	}
	if got := output(); !strings.HasSuffix(got, want+"\nstatus 0\n") {
		h.t.Errorf("the package manager says %q, want %s at its end", got, want)
	}
}
