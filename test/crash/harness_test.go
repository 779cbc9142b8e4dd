//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// host is one data directory with a server on it, driven through the binary.
type host struct {
	t      testing.TB
	binary string
	data   string
	listen string
	server *exec.Cmd
	ended  chan error
	log    *bytes.Buffer
}

// result is how one command of the binary ended.
type result struct {
	args           []string
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("warren %s: status %d\nstdout: %s\nstderr: %s", strings.Join(r.args, " "), r.code, r.stdout, r.stderr)
}

// listed is the part of `ls --json` that tests look at.
type listed struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: it mounts file systems and kills processes of any user")
	}
}

// newHost starts a server on a fresh data directory that shares the tests'
// images. With diskMiB the directory is a small file system of its own.
func newHost(t testing.TB, diskMiB int) *host {
	t.Helper()
	needRoot(t)
	binary, err := filepath.Abs(env("WARREN_TEST_BINARY", "../../bin/warren"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := filepath.Abs(env("WARREN_TEST_IMAGES", "../../.work/data/images"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(images); err != nil {
		t.Fatalf("no test image: run scripts/test-image.sh (%v)", err)
	}
	top, err := os.MkdirTemp("", "warren-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	h := &host{t: t, binary: binary, data: filepath.Join(top, "data"), listen: l.Addr().String()}
	if err := os.Mkdir(h.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if diskMiB > 0 {
		h.mountSmall(filepath.Join(top, "disk.ext4"), diskMiB)
	}
	h.ok("config", "show") // makes the data directory
	own := filepath.Join(h.data, "images")
	if err := os.Remove(own); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Symlink(images, own); err != nil {
		t.Fatal(err)
	}
	h.serve()
	t.Cleanup(h.close)
	return h
}

// mountSmall makes the data directory an ext4 of that size in a file.
func (h *host) mountSmall(file string, mib int) {
	h.t.Helper()
	for _, argv := range [][]string{
		{"truncate", "-s", strconv.Itoa(mib) + "M", file},
		{"mkfs.ext4", "-q", "-F", "-m", "0", file},
		{"mount", "-o", "loop", file, h.data},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			h.t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	h.t.Cleanup(func() {
		if err := syscall.Unmount(h.data, syscall.MNT_DETACH); err != nil {
			h.t.Error(err)
		}
	})
	if err := os.RemoveAll(filepath.Join(h.data, "lost+found")); err != nil {
		h.t.Fatal(err)
	}
}

// serve starts the server and waits until it is ready.
func (h *host) serve() {
	h.t.Helper()
	cmd := exec.Command(h.binary, "serve", "--listen", h.listen, "--ssh", "off", "--preview", "off", "--s3", "off")
	cmd.Env = h.environ()
	h.log = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = h.log, h.log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.server, h.ended = cmd, make(chan error, 1)
	go func() { h.ended <- cmd.Wait() }()
	for deadline := time.Now().Add(60 * time.Second); ; {
		if h.run("ls").code == 0 {
			return
		}
		select {
		case err := <-h.ended:
			h.t.Fatalf("serve ended: %v\n%s", err, h.log)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("serve is not ready\n%s", h.log)
		}
	}
}

// end ends the server with a signal and waits for it.
func (h *host) end(sig syscall.Signal) {
	h.t.Helper()
	if err := h.server.Process.Signal(sig); err != nil {
		h.t.Fatal(err)
	}
	select {
	case <-h.ended:
	case <-time.After(20 * time.Second):
		h.t.Fatalf("serve does not end on %v", sig)
	}
}

// revive starts the server again when its record store met the full disk: it
// says so and ends, and its VMs go on.
func (h *host) revive() {
	h.t.Helper()
	select {
	case err := <-h.ended:
		if !strings.Contains(h.log.String(), "the record store has failed; VMs go on") {
			h.t.Fatalf("serve ended: %v\n%s", err, h.log)
		}
		h.t.Logf("the record store met the full disk; serve is started again")
		h.serve()
	case <-time.After(time.Second):
	}
}

// close removes every VM, ends the server, and looks for what is left.
func (h *host) close() {
	h.t.Helper()
	for _, v := range h.list() {
		if r := h.run("rm", v.ID); r.code != 0 {
			h.t.Errorf("%s", r)
		}
	}
	h.end(syscall.SIGTERM)
	if h.t.Failed() {
		h.t.Logf("server log:\n%s", h.log)
	}
	deadline := time.Now().Add(5 * time.Second)
	left := h.processes()
	for len(left) > 0 && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
		left = h.processes()
	}
	for pid, cmd := range left {
		h.t.Errorf("process %d is left: %s", pid, cmd)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if dirs, err := os.ReadDir(filepath.Join(h.data, "vms")); err == nil && len(dirs) > 0 {
		h.t.Errorf("%d VM directories are left, e.g. %s", len(dirs), dirs[0].Name())
	}
}

func (h *host) environ() []string {
	return append(os.Environ(), "WARREN_DATA="+h.data, "WARREN_API_URL=http://"+h.listen, "WARREN_API_KEY=")
}

// run runs the binary; its exit status is part of the result.
func (h *host) run(args ...string) result { return h.runIn(nil, args...) }

func (h *host) runIn(stdin []byte, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Env = h.environ()
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := result{args: args, stdout: out.String(), stderr: errs.String()}
	if err != nil {
		r.code = -1
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.code = exit.ExitCode()
	}
	return r
}

// ok runs the binary and fails the test unless it succeeds; it returns stdout.
func (h *host) ok(args ...string) string {
	h.t.Helper()
	r := h.run(args...)
	if r.code != 0 {
		h.t.Fatal(r)
	}
	return r.stdout
}

// sh runs a shell line in the guest and returns its output, trimmed.
func (h *host) sh(name, line string) string {
	h.t.Helper()
	return strings.TrimSpace(h.ok("exec", name, "--", "sh", "-c", line))
}

func (h *host) list() []listed {
	h.t.Helper()
	var out []listed
	r := h.run("ls", "--json")
	if r.code != 0 {
		h.t.Errorf("%s", r)
		return nil
	}
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		h.t.Errorf("ls --json: %v\n%s", err, r.stdout)
	}
	return out
}

// find returns the listed VM of that name.
func (h *host) find(name string) listed {
	h.t.Helper()
	for _, v := range h.list() {
		if v.Name == name {
			return v
		}
	}
	h.t.Fatalf("%s is not listed", name)
	return listed{}
}

// eventually waits until f is true.
func (h *host) eventually(what string, f func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !f(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("not in time: %s", what)
		}
	}
}

// processes lists processes of this data directory other than the server.
func (h *host) processes() map[int]string {
	out := map[int]string{}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range procs {
		data, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(data, []byte(h.data)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
			out[pid] = strings.ReplaceAll(string(data), "\x00", " ")
		}
	}
	return out
}

// pidOf finds a VM's process, "qemu" or "monitor"; 0 = there is none.
func (h *host) pidOf(id, program string) int {
	word := map[string]string{"qemu": "qemu-system", "monitor": "warren-monitor"}[program]
	for pid, cmd := range h.processes() {
		if strings.Contains(cmd, id) && strings.Contains(cmd, word) {
			return pid
		}
	}
	return 0
}

// free returns what the data directory's file system has left, in MiB.
func (h *host) free() int {
	h.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(h.data, &st); err != nil {
		h.t.Fatal(err)
	}
	return int(int64(st.Bavail) * st.Bsize >> 20)
}

func (h *host) ballast() string { return filepath.Join(h.data, "ballast") }

// leave fills the small disk until only that much is left.
func (h *host) leave(mib int) {
	h.t.Helper()
	h.makeRoom()
	if err := h.take(int64(h.free()-mib) << 20); err != nil {
		h.t.Fatal(err)
	}
}

// take adds a file of n bytes to the disk.
func (h *host) take(n int64) error {
	f, err := os.OpenFile(h.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, st.Size(), n)
	}
	return errors.Join(err, f.Close())
}

// fill leaves nothing.
func (h *host) fill() {
	for _, n := range []int64{256 << 20, 16 << 20, 1 << 20, 64 << 10, 4 << 10} {
		for h.take(n) == nil {
		}
	}
}

func (h *host) makeRoom() {
	h.t.Helper()
	if err := os.RemoveAll(h.ballast()); err != nil {
		h.t.Fatal(err)
	}
}
