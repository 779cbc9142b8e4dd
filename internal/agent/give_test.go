// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// Chromium finds the VM's own CA in each directory of policies, and a link there leads to /run.
func TestGiveChromium(t *testing.T) {
	a, root, _ := trusting(t)
	policy := func(dir string) (out map[string]any) {
		t.Helper()
		link := filepath.Join(root, dir, "warren.json")
		if to, err := os.Readlink(link); err != nil || to != filepath.Join(root, vm.ChromiumPolicyFile) {
			t.Errorf("%s leads to %q, %v", link, to, err)
		}
		b, err := os.ReadFile(link)
		if err == nil {
			err = json.Unmarshal(b, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a.give(vm.Reset{})
	for _, dir := range vm.ChromiumPolicies() {
		got := policy(dir)
		if _, ok := got["CACertificates"]; ok || got["EncryptedClientHelloEnabled"] != false {
			t.Errorf("without a CA the policy in %s is %v, want no certificate, and no ECH", dir, got)
		}
	}
	for _, der := range []string{"one", "two"} {
		a.give(vm.Reset{OwnCA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})})
		for _, dir := range vm.ChromiumPolicies() {
			got := policy(dir)
			list, ok := got["CACertificates"].([]any)
			if !ok || len(list) != 1 || list[0] != base64.StdEncoding.EncodeToString([]byte(der)) || got["EncryptedClientHelloEnabled"] != false {
				t.Errorf("the policy in %s is %v, want the certificate %s, and no ECH", dir, got, der)
			}
		}
	}
}

// Programs with CAs of their own find a file with the system's CAs and the VM's.
func TestGiveTrust(t *testing.T) {
	a, root, certs := trusting(t)
	if err := os.WriteFile(filepath.Join(certs, "ca-certificates.crt"), []byte("system"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(root, vm.EnvFile)
	a.give(vm.Reset{})
	if b, err := os.ReadFile(env); err == nil {
		t.Errorf("without a CA and secrets there is an environment: %q", b)
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("own")})
	a.give(vm.Reset{OwnCA: own, CA: []byte("host's\n"), Secrets: []vm.GuestSecret{{Name: "tools", Env: "TOOLS", Placeholder: "like-it"}}})
	b, err := os.ReadFile(env)
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		vars[name] = value
	}
	if vars["TOOLS"] != "like-it" {
		t.Errorf("the placeholder is %q", vars["TOOLS"])
	}
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO", "NPM_CONFIG_CAFILE", "CODEX_CA_CERTIFICATE"} {
		if got, err := os.ReadFile(vars[name]); err != nil || string(got) != "system\n"+string(own)+"host's\n" {
			t.Errorf("%s=%s leads to %q, %v", name, vars[name], got, err)
		}
	}
	if got, err := os.ReadFile(vars["NODE_EXTRA_CA_CERTS"]); err != nil || string(got) != string(own) {
		t.Errorf("NODE_EXTRA_CA_CERTS=%s leads to %q, %v", vars["NODE_EXTRA_CA_CERTS"], got, err)
	}
	a.give(vm.Reset{})
	if _, err := os.ReadFile(env); err == nil {
		t.Error("the environment outlives the CA and the secrets")
	}
}
