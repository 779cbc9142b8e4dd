// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The probe is this test program, started confined in QEMU's place.
const probeEnv = "WARREN_TEST_PROBE"

func TestMain(m *testing.M) {
	if data := os.Getenv(probeEnv); data != "" {
		probe(data)
		os.Exit(0)
	}
	if how := os.Getenv(holdEnv); how != "" {
		holdAndWait(how)
	}
	os.Exit(m.Run())
}

// targets are what the probe tries to get at; what it may is named so.
type targets struct {
	MayRead, MayWrite, Secret, OtherRAM, Dir, Socket, Abstract, TCP string
	Victim                                                          int
	// Free says that the probe is not confined: it leaves alone what would harm
	// the host if it worked.
	Free bool
}

// probe tries all, from inside, and prints the result.
func probe(data string) {
	var t targets
	if err := json.Unmarshal([]byte(data), &t); err != nil {
		panic(err)
	}
	dial := func(network, addr string) error {
		c, err := net.DialTimeout(network, addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err
	}
	open := func(path string, flags int) error {
		f, err := os.OpenFile(path, flags, 0o600)
		if err == nil {
			f.Close()
		}
		return err
	}
	out := map[string]error{
		"read what it may":       open(t.MayRead, os.O_RDONLY),
		"write what it may":      open(t.MayWrite, os.O_RDWR),
		"write what it may read": open(t.MayRead, os.O_RDWR),
		"read a secret":          open(t.Secret, os.O_RDONLY),
		"read another's memory":  open(t.OtherRAM, os.O_RDONLY),
		"write another's memory": open(t.OtherRAM, os.O_RDWR),
		"list the directory":     list(t.Dir),
		"list the root of users": list("/root"),
		"read passwd":            open("/etc/passwd", os.O_RDONLY),
		"make a file":            open(t.MayWrite+".new", os.O_RDWR|os.O_CREATE),
		"dial the API":           dial("tcp", t.TCP),
		"dial a unix socket":     dial("unix", t.Socket),
		"dial an abstract one":   dial("unix", t.Abstract),
		"listen":                 listen(),
		"signal its parent":      unix.Kill(unix.Getppid(), 0),
		"see another":            unix.Kill(t.Victim, 0),
		"read another's process": open("/proc/"+strconv.Itoa(t.Victim)+"/mem", os.O_RDONLY),
	}
	if !t.Free {
		maps.Copy(out, map[string]error{
			"rename what it may":    os.Rename(t.MayWrite, t.MayWrite+".old"),
			"link to a secret":      os.Symlink(t.Secret, t.MayWrite+".link"),
			"signal another":        unix.Kill(t.Victim, unix.SIGTERM),
			"signal a thread":       unix.Tgkill(t.Victim, t.Victim, unix.SIGTERM),
			"trace another":         unix.PtraceAttach(t.Victim),
			"mount":                 unix.Mount("x", t.Dir, "tmpfs", 0, ""),
			"own user namespace":    unix.Unshare(unix.CLONE_NEWUSER),
			"a key of the kernel's": key(),
		})
	}
	said := make(map[string]string)
	for what, err := range out {
		said[what] = ""
		if err != nil {
			said[what] = err.Error()
		}
	}
	said["caps"] = caps()
	said["pid"] = strconv.Itoa(unix.Getpid())
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		panic(err)
	}
}

func list(dir string) error {
	_, err := os.ReadDir(dir)
	return err
}

func listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		l.Close()
	}
	return err
}

func key() error {
	_, err := unix.AddKey("user", "warren", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

func caps() string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err.Error()
	}
	return fmt.Sprint(data)
}

// lay makes the files and sockets that a probe is set on, and a process to
// signal.
func lay(t *testing.T) (targets, Plan) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil { // the mode is not what stops the probe
			t.Fatal(err)
		}
		return path
	}
	to := targets{
		MayRead: in("base/ram"), MayWrite: in("lent/disk"), Secret: in("admin.key"), OtherRAM: in("vms/other/ram"),
		Dir: dir, Socket: filepath.Join(dir, "api.sock"), Abstract: "@warren-test-" + filepath.Base(dir),
	}
	for _, a := range []string{to.Socket, to.Abstract} {
		accept(t, "unix", a)
	}
	if err := os.Chmod(to.Socket, 0o666); err != nil {
		t.Fatal(err)
	}
	to.TCP = accept(t, "tcp", "127.0.0.1:0")
	victim := exec.Command("sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := victim.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the probe has ended another process: %v", err)
		}
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	to.Victim = victim.Process.Pid
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return to, Plan{
		Read:  []string{"/usr", "/lib", "/lib64", "/etc/ld.so.cache", to.MayRead},
		Write: []string{filepath.Dir(to.MayWrite)}, Devices: []string{"/dev/null", "/dev/urandom"}, Root: root,
	}
}

func accept(t *testing.T, network, addr string) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

