// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// bench is a host with simulated programs: they write what the real ones write, but smaller.
type bench struct {
	t    *testing.T
	opts BuildOptions
	ran  []string          // programs, in order
	fail map[string]error  // program → how it fails, after it wrote half of its output
	hang string            // program that waits for the end of its context
	seen map[string]string // files of the recipe, as customize.sh finds them

	modes      map[string]int64
	args, env  []string // of the last mmdebstrap
	restored   string   // the layer that it started from
	layerFails bool     // mmdebstrap fails before the layer is whole
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := layout.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, fail: map[string]error{}}
	b.opts = BuildOptions{
		Dir: dir, Recipe: Recipe{Name: "mine", From: "base", Run: []string{"echo hi"}}, HostCAs: true,
		hostRoot: hostTree(t, map[string]string{
			"etc/os-release":        bookworm,
			"etc/apt/sources.list":  "deb http://mirror.example/debian bookworm main\n",
			hostCADir + "/corp.crt": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
		}),
		run: b.run,
	}
	return b
}

func (b *bench) run(ctx context.Context, p program) error {
	b.ran = append(b.ran, p.args[0])
	if b.hang == p.args[0] {
		<-ctx.Done()
		return errors.Join(ctx.Err(), errors.New("killed"))
	}
	err := b.fail[p.args[0]]
	switch p.args[0] {
	case "mmdebstrap":
		return errors.Join(b.mmdebstrap(p, err == nil), err)
	case "qemu-img":
		to := p.args[len(p.args)-1]
		return errors.Join(os.WriteFile(to, []byte("qcow2"), 0o600), err)
	}
	return fmt.Errorf("unexpected program %q", p.args)
}

func (b *bench) mmdebstrap(p program, whole bool) error {
	if len(p.files) != firstExchange-3+6 {
		return fmt.Errorf("%d files", len(p.files))
	}
	// If the build were killed now, the next run could find the tree.
	marks, err := filepath.Glob(filepath.Join(b.opts.Dir.Images(), ".building-*", ".tempdir"))
	if err != nil || len(marks) != 1 {
		return fmt.Errorf("notes of the temporary directory: %q, %w", marks, err)
	}
	files := p.files[firstExchange-3:]
	b.seen, b.modes = map[string]string{}, map[string]int64{}
	r := tar.NewReader(files[1])
	for {
		h, err := r.Next()
		if err != nil {
			break
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		b.seen[h.Name], b.modes[h.Name] = string(body), h.Mode
	}
	b.args, b.env = p.args, p.env
	if restored := files[4]; restored != nil {
		body, err := io.ReadAll(restored)
		if err != nil {
			return err
		}
		b.restored = string(body)
	}
	if saved := files[5]; saved != nil && !b.layerFails {
		fmt.Fprintf(saved, "system %d", len(b.ran))
		fmt.Fprintln(p.output, "warren-saved: layer")
	}
	fmt.Fprintln(p.output, "I: installing remaining packages inside the chroot...\nwarren-step: disk")
	if _, err := files[0].WriteString("raw"); err != nil || !whole {
		return err
	}
	kernel := tinyELF(b.t, pvhEntry)
	tw := tar.NewWriter(files[2])
	for _, e := range [][2]string{
		{"boot/vmlinuz-6.1.0-1", string(bzImage(packLZ4(b.t, kernel), len(kernel)))},
		{"usr/lib/modules/6.1.0-1/modules.dep", strings.ReplaceAll(modulesDep, ".ko.xz", ".ko")},
		{"usr/lib/modules/6.1.0-1/modules.builtin", "kernel/drivers/char/virtio_console.ko\n"},
	} {
		if err := tarFile(tw, e[0], e[1]); err != nil {
			return err
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(modulesDep, ".ko.xz", ".ko")), "\n") {
		file, _, _ := strings.Cut(line, ":")
		if err := tarFile(tw, "usr/lib/modules/6.1.0-1/"+file, "module "+file); err != nil {
			return err
		}
	}
	_, err = files[3].WriteString("kernel=6.1.0-1\npackages=17\nregistry=apt http://mirror.example/debian/\nregistry=npm https://npm.example:8443/\n" +
		"registry=go https://proxy.example\nregistry=go direct\nregistry=go sum.example\nregistry=go off\nusedMib=1\ndiskMib=1024\n")
	return errors.Join(tw.Close(), err)
}

func tarFile(tw *tar.Writer, name, body string) error {
	err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body))})
	if err == nil {
		_, err = io.WriteString(tw, body)
	}
	return err
}

