//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/volume"
	"github.com/warren-vm/warren/vm"
)

// keyOf is a volume's key, as the server has it in memory.
func (h *host) keyOf(name string) string {
	h.t.Helper()
	key, _, err := volume.Store{Dir: layout.Dir(h.data)}.Open(h.t.Context(), vm.VolumeID(h.volume(name).ID), vm.VolumeSecret{}, true)
	if err != nil || len(key) < 40 {
		h.t.Fatalf("the key of %s: %d bytes, %v", name, len(key), err)
	}
	return string(key)
}

// nowhere looks for a text in every file of the data directory.
func (h *host) nowhere(what, text string) {
	h.t.Helper()
	h.elsewhere(what, text)
}

// elsewhere looks for it in every file but some.
func (h *host) elsewhere(what, text string, but ...string) {
	h.t.Helper()
	files := 0
	err := filepath.WalkDir(h.data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !slices.Contains(but, path) {
			var n int
			files++
			if n, err = occurrences(path, text); n > 0 {
				h.t.Errorf("%s holds %s", path, what)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		return err
	})
	if err != nil || files < 10 {
		h.t.Errorf("looked at %d files: %v", files, err)
	}
}

// plant writes the text that findsNothing looks for, without ever having it
// whole in a command.
const plant = "a=PLANTED; b=VOLUME; c=PLAINTEXT; yes $a-$b-$c | head -n 20000 >"

// TestVolumeWorlds: copies of a machine with a volume mounted, in every way
// there is: what they have of it, what their memory holds and how it is kept.
func TestVolumeWorlds(t *testing.T) {
	t.Parallel()
	h := pooledHost(t)
	h.ok("up", "--name", "box")
	h.ok("volume", "create", "work", "--size", "256")
	h.ok("volume", "unlock", "work")
	h.ok("snapshot", "create", "box", "--name", "clean")
	h.ok("volume", "mount", "box", "--volume", "work", "--guest", "/data", "--rw")
	h.sh("box", plant+"/data/kept; sync; nohup sh -c 'exec 3>>/data/log; while :; do echo line >&3; sync -d /data/log; sleep 0.1; done' >/dev/null 2>&1 </dev/null &")
	h.cutOff("box")
	h.nowhere("the volume's key", h.keyOf("work"))
	h.ok("kill", "kid-1", "twin")
	h.ok("rm", "kid-1", "twin")
	h.rolledBack("box")
	h.readOn("box")
	h.nowhere("the volume's key", h.keyOf("work"))
	h.ok("rm", "box")
	h.volumeIs("work", "locked", 0)
	h.ok("snapshot", "rm", "clean", "cut")
	h.nowhere("the volume's plaintext", planted)
}

// cutOff: a fork and a snapshot of a VM in the middle of writing have only
// disks that fail; the VM keeps running.
func (h *host) cutOff(name string) {
	h.t.Helper()
	h.run("fork", name).wants(h.t, 6, "--volumes cut")
	h.run("fork", name, "--volumes", "ro").wants(h.t, 6, "it writes to the volume work")
	h.ok("fork", name, "--name", "kid", "--volumes", "cut")
	h.ok("snapshot", "create", name, "--name", "cut", "--volumes", "cut")
	h.ok("up", "cut", "--name", "twin")
	for _, copied := range []string{"kid-1", "twin"} {
		got := h.sh(copied, "sync; echo 3 >/proc/sys/vm/drop_caches; cat /data/kept 2>&1 | tail -c 60; touch /data/new 2>&1; dd if=/dev/vdb of=/dev/null count=1 iflag=direct 2>&1 | head -n 1; true")
		if strings.Contains(got, planted) || strings.Count(got, "error") < 2 {
			h.t.Errorf("%s says %q", copied, got)
		}
		if l := h.ok("volume", "ls", copied); !strings.Contains(l, "cut off") {
			h.t.Errorf("the mounts of %s:\n%s", copied, l)
		}
	}
	var list []struct {
		Name        string   `json:"name"`
		VolumesSeen []string `json:"volumesSeen"`
	}
	if err := json.Unmarshal([]byte(h.ok("snapshot", "ls", "--json")), &list); err != nil {
		h.t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == "cut" && (len(s.VolumesSeen) != 1 || s.VolumesSeen[0] != h.volume("work").ID) {
			h.t.Errorf("the snapshot's label is %v", s.VolumesSeen)
		}
	}
	before := h.sh(name, "wc -l </data/log; sleep 1")
	if after := h.sh(name, "wc -l </data/log"); after == before {
		h.t.Errorf("its writer stands still at %s", after)
	}
	h.ok("volume", "unmount", "kid-1", "/data", "--force")
	h.run("volume", "mount", "kid-1", "--volume", "work", "--guest", "/data").wants(h.t, 7, "has it mounted to write")
	if got := h.sh("kid-1", "mountpoint /data; ls /sys/block | grep -c vd"); !strings.HasSuffix(got, "not a mountpoint\n1") {
		h.t.Errorf("what is left in kid-1: %q", got)
	}
}

// rolledBack: a rollback leaves volumes behind, and its undo does not bring them
// back.
func (h *host) rolledBack(name string) {
	h.t.Helper()
	h.run("rollback", name, "clean").wants(h.t, 6, "volumes")
	h.run("rollback", name, "clean", "--volumes", "detach").wants(h.t, 7, "in use by")
	var back struct {
		Before struct {
			ID string `json:"id"`
		} `json:"before"`
	}
	if err := json.Unmarshal([]byte(h.ok("rollback", name, "clean", "--volumes", "cut", "--json")), &back); err != nil {
		h.t.Fatal(err)
	}
	h.volumeIs("work", "locked", 0)
	if got := h.sh(name, "ls /sys/block | grep -c vd"); got != "1" {
		h.t.Errorf("after the rollback it has %s disks", got)
	}
	h.awaitSealed(2)
	h.nowhere("the volume's plaintext", planted) // what it left is encrypted, and so is the snapshot again
	h.run("rollback", name, back.Before.ID).wants(h.t, 6, "--volumes cut")
	h.ok("rollback", name, back.Before.ID, "--volumes", "cut")
	if got := h.sh(name, "mountpoint /data; dd if=/dev/vdb of=/dev/null count=1 iflag=direct 2>&1 | head -n 1"); !strings.Contains(got, "error") {
		h.t.Errorf("after its undo it says %q", got)
	}
	h.ok("rollback", name, "clean")
}

// readOn: the children of a reader read on, each as a reader of its own.
func (h *host) readOn(name string) {
	h.t.Helper()
	h.ok("volume", "unlock", "work")
	h.ok("volume", "mount", name, "--volume", "work", "--guest", "/data", "--rw") // the journal of the writer that was cut off
	h.ok("volume", "unmount", name, "/data")
	h.ok("volume", "mount", name, "--volume", "work", "--guest", "/data")
	h.ok("fork", name, "-n", "2", "--name", "reader", "--volumes", "ro")
	h.volumeIs("work", "unlocked", 3)
	for _, reader := range []string{name, "reader-1", "reader-2"} {
		got := h.sh(reader, "echo 3 >/proc/sys/vm/drop_caches; grep -c PLANTED /data/kept; touch /data/x 2>&1; cat /sys/block/vdb/ro")
		if !strings.HasPrefix(got, "20000\n") || !strings.Contains(got, "Read-only") {
			h.t.Errorf("%s says %q", reader, got)
		}
	}
	h.ok("rm", "reader-1", "reader-2")
	h.volumeIs("work", "unlocked", 1)
}

// awaitSealed waits until so many generations are encrypted: those whose last
// machine has ended are soon after.
func (h *host) awaitSealed(n int) {
	h.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		sealed, err := filepath.Glob(h.data + "/generations/*/ram.sealed")
		open, err2 := filepath.Glob(h.data + "/generations/*/ram")
		if err != nil || err2 != nil || time.Now().After(deadline) {
			h.t.Fatalf("%d generations are sealed and %d open, want %d sealed (%v, %v)", len(sealed), len(open), n, err, err2)
		}
		if len(sealed) == n {
			return
		}
	}
}
