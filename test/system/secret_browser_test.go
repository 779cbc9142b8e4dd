//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vmtest"
)

// secretPage asks its own host with the token behind its address's #, and another host, which
// has no secret. It shows both answers.
const secretPage = `<!doctype html><title>page</title><p id="secret"></p><p id="plain"></p><script>
async function show(id, url, options) {
  let text
  try { text = await (await fetch(url, options)).text() } catch (err) { text = "failed: " + err }
  document.getElementById(id).textContent = text
}
show("secret", "/", {headers: {authorization: "Bearer " + location.hash.slice(1)}})
show("plain", "https://plain.example.com/")
</script>
`

// guestProxy is a program that makes connections for a browser outside, in the guest's network.
const guestProxy = `package main
import ("io"; "net"; "net/http")
func main() {
	panic(http.ListenAndServe("127.0.0.1:8888", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := net.Dial("tcp", r.Host)
		if err != nil { http.Error(w, err.Error(), 502); return }
		w.WriteHeader(200)
		c, b, err := http.NewResponseController(w).Hijack()
		if err != nil { panic(err) }
		go func() { io.Copy(to, b); to.(*net.TCPConn).CloseWrite() }()
		io.Copy(c, to)
		c.Close()
	})))
}
`

// pages serves secretPage to everybody, and the rest as api does.
func pages(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/page" {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, secretPage)
	})
}

// plainPage may be read by pages of all hosts.
func plainPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	_, _ = io.WriteString(w, "the plain host answers")
}

// chromium loads secretPage with Debian's Chromium, which has the VM's policy, and the VM's
// network by a program in the guest. An emulated Chromium takes minutes to start, so it runs
// beside the VM: all of its greetings and requests are those of the guest.
func chromium(t *testing.T, w *netWorld, h *host) {
	w.forget()
	h.ok("exec", "-d", "box", "--", "/tools/bin/proxy")
	address := vmtest.FreePort(t)
	_, port, _ := strings.Cut(address, ":")
	forward := exec.Command(h.binary, "forward", "box", port+":8888")
	forward.Env = h.environ()
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Signal(os.Interrupt)
		_ = forward.Wait()
	}()
	token := strings.TrimSpace(h.ok("exec", "box", "--", "cat", "/run/warren/secrets/tools"))
	without, complaints := w.load(t, port, t.TempDir(), token)
	if strings.Contains(without, "welcome") || strings.Contains(without, "the plain host") {
		t.Errorf("without the VM's policy Chromium shows %q: %s", without, complaints)
	}
	// Debian's Chromium reads this directory, and in the guest the file is a link.
	managed := t.TempDir()
	policy := h.ok("exec", "box", "--", "cat", "/etc/chromium/policies/managed/warren.json")
	if err := os.WriteFile(filepath.Join(managed, "warren.json"), []byte(policy), 0o644); err != nil {
		t.Fatal(err)
	}
	shown, complaints := w.load(t, port, managed, token)
	for _, want := range []string{`<p id="secret">welcome</p>`, `<p id="plain">the plain host answers</p>`} {
		if !strings.Contains(shown, want) {
			t.Errorf("Chromium shows %q, want %s in it: %s", shown, want, complaints)
		}
	}
	if !w.saw("tls", "plain.example.com") {
		t.Errorf("Chromium's greeting did not reach the plain host: %v", w.arrived())
	}
}

// keyOf is the hash of the key of a host's certificate, from now on always the same.
func (w *netWorld) keyOf(host string) string {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.certs[host]
	if c == nil {
		var err error
		if c, err = w.issue(host, w.caCert, w.caKey); err != nil {
			w.t.Fatal(err)
		}
		w.certs[host] = c
	}
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		w.t.Fatal(err)
	}
	hash := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(hash[:])
}

// load prints what the page shows in a new Chromium with a directory of policies. It gets the
// plain host's own certificate, for which it needs an exception: nobody trusts the world's CA.
func (w *netWorld) load(t *testing.T, port, managed, token string) (shown, complaints string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const policies = "/etc/chromium/policies/managed"
	cmd := exec.CommandContext(ctx, "nsenter", "--net=/run/netns/"+w.inner, "unshare", "-m", "sh", "-c", `mkdir -p `+policies+` && mount --bind "$0" `+policies+` && exec chromium "$@"`, managed,
		"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--user-data-dir="+t.TempDir(),
		"--ignore-certificate-errors-spki-list="+w.keyOf("plain.example.com"), "--proxy-server=http://127.0.0.1:"+port,
		"--virtual-time-budget=20000", "--dump-dom", "https://tools.example.com/page#"+token)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Errorf("chromium: %v: %s", err, errs.String())
	}
	t.Logf("Chromium ended after %v", time.Since(start))
	return out.String(), errs.String()
}