// images lists the visible images, and fails if the directory has anything
// except builds and finished images.
func (b *bench) images() []vm.Image {
	b.t.Helper()
	all, err := List(b.opts.Dir)
	if err != nil {
		b.t.Fatal(err)
	}
	entries, err := os.ReadDir(b.opts.Dir.Images())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".building-") && !imageID(e.Name()) {
			b.t.Errorf("left behind: %s", e.Name())
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		b.t.Errorf("temporary files: %v, %v", left, err)
	}
	return all
}

func (b *bench) building() bool {
	found, err := filepath.Glob(filepath.Join(b.opts.Dir.Images(), ".building-*"))
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.ContainsFunc(found, func(p string) bool { return filepath.Ext(p) != ".lock" })
}

func TestBuild(t *testing.T) {
	b := newBench(t)
	var steps []int
	var warmed vm.ImageID
	b.opts.Progress = func(_ string, done, total int) { steps = append(steps, 100*done/total) }
	b.opts.Warm = func(_ context.Context, img vm.Image) error { warmed = img.ID; return nil }
	img, err := Build(t.Context(), b.opts)
	if err != nil {
		t.Fatal(err)
	}
	if all := b.images(); len(all) != 1 || !reflect.DeepEqual(all[0], img) {
		t.Errorf("manifest read back: %+v\nbuilt: %+v", all, img)
	}
	if b.building() || warmed != img.ID {
		t.Errorf("still building: %v, warmed %q", b.building(), warmed)
	}
	if err := verify(t.Context(), b.opts.Dir, img); err != nil {
		t.Error(err)
	}
	want := []vm.Registry{
		{Host: "mirror.example", Port: 80, Manager: "apt"},
		{Host: "npm.example", Port: 8443, Manager: "npm"},
		{Host: "proxy.example", Port: 443, Manager: "go"},
		{Host: "sum.example", Port: 443, Manager: "go"},
	}
	if !slices.Equal(img.Registries, want) || img.Kernel != "6.1.0-1" || img.DiskMiB != 1024 || img.Packages != 17 || img.HostCAs[0] != "corp.crt" {
		t.Errorf("manifest %+v", img)
	}
	if !slices.IsSorted(steps) || steps[len(steps)-1] != 100 {
		t.Errorf("progress %v", steps)
	}
	for name, text := range map[string]string{
		".warren/final/etc/resolv.conf":                       "nameserver 10.0.2.3",
		".warren/final/etc/environment":                       "NODE_EXTRA_CA_CERTS=" + hostCABundle,
		".warren/final/etc/apt/sources.list.d/debian.sources": "mirror.example",
		".warren/run/002":                                     "echo hi",
		".warren/mask":                                        "systemd-udevd.service",
		".warren/enable":                                      "warren-booted.service",
		"etc/systemd/system/warren-booted.service":            "/run/warren/booted",
		hostCADir + "/corp.crt":                               "BEGIN CERTIFICATE",
	} {
		if !strings.Contains(b.seen[name], text) {
			t.Errorf("%s: %q lacks %q", name, b.seen[name], text)
		}
	}
	second, err := Build(t.Context(), b.opts)
	if err != nil || second.ID == img.ID {
		t.Errorf("built again: %v, %v", second.ID, err)
	}
}

