// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func qemuImg(t *testing.T, args ...string) []byte {
	t.Helper()
	bin, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed")
	}
	out, err := exec.Command(bin, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("qemu-img %v: %v\n%s", args, err, out)
	}
	return out
}

func TestCreateOverlay(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base.qcow2")
	qemuImg(t, "create", "-q", "-f", "qcow2", base, "2G")
	exec.Command("qemu-io", "-c", "write -P 7 1M 64k", base).Run()
	if err := os.Mkdir(filepath.Join(dir, "vm"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, mib := range []int{2048, 16 << 10, 16<<10 + 1, vm.MaxDiskMiB} {
		path := filepath.Join(dir, "vm", "overlay.qcow2")
		if err := CreateOverlay(path, "../base.qcow2", mib); err != nil {
			t.Fatal(err)
		}
		qemuImg(t, "check", "-q", path)
		var info struct {
			Size    int64  `json:"virtual-size"`
			Actual  int64  `json:"actual-size"`
			Backing string `json:"backing-filename"`
			Format  string `json:"backing-filename-format"`
		}
		if err := json.Unmarshal(qemuImg(t, "info", "--output=json", path), &info); err != nil {
			t.Fatal(err)
		}
		if info.Size != int64(mib)<<20 || info.Backing != "../base.qcow2" || info.Format != "qcow2" || info.Actual > 1<<20 {
			t.Errorf("%d MiB: %+v", mib, info)
		}
		// It must be writable at both ends and still be whole, above its base.
		if out, err := exec.Command("qemu-io", "-c", "read -P 7 1M 64k", "-c", "write -P 9 0 4k", "-c", "read -P 9 0 4k",
			"-c", "write -P 5 "+lastSector(mib)+" 512", path).CombinedOutput(); err != nil {
			t.Errorf("qemu-io: %v\n%s", err, out)
		}
		qemuImg(t, "check", "-q", path)
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", st.Mode(), err)
		}
		if err := CreateOverlay(path, "../base.qcow2", mib); !errors.Is(err, vm.Exists) {
			t.Errorf("an existing overlay was replaced: %v", err)
		}
		os.Remove(path)
	}
}

func lastSector(mib int) string { return jsonInt(int64(mib)<<20 - 512) }

func jsonInt(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestCreateOverlayRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o")
	for _, c := range []struct {
		backing string
		mib     int
		want    vm.Kind
	}{
		{"/abs", 1, vm.Internal},
		{"", 1, vm.Internal},
		{"b", 0, vm.Invalid},
		{"b", vm.MaxDiskMiB + 1, vm.Invalid},
	} {
		if err := CreateOverlay(path, c.backing, c.mib); !errors.Is(err, c.want) {
			t.Errorf("an overlay on %q of %d MiB: %v, want %v", c.backing, c.mib, err, c.want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%+v left a file", c)
		}
	}
}

func BenchmarkCreateOverlay(b *testing.B) {
	path := filepath.Join(b.TempDir(), "o")
	for b.Loop() {
		if err := CreateOverlay(path, "../base", 16<<10); err != nil {
			b.Fatal(err)
		}
		os.Remove(path)
	}
}
