// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func ptr[T any](v T) *T { return &v }

// TestRenderUnit holds every member of a unit against its line.
func TestRenderUnit(t *testing.T) {
	for name, c := range map[string]struct {
		unit vm.Unit
		want string
	}{
		"service": {
			vm.Unit{Name: "web", Exec: []string{"/usr/bin/prepare", "node server.js --date=%s"}},
			"[Unit]\nDescription=web\n\n[Service]\nType=exec\nEnvironmentFile=-/run/warren/env\nExecStartPre=/usr/bin/prepare\nExecStart=node server.js --date=%%s\n\n[Install]\nWantedBy=multi-user.target\n",
		},
		"run command": {
			vm.Unit{
				Name: "run-2", Mode: "oneshot", DeleteAfterSuccess: ptr(true), Workdir: ptr("/root"), Env: map[string]string{"HOME": "/root"},
				Exec: []string{"/bin/bash /opt/run-2.sh"}, After: []string{"run-1"}, Requires: []string{"run-1"},
			},
			"[Unit]\nDescription=run-2\nAfter=run-1.service\nRequires=run-1.service\n\n[Service]\nType=oneshot\nEnvironmentFile=-/run/warren/env\nWorkingDirectory=/root\nEnvironment=\"HOME=/root\"\n" +
				"RemainAfterExit=yes\nTimeoutStartSec=infinity\nExecStart=/bin/bash /opt/run-2.sh\n" +
				"ExecStartPost=+/bin/rm -f \"/etc/systemd/system/run-2.service\" \"/etc/systemd/system/multi-user.target.wants/run-2.service\"\n\n[Install]\nWantedBy=multi-user.target\n",
		},
		"everything": {
			vm.Unit{
				Name: "all.service", Exec: []string{"a"}, Env: map[string]string{"B": "two\nlines \"and\" \\ 100% $X", "A": "1"}, User: ptr("ann"), Group: ptr("crew"),
				OnFailure: []string{"alarm"}, WantedBy: []string{"a.target", "b"}, TimeoutSec: ptr(0.0), RemainAfterExit: ptr(false), ReadySignal: ptr(true),
				WatchdogSec:   ptr(2.5),
				RestartPolicy: &vm.RestartPolicy{Policy: "on-failure", RestartSec: ptr(1.0), StartLimitBurst: ptr(3), StartLimitIntervalSec: ptr(60.0)},
			},
			"[Unit]\nDescription=all\nOnFailure=alarm.service\nStartLimitBurst=3\nStartLimitIntervalSec=60\n\n[Service]\nType=notify\nNotifyAccess=all\nEnvironmentFile=-/run/warren/env\nUser=ann\nGroup=crew\n" +
				"Environment=\"A=1\"\nEnvironment=\"B=two\\nlines \\\"and\\\" \\\\ 100%% $X\"\nTimeoutSec=infinity\nWatchdogSec=2.5\nRestart=on-failure\nRestartSec=1\nRemainAfterExit=no\n" +
				"ExecStart=a\n\n[Install]\nWantedBy=a.target b.service\n",
		},
		"several lines": {
			vm.Unit{Name: "s", Mode: "oneshot", TimeoutSec: ptr(5.0), Exec: []string{"cd /x\necho \"$HOME\" 5%", "second"}},
			"[Unit]\nDescription=s\n\n[Service]\nType=oneshot\nEnvironmentFile=-/run/warren/env\nTimeoutSec=5\nRemainAfterExit=yes\nExecStart=/bin/bash -c \"cd /x\\necho \\\"$$HOME\\\" 5%%\"\nExecStart=second\n\n[Install]\nWantedBy=multi-user.target\n",
		},
		"backslash at the end": {
			vm.Unit{Name: "s", Exec: []string{`echo \`}},
			"[Unit]\nDescription=s\n\n[Service]\nType=exec\nEnvironmentFile=-/run/warren/env\nExecStart=/bin/bash -c \"echo \\\\\"\n\n[Install]\nWantedBy=multi-user.target\n",
		},
	} {
		if err := CheckUnit(c.unit, false); err != nil {
			t.Errorf("the unit with %s is refused: %v", name, err)
		}
		if got := RenderUnit(c.unit); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, c.want)
		}
	}
}

// TestRenderPatch: only what a patch names is overridden, and commands are
// replaced, not added to.
func TestRenderPatch(t *testing.T) {
	u := vm.Unit{Name: "ssh", Env: map[string]string{"A": "1"}}
	if err := CheckUnit(u, true); err != nil {
		t.Fatal(err)
	}
	if got, want := RenderPatch(u), "[Unit]\n\n[Service]\nEnvironment=\"A=1\"\n"; got != want {
		t.Errorf("the patch is %q, want %q", got, want)
	}
	u = vm.Unit{Name: "ssh", Exec: []string{"/usr/sbin/sshd -D"}, WantedBy: []string{"x.target"}}
	if got, want := RenderPatch(u), "[Unit]\n\n[Service]\nExecStartPre=\nExecStart=\nExecStart=/usr/sbin/sshd -D\n\n[Install]\nWantedBy=x.target\n"; got != want {
		t.Errorf("the patch is %q, want %q", got, want)
	}
	if got := PatchPath("ssh"); got != "/etc/systemd/system/ssh.service.d/50-warren.conf" {
		t.Errorf("the patch is at %s, want 50-warren.conf in the unit's .d directory", got)
	}
}

// TestNoUnitEscapesItsLine: no text of a caller's begins a line of a unit file.
func TestNoUnitEscapesItsLine(t *testing.T) {
	evil := "x\nExecStartPost=/evil"
	for name, u := range map[string]vm.Unit{
		"exec":    {Name: "u", Exec: []string{evil}},
		"env":     {Name: "u", Exec: []string{"a"}, Env: map[string]string{"K": evil}},
		"env key": {Name: "u", Exec: []string{"a"}, Env: map[string]string{evil: "v"}},
		"user":    {Name: "u", Exec: []string{"a"}, User: ptr(evil)},
		"group":   {Name: "u", Exec: []string{"a"}, Group: ptr(evil)},
		"workdir": {Name: "u", Exec: []string{"a"}, Workdir: ptr("/" + evil)},
		"name":    {Name: evil, Exec: []string{"a"}},
		"after":   {Name: "u", Exec: []string{"a"}, After: []string{evil}},
		"wanted":  {Name: "u", Exec: []string{"a"}, WantedBy: []string{evil}},
		"restart": {Name: "u", Exec: []string{"a"}, RestartPolicy: &vm.RestartPolicy{Policy: evil}},
		"mode":    {Name: "u", Exec: []string{"a"}, Mode: evil},
	} {
		if CheckUnit(u, false) != nil {
			continue
		}
		for line := range strings.SplitSeq(RenderUnit(u), "\n") {
			if strings.HasPrefix(line, "ExecStartPost") {
				t.Errorf("%s: the accepted unit adds the line %q", name, line)
			}
		}
	}
}

func TestUnitRefusals(t *testing.T) {
	ok := []string{"true"}
	for _, c := range []struct {
		unit vm.Unit
		code string
	}{
		{vm.Unit{Exec: ok}, "SERVICE_NAME_EMPTY"},
		{vm.Unit{Name: "a/b", Exec: ok}, "SERVICE_NAME_INVALID_CHARS"},
		{vm.Unit{Name: "a b", Exec: ok}, "SERVICE_NAME_INVALID_CHARS"},
		{vm.Unit{Name: "ü", Exec: ok}, "SERVICE_NAME_INVALID_CHARS"},
		{vm.Unit{Name: ".a", Exec: ok}, "SERVICE_NAME_INVALID_PREFIX"},
		{vm.Unit{Name: "-a", Exec: ok}, "SERVICE_NAME_INVALID_PREFIX"},
		{vm.Unit{Name: strings.Repeat("a", 250), Exec: ok}, "SERVICE_NAME_TOO_LONG"},
		{vm.Unit{Name: "a.timer", Exec: ok}, "INVALID_REQUEST"},
		{vm.Unit{Name: "a"}, "EXEC_EMPTY"},
		{vm.Unit{Name: "a", Exec: []string{"  "}}, "EXEC_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, Env: map[string]string{"": "x"}}, "ENV_KEY_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, Env: map[string]string{"a=b": "x"}}, "ENV_KEY_CONTAINS_EQUALS"},
		{vm.Unit{Name: "a", Exec: ok, After: []string{""}}, "AFTER_ARRAY_CONTAINS_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, Requires: []string{""}}, "REQUIRES_ARRAY_CONTAINS_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, OnFailure: []string{""}}, "ON_FAILURE_ARRAY_CONTAINS_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, WantedBy: []string{}}, "WANTED_BY_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, WantedBy: []string{""}}, "WANTED_BY_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, User: ptr("")}, "USER_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, Group: ptr(" ")}, "GROUP_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, Workdir: ptr("")}, "WORKDIR_EMPTY"},
		{vm.Unit{Name: "a", Exec: ok, Workdir: ptr("rel")}, "INVALID_REQUEST"},
		{vm.Unit{Name: "a", Exec: ok, TimeoutSec: ptr(-1.0)}, "INVALID_REQUEST"},
		{vm.Unit{Name: "a", Exec: ok, Mode: "oneshot", RestartPolicy: &vm.RestartPolicy{Policy: "always"}}, "INVALID_REQUEST"},
	} {
		err := CheckUnit(c.unit, false)
		if vm.KindOf(err) != vm.Invalid || vm.AsError(err).Code != c.code {
			t.Errorf("%+v: %v, code %q, want %s", c.unit, err, vm.AsError(err).Code, c.code)
		}
	}
}

func TestReadSystemd(t *testing.T) {
	got := ParseShow("Id=a.service\nActiveState=failed\nSubState=failed\nLoadState=loaded\nDescription=A = b\nUnitFileState=enabled\n\nId=b.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nDescription=b.service\n")
	if len(got) != 2 || got[0] != (vm.UnitStatus{Name: "a.service", ActiveState: "failed", SubState: "failed", LoadState: "loaded", Description: "A = b", Enabled: "enabled"}) || got[1].LoadState != "not-found" {
		t.Errorf("the properties are read as %+v, want the failed a.service and b.service, which is not found", got)
	}
	list, err := ParseUnits([]byte(`[{"unit":"a.service","load":"loaded","active":"active","sub":"running","description":"A"},{"unit":"x.service","load":"not-found","active":"inactive","sub":"dead","description":"x"}]`))
	if err != nil || len(list) != 1 || list[0].Name != "a.service" || list[0].SubState != "running" {
		t.Errorf("the units are read as %+v (%v), want the running a.service alone", list, err)
	}
	if _, err := ParseUnits([]byte("no")); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("no JSON: %v", err)
	}
	logs := ParseJournal([]byte(`{"MESSAGE":"one","__REALTIME_TIMESTAMP":"1700000000000001","PRIORITY":"6","_SYSTEMD_UNIT":"a.service"}
broken
{"MESSAGE":[104,105,255],"__REALTIME_TIMESTAMP":"1700000000000002","_SYSTEMD_UNIT":"init.scope","UNIT":"a.service"}
{"MESSAGE":null,"__REALTIME_TIMESTAMP":"1700000000000003"}
`))
	if len(logs) != 3 || logs[0].Message != "one" || *logs[0].Priority != 6 || logs[0].Timestamp.UnixMicro() != 1700000000000001 ||
		logs[1].Message != "hi�" || logs[1].Unit != "a.service" || logs[2].Message != "" {
		t.Errorf("the journal is read as %+v, want its three well-formed entries", logs)
	}
}

func TestSince(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "2026-01-31T12:00:00Z": "@1769860800", "1769860800": "@1769860800", "1769860800123": "@1769860800",
		"10 min ago": "10 min ago", "-1h": "-1h", "2026-01-31 12:00:00": "2026-01-31 12:00:00", "yesterday": "yesterday",
	} {
		if got, err := Since(in); err != nil || got != want {
			t.Errorf("since %q is %q (%v), want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"soon", "-1h; rm", "@1", "-5"} {
		if got, err := Since(in); err == nil {
			t.Errorf("%q is taken as %q", in, got)
		}
	}
}
