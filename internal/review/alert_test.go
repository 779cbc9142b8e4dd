// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// A planted rm -rf, a changed git configuration, a leaked key and a new unit are alerts,
// although the review asks for nothing and npm made much noise. // 000-49
func TestAlerts(t *testing.T) {
	was, now := map[string]string{"work/keep": "x"}, map[string]string{"work/keep": "x"}
	for i := range 40 {
		was[fmt.Sprintf("work/src/pkg%d/main.go", i)] = strings.Repeat("package main\n", 10)
		now[fmt.Sprintf("work/node_modules/p%d/index.js", i)] = "x"
	}
	head := "ref: refs/heads/main\n"
	for _, m := range []map[string]string{was, now} {
		m["work/.git/HEAD"], m["work/.git/refs/"], m["work/.git/objects/"] = head, "", ""
		m["work/.git/config"] = "[core]\n\tbare = false\n"
		m["work/big.md"] = strings.Repeat("line\n", 400)
		m["work/many.txt"] = strings.Repeat("line\n", 40)
		m["etc/passwd"] = "root:x:0:0:root:/root:/bin/bash\n"
	}
	key := "AK" + "IA" + strings.Repeat("Q7ZX", 4)
	now["work/.git/config"] = "[core]\n\tbare = false\n[alias]\n\tst = !id\n"
	now["work/.env"] = "A=1\nKEY=" + key + "\n"
	now["etc/systemd/system/evil.service"] = "[Service]\nExecStart=/opt/evil --now\n"
	now["etc/systemd/system/multi-user.target.wants/evil.service"] = "-> ../evil.service"
	now["etc/cron.d/evil"] = "* * * * * root /opt/evil\n"
	now["etc/passwd"] = "root:x:0:0:root:/root:/bin/bash\nbob:x:0:0::/home/bob:/bin/sh\n"
	now["work/out"] = "-> /etc/shadow"
	now["work/big.md"] = "# stub\n"
	now["work/inv.py"] = "access\u202e = 1\n"
	now["work/a\nb"] = "x"
	d := both(t, was, now, review.Options{Hunks: true})
	wantAlert(t, d, "deleted-tree", "40 files deleted", "/work/src")
	wantAlert(t, d, "git-config", "/work/.git/config")
	wantAlert(t, d, "secret", "AWS access key in /work/.env line 2")
	wantAlert(t, d, "starts-by-itself", "/etc/cron.d/evil", "/etc/systemd/system/evil.service")
	wantAlert(t, d, "rights", "/etc/passwd")
	wantAlert(t, d, "link-outside", "/work/out")
	wantAlert(t, d, "content-lost", "/work/big.md")
	wantAlert(t, d, "invisible-text", "/work/inv.py")
	wantAlert(t, d, "odd-name", `"/work/a\nb"`)
	if c := changeOf(t, d, "/work/.env"); strings.Contains(c.Hunks, key) || !strings.Contains(c.Hunks, "[masked: AWS access key]") || len(c.Secrets) != 1 {
		t.Errorf("a leaked key is shown as %q, with %+v", c.Hunks, c.Secrets)
	}
	if text := fmt.Sprintf("%+v", d); strings.Contains(text, key) {
		t.Error("the key stands somewhere in the report")
	}
	system := fmt.Sprintf("%+v", d.System)
	for _, want := range []string{"Kind:unit Verb:added Name:evil.service", "ExecStart=/opt/evil --now", "enabled for multi-user.target", "Kind:cron Verb:added Name:/etc/cron.d/evil", "Kind:user Verb:added Name:bob Was: Now:uid 0"} {
		if !strings.Contains(system, want) {
			t.Errorf("the system's changes lack %q: %s", want, system)
		}
	}
}

// A small directory that is gone with its files is an alert; single files that are gone
// are not.
func TestSmallTreeDeleted(t *testing.T) {
	was := map[string]string{"work/keep": "x", "work/a": "a", "work/b": "b", "work/one/c": "c"}
	for _, name := range []string{"1", "2", "sub/3"} {
		was["work/docs/"+name] = "text\n"
	}
	d := both(t, was, map[string]string{"work/keep": "x"}, review.Options{})
	wantAlert(t, d, "deleted-tree", "3 files deleted: 3 (15 B) with the directory /work/docs")
	for _, a := range d.Alerts {
		if a.Kind == "deleted-tree" && len(a.Paths) != 1 {
			t.Errorf("the alert names %q, want the directory alone", a.Paths)
		}
	}
}

