//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/warren-vm/warren/internal/vmtest"
)

// nodeApp counts its requests and says who it is.
const nodeApp = `let n = 0;
require("http").createServer((request, response) => {
  n++;
  response.end(n + " " + process.cwd() + " " + process.getuid() + " " + process.env.NODE_ENV);
}).listen(3000, "0.0.0.0", () => console.log("listens"));
`

// TestOCINode: an image of a Node application, in two layers, answers on its port, and so does a fork,
// which continues to count. // 002-44
func TestOCINode(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: Debian's Node is downloaded and an emulated Node takes a minute to start; `make soak` sets it")
	}
	files := filepath.Join(t.TempDir(), "node.tar")
	// The host's own Debian, as scripts/test-image.sh has it.
	debian := exec.Command("sh", "-c", `mmdebstrap --mode=unshare --variant=minbase --include=nodejs "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$0"`, files)
	if out, err := debian.CombinedOutput(); err != nil {
		t.Fatalf("Debian's Node is not put together: %v\n%s", err, out)
	}
	layer, err := tarball.LayerFromFile(files)
	if err != nil {
		t.Fatalf("Debian's Node is no layer: %v", err)
	}
	h := importer(t)
	h.serve()
	t.Cleanup(h.close)
	ref := pushed(t, "test/site:1", v1.Config{
		Entrypoint: []string{"node"}, Cmd: []string{"/app/server.js"}, User: "1000:1000", WorkingDir: "/app",
		Env: []string{"NODE_ENV=production", "PATH=/usr/local/bin:/usr/bin:/bin"}, ExposedPorts: map[string]struct{}{"3000/tcp": {}},
	}, layer, layerOf(t, map[string][]byte{"app/server.js": []byte(nodeApp)}))
	began := time.Now()
	h.runWithin(10*time.Minute, "", nil, "up", ref, "--name", "web").wants(t, 0, "")
	t.Logf("import and up: %v", time.Since(began))
	s := &shown{host: h, t: t}
	answers := func(name, want string) {
		t.Helper()
		_, port, _ := net.SplitHostPort(vmtest.FreePort(t))
		s.forwards(t, name, port+":3000", func() {
			if got := get(t, "http://127.0.0.1:"+port+"/"); got != want {
				t.Errorf("%s answers %q, want %q", name, got, want)
			}
		})
	}
	began = time.Now()
	for said := ""; !strings.Contains(said, "listens"); said = h.run("logs", "web", "--service", "app").stdout {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("the application does not listen; it says %q", said)
		}
		time.Sleep(time.Second)
	}
	t.Logf("the application listens after %v", time.Since(began))
	answers("web", "1 /app 1000 production")
	h.ok("fork", "web", "--name", "copy")
	answers("copy-1", "2 /app 1000 production")
	answers("web", "2 /app 1000 production")
	h.ok("suspend", "web")
	h.ok("start", "web")
	answers("web", "3 /app 1000 production")
}
