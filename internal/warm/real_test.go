// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// rig is a data directory with one image, and the programs, for all tests of
// a run.
type rig struct {
	o   Options
	gen vm.Manifest
	err error
	why string // why the tests can't run; "" = they can
}

var (
	theRig  rig
	rigOnce sync.Once
	rigDir  string // removed by TestMain
)

func TestMain(m *testing.M) {
	code := m.Run()
	if rigDir != "" {
		os.RemoveAll(rigDir)
	}
	os.Exit(code)
}

// real returns the rig with its warm generation built.
func real(t testing.TB) *rig {
	t.Helper()
	rigOnce.Do(func() { theRig.err = theRig.set() })
	if theRig.why != "" {
		t.Skip(theRig.why)
	}
	if theRig.err != nil {
		if said, err := os.ReadFile(filepath.Join(rigDir, "data", "cache", "warm-console.log")); err == nil {
			t.Logf("%s", said[max(0, len(said)-5000):])
		}
		t.Fatal(theRig.err)
	}
	return &theRig
}

func (r *rig) set() error {
	bin, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		r.why = "qemu-system-x86_64 is not installed"
		return nil
	}
	images := os.Getenv("WARREN_TEST_IMAGES")
	if images == "" {
		images = "../../.work/data/images"
	}
	if images, err = filepath.Abs(images); err != nil {
		return err
	}
	found, _ := filepath.Glob(filepath.Join(images, "im-*", "manifest.json"))
	if len(found) == 0 {
		r.why = "no image in " + images + ": `make image` builds one, WARREN_TEST_IMAGES names another place"
		return nil
	}
	if rigDir, err = os.MkdirTemp("", "warren-rig-"); err != nil {
		return err
	}
	dir, err := layout.Open(filepath.Join(rigDir, "data"))
	if err != nil {
		return err
	}
	var img vm.Image
	if err := layout.ReadJSON(found[0], &img); err != nil {
		return err
	}
	// The image as it is, but with warm generations of our own.
	if err := os.Mkdir(dir.Image(img.ID), 0o700); err != nil {
		return err
	}
	for _, name := range []string{"manifest.json", "disk.qcow2", "vmlinux", "modules"} {
		if err := os.Symlink(filepath.Join(filepath.Dir(found[0]), name), filepath.Join(dir.Image(img.ID), name)); err != nil {
			return err
		}
	}
	return r.build(dir, img, bin)
}