// Ordinary work of an agent is no alert.
func TestNoAlerts(t *testing.T) {
	d := both(t,
		map[string]string{"work/app.py": "a = 1\nb = 2\n", "work/README.md": "# x\n", "root/.bash_history": "ls\n", "work/old.py": "x = 1\n"},
		map[string]string{
			"work/app.py": "a = 1\nb = 3\nc = 4\n", "work/README.md": "# x\n\nMore.\n", "root/.bash_history": "ls\npytest\n", "work/test_app.py": "def test(): pass\n",
			"work/run.sh": "#!/bin/sh\npython app.py\n", "work/link": "-> app.py", "root/.cache/pip/x": "y", "work/__pycache__/app.pyc": "\x00\x01", "var/log/x.log": "started\n",
		}, review.Options{Hunks: true})
	if list := formatted(d); len(list) > 0 {
		t.Errorf("the alerts are %+v", list)
	}
}

// formatted are a diff's alerts without what two runs of mke2fs do: their reserved inodes
// have other times.
func formatted(d *vm.Diff) []vm.Alert {
	return slices.DeleteFunc(slices.Clone(d.Alerts), func(a vm.Alert) bool { return a.Kind == "reserved-inodes" })
}

// Packages that came are named, and their files are counted and not listed.
func TestReportPackages(t *testing.T) {
	status := "Package: base\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0\n\n"
	now := map[string]string{
		"var/lib/dpkg/status":         status + "Package: tool\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.0-1\n\n",
		"var/lib/dpkg/info/tool.list": "/.\n/usr\n/usr/bin\n/usr/bin/tool\n/usr/share/tool/a\n",
		"usr/bin/tool":                "#!/bin/sh\n", "usr/share/tool/a": "a", "usr/bin/other": "#!/bin/sh\n",
		"usr/lib/python3/dist-packages/requests-2.31.0.dist-info/METADATA": "x",
	}
	d := both(t, map[string]string{"var/lib/dpkg/status": status, "usr/bin/base": "#!/bin/sh\n"}, now, review.Options{})
	for _, want := range []vm.SystemChange{
		{Kind: "package", Verb: vm.FileAdded, Name: "tool", Now: "2.0-1"},
		{Kind: "package", Verb: vm.FileAdded, Name: "pip requests", Now: "2.31.0"},
	} {
		if text := fmt.Sprintf("%+v", d.System); !strings.Contains(text, fmt.Sprintf("%+v", want)) {
			t.Errorf("the system's changes lack %+v: %s", want, text)
		}
	}
	if listed(d, "/usr/share/tool/a") || listed(d, "/usr/bin/tool") {
		t.Error("files of a package are listed")
	}
	if !listed(d, "/usr/bin/other") {
		t.Error("a program that no package has is not listed")
	}
	wantAlert(t, d, "path-program", "/usr/bin/other")
}

// Ports and processes are compared by program, and marked as the guest's word.
func TestLive(t *testing.T) {
	port := func(p int, command string) vm.GuestPort {
		return vm.GuestPort{ListeningPort: vm.ListeningPort{Proto: "tcp", Address: "0.0.0.0", Port: p, PID: p, Command: command}}
	}
	process := func(pid int, command string) vm.GuestProcess {
		return vm.GuestProcess{SystemProcess: vm.SystemProcess{PID: pid, User: "root", Command: command}}
	}
	was := &vm.GuestState{Ports: []vm.GuestPort{port(80, "nginx")}, Processes: []vm.GuestProcess{process(10, "nginx")}}
	now := &vm.GuestState{
		Ports: []vm.GuestPort{port(80, "nginx"), port(4444, "nc -l")}, Processes: []vm.GuestProcess{process(77, "nginx"), process(78, "nc -l")},
		Mounts: []vm.GuestMount{{Path: "/", Type: "ext4"}, {Path: "/work", Type: "tmpfs", Total: 1 << 30, Free: 1 << 29}},
	}
	d := &vm.Diff{Workdir: "/work"}
	review.AddLive(d, was, now)
	want := []vm.SystemChange{
		{Kind: "port", Verb: vm.FileAdded, Name: "tcp 0.0.0.0 port 4444", Now: "nc -l", Guest: true},
		{Kind: "process", Verb: vm.FileAdded, Name: "nc -l (root)", Now: "1 process", Guest: true},
	}
	if fmt.Sprint(d.System) != fmt.Sprint(want) {
		t.Errorf("the changes are %+v, want %+v", d.System, want)
	}
	wantAlert(t, d, "hidden-by-mount", "/work")
	without := &vm.Diff{}
	review.AddLive(without, nil, now)
	if text := strings.Join(without.NotCompared, ";"); !strings.Contains(text, "the older state was recorded without them") {
		t.Errorf("what is not compared is %q", text)
	}
}
