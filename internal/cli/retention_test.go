// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestUsageShown: one line per VM, deleted or not, and the sum.
func TestUsageShown(t *testing.T) {
	f := newFake(t)
	u := vm.Usage{VM: box.ID, Name: "box", RunningSeconds: 3723, CPUSeconds: 61, MemorySeconds: 2 * 3600 * 1024, DiskBytes: 3 << 20, DiskPeakBytes: 5 << 20, BytesIn: 2048, BytesOut: 10}
	past := vm.Usage{VM: "gonegonegonegonegone", Name: "old", Gone: time.Now()}
	sum := vm.Usage{Account: "a-1", Name: "me", RunningSeconds: 3723}
	f.on("GET /v1/usage", api.UsageList{Accounts: []vm.Usage{sum}, VMs: []vm.Usage{u, past}})
	f.on("GET /v1/vms/box/usage", u)
	r := run(t, f, Local{}, "", "usage")
	r.wants(t, 0, "")
	for _, want := range []string{"box", "1h2m3s", "1m1s", "2.00 GiB-h", "3 MiB", "5 MiB", "2 KiB", "10 B", "old", time.Now().Format(time.DateOnly), "all of me"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("usage lacks %q:\n%s", want, r.out)
		}
	}
	if r := run(t, f, Local{}, "", "usage", "box"); strings.Contains(r.out, "old") || !strings.Contains(r.out, "1h2m3s") {
		t.Errorf("usage box is not of box alone:\n%s", r.out)
	}
	if r := run(t, f, Local{}, "", "usage", "box", "--json"); !strings.Contains(r.out, `"memoryMibSeconds": 7372800`) {
		t.Errorf("usage --json lacks the memory:\n%s", r.out)
	}
	run(t, f, Local{}, "", "usage", "box", "--all").wants(t, 2, "--all")
	f.on("GET /v1/vms/nobody/usage", vm.Errorf(vm.NotFound, "nobody", "no such VM"))
	run(t, f, Local{}, "", "usage", "nobody").wants(t, 3, "")
}

// TestUpSaysRetention: a command that creates a VM prints how long it is kept.
func TestUpSaysRetention(t *testing.T) {
	five, at := vm.Seconds(5*time.Minute), time.Now().Add(time.Hour)
	for _, c := range []struct {
		change func(*api.VM)
		want   []string
	}{
		{func(v *api.VM) { v.IdleTimeout = &five }, []string{"kept     sticky:5: may be removed", "until    no time limit", "idle     suspended after 5m"}},
		{func(v *api.VM) { v.Persistence = vm.Persistence{Type: vm.Persistent}; v.ExpiresAt = at }, []string{"persistent: removed only", at.Format(time.DateTime) + ": then deleted", "never suspended"}},
		{func(v *api.VM) {
			v.Persistence = vm.Persistence{Type: vm.Ephemeral, DeleteEvent: "onIdleTimeout"}
			v.IdleTimeout = &five
		}, []string{"ephemeral: deleted once it was idle", "idle     deleted after 5m"}},
		{func(v *api.VM) {
			v.Persistence = vm.Persistence{Type: vm.Ephemeral, DeleteEvent: "OnSuspend"}
			v.IdleTimeout, v.IdleStops = &five, true
		}, []string{"deleted once it is suspended", "idle     stopped after 5m"}},
	} {
		v := box
		c.change(&v)
		f := newFake(t)
		f.on("POST /v1/vms", api.CreatedVM{ID: v.ID, VM: v})
		r := run(t, f, Local{}, "", "up", "--name", "box")
		for _, want := range c.want {
			if !strings.Contains(r.out, want) {
				t.Errorf("up lacks %q:\n%s%s", want, r.out, r.stderr)
			}
		}
	}
}

var left = vm.Remaining{
	VM: box.ID, Name: "box", State: vm.Running, DiskBytes: 1 << 20, OtherBytes: 3 << 20, Receipts: []string{"rc-1", "rc-2", "rc-3"},
	Snapshots: []vm.RemainingSnapshot{{ID: "sc-a", Name: "before", Bytes: 2 << 20, Memory: true}, {ID: "sc-b", Name: "after"}},
	Forks:     []vm.RemainingVM{{ID: "forkforkforkforkfork", Name: "try-1"}}, Copies: []vm.Copy{{Path: "/work/a\x1b[2J", Receipt: "rc-2"}},
}

// TestSaysWhatRemains: stop, suspend and rm name what they did not erase.
func TestSaysWhatRemains(t *testing.T) {
	f := newFake(t)
	f.on("POST /v1/vms/box/stop", api.StoppedVM{VMID: box.ID})
	f.on("POST /v1/vms/box/suspend", api.SuspendedVM{ID: box.ID})
	f.on("DELETE /v1/vms/box", api.DeletedVM{ID: box.ID, Shredded: &vm.Shredded{Unreadable: []string{"memory of sl-1"}, Readable: []string{"its disk: never encrypted"}}})
	f.on("GET /v1/vms/"+string(box.ID)+"/remains", left)
	f.on("GET /v1/vms/box/remains", left)
	for _, line := range []string{"stop box", "suspend box", "rm box", "rm --shred box"} {
		r := run(t, f, Local{}, "", strings.Fields(line)...)
		r.wants(t, 0, "")
		for _, want := range []string{"snapshots: before (memory and disk, 2 MiB), after (disk, 0 B)", "VMs made from it: try-1", "copied out:", "caches: captured generations, 3 MiB", "audit records: 3"} {
			if !strings.Contains(r.out, want) {
				t.Errorf("%s lacks %q:\n%s", line, want, r.out)
			}
		}
		if strings.Contains(r.out, "rc-") {
			t.Errorf("%s prints ids of audit records without -v:\n%s", line, r.out)
		}
		if r := run(t, f, Local{}, "", append(strings.Fields(line), "-v")...); !strings.Contains(r.out, "(rc-2)") || !strings.Contains(r.out, "audit records: rc-1, rc-2, rc-3") {
			t.Errorf("%s -v prints no ids of audit records:\n%s", line, r.out)
		}
		if strings.Contains(r.out, "\x1b") {
			t.Errorf("%s prints what a guest chose: %q", line, r.out)
		}
		if shred := strings.Contains(line, "shred"); strings.Contains(r.out, "unreadable: memory of sl-1") != shred || strings.Contains(r.out, "not erased: its disk") != shred {
			t.Errorf("%s says of memory and disk what another verb does:\n%s", line, r.out)
		}
	}
}

