//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// toolsAPI is one host that answers as git, GitHub, PyPI, npm, a proxy of Go modules and a registry of
// cargo do, to whoever has the token, in the form in which each program sends it.
func toolsAPI(token string) http.Handler {
	wheel := demoWheel()
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	commit := strings.Repeat("a", 40)
	answers := map[string]string{
		"/repo.git/info/refs":                 line("# service=git-upload-pack\n") + "0000" + line(commit+" HEAD\x00agent=x\n") + line(commit+" refs/heads/main\n") + "0000",
		"/simple/demo/":                       `<a href="/files/demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>`,
		"/files/demo-1.0-py3-none-any.whl":    string(wheel),
		"/demo":                               `{"name":"demo","dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{"name":"demo","version":"1.2.3","dist":{"tarball":"https://tools.example.com/demo.tgz"}}}}`,
		"/go.example.com/demo/@v/v1.0.0.info": `{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`,
		"/go.example.com/demo/@v/v1.0.0.mod":  "module go.example.com/demo\n",
		"/config.json":                        `{"dl":"https://tools.example.com/dl","api":"https://tools.example.com","auth-required":true}`,
		"/api/v1/crates/demo/owners":          `{"users":[{"id":1,"login":"owner-of-demo","name":null}]}`,
		"/api/v3/user":                        `{"login":"welcome"}`,
		"/":                                   "welcome",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, basic := r.BasicAuth()
		sent := r.Header.Get("Authorization")
		if !(basic && password == token) && sent != token && sent != "Bearer "+token && sent != "token "+token {
			w.Header().Set("WWW-Authenticate", `Basic realm="tools"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		text, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "info/refs"):
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		case strings.HasPrefix(text, "{"):
			w.Header().Set("Content-Type", "application/json")
		case strings.HasPrefix(text, "<"):
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = io.WriteString(w, text)
	})
}

// demoWheel is a package of Python.
func demoWheel() []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"demo.py":                     "",
		"demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
		"demo-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"demo-1.0.dist-info/RECORD":   "",
	} {
		f, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// guestTools collects programs of this host, for a guest that mounts them: Node and npm, pip,
// uv, gh, Java, Go and cargo. It returns the directory, and that of Go.
func guestTools(t *testing.T) (tools, goRoot string) {
	t.Helper()
	programs, err := filepath.Abs("testdata/programs")
	if err != nil {
		t.Fatal(err)
	}
	tools = t.TempDir()
	sh := func(line string) string {
		t.Helper()
		out, err := exec.Command("bash", "-c", "set -e; cd "+tools+"; "+line).CombinedOutput()
		if err != nil {
			t.Fatalf("the command %s failed: %v\n%s", line, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	goRoot = sh("go env GOROOT")
	// Debian's Java has links to /etc, which the guest would follow.
	sh(`from="$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")"; mkdir java; cp -rL "$from"/{bin,lib,conf} java/ 2>/dev/null || true; rm -f java/lib/src.zip`)
	sh(`mkdir bin lib; cp "$(command -v node)" bin/node; for l in $(ldd bin/node | awk '/stdc|gcc_s|atomic/ {print $3}'); do cp -L "$l" lib/; done`)
	sh(`cp -r "$(npm root -g)/npm" npm`)
	sh(`cp "$(python3 -c 'import ensurepip,glob,os; print(glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))[0])')" pip.whl`)
	sh(`cp "$(command -v gh)" bin/gh`)
	sh(`python3 pip.whl/pip install -q --disable-pip-version-check --no-deps --no-compile --target uv -r ` + programs + `/requirements.txt; cp uv/bin/uv bin/; rm -r uv`)
	sh(`cp "$(rustup which cargo 2>/dev/null || command -v cargo)" bin/cargo`)
	write("Get.java", `import java.net.URI; import java.net.http.*;
public class Get { public static void main(String[] a) throws Exception {
  var r = HttpRequest.newBuilder(URI.create("https://tools.example.com/")).header("Authorization", "Bearer " + System.getenv("TOOLS")).build();
  var x = HttpClient.newHttpClient().send(r, HttpResponse.BodyHandlers.ofString());
  System.out.println(x.statusCode() + " " + x.body()); } }
`)
	sh("javac --release 17 Get.java")
	write("get.mjs", `const r = await fetch("https://tools.example.com/", {headers: {authorization: "Bearer " + process.env.TOOLS}});
console.log(r.status, await r.text());
`)
	write("get.go", `package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
	r, _ := http.NewRequest("GET", "https://tools.example.com/", nil)
	r.Header.Set("Authorization", "Bearer "+os.Getenv("TOOLS"))
	x, err := http.DefaultClient.Do(r)
	if err != nil { fmt.Println(err); return }
	b, _ := io.ReadAll(x.Body)
	fmt.Println(x.StatusCode, string(b))
}
`)
	write("proxy.go", guestProxy)
	sh("CGO_ENABLED=0 go build -o bin/goget get.go; CGO_ENABLED=0 go build -o bin/proxy proxy.go")
	return tools, goRoot
}

// program is a command line of a guest, and what it prints.
type program struct {
	name, line, want string
	slow             bool // it takes longer in an emulated guest than a change's tests may
}

// programsHost starts a server with a VM that mounts programs, and a host for each of its secrets.
func programsHost(t *testing.T) (*netWorld, *host) {
	t.Helper()
	const token = "tools-THE-VALUE-no-guest-ever-holds-4711"
	w := newNetWorld(t)
	w.handle("tools.example.com", pages(toolsAPI(token)))
	w.handle("plain.example.com", http.HandlerFunc(plainPage))
	w.name("tools.example.com")
	w.name("plain.example.com")
	tools, goRoot := guestTools(t)
	h := w.host()
	set := func(name, host, header, value string) {
		t.Helper()
		if r := h.runIn("", []byte(value), "secret", "set", name, "--host", host, "--header", header); r.code != 0 {
			t.Fatalf("secret set: %s", r)
		}
	}
	set("tools", "tools.example.com", "Authorization", token)
	reach := "tools.example.com,plain.example.com"
	args := []string{
		"up", "--name", "box", "--profile", "dev", "--secret", "tools", "--mem", "2G", "--add-dir", tools + ":/tools:ro", "--add-dir", goRoot + ":/opt/go:ro",
		"--add-dir", agentPrograms(t) + ":/agents/node_modules:ro",
	}
	for _, m := range modelAPIs() {
		m.t = t
		w.handle(m.host, m)
		w.name(m.host)
		set(m.secret, m.host, m.header, m.value)
		reach += "," + m.host
		args = append(args, "--secret", m.secret)
	}
	h.ok(append(args, "--net", reach)...)
	return w, h
}

// TestSecretPrograms: programs with CAs of their own, and their own ways to send a token, get
// no 401 and no certificate error.
func TestSecretPrograms(t *testing.T) {
	w, h := programsHost(t)
	for _, c := range append(toolLines(), agentLines()...) {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && os.Getenv("WARREN_SOAK") == "" {
				t.Skip("WARREN_SOAK is not set: emulated, it takes longer than 25 seconds; `make soak` runs it")
			}
			r := h.run("exec", "box", "--", "sh", "-c", "{ "+c.line+"\n} 2>&1")
			t.Logf("it ended after %v", r.took)
			if !strings.Contains(r.stdout, c.want) {
				t.Errorf("%s prints %q, want %q in it: %s", c.name, r.stdout, c.want, r.stderr)
			}
		})
	}
	t.Run("chromium", func(t *testing.T) { chromium(t, w, h) })
}

