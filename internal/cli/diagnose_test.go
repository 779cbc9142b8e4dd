// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func aDiagnosis() vm.Diagnosis {
	return vm.Diagnosis{
		ID: "abcdefghij0123456789", Name: "box", State: vm.Running, Live: true, Seconds: 3.04,
		Findings: []vm.Finding{
			{Code: "disk-full", Severity: vm.SeverityError, Subject: "/", Says: "the file system at / has no room left", Evidence: []string{"1 KiB of 8 GiB free", "evil\x1b[2J\x1b]52;c;aGk=\x07"}, Do: "delete what is not needed"},
			{Code: "disk-low", Severity: vm.SeverityWarning, Subject: "/", Says: "the file system at / is nearly full", Evidence: []string{}, Do: "make room"},
			{Code: "terminal-waits", Severity: vm.SeverityInfo, Subject: "terminal pts/0", Says: "ssh waits", Evidence: []string{"password:"}, Do: "answer it"},
		},
		Problems: []string{"services: there is no systemctl"},
	}
}

const diagnosisPage = `box  running, observed for 3.0 s: 1 error, 1 warning, 1 info

ERROR  disk-full
  the file system at / has no room left
    1 KiB of 8 GiB free
    evil\x1b[2J\x1b]52;c;aGk=\a
  do: delete what is not needed

WARNING  disk-low
  the file system at / is nearly full
  do: make room

INFO  terminal-waits
  ssh waits
    password:
  do: answer it

NOT CHECKED
  services: there is no systemctl
`

// TestDiagnosePage: the exact page; no text of the guest controls the
// terminal; the status tells whether there is a problem.
func TestDiagnosePage(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms/box/diagnose", aDiagnosis())
	fine := aDiagnosis()
	fine.Findings, fine.Problems = fine.Findings[2:], nil
	f.on("GET /v1/vms/fine/diagnose", fine)
	fine.Findings = nil
	f.on("GET /v1/vms/none/diagnose", fine)
	asleep := vm.Diagnosis{Name: "off", State: vm.Suspended, Findings: []vm.Finding{{Code: "not-running", Severity: vm.SeverityInfo, Says: "the VM is suspended: nothing used it", Do: "start it"}}}
	f.on("GET /v1/vms/off/diagnose", asleep)
	if r := run(t, f, Local{}, "", "diagnose", "box"); r.code != 0 || r.out != diagnosisPage {
		t.Errorf("diagnose box: status %d and\n%s\nwant\n%s", r.code, r.out, diagnosisPage)
	}
	if r := run(t, f, Local{}, "", "diagnose", "box", "--fail"); r.code != 1 || r.out != diagnosisPage || r.stderr != "" {
		t.Errorf("diagnose box --fail: status %d, stderr %q, want 1 and the page alone", r.code, r.stderr)
	}
	run(t, f, Local{}, "", "diagnose", "fine", "--fail").wants(t, 0, "")
	if r := run(t, f, Local{}, "", "diagnose", "none"); r.out != "box  running, observed for 3.0 s: no problem found\n" {
		t.Errorf("diagnose none: %q, want no problem", r.out)
	}
	if r := run(t, f, Local{}, "", "diagnose", "off"); r.out != "off  suspended\n\nINFO  not-running\n  the VM is suspended: nothing used it\n  do: start it\n" {
		t.Errorf("diagnose off: %q, want the one finding", r.out)
	}
	var back vm.Diagnosis
	if err := json.Unmarshal([]byte(run(t, f, Local{}, "", "diagnose", "--json", "box").out), &back); err != nil || len(back.Findings) != 3 {
		t.Errorf("diagnose --json box: %v, %+v, want 3 findings", err, back)
	}
	for _, bad := range []string{"0s", "2m", "-1s"} {
		run(t, nil, Local{}, "", "diagnose", "box", "--for", bad).wants(t, 2, "--for")
	}
}

func aTop() vm.Top {
	percent := 42.0
	p := func(pid int, cpu float64, state, waits, command string) vm.TopProcess {
		return vm.TopProcess{CPUPercent: cpu, GuestProcess: vm.GuestProcess{SystemProcess: vm.SystemProcess{PID: pid, User: "root", State: state, RSS: 1 << 20, Command: command}, Waits: waits}}
	}
	agent := p(92, 1, "S", "sleeps", "agent")
	agent.System = true
	return vm.Top{
		ID: "abcdefghij0123456789", Name: "box", State: vm.Running, Live: true, UptimeSeconds: 60, CPUPercent: &percent, VCPU: 2, Load1: 0.5, MemTotal: 1 << 30, MemAvailable: 1 << 29,
		Processes: []vm.TopProcess{p(10, 40, "R", "runs", "node x\x1b[2J"), agent, p(11, 0, "T", "is stopped", "sleep 9")},
		Blocked:   []vm.Blocked{{PID: 11, State: "T", Command: "sleep 9", Waits: "is stopped"}},
		Ports:     []vm.ListeningPort{{Proto: "tcp", Address: "0.0.0.0", Port: 3000, PID: 10, Command: "node x"}},
		Mounts:    []vm.GuestMount{{Path: "/", Total: 8 << 30, Free: 1 << 30}},
		Services:  []vm.GuestService{{Name: "cron", Active: "active"}, {Name: "web", Active: "failed", Sub: "failed"}, {Name: "apt", Active: "inactive"}},
		Logs:      []vm.TopLog{{Source: "p3", Text: "hello \x1b]0;x\x07"}}, Problems: []string{"journal: no answer"},
	}
}

