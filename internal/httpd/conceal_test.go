// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestNoHostPaths: whatever fails, in files, in QEMU or in a capture, no answer says
// where the server's files are: not the error's, and none that shows later what had
// failed.
func TestNoHostPaths(t *testing.T) {
	b := newBench(t)
	data, run := string(b.site.Dir), string(b.site.Run)
	id := b.create(map[string]any{"name": "app"})
	gone := &os.PathError{Op: "open", Path: filepath.Join(data, "generations", "sl-x", "disk.qcow2"), Err: os.ErrPermission}
	failures := map[string]error{
		"of a file":     vm.Errorf(vm.Denied, gone.Path, "%w", gone),
		"bare":          gone,
		"of QEMU":       vm.Errorf(vm.Internal, id, `qemu blockdev-snapshot-sync: Could not open 'json:{"file": {"filename": "%s/vms/%s/lent/overlay-sl-x.qcow2"}}'`, data, id),
		"with its hint": vm.Errorf(vm.NoSpace, "disk", "no room").WithCode("", "reason", data+"/generations/x").WithHint("free some in %s/generations", data),
		"of a socket":   vm.Errorf(vm.Unavailable, "", "dial unix %s/%s/monitor.sock: connection refused", run, id),
	}
	for _, q := range []struct{ path, steps string }{
		{"/fork", "begin capture captured advance disk launch"},
		{"/snapshot", "begin capture advance publish disk-on"},
		{"/suspend", "capture"},
		{"/stop", "stop"},
		{"/start", "launch"},
	} {
		for _, step := range strings.Fields(q.steps) {
			for name, err := range failures {
				k := vm.KindOf(err)
				if strings.HasPrefix(step, "capture") && (k == vm.Unavailable || k == vm.Internal) && q.path+name != "/forkof QEMU" {
					continue // the engine waits 2 s for the machine's end
				}
				b.site.World.Fail(step, err)
				a := b.do("POST", "/v1/vms/"+id+q.path, map[string]any{})
				b.site.World.Fail(step, nil)
				b.pathless(fmt.Sprintf("%s: an error %s at %s", q.path, name, step), a.body)
			}
		}
	}
	for _, path := range []string{"/v1/vms", "/v1/vms/" + id, "/v1/vms/snapshots?includeFailed=true&includeDeleted=true&includeLost=true", "/v1/vms/" + id + "/lineage", "/v1/audit?limit=1000"} {
		b.pathless(path, b.do("GET", path, nil).body)
	}
	b.do("GET", "/v1/vms/"+id, nil).answers(t, 200)
}

// pathless checks that an answer has no path of the server's directories, plain or
// as JSON writes it.
func (b *bench) pathless(what string, body []byte) {
	b.t.Helper()
	for _, dir := range []string{string(b.site.Dir), string(b.site.Run)} {
		if bytes.Contains(body, []byte(dir)) {
			b.t.Errorf("%s shows the path %s: %s", what, dir, body)
		}
	}
}

// TestOnePlaceForErrors: every error answer is written where the paths are taken out.
func TestOnePlaceForErrors(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		n := bytes.Count(text, []byte("api.EncodeError("))
		if want := map[bool]int{true: 1}[f == "server.go"]; n != want && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("%s encodes %d errors itself: use errorBody", f, n)
		}
	}
}
