// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestIdentityCommands: flags become requests, secrets are printed once, and
// listings are readable and, as JSON, arrays.
func TestIdentityCommands(t *testing.T) {
	f := newFake(t)
	const base = "/identity/v1/identities"
	var body string
	on := func(pattern string, answer any) {
		f.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			body = string(data)
			reply(w, answer)
		})
	}
	now := time.Now()
	later := now.Add(3 * time.Hour)
	users := []string{"alice", "deploy"}
	permission := api.VMPermission{ID: "p", VMID: vm.ID("aaaaaaaaaaaaaaaaaaaa"), AllowedUsers: &users, GrantedAt: now}
	on("POST "+base, api.Identity{ID: "an-id", Name: "ci", CreatedAt: now})
	on("GET "+base, api.IdentityList{Identities: []api.Identity{{ID: "an-id", Name: "ci", CreatedAt: now}}, Total: 1})
	on("DELETE "+base+"/ci", struct{}{})
	on("POST "+base+"/ci/permissions/vm/box", permission)
	on("PUT "+base+"/ci/permissions/vm/box", api.VMPermission{VMID: permission.VMID})
	on("DELETE "+base+"/ci/permissions/vm/box", struct{}{})
	on("GET "+base+"/ci/permissions/vm", api.VMPermissionList{Permissions: []api.VMPermission{permission}, Total: 1})
	on("POST "+base+"/ci/tokens", api.CreatedToken{ID: "t-1", Token: "sesame"})
	on("GET "+base+"/ci/tokens", api.TokenList{Tokens: []api.Token{{ID: "t-1", CreatedAt: now, ExpiresAt: &later}, {ID: "t-2", CreatedAt: now}}})
	on("DELETE "+base+"/ci/tokens/t-1", struct{}{})
	on("POST "+base+"/ci/keys", api.SSHKey{Name: "laptop", Fingerprint: "SHA256:abc"})
	on("GET "+base+"/ci/keys", api.SSHKeyList{Keys: []api.SSHKey{{Name: "laptop", Fingerprint: "SHA256:abc", ForwardAgent: true, CreatedAt: now}}})
	on("DELETE "+base+"/ci/keys/SHA256:a%2Fb", struct{}{})

	file := filepath.Join(t.TempDir(), "id.pub")
	if err := os.WriteFile(file, []byte("ssh-ed25519 AAAA laptop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		line, stdin, sent, shown string
	}{
		{"identity create ci", "", `{"name":"ci"}`, "an-id ci"},
		{"identity create", "", `{}`, "an-id"},
		{"identity ls", "", "", "ci    0s"},
		{"identity ls --json", "", "", `"id": "an-id"`},
		{"identity grant ci box --user alice,deploy", "", `{"allowedUsers":["alice","deploy"]}`, "ci may use box as alice, deploy"},
		{"identity grant ci box", "", `{"allowedUsers":null}`, "ci may use box as"},
		{"identity grant ci box --change", "", `{"allowedUsers":null}`, "ci may use box as any user"},
		{"identity revoke ci box", "", "", "ci may no longer use box"},
		{"identity permissions ci", "", "", "alice, deploy"},
		{"identity permissions ci --json", "", "", `"allowedUsers"`},
		{"token create ci", "", `{}`, "sesame"},
		{"token create ci --ttl 2h", "", `{"ttlSeconds":7200}`, "sesame"},
		{"token ls ci", "", "", "never"},
		{"token ls ci --json", "", "", `"id": "t-2"`},
		{"token revoke ci t-1", "", "", "t-1 is revoked"},
		{"identity key add ci " + file, "", `{"publicKey":"ssh-ed25519 AAAA laptop\n","forwardAgent":false}`, "laptop SHA256:abc"},
		{"identity key add ci - --name x --forward-agent", "line", `{"name":"x","publicKey":"line","forwardAgent":true}`, "laptop"},
		{"identity key ls ci", "", "", "SHA256:abc   yes"},
		{"identity key ls ci --json", "", "", `"forwardAgent": true`},
		{"identity key rm ci SHA256:a/b", "", "", "SHA256:a/b is removed"},
		{"identity rm ci", "", "", "ci is removed"},
	} {
		body = ""
		r := run(t, f, Local{}, try.stdin, strings.Fields(try.line)...)
		if r.code != 0 || !strings.Contains(r.out, try.shown) || strings.TrimSpace(body) != try.sent {
			t.Errorf("%s: status %d, sent %q, shown %q %q", try.line, r.code, body, r.out, r.stderr)
		}
	}
	if !slices.Contains(f.requests(), "PUT "+base+"/ci/permissions/vm/box") {
		t.Error("--change is no PUT")
	}
	run(t, f, Local{}, "", "token", "create", "ci", "--ttl", "soon").wants(t, 2, "soon")
	run(t, f, Local{}, "", "identity", "key", "add", "ci", "/no/such/file").wants(t, 2, "/no/such/file")
}