// TestDoneSecrets: done says of each secret that the VM could use whether it is rotated, and
// else what to do. It asks only about what Warren does not rotate.
func TestDoneSecrets(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.Local)
	list := []vm.Credential{
		{Name: "crm", RotatesBy: vm.RotatesByOAuth, RotatedAt: at, Others: 2},
		{Name: "hub", Host: "hub.example.com", RotatesBy: vm.RotatesByRotator, NotRotated: "the rotator answered with status 500"},
		{Name: "key", Host: "key.example.com"},
		{Name: "old", Host: "old.example.com", Removed: true},
		{Name: "tea", RotatesBy: vm.RotatesByRotator},
	}
	f := newFake(t)
	remains := vm.Remaining{VM: box.ID, Credentials: list}
	f.on("GET /v1/vms/box/remains", remains)
	f.on("POST /v1/vms/box/done", vm.Job{VM: box.ID, Complete: true, Remains: remains})
	r := run(t, f, Local{}, "", "done", "box")
	for _, want := range []string{
		"crm: rotated 2026-11-24 12:00:00, also for the other VMs that may use it (2)\n",
		"hub: NOT rotated: the rotator answered with status 500; `warren done " + string(box.ID) + "` tries again",
		"key: not rotated: replace its value at key.example.com, then `warren secret set key`; with --rotate-url URL",
		"old: not rotated: it was removed here; end its value at old.example.com\n",
		"tea: not rotated; `warren done " + string(box.ID) + "` without --no-rotate rotates it\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("done does not say %q:\n%s", want, r.out)
		}
	}
	const question = "have you rotated every key, token and password that code in it could reach"
	for _, c := range []struct {
		list []vm.Credential
		line string
		want string
	}{
		{list, "done box --ask", question + ", except those that Warren rotates?"},
		{list[:2], "done box --ask", ""},
		{list[:2], "done box --ask --no-rotate", question + "?"},
		{nil, "done box --ask", question + "?"},
	} {
		f := newFake(t)
		f.on("GET /v1/vms/box/remains", vm.Remaining{VM: box.ID, Credentials: c.list})
		f.on("POST /v1/vms/box/done", vm.Job{VM: box.ID, Complete: true})
		r := run(t, f, Local{}, "", strings.Fields(c.line)...)
		if c.want == "" && strings.Contains(r.stderr, question) || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s with the secrets %+v asks:\n%s\nwant %q", c.line, c.list, r.stderr, c.want)
		}
	}
}

// TestDone: flags and answers become one request; open steps show in the exit
// status.
func TestDone(t *testing.T) {
	job := vm.Job{VM: box.ID, Name: "box", Steps: []vm.JobStep{{Step: "compute", State: vm.StepDone, Why: "the VM is stopped"}, {Step: "logs", State: vm.StepOpen, Why: "nobody has read them"}}, Remains: left}
	for _, c := range []struct {
		line, stdin, want string
		complete          bool
	}{
		{"done box", "", `{"rotate":true}`, false},
		{"done box --no-rotate", "", `{}`, false},
		{
			"done box --stop --drop-snapshots --rotated --logs-reviewed --revoke-tokens --label T-7", "",
			`{"label":"T-7","retention":"stop","dropSnapshots":["sc-a","sc-b"],"revokeTokens":true,"rotate":true,"rotated":true,"logsReviewed":true}`, true,
		},
		{"done box --ask", "suspend\ny\nn\ny\nn\nyes\ny\n", `{"retention":"suspend","dropSnapshots":["sc-a"],"keepSnapshots":true,"rotate":true,"rotated":true,"logsReviewed":true}`, true},
		{"done box --ask --rm", "", `{"retention":"destroy","rotate":true}`, false},
	} {
		f := newFake(t)
		f.on("GET /v1/vms/box/remains", left)
		job.Complete = c.complete
		var got string
		f.mux.HandleFunc("POST /v1/vms/box/done", func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			got = strings.TrimSpace(string(data))
			reply(w, job)
		})
		r := run(t, f, Local{}, c.stdin, strings.Fields(c.line)...)
		if want := map[bool]int{true: 0, false: 6}[c.complete]; r.code != want || got != c.want {
			t.Errorf("%s: status %d, sent %s\nwant %s\n%s", c.line, r.code, got, c.want, r.stderr)
		}
		if !strings.Contains(r.out, "compute     done") || !strings.Contains(r.out, "logs        OPEN") {
			t.Errorf("%s does not show what is done and what is open:\n%s", c.line, r.out)
		}
	}
	f := newFake(t)
	f.on("GET /v1/jobs", api.JobList{Jobs: []vm.Job{job}})
	if r := run(t, f, Local{}, "", "done", "--list"); !strings.Contains(r.out, "box") || !strings.Contains(r.out, "open") {
		t.Errorf("done --list lacks the open job:\n%s", r.out)
	}
	for _, line := range []string{"done", "done box --list", "done box --stop --rm"} {
		run(t, nil, Local{}, "", strings.Fields(line)...).wants(t, 2, "")
	}
}