// A build that fails or is interrupted in any program leaves no image, and
// the next one continues where it stopped.
func TestBuildResumes(t *testing.T) {
	for _, program := range []string{"mmdebstrap", "qemu-img"} {
		b := newBench(t)
		boom := vm.Errorf(vm.Internal, program, "exit status 1")
		b.fail[program] = boom
		if _, err := Build(t.Context(), b.opts); err == nil || vm.AsError(err).Msg == "" {
			t.Errorf("%s fails: %v", program, err)
		}
		if all := b.images(); len(all) != 0 {
			t.Errorf("%s failed and there is an image", program)
		}
		b.fail, b.ran = nil, nil
		if _, err := Build(t.Context(), b.opts); err != nil {
			t.Errorf("after %s failed: %v", program, err)
		}
		if program == "qemu-img" && slices.Contains(b.ran, "mmdebstrap") {
			t.Error("packages were installed again")
		}
		if all := b.images(); len(all) != 1 || b.building() {
			t.Errorf("after %s failed: %d images, building %v", program, len(all), b.building())
		}
	}
}

func TestBuildCancelled(t *testing.T) {
	for _, program := range []string{"mmdebstrap", "qemu-img"} {
		b := newBench(t)
		b.hang = program
		ctx, cancel := context.WithCancel(t.Context())
		b.opts.Progress = func(step string, _, _ int) {
			if step == "packages" && program == "mmdebstrap" || step == "kernel" {
				cancel()
			}
		}
		if _, err := Build(ctx, b.opts); !errors.Is(err, vm.Cancelled) {
			t.Errorf("a build cancelled in %s: %v, want cancelled", program, err)
		}
		if all := b.images(); len(all) != 0 {
			t.Errorf("%s: an image after ^C", program)
		}
	}
}

// If only the warm generation failed, the image exists, and the next build
// makes only the warm generation.
func TestBuildWarmFails(t *testing.T) {
	b := newBench(t)
	b.opts.Warm = func(context.Context, vm.Image) error { return vm.Errorf(vm.GuestFault, "x", "no answer") }
	if _, err := Build(t.Context(), b.opts); !errors.Is(err, vm.GuestFault) {
		t.Errorf("error %v", err)
	}
	all := b.images()
	if len(all) != 1 {
		t.Fatalf("%d images", len(all))
	}
	b.ran = nil
	b.opts.Warm = func(context.Context, vm.Image) error { return nil }
	img, err := Build(t.Context(), b.opts)
	if err != nil || img.ID != all[0].ID || len(b.ran) != 0 || b.building() {
		t.Errorf("%v, %v, ran %q, building %v", img.ID, err, b.ran, b.building())
	}
}

func TestBuildBusy(t *testing.T) {
	b := newBench(t)
	b.opts.Warm = func(ctx context.Context, _ vm.Image) error {
		o := b.opts
		o.Warm = nil
		if _, err := Build(ctx, o); !errors.Is(err, vm.Busy) {
			t.Errorf("second build of the same recipe: %v", err)
		}
		o.HostCAs = false // another image
		if _, err := Build(ctx, o); err != nil {
			t.Errorf("another build: %v", err)
		}
		return nil
	}
	if _, err := Build(t.Context(), b.opts); err != nil {
		t.Fatal(err)
	}
}

func TestBuildRefuses(t *testing.T) {
	b := newBench(t)
	b.opts.Recipe.From = "gentoo"
	if _, err := Build(t.Context(), b.opts); !errors.Is(err, vm.Invalid) {
		t.Errorf("unknown from: %v", err)
	}
	b = newBench(t)
	b.opts.hostRoot = t.TempDir()
	if _, err := Build(t.Context(), b.opts); !errors.Is(err, vm.Unsupported) {
		t.Errorf("no Debian: %v", err)
	}
	if len(b.ran) != 0 || b.building() {
		t.Errorf("refused, and yet ran %q", b.ran)
	}
}

