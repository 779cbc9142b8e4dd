//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// fetching is a shell line that asks the guest's port 3000, until it answers.
func fetching(path string) string {
	return `for i in 1 2 3 4 5 6 7 8 9 10; do python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:3000/` + path +
		`").read().decode().strip())' 2>/dev/null && break; sleep 1; done`
}

// TestCoreService: a service is added by hand, runs, is read, comes back with a
// cold boot and is removed.
func TestCoreService(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.ok("service", "add", "box", "web", "--workdir", "/etc", "--env", `MOTTO=a "b" 5% $c`, "--", "python3", "-m", "http.server", "3000")
	fetch := fetching("hostname")
	if got := h.sh("box", fetch); got != "box" {
		t.Errorf("the service answers %q", got)
	}
	if got := h.sh("box", `tr '\0' '\n' </proc/$(systemctl show -p MainPID --value web)/environ | grep ^MOTTO`); got != `MOTTO=a "b" 5% $c` {
		t.Errorf("its environment has %q", got)
	}
	if got := h.ok("service", "logs", "box", "web"); !strings.Contains(got, "Started web.service") {
		t.Errorf("its journal: %s", got)
	}
	h.run("service", "add", "box", "web", "--", "true").wants(t, 5, "a service with this name exists")
	h.run("service", "add", "box", "bad", "--", "/no/such/program").wants(t, 12, "does not start")
	h.run("service", "rm", "box", "systemd-journald").wants(t, 9, "part of the image")
	h.ok("stop", "box")
	h.ok("start", "box")
	if got := h.sh("box", fetch); got != "box" {
		t.Errorf("after a cold boot it answers %q", got)
	}
	h.ok("service", "stop", "box", "web")
	if got := h.ok("service", "status", "box", "web"); !strings.Contains(got, "inactive") {
		t.Errorf("stopped: %s", got)
	}
	h.ok("service", "rm", "box", "web")
	h.run("service", "status", "box", "web").wants(t, 3, "no such service")
}

// TestCorePrepared: an environment is prepared once; the next VM of it starts
// with the service that the first one's layer left running, with identities
// of its own.
//
// 000-36, 004-16
func TestCorePrepared(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	c := client.New("http://"+h.listen, strings.TrimSpace(string(key)))
	yes, workdir := true, "/srv"
	layer := &api.Layer{
		LayerFiles: map[string]api.File{"/srv/index.html": {Content: "prepared"}},
		LayerUsers: []api.User{{Name: "ann"}},
		Systemd: &api.Systemd{Services: []vm.Unit{
			{Name: "web", Exec: []string{"/usr/bin/python3 -m http.server 3000"}, Workdir: &workdir, After: []string{"prepare"}, Requires: []string{"prepare"}},
			{Name: "prepare", Mode: vm.UnitOneshot, DeleteAfterSuccess: &yes, Exec: []string{"/bin/sh -c 'echo once >> /srv/log'"}},
		}},
	}
	took := map[string]time.Duration{}
	for _, name := range []string{"one", "two"} {
		begun := time.Now()
		if _, err := c.Create(t.Context(), api.CreateVM{Name: name, Spec: &api.Layer{Snapshot: layer}}); err != nil {
			t.Fatal(err)
		}
		took[name] = time.Since(begun)
		got := h.sh(name, fetching("")+`; cat /srv/log; id -u ann; ls /etc/systemd/system | grep -c prepare; true`)
		if got != "prepared\nonce\n1000\n0" {
			t.Errorf("%s was prepared as %q, want each part done once", name, got)
		}
	}
	t.Logf("first %v, second %v", took["one"], took["two"])
	if took["two"]*2 > took["one"] {
		t.Errorf("the second VM took %v, the first %v", took["two"], took["one"])
	}
	if a, b := h.sh("one", "cat /etc/machine-id"), h.sh("two", "cat /etc/machine-id"); a == b {
		t.Errorf("both have the machine-id %s", a)
	}
	bad := &api.Layer{Systemd: &api.Systemd{Services: []vm.Unit{{Name: "bad", Mode: vm.UnitOneshot, Exec: []string{"/bin/sh -c 'echo it is broken; exit 3'"}}}}}
	_, err = c.Create(t.Context(), api.CreateVM{Name: "three", Spec: bad})
	var ve *vm.Error
	if !errors.As(err, &ve) || ve.Code != "VM_SETUP_FAILED" || !strings.Contains(strings.Join(diagnosed(ve), "\n"), "it is broken") {
		t.Errorf("a unit that fails: %v, %v", err, ve)
	}
	if l := h.list(); len(l) != 2 {
		t.Errorf("%d VMs are left", len(l))
	}
}

// diagnosed are the logs of failed units that an error carries.
func diagnosed(e *vm.Error) []string {
	var logs []string
	d, _ := e.Fields["diagnostics"].(map[string]any)
	list, _ := d["failedServiceLogs"].([]any)
	for _, l := range list {
		m, _ := l.(map[string]any)
		text, _ := m["log"].(string)
		logs = append(logs, text)
	}
	return logs
}
