// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// body notes the JSON of a request and answers it.
func (f *fake) body(pattern string, to any, answer any) {
	f.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(to); err != nil {
			f.t.Error(err)
		}
		reply(w, answer)
	})
}

// TestLabelFlags: commands that create VMs send their labels.
func TestLabelFlags(t *testing.T) {
	f := newFake(t)
	var up api.CreateVM
	var fork api.ForkVM
	f.body("POST /v1/vms", &up, api.CreatedVM{ID: box.ID, VM: box})
	f.body("POST /v1/vms/{vm}/fork", &fork, api.ForkedVM{Forks: []api.Fork{{Name: "box-1"}}})
	f.on("DELETE /v1/vms/{vm}", api.DeletedVM{})
	f.runs(ends(vm.ExitStatus{}))
	want := map[string]string{"team": "web", "old": ""}
	flags := []string{"--label", "team=web", "--label", "old="}
	for _, line := range []string{"up --name box", "run base"} {
		up = api.CreateVM{}
		args := append(strings.Fields(line), flags...)
		if strings.HasPrefix(line, "run") {
			args = append(args, "--", "true")
		}
		if r := run(t, f, Local{}, "", args...); r.code != 0 || !reflect.DeepEqual(up.Labels, want) {
			t.Errorf("%s gives the labels %v, want %v: %+v", line, up.Labels, want, r)
		}
	}
	if r := run(t, f, Local{}, "", append([]string{"fork", "box", "--name", "box"}, flags...)...); r.code != 0 || !reflect.DeepEqual(fork.Labels, want) {
		t.Errorf("fork gives the labels %v, want %v: %+v", fork.Labels, want, r)
	}
	run(t, f, Local{}, "", "up", "--label", "team").wants(t, 2, "--label: team: is not a label")
	run(t, f, Local{}, "", "fork", "box", "--label", "a b=c").wants(t, 2, "letter or digit first and last")
}

// TestLabel: KEY=VALUE sets, KEY- removes, and without either the labels are printed.
func TestLabel(t *testing.T) {
	f := newFake(t)
	var in map[string]map[string]any
	after := box
	after.Labels = map[string]string{"tier": "test", "team": "web"}
	f.body("PATCH /v1/vms/box/labels", &in, after)
	f.on("GET /v1/vms/box", after)
	f.on("GET /v1/vms/bare", box)
	r := run(t, f, Local{}, "", "label", "box", "team=web", "old-", "a-b=c-")
	if want := map[string]any{"team": "web", "old": nil, "a-b": "c-"}; r.code != 0 || !reflect.DeepEqual(in["labels"], want) {
		t.Errorf("label sent %v, want %v: %+v", in, want, r)
	}
	if r.out != "team=web\ntier=test\n" {
		t.Errorf("label printed %q, want both labels", r.out)
	}
	in = nil
	if r := run(t, f, Local{}, "", "label", "box"); r.out != "team=web\ntier=test\n" || in != nil {
		t.Errorf("label without a change: %+v, sent %v, want both labels and no request", r, in)
	}
	run(t, f, Local{}, "", "label", "bare").wants(t, 0, "bare has no labels")
	if r := run(t, f, Local{}, "", "label", "box", "--json"); !strings.Contains(r.out, `"team": "web"`) {
		t.Errorf("label --json lacks the label:\n%s", r.out)
	}
	for _, bad := range []string{"team", "-", "--x", "a b=c", "a=b c"} {
		run(t, f, Local{}, "", "label", "box", "--", bad).wants(t, 2, "")
	}
}

