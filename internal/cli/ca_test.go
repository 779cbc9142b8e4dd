// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/gateway"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// TestCATrust: with the store that Debian's own program makes, curl trusts a
// preview, but nothing else that the CA might sign.
func TestCATrust(t *testing.T) {
	for _, program := range []string{"update-ca-certificates", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := gateway.OpenCA(dir, []string{"warren.localhost"}, []string{"warren.localhost"})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/ca" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = w.Write(ca.PEM())
	}))
	defer api.Close()
	var out bytes.Buffer
	a := &app{io: newStreams(&out, &out, &out, func(string) string { return "" })}
	a.client = func() (*client.Client, error) { return client.New(api.URL, "k"), nil }

	root := t.TempDir()
	file := filepath.Join(root, caLocal, caFile)
	if err := a.caTrust(t.Context(), 1000, root); err != nil || !strings.Contains(out.String(), "sudo tee "+file) || !strings.Contains(out.String(), "certutil") {
		t.Errorf("trust without root: %v, want the commands for sudo and certutil in\n%s", err, &out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("written without the right")
	}
	if err := a.caTrust(t.Context(), 0, root); vm.KindOf(err) != vm.Unsupported || vm.AsError(err).Hint == "" {
		t.Errorf("without a store: %v", err)
	}
	for _, d := range []string{caLocal, caEtc, caHooks} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, caConf), []byte("# none of Debian's own\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // twice is as once
		if err := a.caTrust(t.Context(), 0, root); err != nil {
			t.Fatal(err)
		}
	}
	bundle := filepath.Join(root, caEtc, "ca-certificates.crt")
	if data, err := os.ReadFile(bundle); err != nil || bytes.Count(data, []byte("BEGIN CERTIFICATE")) != 1 {
		t.Fatalf("the bundle after two runs: %v, want one certificate in\n%s", err, data)
	}

	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "seen") }))
	web.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return ca.Leaf(h.ServerName) }}
	web.StartTLS()
	defer web.Close()
	host, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	curl := func(name, bundle string) ([]byte, error) {
		return exec.Command("curl", "-sS", "--noproxy", "*", "--resolve", name+":"+port+":"+host, "--cacert", bundle, "--capath", filepath.Dir(bundle), "https://"+name+":"+port+"/").CombinedOutput()
	}
	if body, err := curl("3000-box.warren.localhost", bundle); err != nil || string(body) != "seen" {
		t.Errorf("curl with the bundle got %q (%v), want seen", body, err)
	}
	if body, err := curl("bank.example", bundle); err == nil {
		t.Errorf("the CA speaks for a bank: %s", body)
	}
}