// run starts the probe by start and returns what it said.
func run(t *testing.T, to targets, start func(*exec.Cmd) error) map[string]string {
	t.Helper()
	data, err := json.Marshal(to)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), probeEnv+"="+string(data))
	cmd.Dir = "/"
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the confined process failed: %v: %s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Logf("it said: %s", stderr.String())
	}
	said := make(map[string]string)
	if err := json.Unmarshal([]byte(stdout.String()), &said); err != nil {
		t.Fatalf("the confined process printed no JSON: %v: %q", err, stdout.String())
	}
	return said
}

// check holds what the probe said against what it may.
func check(t *testing.T, said map[string]string) {
	t.Helper()
	for what, err := range said {
		switch what {
		case "caps":
			if err != "[{0 0 0} {0 0 0}]" {
				t.Errorf("it has capabilities: %s", err)
			}
		case "pid":
		case "read what it may", "write what it may":
			if err != "" {
				t.Errorf("it could not %s: %s", what, err)
			}
		default:
			if err == "" {
				t.Errorf("it could %s", what)
			}
		}
	}
	if t.Failed() {
		t.Logf("%v", said)
	}
}

func TestConfinedReachesOnlyItsOwn(t *testing.T) {
	to, plan := lay(t)
	free := to
	free.Free = true
	said := run(t, free, (*exec.Cmd).Start)
	for _, what := range []string{
		"read a secret", "read another's memory", "write another's memory", "list the directory", "read passwd", "make a file", "dial the API",
		"dial a unix socket", "dial an abstract one", "listen", "signal its parent", "see another",
	} {
		if said[what] != "" {
			t.Errorf("a probe that is free could not %s: %s: then nothing is proved by one that isn't", what, said[what])
		}
	}
	os.Remove(to.MayWrite + ".new")
	said = run(t, to, func(cmd *exec.Cmd) error { return Start(cmd, plan) })
	check(t, said)
	if said["pid"] != "1" {
		t.Logf("this host gives user %d no namespaces", os.Getuid())
	}
	if said["pid"] != "1" && os.Getuid() == 0 && mayMount() {
		t.Error("it had no namespaces of its own")
	}
}

// mayMount reports whether this process could give a child its own mounts.
func mayMount() bool {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	return cmd.Run() == nil
}

// Where the kernel gives no namespaces, Landlock and the filter hold alone.
func TestConfinedWithoutNamespaces(t *testing.T) {
	if LandlockVersion() < 6 {
		t.Skip("this kernel's Landlock does not bind all of it: Linux 6.12 does")
	}
	to, plan := lay(t)
	check(t, run(t, to, func(cmd *exec.Cmd) error {
		if err := shim(cmd, plan); err != nil {
			return err
		}
		return cmd.Start()
	}))
}

// Both again, as a user without any privilege.
func TestConfinedAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the other tests are this one: they don't run as root")
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
	copied := filepath.Join(dir, "confine.test")
	if err := os.WriteFile(copied, data, 0o755); err != nil { //nolint:gosec // another user is to start it
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), copied, "-test.v", "-test.run", "^(TestConfinedReachesOnlyItsOwn|TestConfinedWithoutNamespaces)$")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestConfinedReachesOnlyItsOwn") {
		t.Fatalf("the tests failed as another user: %v: %s", err, out)
	}
	t.Logf("%s", out)
}

func benchStart(b *testing.B, start func(*exec.Cmd) error) {
	b.Helper()
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), "/bin/true")
		if err := start(cmd); err != nil {
			b.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStartFree(b *testing.B) { benchStart(b, (*exec.Cmd).Start) }

func BenchmarkStartConfined(b *testing.B) {
	plan := Plan{Read: []string{"/usr", "/lib", "/lib64", "/etc/ld.so.cache"}, Devices: []string{"/dev/null"}, Root: b.TempDir()}
	benchStart(b, func(cmd *exec.Cmd) error { return Start(cmd, plan) })
}

func BenchmarkStartWithoutNamespaces(b *testing.B) {
	plan := Plan{Read: []string{"/usr", "/lib", "/lib64", "/etc/ld.so.cache"}, Devices: []string{"/dev/null"}, Root: b.TempDir()}
	benchStart(b, func(cmd *exec.Cmd) error {
		if err := shim(cmd, plan); err != nil {
			return err
		}
		return cmd.Start()
	})
}

func TestProbe(t *testing.T) {
	held, err := Probe(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{Seccomp, NoNewPrivileges, NoCapabilities}
	if mayMount() {
		want = append(want, OwnRoot, OwnMounts, OwnPIDs, OwnNetwork, OwnIPC)
	}
	for _, w := range want {
		if !slices.Contains(held, w) {
			t.Errorf("%s does not hold; what does: %v", w, held)
		}
	}
	mine, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range mine {
		if strings.HasPrefix(h, "own ") {
			t.Errorf("%s of this process is said to be its own", h)
		}
	}
}