// TestLsByLabel: the server filters; lists and pages show labels.
func TestLsByLabel(t *testing.T) {
	f := newFake(t)
	v := box
	v.Labels = map[string]string{"tier": "test", "team": "web"}
	var asked []string
	f.mux.HandleFunc("GET /v1/vms", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()["label"]
		reply(w, api.VMList{VMs: []api.VM{v}})
	})
	f.on("GET /v1/vms/box/inspect", api.Inspection{VM: v})
	r := run(t, f, Local{}, "", "ls", "-l", "team=web,tier", "-l", "!old")
	if want := []string{"team=web", "tier", "!old"}; r.code != 0 || !slices.Equal(asked, want) {
		t.Errorf("ls asked for the labels %v, want %v: %+v", asked, want, r)
	}
	if !strings.Contains(r.out, "LABELS") || !strings.Contains(r.out, "team=web,tier=test") {
		t.Errorf("ls lacks the labels' column:\n%s", r.out)
	}
	if r := run(t, f, Local{}, "", "inspect", "box"); !strings.Contains(r.out, "label         team=web\nlabel         tier=test\n") {
		t.Errorf("inspect lacks the labels:\n%s", r.out)
	}
	run(t, f, Local{}, "", "ls", "-l", "a b").wants(t, 2, "-l: a b: does not select by a label")
	if r := run(t, f, Local{}, "", "__complete", "ls", "-l", "t"); !strings.Contains(r.out, "team\n") || !strings.Contains(r.out, "tier\n") {
		t.Errorf("the completion of -l t lacks a key:\n%s", r.out)
	}
	if r := run(t, f, Local{}, "", "__complete", "label", "box", "te"); !strings.Contains(r.out, "team=\n") || strings.Contains(r.out, "tier") {
		t.Errorf("the completion of te is not team alone:\n%s", r.out)
	}
	f = newFake(t)
	f.on("GET /v1/vms", api.VMList{})
	run(t, f, Local{}, "", "ls", "-l", "team").wants(t, 0, "no VM matches")
}

// TestRename: an invalid name is refused here; for a running VM the message
// mentions the host name.
func TestRename(t *testing.T) {
	f := newFake(t)
	var in api.RenameVM
	v := box
	v.Name = "web"
	f.body("POST /v1/vms/box/rename", &in, v)
	r := run(t, f, Local{}, "", "rename", "box", "web")
	r.wants(t, 0, "host name changes at its next start or wake")
	if in.Name != "web" || r.out != "box is now web\n" {
		t.Errorf("rename sent %+v and ended with %+v, want the name web", in, r)
	}
	v.State = vm.Suspended
	f.on("POST /v1/vms/asleep/rename", v)
	if r := run(t, f, Local{}, "", "rename", "asleep", "web"); r.stderr != "" {
		t.Errorf("rename of a suspended VM warns: %+v", r)
	}
	if r := run(t, f, Local{}, "", "rename", "box", "web", "--json"); !strings.Contains(r.out, `"name": "web"`) {
		t.Errorf("rename --json lacks the name:\n%s", r.out)
	}
	f.on("POST /v1/vms/web/rename", v)
	if r := run(t, f, Local{}, "", "rename", "web", "web"); r.code != 0 || !strings.Contains(r.out, "already") {
		t.Errorf("rename to the same name: %+v, want that it has it already", r)
	}
	f.on("POST /v1/vms/db/rename", vm.Errorf(vm.Exists, "web", "a VM with this name exists: x"))
	run(t, f, Local{}, "", "rename", "db", "web").wants(t, 5, "exists")
	run(t, newFake(t), Local{}, "", "rename", "box", "Web").wants(t, 2, "not a name")
}

