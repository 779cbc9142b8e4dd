// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// said are the rules and subjects of findings.
func said(list []finding) (out []string) {
	for _, f := range list {
		out = append(out, f.Rule+" "+f.Subject)
	}
	return out
}

// TestLintServer: snapshots and shares that something smaller would do for are
// named, those with a purpose are not.
//
// 003-07
func TestLintServer(t *testing.T) {
	ask := func(name string, source vm.ID, change func(*api.Snapshot)) api.Snapshot {
		s := api.Snapshot{SnapshotID: vm.SnapshotID("sn-" + name), Name: name, SourceVMID: source, Why: vm.WhySnapshot}
		if change != nil {
			change(&s)
		}
		return s
	}
	snapshots := []api.Snapshot{
		ask("recovery", "box", nil),
		ask("left", "gone", nil),
		ask("base-of-twin", "gone", nil),
		ask("job", "job", nil),
		ask("seen", "box", func(s *api.Snapshot) { s.VolumesSeen = []vm.VolumeID{"vol-1"} }),
		ask("every", "gone", func(s *api.Snapshot) { s.Why = vm.WhySchedule }),
		ask("deleted", "gone", func(s *api.Snapshot) { s.Deleted = true }),
	}
	vms := []api.VM{{ID: "box", Name: "box"}, {ID: "job", Name: "job", Profile: "untrusted"}, {ID: "twin", SnapshotID: "sn-base-of-twin"}}
	volumes := []api.Volume{{ID: "vol-1", Name: "work", Mounts: []api.Mount{
		{VM: "box", VMName: "box", Path: "/data", RW: true, Share: true}, {VM: "twin", Path: "/data", Share: true}, {VM: "job", Path: "/x", RW: true},
	}}}
	want := []string{"snapshot-unused left", "snapshot-of-job job", "snapshot-volume seen", "writable-share box:/data"}
	if got := said(lintState(snapshots, vms, volumes)); !slices.Equal(got, want) {
		t.Errorf("lint finds %q, want %q", got, want)
	}

	f := newFake(t)
	f.on("GET /v1/vms/snapshots", api.SnapshotList{Snapshots: snapshots[:2]})
	f.on("GET /v1/vms", api.VMList{VMs: vms})
	f.on("GET /v1/volumes", api.VolumeList{})
	f.on("GET /v1/vms/{vm}/mounts", api.MountList{})
	r := run(t, f, Local{}, "", "lint")
	if r.code != 6 || !strings.Contains(r.out, "left: ") || !strings.Contains(r.out, "warren cp x:PATH .") || strings.Contains(r.out, "recovery") {
		t.Errorf("lint: %+v, want status 6, what is left and how to copy it", r)
	}
	var list []finding
	if r := run(t, f, Local{}, "", "lint", "--json"); r.code != 6 || json.Unmarshal([]byte(r.out), &list) != nil || len(list) != 1 || list[0].Instead == "" {
		t.Errorf("lint --json: %+v, want status 6 and one finding with a remedy", r)
	}
	f = newFake(t)
	f.on("GET /v1/vms/snapshots", api.SnapshotList{})
	f.on("GET /v1/vms", api.VMList{VMs: []api.VM{{ID: "x", Name: "trusted", Profile: "dev"}, {ID: "y", Name: "agent"}}})
	f.on("GET /v1/volumes", api.VolumeList{})
	f.on("GET /v1/vms/{vm}/mounts", api.MountList{Mounts: []api.Mount{{Path: "/src", Host: "/srv/src", RW: true}, {Path: "/ro", Host: "/srv/ro"}}})
	if r := run(t, f, Local{}, "", "lint"); r.code != 6 || !strings.Contains(r.out, "writable-folder  agent:/src") || strings.Contains(r.out, "trusted") || strings.Contains(r.out, "/ro") {
		t.Errorf("lint of writable folders: %+v, want the agent's writable one alone", r)
	}
	f = newFake(t)
	f.on("GET /v1/vms/snapshots", api.SnapshotList{})
	f.on("GET /v1/vms", api.VMList{})
	f.on("GET /v1/volumes", api.VolumeList{})
	if r := run(t, f, Local{}, "", "lint", "--json"); r.code != 0 || strings.TrimSpace(r.out) != "[]" {
		t.Errorf("lint --json of nothing: %+v, want an empty array", r)
	}
}

// TestLintFiles: scripts and specs are looked at without a server.
//
// 003-07
func TestLintFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := write("job.sh", `#!/bin/sh
# warren snapshot create box --name comment
warren run --add-dir ./data:/data:ro -- true
warren run --add-dir=./out:/out:rw -- true; mvmctl run --profile dev --add-dir .:/src:rw -- make
bin/warren volume mount box --volume d \
   --host /srv/d --guest /d --rw
warren volume mount box --volume d --host /srv/d --guest /d
warren volume mount box --volume v --guest /v --rw --share
warren snapshot create box --name result
warren snapshot create box --name base && warren up base --name two
warren snapshot create other --name before
warren rollback other
warren snapshot create box --disk-only
warren exec box -- warren snapshot create inner
`)
	spec := write("shop.json", `{"name": "shop", "spec": {"additionalFiles": {"/a": {"content": "outermost"}},
		"snapshot": {"additionalFiles": {"/b": {"content": "only files"}}, "snapshot": {"aptDeps": ["jq"], "additionalFiles": {"/c": {"content": ""}}}}}}`)
	whole, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"writable-folder s:4", "writable-folder s:5", "writable-share s:8", "snapshot-unused s:9"}
	if got := said(lintFile("s", whole)); !slices.Equal(got, want) {
		t.Errorf("lint of the script finds %q, want %q", got, want)
	}
	r := run(t, nil, Local{}, "", "lint", "--json", script, spec)
	var list []finding
	if err := json.Unmarshal([]byte(r.out), &list); r.code != 6 || err != nil || len(list) != 5 || list[4].Rule != ruleSpecFile || !strings.HasSuffix(list[4].Subject, "shop.json: layer 1") {
		t.Errorf("lint --json of files: %+v, want 5 findings, the last of shop.json", r)
	}
	if r := run(t, nil, Local{}, "", "lint", "../../test/system/coding-agent/run.sh"); r.code != 0 {
		t.Errorf("the coding agent's script: %+v", r)
	}
	run(t, nil, Local{}, "", "lint", dir+"/none").wants(t, 3, "none")
}
