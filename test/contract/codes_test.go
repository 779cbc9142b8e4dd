// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

var codeInSDK = regexp.MustCompile(`static code = "([A-Z0-9_]+)";\s+static statusCode = (\d+)`)

// sdkCodes reads the error classes of an npm package: status by code.
func sdkCodes(t *testing.T, name string, atLeast int) map[string]int {
	t.Helper()
	needPackages(t)
	source, err := os.ReadFile(filepath.Join("node_modules", name, "index.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]int{}
	for _, m := range codeInSDK.FindAllStringSubmatch(string(source), -1) {
		if codes[m[1]], err = strconv.Atoi(m[2]); err != nil {
			t.Fatal(err)
		}
	}
	if len(codes) < atLeast {
		t.Fatalf("%s: only %d codes were found", name, len(codes))
	}
	return codes
}

// TestCodesAreTheSDKs compares the table that Warren answers from with the
// package's own: each code is known, and has that status.
func TestCodesAreTheSDKs(t *testing.T) {
	known := sdkCodes(t, "freestyle", 327)
	for code, status := range api.Codes {
		ours := func(prefix string) bool { return strings.HasPrefix(code, prefix) }
		if slices.ContainsFunc([]string{
			"EVENTS_GONE", "MACHINE_MOVED", "SECRETS_FOUND", "UPLOAD_NOT_FOUND", "KEY_LIMIT_EXCEEDED", "VOLUME_", "MOUNT_", "HOST_PATH_", "BUCKET_", "BUNDLE_", "OBJECT_", "OCI_", "DOCKERFILE_",
			"APPROVAL_", "ASK_", "AUDIT_", "NETWORK_", "PATH_ASK", "PATH_DENIED", "PATH_READ_ONLY", "PATH_RULE_", "POLICY_", "RECEIPT_", "SECRET_", "UNTRUSTED", "NO_SCREEN", "SCREEN_",
		}, ours) {
			continue // of routes that no SDK calls
		}
		if known[code] == 0 {
			t.Errorf("%s is not a code of the SDK", code)
		} else if known[code] != status {
			t.Errorf("%s: status %d, the SDK has %d", code, status, known[code])
		}
	}
	older := sdkCodes(t, "freestyle-sandboxes", 273)
	for _, code := range []string{"CREATE_VM_BAD_REQUEST", "VM_NOT_FOUND", "SNAPSHOT_NOT_FOUND", "FILE_NOT_FOUND", "INVALID_REQUEST", "NOT_FOUND", "CONFLICT", "UNAUTHORIZED_ERROR", "FORBIDDEN", "INTERNAL_ERROR"} {
		if older[code] == 0 || older[code] != api.Codes[code] {
			t.Errorf("%s: the older package has status %d", code, older[code])
		}
	}
}

var codeInSource = regexp.MustCompile(`(?:WithCode|invalid|bad)\("([A-Z0-9_]+)"|Code(?::|\s*=)\s*"([A-Z0-9_]+)"`)

// TestSourcesNameKnownCodes: an error is never given a code that would be sent
// as another, but for those of which that is meant.
func TestSourcesNameKnownCodes(t *testing.T) {
	meant := map[string]bool{
		"PROCESS_NOT_FOUND": true, // of the guest link; NOT_FOUND outside
		"REVISION_GONE":     true, // of the store; never leaves the engine
	}
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range codeInSource.FindAllStringSubmatch(string(data), -1) {
			code := m[1] + m[2]
			found++
			if api.Codes[code] == 0 && !meant[code] {
				t.Errorf("%s: %s is not in api.Codes", path, code)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 40 {
		t.Errorf("only %d codes were found in the sources", found)
	}
}

// post makes one request and returns the answer's status and body.
func (s *site) post(t *testing.T, secret, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil || out == nil {
		t.Fatalf("%s: %d %q is no JSON object", path, resp.StatusCode, data)
	}
	return resp.StatusCode, out
}

// TestCreateEndsTheSDKsPatience: whatever goes wrong, POST /v1/vms answers with
// a code that the SDK knows; on any other it asks again for ever, and makes a VM
// each time that it succeeds.
func TestCreateEndsTheSDKsPatience(t *testing.T) {
	known := sdkCodes(t, "freestyle", 327)
	s := newSite(t)
	check := func(what string, status int, body map[string]any) {
		t.Helper()
		code, _ := body["code"].(string)
		if known[code] == 0 || known[code] != status || body["message"] == "" || body["error"] != code {
			t.Errorf("%s: %d %v, the SDK has status %d", what, status, body, known[code])
		}
	}
	for _, step := range []string{"find", "warm", "boot", "overlay", "launch", "guest"} {
		for _, row := range api.Kinds {
			for _, code := range []string{"", "NOT_A_CODE_OF_ANY_SDK"} {
				failure := vm.Errorf(row.Kind, "x", "made to fail")
				failure.Code = code
				s.World.Fail(step, failure)
				status, body := s.post(t, s.secret, "/v1/vms", `{"additionalFiles":{"/etc/x":{"content":"x"}}}`)
				s.World.Fail(step, nil)
				if status == http.StatusOK {
					t.Errorf("%s failing with %s: created anyway", step, row.Kind)
				}
				check(fmt.Sprintf("%s failing with %s %s", step, row.Kind, code), status, body)
			}
		}
		s.World.Fail(step, errors.New("a bug"))
		status, body := s.post(t, s.secret, "/v1/vms", `{"users":[{"name":"ann"}]}`)
		s.World.Fail(step, nil)
		check(step+" with a bug", status, body)
	}
	for _, body := range []string{
		"", "null", "[]", "{", `"x"`, `{"vcpuCount":"many"}`, `{"memSizeGb":0.5}`, `{"vcpuCount":3}`, `{"vcpuCount":64}`, `{"memSizeGb":3}`,
		`{"rootfsSizeGb":99999}`, `{"persistence":{"type":"forever"}}`, `{"idleTimeoutSeconds":-1}`, `{"name":"Bad Name"}`, `{"snapshotId":"sc-x"}`,
		`{"image":"none"}`, `{"network":"wide"}`, `{"ports":[{"port":443,"targetPort":3000}]}`, `{"users":[{"name":"a","uid":-1}]}`,
		`{"groups":[{"name":""}]}`, `{"readySignalTimeoutSeconds":0}`, `{"additionalFiles":{"/x":{"content":"?","encoding":"base64"}}}`,
		`{"recreate":true}`, `{"spec":{"snapshot":{}}}`, `{"spec":{"snapshot":{"aptDeps":["x"]}}}`, strings.Repeat(" ", 1<<20) + "x",
	} {
		status, answer := s.post(t, s.secret, "/v1/vms", body)
		if id, made := answer["id"].(string); made {
			if _, err := s.engine.Delete(t.Context(), s.call, id); err != nil {
				t.Error(err)
			}
			continue
		}
		check(body[:min(len(body), 60)], status, answer)
	}
	status, body := s.post(t, "wrong", "/v1/vms", "{}")
	check("a wrong key", status, body)
	status, body = s.post(t, s.secret, "/v1/vms", "{}", "Host", "evil.example")
	check("a foreign name", status, body)
	status, body = s.post(t, s.secret, "/v1/vms", "{}", api.HeaderBackgroundIn, "soon")
	check("a bad background header", status, body)
	for _, bad := range []string{`{"persistence":{"type":"ephemeral"}}`, `{"spec":{"aptDeps":["-x"]}}`, `{"template":{"snapshotId":"sc-x"}}`, "[]"} {
		status, body = s.post(t, s.secret, "/v1/vms/snapshots", bad)
		check("a snapshot of "+bad, status, body)
	}
	for _, step := range []string{"launch", "guest", "capture"} {
		for _, row := range api.Kinds {
			s.World.Fail(step, vm.Errorf(row.Kind, "x", "made to fail"))
			status, body = s.post(t, s.secret, "/v1/vms/snapshots", `{"spec":{"users":[{"name":"ann"}]}}`)
			s.World.Fail(step, nil)
			check(fmt.Sprintf("a layer whose %s fails with %s", step, row.Kind), status, body)
		}
	}
	s.World.SetFree(1<<20, 1<<40)
	status, body = s.post(t, s.secret, "/v1/vms", "{}")
	check("no memory", status, body)
	s.World.SetFree(1<<40, 1<<20)
	status, body = s.post(t, s.secret, "/v1/vms", "{}")
	check("no disk", status, body)
	if left := s.World.Running(); len(left) > 0 {
		t.Errorf("failed creates have left %v", left)
	}
}