func (r *rig) build(dir layout.Dir, img vm.Image, bin string) error {
	for _, name := range []string{"warren-agent", "warren-monitor"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(rigDir, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	agent := filepath.Join(rigDir, "warren-agent")
	data, err := os.ReadFile(agent)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	initramfs, err := image.Initramfs(dir, img, agent, digest)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Second)
	defer cancel()
	info, err := qemu.Inspect(ctx, bin)
	if err != nil {
		return err
	}
	r.o = Options{
		Dir: dir, Launcher: &monitor.Launcher{Binary: filepath.Join(rigDir, "warren-monitor")}, Image: img, Size: vm.DefaultSize,
		Boot: vm.BootSource{Kernel: dir.Kernel(img.ID), Initramfs: initramfs, Cmdline: image.Cmdline(img, vm.TCG)},
		QEMU: bin, QEMUVersion: info.Version, Accel: vm.TCG, CPU: TCGModel, Machine: info.Machine, Agent: agent, AgentDigest: digest,
	}
	begin := time.Now()
	last := begin
	o := r.o
	o.Progress = func(step string) {
		fmt.Fprintf(os.Stderr, "warm: %s after %v\n", step, time.Since(begin).Round(time.Millisecond))
		last = time.Now()
	}
	r.gen, err = Build(ctx, o)
	if err == nil {
		fmt.Fprintf(os.Stderr, "warm: done after %v (check %v), RAM file %d MiB, all %d MiB\n", time.Since(begin).Round(time.Millisecond),
			time.Since(last).Round(time.Millisecond), blocks(filepath.Join(dir.Warm(img.ID, r.gen.Key), "ram"))>>20, r.gen.DataBytes>>20)
	}
	return err
}

func blocks(path string) int64 {
	n, _ := qemu.DataBytes(path)
	return n
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// spec is a VM on the warm generation.
func (r *rig) spec(t testing.TB) vm.MachineSpec {
	t.Helper()
	id := vm.NewID()
	dir := r.o.Dir.VM(id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run, err := r.o.Dir.Run()
	if err != nil {
		t.Fatal(err)
	}
	s := r.o.spec(id)
	gen := layout.GenerationDir(r.o.Dir.Warm(r.o.Image.ID, r.gen.Key))
	s.Dir, s.RunDir, s.Disk = dir, run.VM(id), layout.VMDir(dir).Overlay()
	s.Generation = &vm.GenerationSource{RAM: gen.RAM(), Device: gen.Device()}
	s.GuestKey = r.gen.GuestKey
	s.Reset = vm.Reset{
		Hostname: "vm-" + string(id[:6]), MachineID: hex.EncodeToString(randomBytes(16)), BootID: vm.NewUUID(), LinkKey: randomBytes(link.KeySize),
	}
	backing, err := filepath.Rel(dir, gen.Disk())
	if err != nil {
		t.Fatal(err)
	}
	if err := qemu.CreateOverlay(s.Disk, backing, s.Size.DiskMiB); err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *rig) launch(ctx context.Context, t testing.TB, s vm.MachineSpec) (*monitor.Client, vm.MachineStatus) {
	t.Helper()
	c, st, err := r.o.Launcher.Launch(ctx, s)
	if err != nil {
		logs(t, s)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			logs(t, s)
		}
		if err := r.o.Launcher.Sweep(context.Background(), s.RunDir); err != nil {
			t.Error(err)
		}
	})
	return c, st
}

func logs(t testing.TB, s vm.MachineSpec) {
	for _, p := range []string{layout.VMDir(s.Dir).MonitorLog(), layout.VMDir(s.Dir).QEMULog(), layout.VMDir(s.Dir).ConsoleLog()} {
		data, _ := os.ReadFile(p)
		t.Logf("%s:\n%s", filepath.Base(p), data[max(0, len(data)-3000):])
	}
}

// run runs a shell line in the guest.
func run(ctx context.Context, t testing.TB, g *guest.Client, line string) (string, int) {
	t.Helper()
	out, code, err := runIn(ctx, g, "sh", "-c", line)
	if err != nil {
		t.Fatalf("%s in the guest failed: %v", line, err)
	}
	return strings.TrimSpace(out), code
}

// Two machines on one generation are two machines.
func TestStartsAreDistinct(t *testing.T) {
	r, ctx := real(t), deadline(t)
	var seen [2]map[string]string
	for i := range seen {
		s := r.spec(t)
		c, st := r.launch(ctx, t, s)
		t.Logf("timings %v, monitor %d KiB, QEMU RSS %d PSS %d MiB", st.Timings, st.MonRSS>>10, st.RSS>>20, st.PSS>>20)
		for _, name := range vm.Resets {
			if st.Resets[name] != "ok" {
				t.Errorf("reset %s: %q", name, st.Resets[name])
			}
		}
		g := c.Guest()
		seen[i] = map[string]string{}
		for name, line := range map[string]string{
			"hostname": "hostname", "machine-id": "cat /etc/machine-id", "boot": "cat /proc/sys/kernel/random/boot_id",
			"uuid": "cat /proc/sys/kernel/random/uuid", "random": "head -c 16 /dev/urandom | od -An -tx1",
		} {
			seen[i][name], _ = run(ctx, t, g, line)
		}
		if seen[i]["hostname"] != s.Reset.Hostname || seen[i]["machine-id"] != s.Reset.MachineID || seen[i]["boot"] != s.Reset.BootID {
			t.Errorf("the guest says %v, was told %+v", seen[i], s.Reset)
		}
		now, _ := run(ctx, t, g, "date +%s.%N")
		var sec float64
		fmt.Sscan(now, &sec)
		if d := float64(time.Now().UnixNano())/1e9 - sec; d > 2 || d < -0.5 {
			t.Errorf("the guest's clock is %.3f s behind", d)
		}
		if size, _ := run(ctx, t, g, "df -BM --output=size / | tail -1"); strings.TrimSuffix(size, "M") < "15" {
			t.Errorf("the root file system has %s, the disk %d MiB", size, s.Size.DiskMiB)
		}
		if err := c.Kill(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for name := range seen[0] {
		if seen[0][name] == seen[1][name] || seen[0][name] == "" {
			t.Errorf("%s is the same in both: %q", name, seen[0][name])
		}
	}
}

// What was built is whole, private to its owner, and sparse.
func TestGenerationFiles(t *testing.T) {
	r := real(t)
	gen := layout.GenerationDir(r.o.Dir.Warm(r.o.Image.ID, r.gen.Key))
	for _, p := range []string{gen.RAM(), gen.Device(), gen.Disk(), gen.Manifest()} {
		var st unix.Stat_t
		// The group that root's machines also have is in no list of users.
		if err := unix.Stat(p, &st); err != nil || st.Mode&0o007 != 0 || st.Mode&0o070 != 0 && st.Gid < 1<<30 {
			t.Errorf("%s: %o, group %d, %v", p, st.Mode, st.Gid, err)
		}
	}
	if n := blocks(gen.RAM()); n >= r.gen.RAM.Size*3/4 || n == 0 {
		t.Errorf("the memory file of %d bytes takes %d: zero pages are not holes", r.gen.RAM.Size, n)
	}
	if err := qemu.Verify(t.Context(), gen.Disk(), r.gen.Disk); err != nil {
		t.Error(err)
	}
	g, err := Get(t.Context(), r.o)
	if err != nil || g.ID != r.gen.ID {
		t.Errorf("built again: %v, %v", g.ID, err)
	}
	other := r.o
	other.AgentDigest = "another"
	if _, err := Find(other); !errors.Is(err, vm.NotFound) {
		t.Errorf("another agent's generation: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(r.o.Dir.WarmRoot(r.o.Image.ID), ".tmp-*"))
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Kill -9 of the monitor while the guest works; a new one
// takes over, and nothing in the guest has noticed.
func TestAttachRealGuest(t *testing.T) {
	r, ctx := real(t), deadline(t)
	s := r.spec(t)
	c, st := r.launch(ctx, t, s)
	if out, code := run(ctx, t, c.Guest(), "echo here > /run/mark; (sleep 1000 &) ; cat /proc/sys/kernel/random/boot_id"); code != 0 {
		t.Fatalf("the command exits with %d: %s", code, out)
	}
	for range 3 {
		if err := unix.Kill(st.MonitorPID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		c2, st2, err := r.o.Launcher.Attach(ctx, s.RunDir)
		if err != nil {
			logs(t, s)
			t.Fatal(err)
		}
		t.Logf("attached after %v, hello %v", time.Since(begin), st2.Agent.Protocol)
		if st2.QEMUPID != st.QEMUPID || st2.Agent.Digest != r.o.AgentDigest {
			t.Errorf("the attached machine is %+v, want QEMU process %d and agent %s", st2, st.QEMUPID, r.o.AgentDigest)
		}
		if out, _ := run(ctx, t, c2.Guest(), "cat /run/mark; pgrep -c sleep"); out != "here\n1" {
			t.Errorf("the guest lost its memory: %q", out)
		}
		c2.Close()
		st = st2
	}
}

// Power-off, reboot and death of a guest are told apart.
func TestGuestEnds(t *testing.T) {
	r, ctx := real(t), deadline(t)
	for _, c := range []struct{ line, want string }{
		{"systemctl poweroff", "guest-poweroff"},
		{"systemctl reboot", "guest-reboot"},
		{"echo c > /proc/sysrq-trigger", ""},
	} {
		s := r.spec(t)
		cl, _ := r.launch(ctx, t, s)
		ectx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, _ = cl.Guest().Start(ectx, vm.ExecSpec{Command: c.line}) // its answer may go down with the guest
		cancel()
		begin := time.Now()
		exit, err := cl.Wait(ctx)
		if err != nil || c.want != "" && exit.Reason != c.want {
			t.Errorf("%s ends the machine with %+v (%v), want reason %q", c.line, exit, err, c.want)
		}
		t.Logf("%s: %+v after %v", c.line, exit, time.Since(begin))
		if c.want == "" { // what the guest said last is on the host
			said, err := os.ReadFile(layout.VMDir(s.Dir).ConsoleLog())
			if err != nil || !bytes.Contains(said, []byte("sysrq")) {
				t.Errorf("console: %q, %v", said, err)
			}
		}
	}
}

func TestStopRealGuest(t *testing.T) {
	r, ctx := real(t), deadline(t)
	s := r.spec(t)
	c, _ := r.launch(ctx, t, s)
	if _, code := run(ctx, t, c.Guest(), "mkdir -p /work; echo data > /work/in.txt"); code != 0 {
		t.Fatal("write failed")
	}
	begin := time.Now()
	if err := c.Stop(ctx, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %v: %+v", time.Since(begin), monitor.ReadExit(s.RunDir))
	if time.Since(begin) > 20*time.Second {
		t.Error("the guest did not power off by itself")
	}
	if err := r.o.Launcher.Sweep(ctx, s.RunDir); err != nil {
		t.Fatal(err)
	}
	// Started again it is cold, with its disk.
	s.Generation, s.WaitBooted = nil, true
	c, st := r.launch(ctx, t, s)
	t.Logf("cold boot %v", st.Timings)
	if out, _ := run(ctx, t, c.Guest(), "cat /work/in.txt; hostname"); out != "data\n"+s.Reset.Hostname {
		t.Errorf("after a cold boot: %q", out)
	}
}

// A running guest captured and started again continues in both places.
func TestCaptureRealGuest(t *testing.T) {
	r, ctx := real(t), deadline(t)
	s := r.spec(t)
	c, _ := r.launch(ctx, t, s)
	if _, code := run(ctx, t, c.Guest(), "echo before > /work/a; sync; echo ram > /run/b"); code != 0 {
		t.Fatal("write failed")
	}
	// A command whose output nobody takes throttles the port: a machine that
	// was captured so used to wake with a silent one.
	flood, err := c.Guest().Exec(ctx, vm.ExecSpec{Argv: []string{"cat", "/dev/zero"}})
	if err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, time.Second)
	dir := layout.GenerationDir(t.TempDir())
	over := layout.VMDir(s.Dir).NextOverlay(vm.NewGenerationID())
	if err := qemu.CreateOverlay(over, filepath.Base(s.Disk), s.Size.DiskMiB); err != nil {
		t.Fatal(err)
	}
	out, err := c.Capture(ctx, vm.CaptureSpec{RAM: dir.RAM(), Device: dir.Device(), Overlay: over})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("captured: %+v", out)
	if err := flood.Signal("KILL"); err != nil {
		t.Error(err)
	}
	if st, err := flood.Run(io.Discard, io.Discard); err != nil || st.Signal != "KILL" {
		t.Errorf("the flood in the parent ended with %+v, %v", st, err)
	}
	if got, code := run(ctx, t, c.Guest(), "echo after > /work/a; sync; cat /run/b"); code != 0 || got != "ram" {
		t.Errorf("the parent after its capture: %q", got)
	}
	var g vm.Manifest
	g.RAM, _ = qemu.Sum(ctx, dir.RAM())
	g.Device, _ = qemu.Sum(ctx, dir.Device())
	if err := layout.WriteJSON(dir.Manifest(), g, 0o600); err != nil {
		t.Fatal(err)
	}
	frozen := layout.GenerationDir(r.o.Dir.Generation(vm.NewGenerationID())).Disk()
	if err := errors.Join(os.MkdirAll(filepath.Dir(frozen), 0o700), os.Link(s.Disk, frozen)); err != nil {
		t.Fatal(err)
	}
	child := r.spec(t)
	os.Remove(child.Disk)
	rel, _ := filepath.Rel(child.Dir, frozen)
	if err := qemu.CreateOverlay(child.Disk, rel, s.Size.DiskMiB); err != nil {
		t.Fatal(err)
	}
	child.Generation = &vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device()}
	child.GuestKey = s.Reset.LinkKey
	cc, st := r.launch(ctx, t, child)
	t.Logf("child %v", st.Timings)
	if got, _ := run(ctx, t, cc.Guest(), "cat /run/b /work/a; hostname"); got != "ram\nbefore\n"+child.Reset.Hostname {
		t.Errorf("the child: %q", got)
	}
}

// A generation with an older agent wakes and gets this version's agent, in
// place; what runs in the guest keeps running.
func TestUpgradeRealAgent(t *testing.T) {
	r, ctx := real(t), deadline(t)
	s := r.spec(t)
	s.Agent = filepath.Join(t.TempDir(), "agent")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -X main.version=another", "-o", s.Agent, "../../cmd/warren-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the agent failed: %v\n%s", err, out)
	}
	data, err := os.ReadFile(s.Agent)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	s.AgentDigest = hex.EncodeToString(sum[:])
	c, st := r.launch(ctx, t, s)
	t.Logf("%v", st.Timings)
	if st.Agent.Digest != s.AgentDigest || st.Agent.Digest == r.gen.Agent.Digest {
		t.Errorf("the agent is %+v, wanted %s", st.Agent, s.AgentDigest)
	}
	if out, code := run(ctx, t, c.Guest(), "hostname"); code != 0 || out != s.Reset.Hostname {
		t.Errorf("the guest's hostname is %q with exit code %d, want %q", out, code, s.Reset.Hostname)
	}
}

// A damaged memory file is refused, with the remedy.
func TestDamageIsRefused(t *testing.T) {
	r, ctx := real(t), deadline(t)
	s := r.spec(t)
	dir := layout.GenerationDir(t.TempDir())
	for from, to := range map[string]string{s.Generation.RAM: dir.RAM(), s.Generation.Device: dir.Device()} {
		if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
			t.Fatalf("copying the generation failed: %v: %s", err, out)
		}
	}
	if err := layout.WriteJSON(dir.Manifest(), r.gen, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(dir.RAM(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("damage"), 16<<20)
	f.Close()
	s.Generation = &vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device()}
	if _, _, err := r.o.Launcher.Launch(ctx, s); !errors.Is(err, vm.Corrupt) || vm.AsError(err).Hint == "" {
		t.Errorf("launching from damaged memory: %v, want corrupt with a hint", err)
	}
}

// The guest is reached by its ports, through its own network.
func TestDialGuestPort(t *testing.T) {
	r, ctx := real(t), deadline(t)
	c, _ := r.launch(ctx, t, r.spec(t))
	const server = `import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 8000)); s.listen(5)
open("/run/listening", "w").close()
while True:
    c, _ = s.accept()
    d = b""
    while True:
        b = c.recv(4096)
        if not b: break
        d += b
    c.sendall(b"got " + d); c.close()`
	if _, err := c.Guest().Start(ctx, vm.ExecSpec{Argv: []string{"python3", "-c", server}}); err != nil {
		t.Fatal(err)
	}
	run(ctx, t, c.Guest(), "while ! [ -e /run/listening ]; do sleep 0.05; done")
	conn, err := c.DialPort(ctx, 8000)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "got hello" {
		t.Errorf("the answer is %q (%v), want got hello", got, err)
	}
	_, err = c.DialPort(ctx, 8001)
	if vm.KindOf(err) != vm.Unavailable {
		t.Errorf("a closed port: %v", err)
	}
}

// A probe of this host ends with an answer in bounded time, and is not
// repeated while nothing has changed.
func TestProbe(t *testing.T) {
	r, ctx := real(t), deadline(t)
	o := ProbeOptions{Dir: r.o.Dir, Launcher: r.o.Launcher, QEMU: r.o.QEMU, Boot: r.o.Boot, Agent: r.o.Agent, AgentDigest: r.o.AgentDigest}
	o.Boot.Cmdline = image.Cmdline(r.o.Image, vm.KVM)
	begin := time.Now()
	accel, report, err := Probe(ctx, o)
	if err != nil || accel != report.Accel || report.Machine != r.o.Machine || len(report.Tries) == 0 {
		t.Fatalf("the probe gives %s with %+v (%v), want the same accelerator, machine %s and its tries", accel, report, err, r.o.Machine)
	}
	t.Logf("%s after %v: %v", accel, time.Since(begin), report.Tries)
	if d := time.Since(begin); d > 2*probeDeadline+5*time.Second {
		t.Errorf("took %v", d)
	}
	_, again, err := Probe(ctx, o)
	if err != nil || !again.Cached || again.Accel != accel {
		t.Errorf("the second probe gives %+v (%v), want %s from the cache", again, err, accel)
	}
}

// The same probe guest under TCG says hello well within the deadline, so that
// a silent KVM is KVM's fault.
func TestDisklessGuest(t *testing.T) {
	r, ctx := real(t), deadline(t)
	s := r.spec(t)
	s.Disk, s.Generation, s.Size = "", nil, vm.Size{VCPU: 1, MemoryMiB: vm.MinMemoryMiB}
	begin := time.Now()
	c, st := r.launch(ctx, t, s)
	t.Logf("hello of a guest without a disk after %v: %v", time.Since(begin), st.Timings)
	if err := c.Kill(ctx); err != nil {
		t.Error(err)
	}
}

// BenchmarkLaunch is create → ready → first exec result, against the raw start
// of QEMU on the same generation.
func BenchmarkLaunch(b *testing.B) {
	r := real(b)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Second)
	defer cancel()
	var ready, total, floor []time.Duration
	for b.Loop() {
		floor = append(floor, r.rawStart(ctx, b))
		s := r.spec(b)
		begin := time.Now()
		c, st, err := r.o.Launcher.Launch(ctx, s)
		if err != nil {
			b.Fatal(err)
		}
		ready = append(ready, time.Since(begin))
		e, err := c.Guest().Exec(ctx, vm.ExecSpec{Argv: []string{"true"}})
		if err != nil {
			b.Fatal(err)
		}
		var out bytes.Buffer
		if code, err := e.Run(&out, &out); err != nil || code.Code != 0 {
			b.Fatalf("true in the guest ended with %+v (%v), want exit code 0", code, err)
		}
		total = append(total, time.Since(begin))
		b.Logf("floor %v ready %v total %v: %v mon %d KiB qemu RSS %d PSS %d MiB", floor[len(floor)-1], ready[len(ready)-1], total[len(total)-1],
			st.Timings, st.MonRSS>>10, st.RSS>>20, st.PSS>>20)
		c.Close()
		if err := r.o.Launcher.Sweep(ctx, s.RunDir); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(ms(floor), "floor-ms")
	b.ReportMetric(ms(ready), "ready-ms")
	b.ReportMetric(ms(total), "first-exec-ms")
}

func ms(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2]) / 1e6
}

// rawStart is QEMU from exec to running CPUs, with nothing around it.
func (r *rig) rawStart(ctx context.Context, b *testing.B) time.Duration {
	s := r.spec(b)
	if err := os.MkdirAll(s.RunDir, 0o700); err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(s.RunDir)
	begin := time.Now()
	p, err := qemu.Spawn(ctx, s)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.AwaitRunning(ctx); err != nil {
		b.Fatal(err)
	}
	d := time.Since(begin)
	if err := p.Kill(ctx); err != nil {
		b.Fatal(err)
	}
	return d
}
