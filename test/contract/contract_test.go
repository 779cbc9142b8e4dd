// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/freestyle"
	"github.com/warren-vm/warren/internal/gateway"
	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// install makes sure once that the npm packages are there.
var install = sync.OnceValue(func() error {
	_, older := os.Stat("node_modules/freestyle-sandboxes/index.mjs")
	_, current := os.Stat("node_modules/freestyle-v5/dist/index.js")
	if older == nil && current == nil {
		return nil
	}
	out, err := exec.Command("npm", "ci", "--no-audit", "--no-fund").CombinedOutput()
	if err != nil {
		return &installError{err, out}
	}
	return nil
})

type installError struct {
	err error
	out []byte
}

func (e *installError) Error() string { return "npm ci: " + e.err.Error() + "\n" + string(e.out) }

// needPackages skips where there is no Node, and fails where the packages
// cannot be had.
func needPackages(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: the contract tests need Node 20 with npm", program)
		}
	}
	if err := install(); err != nil {
		t.Fatal(err)
	}
}

// site is the API over an engine on a simulated host.
type site struct {
	*vmtest.Site
	engine *vmtest.House
	url    string
	secret string // the admin's key
	call   *vm.Call
	names  string // address of the name server that it asks
}

func newSite(t *testing.T) *site {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img := vmtest.NewImage("base")
	img.Workdir = "/workspace" // as the shipped image has it
	s.World.RemoveImages()
	s.World.AddImage(img)
	names, err := vmtest.FreeUDP()
	if err != nil {
		t.Fatal(err)
	}
	s.Resolver = vmtest.ResolverAt(names)
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call, secret, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	lifetime, end := context.WithCancel(context.Background())
	door := httpd.New(httpd.Config{House: e.Rooms, Log: slog.New(slog.DiscardHandler), Lifetime: lifetime, Previews: gateway.New(gateway.Config{Engine: e, Domains: []string{"warren.localhost"}})})
	h := e.Rooms
	v5 := freestyle.New(freestyle.Config{
		Engine: h.Engine, Inside: h.Inside, Access: h.Access, Policy: h.Policy, Names: h.Names, Meter: h.Meter, Answers: h.Answers, Journal: h.Journal,
		Log: slog.New(slog.DiscardHandler), Lifetime: lifetime,
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v5.Takes(r) {
			v5.ServeHTTP(w, r)
			return
		}
		door.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		end()
		server.Close()
		door.Wait()
		v5.Wait()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := s.World.Running(); len(left) > 0 {
			t.Errorf("a script has left VMs: %v", left)
		}
	})
	return &site{Site: s, engine: e, url: server.URL, secret: secret, call: call, names: names}
}

// TestScripts runs every script against the simulator, or, where
// FREESTYLE_API_URL names one, against a real server. What needs a real Linux
// says so and is left out on the simulator; test/system runs all of it.
func TestScripts(t *testing.T) {
	needPackages(t)
	env := os.Environ()
	if os.Getenv("FREESTYLE_API_URL") == "" {
		s := newSite(t)
		env = append(env, "FREESTYLE_API_URL="+s.url, "FREESTYLE_API_KEY="+s.secret, "WARREN_SIMULATED=1", "WARREN_TEST_DNS="+s.names)
	}
	scripts, err := filepath.Glob("*.test.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(script, ".test.mjs"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", "--experimental-websocket", "--test", "--test-concurrency=1", script)
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("the SDK's script %s fails: %v\n%s", script, err, out)
			}
		})
	}
}
