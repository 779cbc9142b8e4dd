// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// The labels of each verb, in order.
var labels = map[string][]string{
	"seal": {
		"seal:ram", "seal:write-ram", "seal:check-ram", "seal:device", "seal:write-device", "seal:check-device",
		"seal:remove-ram", "seal:remove-device", "seal:done",
	},
	"open": {"open:ram", "open:write-ram", "open:device", "open:write-device", "open:done"},
	"drop": {"drop:ram", "drop:remove-ram", "drop:device", "drop:remove-device", "drop:done"},
}

// world is a generation and what it must hold.
type world struct {
	t    *testing.T
	dir  layout.GenerationDir
	host *HostKey
	key  Key
	m    vm.Manifest
	ram  []byte
	dev  []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: layout.GenerationDir(filepath.Join(t.TempDir(), "g")), ram: make([]byte, 3*mib), dev: random(8, 5000)}
	copy(w.ram[mib+page:], random(7, 300<<10))
	if err := os.Mkdir(string(w.dir), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.host, err = EnsureHostKey(filepath.Join(filepath.Dir(string(w.dir)), "host.key")); err != nil {
		t.Fatal(err)
	}
	if w.key, err = w.host.NewKey(); err != nil {
		t.Fatal(err)
	}
	writeSparse(t, w.dir.RAM(), 3*mib, piece{mib + page, w.ram[mib+page : mib+page+300<<10]})
	writeSparse(t, w.dir.Device(), 5000, piece{0, w.dev})
	if w.m.RAM, err = qemu.Sum(t.Context(), w.dir.RAM()); err != nil {
		t.Fatal(err)
	}
	if w.m.Device, err = qemu.Sum(t.Context(), w.dir.Device()); err != nil {
		t.Fatal(err)
	}
	if err := layout.WriteJSON(w.dir.Manifest(), w.m, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.wrapped(), w.key.Wrapped, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) wrapped() string { return filepath.Join(filepath.Dir(string(w.dir)), "wrapped") }

func (w *world) do(s steps, verb string) error {
	switch verb {
	case "seal":
		return s.seal(w.t.Context(), w.dir, w.key, w.m)
	case "open":
		return s.open(w.t.Context(), w.dir, w.key, w.m)
	case "drop":
		return s.dropSealed(w.t.Context(), w.dir, w.m)
	}
	w.t.Fatalf("no such verb: %s", verb)
	return nil
}

func (w *world) must(verb string) {
	w.t.Helper()
	if err := w.do(steps{}, verb); err != nil {
		w.t.Fatalf("%s failed: %v", verb, err)
	}
}

// files are the names in the generation's directory, without the manifest.
func (w *world) files() string {
	w.t.Helper()
	list, err := os.ReadDir(string(w.dir))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.Name() != filepath.Base(w.dir.Manifest()) {
			out = append(out, e.Name())
		}
	}
	return strings.Join(out, " ")
}

func (w *world) wantFiles(when, want string) {
	w.t.Helper()
	if got := w.files(); got != want {
		w.t.Errorf("%s: files are %q, want %q", when, got, want)
	}
}

// wantPlain wants that both plain files hold what they should.
func (w *world) wantPlain(when string) {
	w.t.Helper()
	for path, want := range map[string][]byte{w.dir.RAM(): w.ram, w.dir.Device(): w.dev} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			w.t.Errorf("%s: %s holds %d bytes, %v; or other ones", when, path, len(got), err)
		}
	}
}

const (
	onlyPlain  = "device ram"
	onlySealed = "device.sealed ram.sealed"
	inBoth     = "device device.sealed ram ram.sealed"
)

func TestGeneration(t *testing.T) {
	w := newWorld(t)
	w.must("open") // not sealed: nothing to do
	w.must("drop")
	w.wantFiles("never sealed", onlyPlain)
	for range 2 {
		w.must("seal")
		w.wantFiles("sealed", onlySealed)
	}
	wantKind(t, "dropped while sealed", w.do(steps{}, "drop"), vm.NotFound)
	w.wantFiles("dropped while sealed", onlySealed)
	for range 2 {
		w.must("open")
		w.wantFiles("opened", inBoth)
		w.wantPlain("opened")
	}
	before, err := os.Stat(w.dir.SealedRAM())
	if err != nil {
		t.Fatal(err)
	}
	w.must("seal") // again: the sealed files are still good
	w.wantFiles("sealed again", onlySealed)
	if after, err := os.Stat(w.dir.SealedRAM()); err != nil || !os.SameFile(before, after) {
		t.Errorf("sealed anew what was sealed already (%v)", err)
	}
	w.must("open")
	for range 2 {
		w.must("drop")
		w.wantFiles("dropped", onlyPlain)
		w.wantPlain("dropped")
	}
}

