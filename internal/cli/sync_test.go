// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/treesync"
	"github.com/warren-vm/warren/vm"
)

// syncFake serves a directory as the VM's side of a sync.
func syncFake(t *testing.T, dir string) *fake {
	t.Helper()
	f := newFake(t)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	f.on("GET /v1/vms/{vm}", api.VM{ID: "v1", Name: "box", State: vm.Running})
	f.on("POST /v1/vms/{vm}/fs/mkdir", struct{}{})
	ended := func(w http.ResponseWriter, do func() error) {
		w.Header().Set("Trailer", api.HeaderEnd)
		if err := do(); err != nil {
			t.Errorf("the VM's side: %v", err)
			return
		}
		w.Header().Set(api.HeaderEnd, "ok")
	}
	f.mux.HandleFunc("GET /v1/vms/v1/fs/tree", func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		o := treesync.ListOptions{HashFrom: from, Exclude: r.URL.Query()["exclude"], Pair: r.URL.Query().Get("pair")}
		ended(w, func() error { return treesync.List(r.Context(), root, o, w) })
	})
	f.mux.HandleFunc("POST /v1/vms/v1/fs/pick", func(w http.ResponseWriter, r *http.Request) {
		var in vm.TreePick
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		ended(w, func() error { return treesync.Pick(r.Context(), root, in.Names, w) })
	})
	f.mux.HandleFunc("PUT /v1/vms/v1/fs/place", func(w http.ResponseWriter, r *http.Request) {
		m := treesync.Mark{Pair: r.URL.Query().Get("pair"), Value: r.URL.Query().Get("mark")}
		out, err := treesync.Place(r.Context(), root, r.Body, m, treesync.Guards{})
		if err != nil {
			refuse(w, err)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		reply(w, out)
	})
	return f
}

// TestSync: both sides become alike, a conflict has exit status 1 and is listed,
// hostile names are quoted, a dry run does nothing, the state is beside the user's
// other state.
func TestSync(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	here, there := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(name); string(b) != want {
			t.Errorf("%s holds %q (%v), want %q", name, b, err, want)
		}
	}
	write(here+"/a", "1")
	write(there+"/b\x1b[31m", "2")
	f := syncFake(t, there)
	in := func(list ...string) ran {
		env := map[string]string{"WARREN_API_KEY": "secret", "WARREN_API_URL": f.server.URL, "HOME": home}
		return runEnv(t, env, Local{}, "", append([]string{"sync"}, list...)...)
	}
	sync := func(flags ...string) ran {
		t.Helper()
		return in(append([]string{here, "box:/work"}, flags...)...)
	}
	if r := sync("--dry-run"); r.code != 0 || !strings.Contains(r.out, "→ VM   added    a\n") || !strings.Contains(r.out, `"b\x1b[31m"`) || strings.Contains(r.out, "\x1b") {
		t.Errorf("a dry run: %+v, want both changes, the hostile name quoted", r)
	}
	if _, err := os.Stat(there + "/a"); err == nil {
		t.Error("a dry run copied a file")
	}
	if r := sync(); r.code != 0 {
		t.Errorf("the first sync: %+v, want status 0", r)
	}
	has(there+"/a", "1")
	has(here+"/b\x1b[31m", "2")
	if _, err := os.Stat(home + "/.local/state/warren/sync"); err != nil {
		t.Errorf("the state is not in the user's state directory: %v", err)
	}
	write(here+"/a", "mine")
	write(there+"/a", "yours")
	if r := sync(); r.code != 1 || !strings.Contains(r.out, "conflicts, neither side was touched:\n  a: here changed, in the VM changed\n") {
		t.Errorf("a conflict: %+v, want status 1 and a line for it", r)
	}
	var got synced
	if r := sync("--json"); json.Unmarshal([]byte(r.out), &got) != nil || len(got.Conflicts) != 1 || r.code != 1 {
		t.Errorf("a conflict as JSON: %+v, want one conflict", r)
	}
	if r := sync("--prefer", "vm"); r.code != 0 || !strings.Contains(r.out, "what was here before is in "+home) {
		t.Errorf("--prefer vm: %+v, want status 0 and the backup", r)
	}
	has(here+"/a", "yours")
	sync("--to", "up").wants(t, 2, "--to up is no direction")
	sync("--exclude", "[").wants(t, 2, "is no pattern")
	sync("--watch", "--dry-run").wants(t, 2, "--watch cannot be used")
	in(here, there).wants(t, 2, "does not name a path in a VM")
	in(dir+"/none", "box:/work", "--to", "vm").wants(t, 3, "no such directory on this computer")
}
