// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAPICovers: what the API is to cover it does for one VM, each under a path
// of its own, and the description of a stop says that memory is not kept.
//
// 000-33, 001-35, 002-42
func TestAPICovers(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	box := "/v1/vms/" + id
	agent := b.identity("agent").id
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGh0bWxzYWZlLXRlc3Qta2V5LTAxMjM0NTY3ODkwMTIz laptop"
	seen := map[string]bool{}
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", box + "/exec-await", `{"command":"echo hi"}`, `"stdout":"hi\n"`}, // commands
		{"PUT", box + "/files/%2Fwork%2Ff", `{"content":"kept"}`, `{}`},           // files
		{"GET", box + "/files/%2Fwork%2Ff", "", `"content":"a2VwdA=="`},
		{"POST", box + "/resize", `{"vcpuCount":2}`, `"vcpuCount"`},
		{"POST", box + "/fork", `{"count":1}`, `"forks":[{`},
		{"GET", box + "/logs", "", ""},              // logs
		{"GET", box + "/previews/3000", "", `3000`}, // previews
		{"GET", box + "/pty/sessions", "", `"sessions":[]`},
		{"POST", "/identity/v1/identities/" + agent + "/permissions/vm/" + id, `{"allowedUsers":["ann"]}`, `"allowedUsers":["ann"]`}, // SSH, for named users
		{"POST", "/identity/v1/identities/" + agent + "/keys", `{"publicKey":"` + key + `"}`, `"fingerprint":"SHA256:`},
		{"POST", "/domains/v1/mappings/app.warren.localhost", `{"vmId":"` + id + `","vmPort":3000}`, `3000`},
		{"POST", box + "/stop", "", id},
		{"POST", box + "/start", "", id},
	} {
		b.do(c.method, c.path, c.body).answers(t, 200).contains(t, c.want)
		if seen[c.method+c.path] {
			t.Errorf("%s is two things", c.path)
		}
		seen[c.method+c.path] = true
	}
	var doc struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	if err := json.Unmarshal(b.as("", "GET", "/openapi.json", nil).body, &doc); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"get /v1/vms/{vm}/pty":                     "Open a terminal over a WebSocket",
		"get /v1/vms/{vm}/pty/sessions/{session}":  "Attach to a terminal over a WebSocket",
		"get /v1/vms/{vm}/ssh":                     "SSH over a WebSocket",
		"get /v1/vms/{vm}/processes/{process}/log": "Its output",
		"post /v1/vms/{vm}/stop":                   "the disk is kept, memory is not",
	} {
		method, path, _ := strings.Cut(path, " ")
		if got := doc.Paths[path][method].Summary; !strings.Contains(got, says) {
			t.Errorf("%s is described as %q", path, got)
		}
	}
}
