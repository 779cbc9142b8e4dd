// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// aims are what a probe in QEMU's place is set on: it comes to it as the
// name of the processor.
type aims struct {
	Own, OwnDisks, Others, Sockets []string
	API                            string
	PIDs                           []int
}

// beProbe is the process in QEMU's place. What it could do goes to its log,
// one a line.
func beProbe(args []string) int {
	i := slices.Index(args, "-cpu")
	var a aims
	if err := json.NewDecoder(strings.NewReader(args[i+1])).Decode(&a); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		return 1
	}
	try := func(what string, err error) {
		if err == nil {
			fmt.Fprintln(os.Stderr, "could", what)
		}
	}
	for _, path := range append(a.Own, a.Others...) {
		f, err := os.Open(path)
		try("open "+path, err)
		if err == nil {
			f.Close()
		}
	}
	for _, path := range append(a.OwnDisks, a.Others...) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		try("write "+path, err)
		if err == nil {
			f.Close()
		}
	}
	dial := func(network, addr string) {
		c, err := net.DialTimeout(network, addr, time.Second)
		try("dial "+addr, err)
		if err == nil {
			c.Close()
		}
	}
	dial("tcp", a.API)
	for _, path := range a.Sockets {
		dial("unix", path)
	}
	for _, pid := range a.PIDs {
		try(fmt.Sprint("signal ", pid), unix.Kill(pid, 0))
		f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		try(fmt.Sprint("open the memory of ", pid), err)
		if err == nil {
			f.Close()
		}
	}
	fmt.Fprintln(os.Stderr, "probed")
	return 1
}