const topPage = `box  running  up 60s, CPU 42% of 2, load 0.50, memory 512 MiB of 1 GiB used
PID  USER  CPU    MEMORY  STATE  DOES        COMMAND
10   root  40.0%  1 MiB   R      runs        node x\x1b[2J
11   root  0.0%   1 MiB   T      is stopped  sleep 9
and 1 of the system

BLOCKED  STATE  COMMAND  WAITS
11       T      sleep 9  is stopped

PORT          PROTO  PID  COMMAND
0.0.0.0:3000  tcp    10   node x

DISKS     / 1 GiB free of 8 GiB
SERVICES  1 active; web failed (failed)

LOGS
  p3: hello \x1b]0;x\a
not checked: journal: no answer
`

// TestTopPage: the exact page, printed once if stdout is not a terminal.
func TestTopPage(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms/box/top", aTop())
	f.on("GET /v1/vms/off/top", vm.Top{Name: "off", State: vm.Suspended, Why: "it was idle for its idle timeout"})
	for _, args := range [][]string{{"top", "box"}, {"top", "box", "--once"}} {
		if r := run(t, f, Local{}, "", args...); r.code != 0 || r.out != topPage {
			t.Errorf("%v: status %d and\n%s\nwant\n%s", args, r.code, r.out, topPage)
		}
	}
	if r := run(t, f, Local{}, "", "top", "-a", "box"); !strings.Contains(r.out, "agent") || strings.Contains(r.out, "of the system") {
		t.Errorf("top -a shows no agent, or sums up the system:\n%s", r.out)
	}
	if r := run(t, f, Local{}, "", "top", "off"); r.out != "off  suspended: it was idle for its idle timeout\n" {
		t.Errorf("top off: %q, want why it is suspended", r.out)
	}
	var back vm.Top
	if err := json.Unmarshal([]byte(run(t, f, Local{}, "", "top", "--json", "box").out), &back); err != nil || len(back.Processes) != 3 || back.CPUPercent == nil {
		t.Errorf("top --json box: %v, %+v, want 3 processes and the CPU's share", err, back)
	}
	for _, bad := range []string{"0s", "2h"} {
		run(t, nil, Local{}, "", "top", "box", "--every", bad).wants(t, 2, "--every")
	}
}

// TestLogsOfService: a journal, complete and followed; flags of the other
// kind of log are refused.
func TestLogsOfService(t *testing.T) {
	f := newFake(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var asked []string
	f.mux.HandleFunc("GET /v1/vms/box/systemd/services/web/logs", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Encode())
		if r.URL.Query().Get("follow") == "" {
			reply(w, map[string]any{"logs": []vm.UnitLog{{Message: "one\x1b[2J", Timestamp: at}}})
			return
		}
		reply(w, vm.UnitLog{Message: "two\nlines", Timestamp: at})
		reply(w, vm.UnitLog{Message: "three", Timestamp: at})
	})
	f.mux.HandleFunc("GET /v1/vms/cut/systemd/services/web/logs", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, vm.UnitLog{Message: "one", Timestamp: at})
		reply(w, map[string]any{"code": "X", "kind": "guest", "message": "the machine has ended"})
	})
	stamp := at.Local().Format(time.DateTime)
	for _, c := range []struct{ line, asked, out string }{
		{"logs box --service web", "lines=100", stamp + ` one\x1b[2J` + "\n"},
		{"logs box --service web --lines 3 --since yesterday", "lines=3&since=yesterday", stamp + ` one\x1b[2J` + "\n"},
		{"logs box --service web -f -n 2", "follow=true&lines=2", stamp + ` two\nlines` + "\n" + stamp + " three\n"},
	} {
		asked = nil
		if r := run(t, f, Local{}, "", strings.Fields(c.line)...); r.code != 0 || r.out != c.out || len(asked) != 1 || asked[0] != c.asked {
			t.Errorf("%s: %d, asked %q, said %q %s", c.line, r.code, asked, r.out, r.stderr)
		}
	}
	if r := run(t, f, Local{}, "", "logs", "box", "--service", "web", "-f", "--json"); strings.Count(r.out, "\n") != 2 || !strings.Contains(r.out, `"message":"three"`) {
		t.Errorf("logs -f --json: %q, want two lines", r.out)
	}
	if r := run(t, f, Local{}, "", "logs", "cut", "--service", "web", "-f"); r.code == 0 || r.out != stamp+" one\n" || !strings.Contains(r.stderr, "the machine has ended") {
		t.Errorf("logs -f of a machine that ends: status %d, %q, stderr %q, want one line and an error", r.code, r.out, r.stderr)
	}
	for _, line := range []string{"logs box p3 --service web", "logs box --service web --raw", "logs box --service web --from 3", "logs box --since now"} {
		run(t, nil, Local{}, "", strings.Fields(line)...).wants(t, 2, "warren: ")
	}
}
