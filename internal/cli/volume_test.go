// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestVolumePassphrase: a passphrase comes from standard input or a file, never
// from the command line, and reaches the server unchanged.
func TestVolumePassphrase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from a file \nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t)
	var got api.UnlockVolume
	f.mux.HandleFunc("POST /v1/volumes/{volume}/unlock", func(w http.ResponseWriter, r *http.Request) {
		got = api.UnlockVolume{}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		reply(w, api.UnlockedVolume{Volume: api.Volume{Name: r.PathValue("volume"), Project: r.URL.Query().Get("project")}, Recovered: true})
	})
	for _, tc := range []struct {
		stdin string
		args  []string
		want  api.UnlockVolume
	}{
		{"", nil, api.UnlockVolume{}},
		{"from stdin \r\n", []string{"--passphrase"}, api.UnlockVolume{Passphrase: "from stdin "}},
		{"no end of line", []string{"--passphrase", "--keep"}, api.UnlockVolume{Passphrase: "no end of line", KeepUnlocked: true}},
		{"", []string{"--passphrase-file", file}, api.UnlockVolume{Passphrase: "from a file "}},
		{"AGE-SECRET", []string{"--identity", "-", "--ttl", "2h"}, api.UnlockVolume{Identity: "AGE-SECRET", TTL: vm.Seconds(2 * time.Hour)}},
	} {
		r := run(t, f, Local{}, tc.stdin, append([]string{"volume", "unlock", "work", "--project", "shop"}, tc.args...)...)
		if r.code != 0 || got != tc.want || !strings.Contains(r.out, "shop/work is unlocked") || !strings.Contains(r.stderr, "header") {
			t.Errorf("volume unlock %v: %+v, sent %+v, want %+v", tc.args, r, got, tc.want)
		}
	}
	for _, args := range [][]string{{"--passphrase"}, {"--passphrase-file", file + "x"}} {
		if r := run(t, f, Local{}, "\n", append([]string{"volume", "unlock", "work"}, args...)...); r.code != 2 {
			t.Errorf("%v: status %d", args, r.code)
		}
	}
}

// TestVolumeLs: the state of a locked volume tells if it is in use.
func TestVolumeLs(t *testing.T) {
	f := newFake(t)
	mounted := []api.Mount{{VMName: "box", VM: "x", Path: "/data", RW: true}}
	f.on("GET /v1/volumes", api.VolumeList{Volumes: []api.Volume{
		{Name: "a", Project: "default", State: api.VolumeLocked, SizeMib: 8192},
		{Name: "b", Project: "shop", State: api.VolumeLocked, Mounts: mounted},
		{Name: "c", Project: "default", State: api.VolumeUnlocked, LocksAt: time.Now().Add(time.Hour)},
	}})
	f.on("GET /v1/vms/{vm}/mounts", api.MountList{Mounts: []api.Mount{{Name: "a", Project: "default", Path: "/data"}}})
	r := run(t, f, Local{}, "", "volume", "ls")
	lines := strings.Split(r.out, "\n")
	if r.code != 0 || len(lines) != 5 || !strings.Contains(lines[1], "locked") || strings.Contains(lines[1], "in use") ||
		!strings.Contains(lines[2], "shop/b") || !strings.Contains(lines[2], "locked (in use)") || !strings.Contains(lines[2], "box:/data (rw)") ||
		!strings.Contains(lines[3], "unlocked for") {
		t.Errorf("volume ls: %+v, want a locked, b in use and c unlocked", r)
	}
	if r := run(t, f, Local{}, "", "volume", "ls", "box"); r.code != 0 || !strings.Contains(r.out, "/data  a       ro") {
		t.Errorf("volume ls box: %+v, want the mount of a, read-only", r)
	}
	if r := run(t, f, Local{}, "", "volume", "mount", "box", "--volume", "a"); r.code != 2 {
		t.Errorf("without a path: %+v", r)
	}
	f.on("POST /v1/vms/{vm}/mounts", vm.Errorf(vm.WrongState, "a", "the volume is locked").WithCode("VOLUME_LOCKED").WithHint("unlock it"))
	if r := run(t, f, Local{}, "", "volume", "mount", "box", "--volume", "a", "--guest", "/data"); r.code != 6 || !strings.Contains(r.stderr, "unlock it") {
		t.Errorf("volume mount of a locked volume: %+v, want status 6 and the hint", r)
	}
}

// TestRunVolumes: --volume names a volume and a path; a locked volume is
// refused before the VM is created.
func TestRunVolumes(t *testing.T) {
	got, err := runVolumes([]string{"a:/data", "b:/ref:ro", "c:/out/x:rw"}, "shop")
	want := []api.NewMount{
		{Volume: "a", Project: "shop", Path: "/data", RW: true},
		{Volume: "b", Project: "shop", Path: "/ref"},
		{Volume: "c", Project: "shop", Path: "/out/x", RW: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the volumes are %+v (%v), want %+v", got, err, want)
	}
	for _, bad := range []string{"a", "a:", "a:data", ":/data", "a:/data:wr", "a:/x:y:ro"} {
		if _, err := runVolumes([]string{bad}, ""); vm.KindOf(err) != vm.Invalid {
			t.Errorf("--volume %s: %v, want invalid", bad, err)
		}
	}
	f := newFake(t)
	f.on("GET /v1/volumes/{volume}", api.Volume{Name: "a", State: api.VolumeLocked})
	f.mux.HandleFunc("POST /v1/vms", func(http.ResponseWriter, *http.Request) { t.Error("a VM is made") })
	if r := run(t, f, Local{}, "", "run", "--volume", "a:/data", "--", "true"); r.code != 125 || !strings.Contains(r.stderr, "warren volume unlock a") {
		t.Errorf("run with a locked volume: %+v, want status 125 and how to unlock it", r)
	}
}
