// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package imagefile

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// data is a data directory.
func data(t *testing.T) layout.Dir {
	t.Helper()
	dir, err := layout.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir.Images(), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// made puts an image into a data directory. Its kernel and module are the same for all ids.
func made(t *testing.T, dir layout.Dir, id string) vm.Image {
	t.Helper()
	img := vm.Image{
		Format: 1, ID: vm.ImageID("im-" + strings.Repeat(id, 16)), Name: "tools", Recipe: strings.Repeat("a", 16), Snapshot: vm.NewSnapshotID(),
		CreatedAt: time.Unix(1700000000, 0).UTC(), DiskMiB: 64, Kernel: "6.1.0-56-cloud-amd64", Cmdline: "console=ttyS0", Workdir: "/workspace",
		Registries: []vm.Registry{{Host: "debian.example", Port: 80, Manager: "apt"}},
	}
	d := layout.ImageDir(dir.Image(img.ID))
	if err := os.MkdirAll(d.Modules(), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-o", "lazy_refcounts=off", d.Disk(), "64M").CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	for name, text := range map[string]string{
		d.Kernel(): "\x7fELF" + strings.Repeat("k", 100_000), d.ModuleOrder(): "virtio_blk.ko\n",
		filepath.Join(d.Modules(), "virtio_blk.ko"): "module", d.Recipe(): "name: tools\n", d.Log(): "the log of " + string(dir),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"disk.qcow2", "vmlinux", "modules/order", "modules/virtio_blk.ko"} {
		body, err := os.ReadFile(filepath.Join(string(d), name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(body)
		img.Files = append(img.Files, vm.File{Name: name, Size: int64(len(body)), SHA256: hex.EncodeToString(sum[:])})
	}
	img.DiskBytes = img.Files[0].Size
	if err := layout.WriteJSON(d.Manifest(), img, 0o644); err != nil {
		t.Fatal(err)
	}
	return img
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// exported is the file of an image.
func exported(t *testing.T, dir layout.Dir, img vm.Image, key ed25519.PrivateKey) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Export(t.Context(), dir, img, From{Server: "here", Warren: "1", Now: time.Unix(1700000001, 0), Key: key}, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// imported adds a file's image, and says what the directory of images holds afterwards.
func imported(t *testing.T, dir layout.Dir, body []byte, trust ...string) (vm.Image, []string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	img, err := Import(t.Context(), Options{Dir: dir, Path: path, Trust: trust})
	entries, readErr := os.ReadDir(dir.Images())
	if readErr != nil {
		t.Fatal(readErr)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return img, names, err
}

// An image is the same on another server: its id, its digest, its files. It is not added twice.
func TestMoved(t *testing.T) {
	from, to, key := data(t), data(t), newKey(t)
	img := made(t, from, "a")
	file := exported(t, from, img, key)
	got, names, err := imported(t, to, file, bundle.FingerprintOf(key))
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != img.ID || got.Digest() != img.Digest() || len(names) != 1 {
		t.Errorf("%s %s became %s %s among %q, want the same, alone", img.ID, img.Digest(), got.ID, got.Digest(), names)
	}
	read, err := image.Find(to, img.Digest())
	if err != nil || read.ID != img.ID {
		t.Errorf("by its digest one finds %q (%v), want %s", read.ID, err, img.ID)
	}
	for _, f := range img.Files {
		a, aErr := os.ReadFile(filepath.Join(from.Image(img.ID), f.Name))
		b, bErr := os.ReadFile(filepath.Join(to.Image(img.ID), f.Name))
		if aErr != nil || bErr != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not the same file after the import (%v, %v)", f.Name, aErr, bErr)
		}
	}
	if _, err := os.Stat(layout.ImageDir(to.Image(img.ID)).Log()); err == nil {
		t.Error("the log of the build, which names paths of its host, was exported")
	}
	if _, _, err := imported(t, to, file, bundle.FingerprintOf(key)); err != nil {
		t.Errorf("a second import of the same image: %v, want none", err)
	}
}

// A kernel that another image has takes no second place on the disk.
func TestSharedKernel(t *testing.T) {
	from, to, key := data(t), data(t), newKey(t)
	for _, id := range []string{"a", "b"} {
		if _, _, err := imported(t, to, exported(t, from, made(t, from, id), key), bundle.FingerprintOf(key)); err != nil {
			t.Fatal(err)
		}
	}
	stat := func(id, name string) os.FileInfo {
		t.Helper()
		st, err := os.Stat(filepath.Join(to.Image(vm.ImageID("im-"+strings.Repeat(id, 16))), name))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	if !os.SameFile(stat("a", "vmlinux"), stat("b", "vmlinux")) {
		t.Error("two images with the same kernel have two copies of it")
	}
}

// A damaged image is not exported.
func TestDamagedImage(t *testing.T) {
	dir := data(t)
	img := made(t, dir, "a")
	if err := os.WriteFile(layout.ImageDir(dir.Image(img.ID)).Kernel(), []byte("\x7fELF"+strings.Repeat("x", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Export(t.Context(), dir, img, From{Key: newKey(t)}, &bytes.Buffer{}); !errors.Is(err, vm.Corrupt) {
		t.Errorf("the export of a damaged image: %v, want kind Corrupt", err)
	}
}

// What is cut off, changed, of a stranger or hostile is refused, and nothing of it stays.
func TestRefused(t *testing.T) {
	from, key := data(t), newKey(t)
	img := made(t, from, "a")
	good := exported(t, from, img, key)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/3] ^= 1
	// with packs the files of the image below a changed manifest.
	with := func(change func(*vm.Image), more ...string) []byte {
		t.Helper()
		var out bytes.Buffer
		w, err := bundle.NewWriter(&out, bundle.Manifest{Kind: bundle.OfImage}, key)
		if err != nil {
			t.Fatal(err)
		}
		other := img
		other.Files = append([]vm.File(nil), img.Files...)
		change(&other)
		for _, f := range img.Files {
			body, err := os.ReadFile(filepath.Join(from.Image(img.ID), f.Name))
			if err == nil {
				err = w.Add(bundle.Entry{Path: f.Name, Size: f.Size}, bytes.NewReader(body))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range more {
			if err := w.Add(bundle.Entry{Path: name, Size: 1}, strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Close(Facts{Image: other}); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	for _, c := range []struct {
		name string
		body []byte
		kind vm.Kind
	}{
		{"nothing", nil, vm.Corrupt},
		{"no archive", bytes.Repeat([]byte("x"), 5000), vm.Corrupt},
		{"cut off", good[:len(good)/2], vm.Corrupt},
		{"one bit", flipped, vm.Corrupt},
		{"a stranger's", exported(t, from, img, newKey(t)), vm.Denied},
		{"an id that leads out", with(func(i *vm.Image) { i.ID = "../../x" }), vm.Invalid},
		{"a kernel's release that leads out", with(func(i *vm.Image) { i.Kernel = "../../../x" }), vm.Invalid},
		{"a command line with a new line", with(func(i *vm.Image) { i.Cmdline = "a\nb" }), vm.Invalid},
		{"another file", with(func(*vm.Image) {}, "warm/x"), vm.Invalid},
		{"a missing file", with(func(i *vm.Image) {
			i.Files = append(i.Files, vm.File{Name: "modules/b.ko", SHA256: strings.Repeat("0", 64)})
		}), vm.Invalid},
		{"a file with a strange name", with(func(i *vm.Image) { i.Files[3].Name = "modules/../x.ko" }), vm.Invalid},
		{"a digest of another file", with(func(i *vm.Image) { i.Files[1].SHA256 = i.Files[2].SHA256 }), vm.Invalid},
		{"no disk", with(func(i *vm.Image) { i.Files = i.Files[1:] }), vm.Invalid},
		{"a disk of another size", with(func(i *vm.Image) { i.DiskMiB = 65 }), vm.Invalid},
		{"a newer format", with(func(i *vm.Image) { i.Format = 99 }), vm.Unsupported},
	} {
		_, names, err := imported(t, data(t), c.body, bundle.FingerprintOf(key))
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: the error is %v, want kind %v", c.name, err, c.kind)
		}
		if len(names) > 0 {
			t.Errorf("%s: %q is left, want nothing", c.name, names)
		}
	}
}

// Disks and kernels that are not what an image has are refused, though they are signed.
func TestHostileFiles(t *testing.T) {
	key := newKey(t)
	for name, change := range map[string]func(t *testing.T, d layout.ImageDir){
		"a disk above another file": func(t *testing.T, d layout.ImageDir) {
			t.Helper()
			if err := os.Remove(d.Disk()); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", "/etc/passwd", "-F", "qcow2", d.Disk(), "64M").CombinedOutput(); err != nil {
				t.Fatalf("qemu-img: %v: %s", err, out)
			}
		},
		"a raw disk": func(t *testing.T, d layout.ImageDir) {
			t.Helper()
			if err := os.WriteFile(d.Disk(), make([]byte, 100_000), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"no kernel": func(t *testing.T, d layout.ImageDir) {
			t.Helper()
			if err := os.WriteFile(d.Kernel(), []byte("#!/bin/sh\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a list of modules that leads out": func(t *testing.T, d layout.ImageDir) {
			t.Helper()
			if err := os.WriteFile(d.ModuleOrder(), []byte("../../virtio_blk.ko\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		dir := data(t)
		img := made(t, dir, "a")
		root := dir.Image(img.ID)
		change(t, layout.ImageDir(root))
		for i, f := range img.Files {
			body, err := os.ReadFile(filepath.Join(root, f.Name))
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(body)
			img.Files[i] = vm.File{Name: f.Name, Size: int64(len(body)), SHA256: hex.EncodeToString(sum[:])}
		}
		img.DiskBytes = img.Files[0].Size
		_, names, err := imported(t, data(t), exported(t, dir, img, key), bundle.FingerprintOf(key))
		if !errors.Is(err, vm.Invalid) {
			t.Errorf("%s: the error is %v, want kind Invalid", name, err)
		}
		if len(names) > 0 {
			t.Errorf("%s: %q is left, want nothing", name, names)
		}
	}
}

// An import that is cancelled leaves nothing.
func TestCancelled(t *testing.T) {
	dir, key := data(t), newKey(t)
	body := exported(t, dir, made(t, dir, "a"), key)
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	to := data(t)
	if _, err := Import(ctx, Options{Dir: to, Path: path, Trust: []string{bundle.FingerprintOf(key)}}); err == nil {
		t.Error("a cancelled import succeeds")
	}
	if entries, err := os.ReadDir(to.Images()); err != nil || len(entries) > 0 {
		t.Errorf("a cancelled import leaves %v (%v), want nothing", entries, err)
	}
}
