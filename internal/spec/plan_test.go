// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func oneshot(name string, after ...string) vm.Unit {
	return vm.Unit{Name: name, Mode: vm.UnitOneshot, DeleteAfterSuccess: ptr(true), Exec: []string{"true"}, After: after, Requires: after}
}

// TestPlanOrdersUnits: units come after what they wait for, and require
// nothing that is gone once it has succeeded, in its layer or in one above.
func TestPlanOrdersUnits(t *testing.T) {
	web := vm.Unit{Name: "web", Exec: []string{"true"}, After: []string{"run-2"}, Requires: []string{"run-2", "db"}}
	db := vm.Unit{Name: "db", Exec: []string{"true"}, After: []string{"network.target"}}
	got, err := Plan([]Layer{{Units: []vm.Unit{web, oneshot("run-2", "run-1"), oneshot("run-1"), db}}, {Units: []vm.Unit{oneshot("run-3", "run-2")}}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range got[0].Units {
		names = append(names, u.Name)
	}
	if !slices.Equal(names, []string{"run-1", "run-2", "db", "web"}) {
		t.Errorf("order %v", names)
	}
	if w := got[0].Units[3]; !slices.Equal(w.Requires, []string{"db"}) || !slices.Equal(w.After, []string{"run-2"}) {
		t.Errorf("web %+v", w)
	}
	if u := got[1].Units[0]; len(u.Requires) != 0 {
		t.Errorf("run-3 requires %v", u.Requires)
	}
	_, err = Plan([]Layer{{Units: []vm.Unit{oneshot("a", "b"), oneshot("b", "a")}}})
	if vm.AsError(err).Code != "CREATE_VM_BAD_REQUEST" {
		t.Errorf("a circle: %v", err)
	}
}

// TestKeys: a key tells content, order, source and size apart, and nothing
// else; to make a layer afresh makes those above it so too.
func TestKeys(t *testing.T) {
	key := func(l Layer) string {
		p, err := Plan([]Layer{l})
		if err != nil {
			t.Fatal(err)
		}
		return p[0].Key("im-1")
	}
	a := Layer{Files: []File{{Path: "/a", Content: []byte("1")}, {Path: "/b"}}, Units: []vm.Unit{{Name: "u", Exec: []string{"x"}, Env: map[string]string{"A": "1", "B": "2"}}}}
	same := Layer{Files: []File{{Path: "/b"}, {Path: "/a", Content: []byte("1")}}, Units: []vm.Unit{{Name: "u", Exec: []string{"x"}, Env: map[string]string{"B": "2", "A": "1"}}}, SkipCache: true}
	if key(a) != key(same) {
		t.Error("the order of files, or skipCache, changes the key")
	}
	seen := map[string]string{key(a): "a", a.Key("im-2"): "source"}
	for name, l := range map[string]Layer{
		"content":       {Files: []File{{Path: "/a", Content: []byte("2")}, {Path: "/b"}}, Units: a.Units},
		"executable":    {Files: []File{{Path: "/a", Content: []byte("1"), Executable: true}, {Path: "/b"}}, Units: a.Units},
		"discriminator": {Files: a.Files, Units: a.Units, Discriminator: "x"},
		"size":          {Files: a.Files, Units: a.Units, Size: vm.Size{VCPU: 2}},
		"apt":           {Files: a.Files, Units: a.Units, Apt: []string{"jq"}},
	} {
		k := key(l)
		if old, taken := seen[k]; taken {
			t.Errorf("%s has the key of %s", name, old)
		}
		seen[k] = name
	}
	keys, afresh := Keys("im-1", []Layer{{}, {SkipCache: true}, {}})
	if len(keys) != 3 || keys[0] == keys[1] || keys[1] == keys[2] || !slices.Equal(afresh, []bool{false, true, true}) {
		t.Errorf("the keys are %v, built afresh %v, want three that differ, the last two built afresh", keys, afresh)
	}
}

// TestSizes: a layer without a size has that of the nearest outside of it.
func TestSizes(t *testing.T) {
	p, err := Plan([]Layer{{}, {Size: vm.Size{VCPU: 2, MemoryMiB: 1024}}, {}, {Size: vm.Size{MemoryMiB: 2048}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []vm.Size
	for _, l := range p {
		got = append(got, l.Size)
	}
	if want := []vm.Size{{VCPU: 2, MemoryMiB: 1024}, {VCPU: 2, MemoryMiB: 1024}, {VCPU: 2, MemoryMiB: 2048}, {VCPU: 2, MemoryMiB: 2048}}; !slices.Equal(got, want) {
		t.Errorf("the layers' sizes are %v, want %v", got, want)
	}
}

func TestLayerRefusals(t *testing.T) {
	uid := 70000
	for code, l := range map[string]Layer{
		"DUPLICATE_USER_NAME":      {Users: []User{{Name: "a"}, {Name: "a"}}},
		"USER_UID_OUT_OF_RANGE":    {Users: []User{{Name: "a", UID: &uid}}},
		"GROUP_NAME_INVALID_CHARS": {Groups: []Group{{Name: "A B"}}},
		"SERVICE_ALREADY_EXISTS":   {Units: []vm.Unit{oneshot("a"), oneshot("a.service")}},
		"EXEC_EMPTY":               {Units: []vm.Unit{{Name: "a"}}},
	} {
		if err := l.Check(); vm.AsError(err).Code != code {
			t.Errorf("a layer is refused with %v, want the code %s", err, code)
		}
	}
	for name, l := range map[string]Layer{
		"option as package": {Apt: []string{"-o=x"}}, "path": {Files: []File{{Path: "x"}}},
		"repo path": {Repos: []Repo{{URL: "https://h/r", Path: "r"}}}, "no repo": {Repos: []Repo{{URL: "a/b", Path: "/r"}}},
		"option as repo": {Repos: []Repo{{URL: "--upload-pack=x://", Path: "/r"}}}, "option as rev": {Repos: []Repo{{URL: "https://h/r", Path: "/r", Rev: "-x"}}},
	} {
		if err := l.Check(); vm.AsError(err).Code != "CREATE_VM_BAD_REQUEST" {
			t.Errorf("a layer with a bad %s: %v, want CREATE_VM_BAD_REQUEST", name, err)
		}
	}
	fine := Layer{Apt: []string{"g++", "libc6:amd64", "jq=1.6-2.1+deb12u1", "nodejs/bookworm"}, Repos: []Repo{{URL: "git@h:r.git", Path: "/r", Rev: "v1"}}}
	if err := fine.Check(); err != nil {
		t.Error(err)
	}
	if _, err := Plan(make([]Layer, maxLayers+1)); err == nil {
		t.Error("any number of layers is taken")
	}
}

func TestDockerfile(t *testing.T) {
	known := func(name string) bool { return name == "base" }
	image, run, err := Dockerfile("# made by hand\nFROM debian:12\n\nRUN <<'FREESTYLE_EOF'\napt-get update\necho \"a\"\nFREESTYLE_EOF\n\nRUN a && \\\n    b\n", known)
	if err != nil || image != "" || !slices.Equal(run, []string{"apt-get update\necho \"a\"", "a && \\\nb"}) {
		t.Errorf("the Dockerfile is read as image %q with commands %q (%v), want no image and two commands", image, run, err)
	}
	if image, _, err := Dockerfile("FROM base", known); err != nil || image != "base" {
		t.Errorf("FROM base is read as image %q (%v), want base", image, err)
	}
	for text, code := range map[string]string{
		"FROM alpine": "UNSUPPORTED_OS", "FROM debian:7": "UNSUPPORTED_OS", "FROM debian AS build": "UNSUPPORTED_OS", "": "BUILD_FAILED", "RUN a": "BUILD_FAILED",
		"FROM base\nCOPY a b": "BUILD_FAILED", "FROM base\nRUN <<X\na": "BUILD_FAILED", "FROM base\nRUN [\"a\"]": "BUILD_FAILED", "FROM base\nFROM base": "BUILD_FAILED",
	} {
		_, _, err := Dockerfile(text, known)
		e := vm.AsError(err)
		if err == nil || e.Code != code {
			t.Errorf("the Dockerfile %q is refused with %v, want the code %s", text, err, code)
		}
		if stderr, _ := e.Fields["stderr"].(string); code == "BUILD_FAILED" && !strings.Contains(stderr, "line ") {
			t.Errorf("%q: stderr %q", text, stderr)
		}
	}
}

func TestDiagnose(t *testing.T) {
	d := Diagnose([]vm.UnitStatus{{Name: "a", ActiveState: "failed", SubState: "failed"}, {Name: "b", ActiveState: "active", SubState: "running"}, {Name: "c", ActiveState: "failed", SubState: "failed"}},
		map[string][]vm.UnitLog{"c": {{Message: "x"}, {Message: "y"}}})
	if len(d.ServiceStates) != 2 || !slices.Equal(d.ServiceStates[0].Services, []string{"a", "c"}) || len(d.FailedServiceLogs) != 1 || d.FailedServiceLogs[0].Log != "x\ny" {
		t.Errorf("the diagnosis is %+v, want the failed services a and c and the log of c", d)
	}
	if d := Diagnose(nil, nil); d.ServiceStates == nil {
		t.Error("serviceStates is null, which the SDK does not survive")
	}
}