// The exported functions are the same without faults.
func TestExported(t *testing.T) {
	w := newWorld(t)
	if err := errors.Join(Generation(t.Context(), w.dir, w.key, w.m), Open(t.Context(), w.dir, w.key, w.m), DropSealed(t.Context(), w.dir, w.m)); err != nil {
		t.Fatal(err)
	}
	w.wantPlain("all three")
	w.wantFiles("all three", onlyPlain)
	// One of a stopped machine has nothing to seal.
	empty := layout.GenerationDir(t.TempDir())
	if err := errors.Join(Generation(t.Context(), empty, w.key, vm.Manifest{}), Open(t.Context(), empty, w.key, vm.Manifest{})); err != nil {
		t.Error(err)
	}
	wantKind(t, "no directory", Generation(t.Context(), empty+"x", w.key, w.m), vm.NotFound)
	wantKind(t, "no files", Generation(t.Context(), empty, w.key, w.m), vm.NotFound)
	wantKind(t, "no files", Open(t.Context(), empty, w.key, w.m), vm.NotFound)
}

// from brings a new world to where a verb begins.
func from(t *testing.T, verb string) *world {
	t.Helper()
	w := newWorld(t)
	if verb != "seal" {
		w.must("seal")
	}
	if verb == "drop" {
		w.must("open")
	}
	return w
}

// whole wants that nothing is lost, whatever was interrupted: it can be opened,
// and sealed, and opened for good.
func (w *world) whole(label string) {
	w.t.Helper()
	w.must("open")
	w.wantPlain(label)
	w.must("seal")
	w.wantFiles(label, onlySealed)
	w.must("open")
	w.must("drop")
	w.wantFiles(label, onlyPlain)
	w.wantPlain(label)
}

// TestLabels wants that the table of labels is the truth.
func TestLabels(t *testing.T) {
	for verb, want := range labels {
		var got []string
		w := from(t, verb)
		if err := w.do(steps{func(l string) error { got = append(got, l); return nil }}, verb); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", verb, got, want)
		}
	}
}

func TestFailures(t *testing.T) {
	for verb, list := range labels {
		for _, label := range list {
			w := from(t, verb)
			before := w.files()
			err := w.do(steps{func(l string) error {
				if l == label {
					return vm.Errorf(vm.NoSpace, "", "no space")
				}
				return nil
			}}, verb)
			wantKind(t, label, err, vm.NoSpace)
			if strings.Contains(w.files(), ".tmp-") {
				t.Errorf("%s: left %s", label, w.files())
			}
			if strings.Contains(label, ":write-ram") {
				w.wantFiles(label, before)
			}
			w.whole(label)
		}
	}
}

const dieAt = "WARREN_TEST_SEAL_DIE_AT" // label, directory

// TestDeath kills a process at each label, and finds everything again.
func TestDeath(t *testing.T) {
	if at := os.Getenv(dieAt); at != "" {
		die(t, at)
		return
	}
	for verb, list := range labels {
		for i, label := range list {
			w := from(t, verb)
			cmd := exec.Command(os.Args[0], "-test.run=^TestDeath$")
			cmd.Env = append(os.Environ(), dieAt+"="+label+" "+string(w.dir))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s: the process was not killed there: %v\n%s", label, err, out)
			}
			if unfinished := strings.Contains(w.files(), ".tmp-"); unfinished != strings.Contains(label, ":write-") {
				t.Errorf("%s: files are %s", label, w.files())
			}
			if i%2 == 0 { // finishing the verb first must do too
				w.must(verb)
			}
			w.whole(label)
		}
	}
}

