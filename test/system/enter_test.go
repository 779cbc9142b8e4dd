//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/vmtest"
)

// TestEnter: one VM grows from a place where a command runs to a workspace: a
// service, a terminal, users, a network policy, a name of its own in the
// browser, a person by SSH. Each of it is there together, and after a sleep.
//
// 000-34, 000-37, 001-10, 002-08, 002-14, 002-19, 002-40
func TestEnter(t *testing.T) {
	t.Parallel()
	ssh, web := vmtest.FreePort(t), vmtest.FreePort(t)
	h := newHost(t, "--ssh", ssh, "--preview", web)
	h.ok("up", "--name", "box")
	if got := h.sh("box", "echo $((6*7))"); got != "42" {
		t.Fatalf("a command: %q", got)
	}
	h.ok("service", "add", "box", "web", "--workdir", "/srv", "--", "python3", "-m", "http.server", "3000")
	h.sh("box", "useradd --create-home alice && echo grown > /srv/index.html")
	h.sh("box", "mkdir -p /tmp/p/DEBIAN /tmp/p/usr/bin && printf '#!/bin/sh\necho installed\n' > /tmp/p/usr/bin/installed && chmod +x /tmp/p/usr/bin/installed && "+
		"printf 'Package: installed\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n' > /tmp/p/DEBIAN/control && dpkg-deb -b /tmp/p /tmp/p.deb && apt-get install -y /tmp/p.deb")
	h.ok("pty", "box", "--session", "work", "-d")
	h.ok("pty", "send", "box", "work", "--wait", "1", "cd /srv; half=done")
	h.ok("net", "set", "box", "packages")
	h.ok("domain", "map", "grown.warren.localhost", "box", "3000", "--public")

	s := &shown{host: h, t: t, addr: web, ca: x509.NewCertPool()}
	_, s.port, _ = net.SplitHostPort(web)
	s.ca.AppendCertsFromPEM([]byte(h.ok("ca", "print")))
	key := filepath.Join(t.TempDir(), "id")
	o := &openssh{h: h, addr: ssh, env: h.environ(), config: filepath.Join(t.TempDir(), "config")}
	_, o.port, _ = net.SplitHostPort(ssh)
	o.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	h.ok("identity", "create", "ann")
	h.ok("identity", "key", "add", "ann", key+".pub")
	h.ok("identity", "grant", "ann", "box", "--user", "alice")

	together := func() {
		t.Helper()
		// In the VM and not on the host: its kernel, and none of the host's files.
		const kernel = "/proc/sys/kernel/random/boot_id"
		boot := h.sh("box", "cat "+kernel)
		out := o.must(append(append([]string{"ssh", "-i", key}, o.direct()...), "box+alice@127.0.0.1", "id -un; curl -s localhost:3000/; installed; cat "+kernel+"; test -e "+h.data+" || echo apart")...)
		if here, err := os.ReadFile(kernel); err != nil || strings.TrimSpace(string(here)) == boot || out != "alice\ngrown\ninstalled\n"+boot+"\napart\n" {
			t.Errorf("by SSH: %q, the VM's kernel is %s, %v", out, boot, err)
		}
		if resp, body := s.get(s.client(true), s.url("grown", "/")); resp.StatusCode != 200 || body != "grown\n" {
			t.Errorf("by its name: %d %q", resp.StatusCode, body)
		}
		if got := h.ok("pty", "send", "box", "work", "--wait", "1", "echo $half in $PWD"); !strings.Contains(got, "done in /srv") {
			t.Errorf("by its terminal: %q", got)
		}
		h.ok("state", "box", "--expect", "service:web", "--expect", "port:3000", "--expect", "file:/srv/index.html")
		if got := h.ok("net", "show", "box"); !strings.Contains(got, "packages") {
			t.Errorf("the network: %s", got)
		}
	}
	h.eventually("the service listens", func() bool { return h.run("state", "box", "--expect", "port:3000").code == 0 })
	together()
	h.noKeys("box", key+".pub")
	h.ok("suspend", "box") // SSH wakes it
	together()
	h.ok("stop", "box")
	out := o.must(append(append([]string{"ssh", "-i", key}, o.direct()...), "box+alice@127.0.0.1", "cat /srv/index.html")...)
	if out != "grown\n" {
		t.Errorf("SSH starts a stopped VM: %q", out)
	}
}

// noKeys wants that of what let people and the API in nothing is in the guest:
// neither the server's key nor the person's, which nobody gave it.
func (h *host) noKeys(name, public string) {
	h.t.Helper()
	admin, err1 := os.ReadFile(filepath.Join(h.data, "admin.key"))
	person, err2 := os.ReadFile(public)
	if err := errors.Join(err1, err2); err != nil {
		h.t.Fatal(err)
	}
	h.sh(name, "echo planted-to-be-found > /var/tmp/planted")
	patterns := strings.TrimSpace(string(admin)) + "\n" + strings.Fields(string(person))[1] + "\nplanted-to-be-found\n"
	got := h.runIn("", []byte(patterns), "exec", name, "-i", "--", "grep", "-rlFsf", "-", "/etc", "/home", "/root", "/run", "/srv", "/tmp", "/usr/local", "/var")
	if got.stdout != "/var/tmp/planted\n" {
		h.t.Errorf("keys are in the guest: %s", got)
	}
}