// toolLines are the commands of tools in a guest.
func toolLines() []program {
	const host = "https://tools.example.com"
	return []program{
		{name: "curl", want: "welcome", line: `curl -sS -H "Authorization: Bearer $TOOLS" ` + host},
		{name: "git", want: "refs/heads/main", line: `git ls-remote https://me:$TOOLS@tools.example.com/repo.git`},
		{name: "gh", want: "welcome", line: `HOME=/tmp GH_HOST=tools.example.com GH_ENTERPRISE_TOKEN=$TOOLS /tools/bin/gh api user --jq .login`},
		{name: "openssl", want: "welcome", line: `python3 -c 'import os,urllib.request as u; print(u.urlopen(u.Request("` + host + `/", headers={"Authorization": "Bearer "+os.environ["TOOLS"]})).read())'`},
		{name: "requests", want: "welcome", line: `python3 -c 'import os,sys; sys.path.insert(0, "/tools/pip.whl"); from pip._vendor import requests as r; print(r.get("` + host + `/", headers={"Authorization": "Bearer "+os.environ["TOOLS"]}).text)'`},
		{name: "pip", slow: true, want: "Saved ./demo-1.0-py3-none-any.whl", line: `cd /tmp; python3 /tools/pip.whl/pip download --disable-pip-version-check --no-deps --index-url https://me:$TOOLS@tools.example.com/simple demo`},
		{name: "uv", want: "demo==1.0", line: `HOME=/tmp /tools/bin/uv pip install --no-progress --python /usr/bin/python3 --target /tmp/uv --index-url https://me:$TOOLS@tools.example.com/simple demo`},
		{name: "go", want: "go.example.com/demo v1.0.0", line: `HOME=/tmp; printf 'machine tools.example.com login me password %s' "$TOOLS" > /tmp/.netrc; GOPROXY=` + host + ` GONOSUMDB='*' GONOSUMCHECK=1 GOFLAGS=-mod=mod GOTOOLCHAIN=local /opt/go/bin/go list -m go.example.com/demo@v1.0.0`},
		{name: "a program in Go", want: "200 welcome", line: `/tools/bin/goget`},
		{name: "node", want: "200 welcome", line: `LD_LIBRARY_PATH=/tools/lib /tools/bin/node /tools/get.mjs`},
		{name: "npm", slow: true, want: "1.2.3", line: `cd /tmp; printf '//tools.example.com/:_authToken=${TOOLS}\nregistry=` + host + `/\n' > .npmrc; LD_LIBRARY_PATH=/tools/lib /tools/bin/node /tools/npm/bin/npm-cli.js view demo version`},
		{name: "cargo", want: "owner-of-demo", line: `cd /tmp; CARGO_HOME=/tmp/cargo CARGO_REGISTRIES_T_INDEX=sparse+` + host + `/ CARGO_REGISTRIES_T_TOKEN=$TOOLS CARGO_REGISTRIES_T_CREDENTIAL_PROVIDER=cargo:token /tools/bin/cargo owner --list demo --registry t`},
		{name: "java", slow: true, want: "200 welcome", line: `/tools/java/bin/java -Xshare:auto -XX:TieredStopAtLevel=1 -cp /tools Get`},
	}
}