// die carries out the verb of a label and ends the process there.
func die(t *testing.T, at string) {
	label, dir, _ := strings.Cut(at, " ")
	w := &world{t: t, dir: layout.GenerationDir(dir)}
	wrapped, err1 := os.ReadFile(w.wrapped())
	host, err2 := LoadHostKey(filepath.Join(filepath.Dir(dir), "host.key"))
	if err := errors.Join(err1, err2, layout.ReadJSON(w.dir.Manifest(), &w.m)); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.key, err = host.Key(wrapped); err != nil {
		t.Fatal(err)
	}
	verb, _, _ := strings.Cut(label, ":")
	t.Fatalf("came through: %v", w.do(steps{func(l string) error {
		if l == label {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}}, verb))
}

// A plain file that is not what the manifest says is never made the only form.
func TestDamagedPlain(t *testing.T) {
	for _, what := range []string{"ram", "device"} {
		w := newWorld(t)
		path := filepath.Join(string(w.dir), what)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("?"), 4000); err != nil {
			t.Fatal(err)
		}
		f.Close()
		err = w.do(steps{}, "seal")
		wantKind(t, what, err, vm.Corrupt)
		if e := vm.AsError(err); e.Subject != path || e.Hint == "" {
			t.Errorf("%s: %v, hint %q", what, err, e.Hint)
		}
		for _, plain := range []string{w.dir.RAM(), w.dir.Device()} {
			if _, err := os.Stat(plain); err != nil {
				t.Errorf("%s is damaged: %v", what, err)
			}
		}
		if _, err := os.Stat(path + ".sealed"); err == nil {
			t.Errorf("damaged %s was sealed", what)
		}
	}
}

// What Open made may be lost with the host's power: the sealed files are there
// until DropSealed has looked at it.
func TestPowerLossAfterOpen(t *testing.T) {
	for what, damage := range map[string]func(path string) error{
		"empty":   func(p string) error { return os.Truncate(p, 0) },
		"a hole":  func(p string) error { return errors.Join(os.Truncate(p, 0), os.Truncate(p, 3*mib)) },
		"shorter": func(p string) error { return os.Truncate(p, 2*mib) },
		"absent":  os.Remove,
	} {
		w := from(t, "drop")
		if err := damage(w.dir.RAM()); err != nil {
			t.Fatal(err)
		}
		if err := w.do(steps{}, "drop"); err == nil {
			t.Errorf("%s: dropped", what)
		}
		if _, err := os.Stat(w.dir.SealedRAM()); err != nil {
			t.Errorf("%s: the sealed memory is gone: %v", what, err)
		}
		w.whole(what)
	}
}

// Damaged sealed files, or a deleted key, leave nothing to start on.
func TestDamagedSealed(t *testing.T) {
	w := from(t, "open")
	other, err := w.host.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, "another key", Open(t.Context(), w.dir, other, w.m), vm.Corrupt)
	w.wantFiles("another key", onlySealed)
	wantKind(t, "sealing with another key", Generation(t.Context(), w.dir, other, w.m), vm.Corrupt)
	w.wantFiles("sealing with another key", onlySealed)
	if err := os.Rename(w.dir.SealedRAM(), w.dir.SealedDevice()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "one in the place of the other", Open(t.Context(), w.dir, w.key, w.m), vm.NotFound)
	if err := os.Link(w.dir.SealedDevice(), w.dir.SealedRAM()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "both the same", Open(t.Context(), w.dir, w.key, w.m), vm.Corrupt)
}

func TestGenerationCancelled(t *testing.T) {
	for verb := range labels {
		w := from(t, verb)
		before := w.files()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := map[string]func() error{
			"seal": func() error { return Generation(ctx, w.dir, w.key, w.m) },
			"open": func() error { return Open(ctx, w.dir, w.key, w.m) },
			"drop": func() error { return DropSealed(ctx, w.dir, w.m) },
		}[verb]()
		wantKind(t, verb, err, vm.Cancelled)
		w.wantFiles(verb, before)
	}
}

const smallDisk = "WARREN_TEST_SEAL_SMALL_DISK"

// TestFullDisk seals and opens onto a tmpfs of 1 MiB, which a process in a mount
// namespace of its own makes.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(smallDisk); dir != "" {
		fullDisk(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("no user namespaces here: %v", err)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		t.Errorf("the test failed in a user namespace: %v\n%s", err, out)
	}
}

func fullDisk(t *testing.T, dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip(err)
	}
	key, big := newKey(t), t.TempDir()
	src, sealed := filepath.Join(big, "src"), filepath.Join(big, "sealed")
	writeSparse(t, src, 8*mib, piece{0, random(1, 8*mib)})
	f, err := sealWhole(t.Context(), src, sealed, key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sealWhole(t.Context(), src, filepath.Join(dir, "a"), key)
	if vm.KindOf(err) != vm.NoSpace || vm.AsError(err).Subject != filepath.Join(dir, "a") || vm.AsError(err).Hint == "" {
		t.Errorf("seal: %v", err)
	}
	err = openWhole(t.Context(), sealed, filepath.Join(dir, "b"), key, f)
	if vm.KindOf(err) != vm.NoSpace || vm.AsError(err).Subject != filepath.Join(dir, "b") || vm.AsError(err).Hint == "" {
		t.Errorf("open: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("%d files left", len(list))
	}
}
