//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// api sends a request to the API as the admin, and decodes the answer.
func (h *host) api(method, path string, in, out any) {
	h.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, "http://"+h.listen+path, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		h.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s %s answers %d: %s", method, path, resp.StatusCode, &answer)
	}
	if err := json.Unmarshal(answer.Bytes(), out); err != nil {
		h.t.Fatalf("%s %s answers what cannot be decoded: %v: %s", method, path, err, &answer)
	}
}

// differs compares states of a VM, and returns the changes one a line.
func (h *host) differs(name string, r vm.DiffRequest) (vm.Diff, []string) {
	h.t.Helper()
	var d vm.Diff
	h.api("POST", "/v1/vms/"+name+"/diff", r, &d)
	var list []string
	for _, c := range d.Changes {
		list = append(list, string(c.Verb)+" "+c.Path.String())
	}
	slices.Sort(list)
	return d, list
}

func (h *host) wantsDiff(what string, got []string, want ...string) {
	h.t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.t.Errorf("%s shows %q, want %q", what, got, want)
	}
}

// TestReviewDiff: what a shell has changed in a running VM is in the difference, also when
// it is only in the guest's cache; also to its image, whose file system is smaller; from a
// turn, of a suspended and of a stopped VM, and of a fork.
// 000-26
func TestReviewDiff(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	project := []vm.GuestPath{"/work"}
	h.sh("app", "mkdir -p /work/src && echo one > /work/src/one && chmod 600 /work/src/one && rm /etc/motd")
	d, list := h.differs("app", vm.DiffRequest{Paths: append(project, "/etc/motd")})
	h.wantsDiff("a shell's changes", list, "added /work/src", "added /work/src/one", "deleted /etc/motd")
	if d.From.Image == "" || d.From.Generation != "" {
		t.Errorf("the older side is %+v, want the image", d.From)
	}
	var first, second vm.Turn
	h.api("POST", "/v1/vms/app/turns", map[string]string{"note": "first"}, &first)
	// What is written now is in the cache alone when the turn is marked.
	h.sh("app", "echo two > /work/src/two; dd if=/dev/zero bs=1M count=20 2>/dev/null | tr '\\0' x > /work/src/large")
	h.api("POST", "/v1/vms/app/turns", map[string]string{"note": "second"}, &second)
	h.sh("app", "mv /work/src/two /work/src/three")
	_, list = h.differs("app", vm.DiffRequest{From: string(first.ID), To: string(second.ID)})
	h.wantsDiff("two turns", slices.DeleteFunc(list, func(s string) bool { return !strings.Contains(s, "/work/") }), "added /work/src/two", "added /work/src/large")
	d, list = h.differs("app", vm.DiffRequest{Paths: project})
	h.wantsDiff("since the last turn", list, "renamed /work/src/three")
	if d.From.Generation != second.ID {
		t.Errorf("the older side is %s, want the last turn, %s", d.From.Generation, second.ID)
	}
	h.ok("fork", "app", "--name", "try")
	h.sh("try-1", "echo child > /work/child")
	_, list = h.differs("try-1", vm.DiffRequest{From: "parent", Paths: project})
	if !slices.Contains(list, "added /work/child") {
		t.Errorf("a fork shows %q, want its own file", list)
	}
	_, list = h.differs("try-1", vm.DiffRequest{From: "vm:app", Paths: project})
	h.wantsDiff("a fork and its parent now", list, "added /work/child")
	h.sh("app", "echo asleep > /work/asleep")
	h.ok("suspend", "app")
	_, list = h.differs("app", vm.DiffRequest{Paths: project})
	h.wantsDiff("a suspended VM", list, "renamed /work/src/three", "added /work/asleep")
	h.ok("start", "app")
	h.ok("stop", "app")
	_, list = h.differs("app", vm.DiffRequest{From: "image", Paths: project})
	h.wantsDiff("a stopped VM and its image", list, "added /work/src", "added /work/src/one", "added /work/src/three", "added /work/src/large", "added /work/asleep")
	t.Logf("the VM was paused for %.1f and %.1f ms for its turns", first.PauseMs, second.PauseMs)
}