// probeSpec is a machine in a data directory that has all that one has.
func probeSpec(t *testing.T) (vm.MachineSpec, layout.Dir, func(string) string) {
	t.Helper()
	top, err := os.MkdirTemp("", "wr") // a short path: sockets have at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	put := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := layout.Dir(filepath.Join(top, "data"))
	id := vm.NewID()
	run := filepath.Join(top, "run")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := vm.MachineSpec{
		Format: 1, ID: id, Dir: dir.VM(id), RunDir: run, QEMU: self, Accel: vm.TCG, CPU: "Nehalem", Machine: "pc-q35-7.2",
		Size: vm.Size{VCPU: 1, MemoryMiB: 64, DiskMiB: 1}, Disk: dir.Overlay(id),
		Boot: vm.BootSource{Kernel: put(dir.Kernel("img")), Initramfs: put(filepath.Join(top, "initramfs"))},
	}
	for _, path := range []string{run, spec.Dir} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	base := rootLayer(t, put(dir.ImageDisk("img")))
	layer := layout.GenerationDir(dir.Generation("g1")).Disk()
	if err := os.MkdirAll(filepath.Dir(layer), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, below := range map[string]string{layer: base, spec.Disk: layer} {
		name, err := filepath.Rel(filepath.Dir(path), below)
		if err != nil {
			t.Fatal(err)
		}
		if err := CreateOverlay(path, name, 1); err != nil {
			t.Fatal(err)
		}
	}
	return spec, dir, put
}

// rootLayer makes of a file a layer that lies on nothing.
func rootLayer(t *testing.T, path string) string {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := CreateOverlay(path, "nothing", 1); err != nil {
		t.Fatal(err)
	}
	rewrite(t, path, 8, make([]byte, 12)) // the backing name's offset and length
	return path
}

func rewrite(t *testing.T, path string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func answer(t *testing.T, network, addr string) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A probe in QEMU's place finds its own files, and nothing else: no key, no
// other VM, no API, no other process.
func TestProbeInTheirPlace(t *testing.T) {
	spec, dir, put := probeSpec(t)
	other := vm.ID("otherotherotherother")
	run := layout.RunVM(filepath.Join(filepath.Dir(spec.RunDir), "other"))
	if err := os.Mkdir(string(run), 0o700); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	own := []string{
		spec.Disk, RAMPath(spec), spec.Boot.Kernel, spec.Boot.Initramfs, dir.ImageDisk("img"),
		layout.GenerationDir(dir.Generation("g1")).Disk(), "/dev/urandom",
	}
	disks := []string{spec.Disk, RAMPath(spec)}
	a := aims{
		Own: own, OwnDisks: disks,
		Others: []string{
			put(dir.AdminKey()), put(dir.HostKey()), put(dir.ServerConfig()), put(layout.VMDir(dir.VM(spec.ID)).Machine()), put(layout.VMDir(dir.VM(spec.ID)).MonitorLog()),
			put(dir.Overlay(other)), put(layout.VMDir(dir.VM(other)).ColdRAM()), put(layout.GenerationDir(dir.Generation("g2")).RAM()),
			put(filepath.Join(dir.Etcd(), "wal")), string(dir), "/etc/passwd", "/proc/self/environ", "/tmp", "/",
		},
		API:     answer(t, "tcp", "127.0.0.1:0"),
		Sockets: []string{answer(t, "unix", run.Monitor()), answer(t, "unix", run.QMP())},
		PIDs:    []int{victim.Process.Pid, os.Getpid()},
	}
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	proveFree(t, spec, a, string(data))
	spec.CPU = string(data)
	if _, err := Spawn(t.Context(), spec); err == nil {
		t.Fatal("a probe passed for a QEMU")
	}
	log, err := os.ReadFile(layout.VMDir(spec.Dir).QEMULog())
	if err != nil {
		t.Fatal(err)
	}
	could := whatItCould(t, string(log))
	for _, path := range own {
		if !slices.Contains(could, "open "+path) {
			t.Errorf("it could not open its own %s", path)
		}
		could = slices.DeleteFunc(could, func(s string) bool { return s == "open "+path })
	}
	for _, path := range disks {
		if !slices.Contains(could, "write "+path) {
			t.Errorf("it could not write its own %s", path)
		}
		could = slices.DeleteFunc(could, func(s string) bool { return s == "write "+path })
	}
	// The root of its own is there to be opened, and empty but for what is its own.
	could = slices.DeleteFunc(could, func(s string) bool { return confine.LandlockVersion() == 0 && s == "open /" })
	if len(could) > 0 {
		t.Errorf("it could %s", strings.Join(could, ", "))
	}
}

// whatItCould reads a probe's log.
func whatItCould(t *testing.T, log string) (could []string) {
	t.Helper()
	if !strings.Contains(log, "probed\n") {
		t.Fatalf("the probe did not come to its end: %s", log)
	}
	for line := range strings.Lines(log) {
		if what, ok := strings.CutPrefix(strings.TrimSpace(line), "could "); ok {
			could = append(could, what)
		}
	}
	return could
}

// proveFree starts the probe where nothing confines it: what it tries must
// work then, or its failing would prove nothing.
func proveFree(t *testing.T, spec vm.MachineSpec, a aims, data string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), spec.QEMU, "-name", "free", "-cpu", data)
	log, _ := cmd.CombinedOutput() // its end is that of a QEMU that fails
	could := whatItCould(t, string(log))
	want := []string{"dial " + a.API}
	for _, path := range a.Others {
		want = append(want, "open "+path)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && strings.HasPrefix(path, os.TempDir()) {
			want = append(want, "write "+path)
		}
	}
	for _, path := range a.Sockets {
		want = append(want, "dial "+path)
	}
	for _, pid := range a.PIDs {
		want = append(want, fmt.Sprint("signal ", pid))
		if os.Getuid() == 0 { // a user's own processes may be closed to it by the host
			want = append(want, fmt.Sprint("open the memory of ", pid))
		}
	}
	for _, w := range want {
		if !slices.Contains(could, w) {
			t.Errorf("a probe that is free could not %s", w)
		}
	}
}

// The same, as a user without any privilege.
func TestProbeAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the test before is this one: it does not run as root")
	}
	dir, err := os.MkdirTemp("", "wr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "qemu.test")
	if err := os.WriteFile(copied, data, 0o755); err != nil { //nolint:gosec // another user is to start it
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), copied, "-test.v", "-test.run", "^TestProbeInTheirPlace$")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestProbeInTheirPlace") {
		t.Fatalf("the test failed as another user: %v: %s", err, out)
	}
}

