//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// Debian's Chromium, which a guest mounts at the same place.
const chromiumDir = "/usr/lib/chromium"

// secretPage asks its own host with the token behind its address's #, and another host, which
// has no secret. It shows both answers.
const secretPage = `<!doctype html><title>page</title><p id=secret></p><p id=plain></p><script>
async function show(id, url, options) {
  let text
  try { text = await (await fetch(url, options)).text() } catch (err) { text = "failed: " + err }
  document.getElementById(id).textContent = text
}
show("secret", "/", {headers: {authorization: "Bearer " + location.hash.slice(1)}})
show("plain", "https://plain.example.com/")
</script>
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

// chromiumLibs is a shell's line that copies the libraries of Chromium, and those that NSS
// loads by itself, to the directory chromium. The guest has its own C library.
const chromiumLibs = `mkdir chromium; nss="$(dirname "$(ldd ` + chromiumDir + `/chromium | awk '/libnss3/ {print $3}')")"
for l in softokn3 freebl3 freeblpriv3 nssckbi; do find "$nss" "$nss/nss" -maxdepth 1 -name "lib$l.*" -exec cp -L {} chromium/ \; 2>/dev/null || true; done
for l in $(ldd ` + chromiumDir + `/chromium chromium/*.so | awk '/=> \// {print $3}' | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv)\.so'); do [ -e "chromium/${l##*/}" ] || cp -L "$l" chromium/; done`

// chromiumLine loads secretPage in a guest, as somebody's first start of Chromium, and prints
// what it shows. Only the world's CA, which nobody trusts, needs an exception.
func (w *netWorld) chromiumLine() string {
	key := sha256.Sum256(w.caCert.RawSubjectPublicKeyInfo)
	return `HOME=/tmp/chromium LD_LIBRARY_PATH=/tools/chromium ` + chromiumDir + `/chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update \
--ignore-certificate-errors-spki-list=` + base64.StdEncoding.EncodeToString(key[:]) + ` --user-data-dir=/tmp/chromium/data --virtual-time-budget=60000 --dump-dom "https://tools.example.com/page#$TOOLS"`
}

// browse loads the page in Chromium.
func (h *host) browse(t *testing.T, w *netWorld) {
	t.Helper()
	w.forget()
	r := h.run("exec", "box", "--", "sh", "-c", w.chromiumLine())
	t.Logf("Chromium ended after %v", r.took)
	for _, want := range []string{`<p id="secret">welcome</p>`, `<p id="plain">the plain host answers</p>`} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("Chromium shows %q, want %s in it: %s", r.stdout, want, r.stderr)
		}
	}
	if strings.Contains(r.stderr, "ERR_CERT") || strings.Contains(r.stderr, "net_error") {
		t.Errorf("Chromium complains: %s", r.stderr)
	}
	if !w.saw("tls", "plain.example.com") {
		t.Errorf("Chromium's own greeting did not reach the plain host: %v", w.arrived())
	}
}

// needsChromium fails without Debian's Chromium.
func needsChromium(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(chromiumDir + "/chromium"); err != nil {
		t.Fatal("no Chromium: run deploy/install-deps.sh --tests")
	}
}