// TestWaitPort: the status tells whether something listens, and whether the
// caller's time or Warren's ran out.
func TestWaitPort(t *testing.T) {
	f := newFake(t)
	var asked string
	f.mux.HandleFunc("POST /v1/vms/box/ports/3000/wait", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		reply(w, api.OpenPort{Port: 3000})
	})
	late := vm.Errorf(vm.Timeout, "box", "nothing has accepted connections").WithCode("EXEC_TIMED_OUT").WithHint("look at it")
	f.on("POST /v1/vms/box/ports/3001/wait", late)
	f.on("POST /v1/vms/box/ports/3002/wait", vm.Errorf(vm.Timeout, "box", "not ready within 2m"))
	if r := run(t, f, Local{}, "", "wait", "box", "--port", "3000"); r.code != 0 || r.out != "" || asked != "" {
		t.Errorf("wait asked %q and ended with %+v, want success without output or query", asked, r)
	}
	if r := run(t, f, Local{}, "", "wait", "box", "--port", "3000", "--timeout", "1m", "--json"); r.code != 0 || r.out != "{\n  \"port\": 3000\n}\n" || asked != "timeoutMs=60000" {
		t.Errorf("wait --json asked %q and ended with %+v, want the port and a timeout of a minute", asked, r)
	}
	r := run(t, f, Local{}, "", "wait", "box", "--port", "3001", "--timeout", "10")
	r.wants(t, 124, "nothing has accepted connections")
	r.wants(t, 124, "look at it")
	run(t, f, Local{}, "", "wait", "box", "--port", "3002", "--timeout", "10").wants(t, 125, "not ready") // not the time that it was given
	run(t, f, Local{}, "", "wait", "box", "--port", "http").wants(t, 125, "not a port")
	run(t, f, Local{}, "", "wait", "box", "p3", "--port", "80").wants(t, 125, "--port")
}

// TestSizeFlags: sizes in the usual spellings; a refusal names the flag, the
// value and an example.
func TestSizeFlags(t *testing.T) {
	for mem, want := range map[string]int{"512": 512, "512M": 512, "512MiB": 512, "2G": 2048, "2GiB": 2048, "2gb": 2048, "0.5G": 512, "2048": 2048, "": 0} {
		if got, err := (&sizeFlags{mem: mem}).sizes(); err != nil || got.MemSizeMib != want {
			t.Errorf("--mem %s is %d MiB (%v), want %d", mem, got.MemSizeMib, err, want)
		}
	}
	for _, c := range []struct {
		flags      sizeFlags
		text, hint string
	}{
		{sizeFlags{mem: "3G"}, "--mem 3G: memory is 256 MiB to 1024 GiB, a power of two", "give 2G or 4G"},
		{sizeFlags{mem: "3072M"}, "--mem 3072M:", "give 2G or 4G"},
		{sizeFlags{mem: "3072"}, "--mem 3072:", "give 2G or 4G"},
		{sizeFlags{mem: "700"}, "--mem 700:", "give 512M or 1G"},
		{sizeFlags{mem: "1"}, "--mem 1:", "give 256M"},
		{sizeFlags{mem: "2T"}, "--mem 2T:", "give 1024G"},
		{sizeFlags{mem: "1K"}, "--mem 1K:", "give 256M"},
		{sizeFlags{mem: "much"}, "--mem much: not a size", "512M, 2G or 2GiB"},
		{sizeFlags{cpu: 3}, "--cpu 3: a VM has 1 to 32 CPUs, a power of two", "1, 2 or 4"},
		{sizeFlags{cpu: 64}, "--cpu 64:", ""},
		{sizeFlags{cpu: -1}, "--cpu -1:", ""},
		{sizeFlags{disk: "1.5G"}, "--disk 1.5G: a disk has 1 to 4096 GiB, a whole number", "32G"},
		{sizeFlags{disk: "5T"}, "--disk 5T:", ""},
		{sizeFlags{disk: "big"}, "--disk big: not a size", "32GiB"},
	} {
		_, err := c.flags.sizes()
		if err == nil || !strings.HasPrefix(err.Error(), c.text) || !strings.Contains(vm.AsError(err).Hint, c.hint) {
			t.Errorf("%+v is refused with %v (%v), want %q and a hint with %q", c.flags, err, vm.AsError(err).Hint, c.text, c.hint)
		}
	}
	run(t, newFake(t), Local{}, "", "up", "--mem", "3G").wants(t, 2, "--mem 3G")
	run(t, newFake(t), Local{}, "", "resize", "box", "--mem", "3G").wants(t, 2, "--mem 3G")
}