// Every barrier confines a real QEMU, and this process can still read its memory.
func TestQEMUIsConfined(t *testing.T) {
	ctx := t.Context()
	spec := newSpec(t)
	p := spawn(ctx, t, spec)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Ident.PID))
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := userOf(spec)
	if who := fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%d\t%[2]d\t%[2]d\t%[2]d\n", uid, gid); os.Getuid() == 0 && !strings.Contains(string(status), who) {
		t.Errorf("its status lacks %q: %s", who, status)
	}
	for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapPrm:\t0000000000000000\n", "CapBnd:\t0000000000000000\n"} {
		if !strings.Contains(string(status), want) && (os.Getuid() == 0 || !strings.HasPrefix(want, "CapBnd")) {
			t.Errorf("its status lacks %q: %s", want, status)
		}
	}
	for _, ns := range []string{"mnt", "pid", "net", "ipc"} {
		mine, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.Ident.PID, ns))
		if err != nil || its == mine {
			t.Errorf("namespace %s: %s, ours is %s: %v", ns, its, mine, err)
		}
	}
	var top []string
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/", p.Ident.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		top = append(top, e.Name())
	}
	if !slices.Contains(top, "usr") || slices.Contains(top, "root") || slices.Contains(top, "home") || slices.Contains(top, "proc") {
		t.Errorf("its root holds %v", top)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", p.Ident.PID, layout.VMDir(spec.Dir).QEMULog())); err == nil || !os.IsNotExist(err) && !isPermission(err) {
		t.Errorf("it sees its log: %v", err)
	}
}

func isPermission(err error) bool { return strings.Contains(err.Error(), fs.ErrPermission.Error()) }

// TestHostileHeaders: no machine is started on a disk, a layer or a volume whose
// header asks for more than Warren's do, and none of them is plugged in.
func TestHostileHeaders(t *testing.T) {
	spec, dir, put := probeSpec(t)
	layer := layout.GenerationDir(dir.Generation("g1")).Disk()
	for _, path := range []string{spec.Disk, layer, dir.ImageDisk("img")} {
		for name, field := range map[string]int64{"external data file": 72 + 7, "version": 7, "encryption": 35, "extension": 104} {
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, path, field, []byte{4})
			if _, err := plan(spec); vm.KindOf(err) != vm.Corrupt || vm.AsError(err).Hint == "" {
				t.Errorf("%s of %s: %v, want corrupt with a hint", name, path, err)
			}
			rewrite(t, path, 0, whole)
		}
	}
	if _, err := plan(spec); err != nil {
		t.Fatalf("as it was: %v", err)
	}
	v := vm.PluggedVolume{ID: vm.NewVolumeID(), File: put(filepath.Join(string(dir), "volume"))}
	if err := (&Process{Spec: spec}).PlugVolume(t.Context(), v, nil); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("plugged: %v", err)
	}
	spec.Plugged.Volumes = []vm.PluggedVolume{v}
	if _, err := plan(spec); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a volume at the start: %v", err)
	}
	spec.Plugged.Volumes[0].Cut = true
	if _, err := plan(spec); err != nil {
		t.Errorf("a volume that is cut off: %v", err)
	}
}

// TestLayersBelow: a disk whose header names something else than a disk of a
// generation or an image is not started: a guest that has taken its QEMU over
// has written it.
func TestLayersBelow(t *testing.T) {
	spec, dir, put := probeSpec(t)
	if list, err := layersBelow(spec); err != nil || len(list) != 2 {
		t.Fatalf("its own: %v, %v", list, err)
	}
	ram := put(layout.GenerationDir(dir.Generation("g2")).RAM())
	link := filepath.Join(dir.Generation("g2"), "disk.qcow2")
	if err := os.Symlink(put(dir.AdminKey()), link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir.AdminKey(), "../../admin.key", "/etc/passwd", ram, link, dir.Overlay("otherotherotherother"), dir.Generations(), "/dev/urandom"} {
		if err := os.RemoveAll(spec.Disk); err != nil {
			t.Fatal(err)
		}
		put(dir.Overlay("otherotherotherother"))
		if err := CreateOverlay(spec.Disk, strings.Repeat("x", len(name)), 1); err != nil {
			t.Fatal(err)
		}
		header, err := os.ReadFile(spec.Disk)
		if err == nil { // Warren itself writes no such name
			err = os.WriteFile(spec.Disk, bytes.Replace(header, []byte(strings.Repeat("x", len(name))), []byte(name), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if list, err := layersBelow(spec); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("a disk on %s has layers %v (%v), want corrupt", name, list, err)
		}
	}
}