func TestReadFactsErrors(t *testing.T) {
	for _, text := range []string{"", "kernel=6.1\n", "diskMib=5\n", "kernel=x\ndiskMib=many\n", "kernel=x\ndiskMib=1\npackages=\n"} {
		if f, err := readFacts(strings.NewReader(text)); !errors.Is(err, vm.Corrupt) {
			t.Errorf("the facts %q are read as %+v (%v), want corrupt", text, f, err)
		}
	}
}

func TestRegistry(t *testing.T) {
	for addr, want := range map[string]string{
		"https://Registry.Example/": "registry.example:443", "http://h.example:8080/simple": "h.example:8080", "http://h.example": "h.example:80",
		"sum.example": "sum.example:443", "sum.example https://mirror.example/sum": "mirror.example:443",
		"direct": "", "off": "", "": "", "null": "", "undefined": "", "file:///x": "", "https://": "", "https://h.example:99999": "", "://": "",
	} {
		got, ok := registry("x", addr)
		if ok != (want != "") || ok && got.Host+":"+strconv.Itoa(got.Port) != want {
			t.Errorf("the registry %q is %+v, %v, want %q", addr, got, ok, want)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		text string
		kind vm.Kind
		want string
	}{
		{"warren-step: run 002\nwarren-error: run step 002 of the recipe failed\nE: hook failed\n", vm.Invalid, "run step 002"},
		{"E: Unable to locate package nosuch\nE: apt failed\n", vm.Invalid, "nosuch"},
		{"E: something\n", vm.Internal, "something"},
		{"", vm.Internal, "mmdebstrap failed"},
		{"E: write: No space left on device\n", vm.NoSpace, "No space"},
	} {
		w := &buildWatch{progress: func(string, int) {}}
		for _, part := range []string{c.text[:len(c.text)/2], c.text[len(c.text)/2:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		err := w.explain(vm.Errorf(vm.Internal, "mmdebstrap", "exit status 1"), "/log")
		if vm.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) || vm.AsError(err).Hint != "see /log" {
			t.Errorf("the output %q gives the error %v, want kind %s, the words %q and a hint at the log", c.text, err, c.kind, c.want)
		}
	}
}

// A cancelled program ends with all its children.
func TestRunProgramCancel(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- runProgram(ctx, program{args: []string{"sh", "-c", "sleep 600 & echo $! > " + pidFile + ".tmp; mv " + pidFile + ".tmp " + pidFile + "; wait"}})
	}()
	pid := pidIn(t, pidFile)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	gone(t, pid)
}

// poll waits until ok, at most ten seconds.
func poll(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("did not happen in ten seconds")
		}
	}
}

// Programs do not outlive the builder, even when it is killed.
func TestRunProgramDiesWithUs(t *testing.T) {
	if path := os.Getenv("WARREN_TEST_GUARD"); path != "" { // the one to be killed
		err := runProgram(t.Context(), program{args: []string{"sh", "-c", "echo $$ > " + path + ".tmp; mv " + path + ".tmp " + path + "; sleep 600"}})
		t.Fatalf("ended by itself: %v", err)
	}
	path := filepath.Join(t.TempDir(), "pid")
	self := exec.Command(os.Args[0], "-test.run=^TestRunProgramDiesWithUs$")
	self.Env = append(os.Environ(), "WARREN_TEST_GUARD="+path)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, path)
	if err := self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait() // killed
	gone(t, pid)
}

// pidIn waits for a file with a process id in it.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	poll(t, func() bool {
		data, err := os.ReadFile(path)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil
	})
	return pid
}

// gone waits for the end of a process.
func gone(t *testing.T, pid int) {
	t.Helper()
	poll(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && bytes.Contains(stat, []byte(") Z "))
	})
}

func TestRunProgramErrors(t *testing.T) {
	if err := runProgram(t.Context(), program{args: []string{"no-such-program-here"}}); !errors.Is(err, vm.Unsupported) {
		t.Errorf("missing program: %v", err)
	}
	err := runProgram(t.Context(), program{args: []string{"sh", "-c", "echo one; echo the reason >&2; exit 3"}})
	if vm.KindOf(err) != vm.Internal || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("failing program: %v", err)
	}
}
