// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"strings"
	"testing"
)

// TestSpecRefusals: contradictory specs have the contract's own codes.
func TestSpecRefusals(t *testing.T) {
	b := newBench(t)
	for body, code := range map[string]string{
		`{"spec":{"snapshotId":"sc-x","snapshot":{}}}`:                                                                                "CONFLICTING_SPEC_SOURCES_ERROR",
		`{"spec":{"snapshot":{"snapshotId":"sc-x","baseImage":{"dockerfileContent":"FROM debian"}}}}`:                                 "CONFLICTING_SPEC_SOURCES_ERROR",
		`{"spec":{"snapshotId":"sc-x"},"template":{"snapshot":{}}}`:                                                                   "CONFLICTING_SPEC_SOURCES_ERROR",
		`{"spec":{"dockerCredentials":{"registry":"r"},"snapshot":{}}}`:                                                               "NON_LEAF_LAYER_FIELD_ERROR",
		`{"spec":{"git":{"config":{},"repos":[{"repo":"https://h/r","path":"/r"}]},"gitRepos":[{"repo":"https://h/r","path":"/r"}]}}`: "INVALID_GIT_REPO_SPEC_ERROR",
		`{"spec":{"baseImage":{"dockerfileContent":"FROM alpine"}}}`:                                                                  "UNSUPPORTED_OS",
		`{"spec":{"baseImage":{"dockerfileContent":"FROM base\nCOPY a b"}}}`:                                                          "BUILD_FAILED",
		`{"spec":{"baseImage":{"dockerfileContent":"FROM base\nRUN exit 7"}}}`:                                                        "BUILD_FAILED",
		`{"spec":{"snapshotId":"sc-nosuch","snapshot":null}}`:                                                                         "SNAPSHOT_NOT_FOUND",
		`{"systemd":{"services":[{"name":"x"}]}}`:                                                                                     "EXEC_EMPTY",
		`{"spec":{"snapshot":{"systemd":{"services":[{"name":"x","exec":["a"],"env":{"":"b"}}]}}}}`:                                   "ENV_KEY_EMPTY",
		`{"spec":{"systemd":{"services":[{"name":"x","mode":"oneshot","exec":["exit 3"]}]}}}`:                                         "VM_SETUP_FAILED",
	} {
		a := b.do("POST", "/v1/vms", body)
		if a.json["code"] != code {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, code)
		}
	}
	b.do("POST", "/v1/vms", `{"spec":{"snapshot":{"snapshot":{"snapshotId":"sc-x","snapshot":{}}}}}`).has(t, "depth", 2.0, "fieldA", "snapshot", "fieldB", "snapshotId")
	a := b.do("POST", "/v1/vms/snapshots", `{"spec":{"aptDeps":["-x"]}}`)
	a.wants(t, 400, "CREATE_SNAPSHOT_BAD_REQUEST")
	if a := b.do("GET", "/v1/vms", nil); a.json["totalCount"] != 0.0 {
		t.Errorf("left: %s", a.body)
	}
}

// TestSpecLayers: a chain of layers ends in a VM with all that they do; a
// Dockerfile's commands are done first.
func TestSpecLayers(t *testing.T) {
	b := newBench(t)
	body := `{"name":"box","memSizeGb":1,"additionalFiles":{"/top":{"content":"t"}},"spec":{"workdir":"/work","additionalFiles":{"/outer":{"content":"o"}},` +
		`"snapshot":{"vcpuCount":2,"additionalFiles":{"/inner":{"content":"aQ==","encoding":"base64"}},"users":[{"name":"ann"}],` +
		`"snapshot":{"baseImage":{"dockerfileContent":"FROM base\nRUN <<'X'\necho run > /run1\nX"}}}}}`
	id := b.create(body)
	for path, want := range map[string]string{"/top": "t", "/outer": "o", "/inner": "i", "/run1": "run\n"} {
		b.do("POST", "/v1/vms/"+id+"/exec-await", `{"command":"cat `+path+`"}`).has(t, "stdout", want)
	}
	v := b.do("GET", "/v1/vms/"+id, nil).has(t, "workdir", "/work")
	if size, _ := v.json["sizing"].(map[string]any); size["vcpuCount"] != 2.0 || size["memSizeMib"] != 1024.0 {
		t.Errorf("the VM's size is %v, want 2 CPUs and 1024 MiB", size)
	}
	build := b.do("GET", "/v1/vms/"+id+"/build", nil).has(t, "state", "succeeded", "vmId", id)
	phases := b.do("GET", "/v1/vms/builds/"+build.json["buildId"].(string)+"/phases", nil)
	if n := strings.Count(string(phases.body), `"layer-`); n != 3 {
		t.Errorf("%d layers: %s", n, phases.body)
	}
}
