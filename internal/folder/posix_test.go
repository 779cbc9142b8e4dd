// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPOSIX has this host's kernel use a folder, as a guest's does, and a
// program of its own check how it behaves. It takes root and /dev/fuse.
func TestPOSIX(t *testing.T) {
	at := mountHere(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestChecks$", "-test.v")
	cmd.Env = append(os.Environ(), "FOLDER_CHECKS="+at)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the checks failed: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// mountHere mounts a folder on this host.
func mountHere(t *testing.T) string {
	t.Helper()
	dir, _ := world(t)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no FUSE on this host: %v", err)
	}
	at := t.TempDir()
	if err := unix.Mount("warren", at, "fuse", unix.MS_NODEV|unix.MS_NOSUID, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"); err != nil {
		_ = unix.Close(fd)
		t.Skipf("no right to mount: %v", err)
	}
	dev := os.NewFile(uintptr(fd), "fuse")
	root, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), there, root, Options{RW: true}) }()
	go func() {
		buf := make([]byte, maxMessage)
		for {
			n, err := unix.Read(fd, buf)
			if err != nil && err != unix.ENOENT && err != unix.EINTR {
				here.Close()
				return
			}
			if err == nil {
				_, _ = here.Write(buf[:n])
			}
		}
	}()
	go relayAnswers(here, fd)
	t.Cleanup(func() {
		_ = unix.Unmount(at, unix.MNT_DETACH)
		here.Close()
		if err := <-served; err != nil {
			t.Log(err)
		}
		root.Close()
		dev.Close()
	})
	return at
}

// relayAnswers gives the kernel what the server says. What answers nothing may
// have to wait for an answer, so it is given by another thread.
func relayAnswers(from net.Conn, fd int) {
	notices := make(chan []byte, 10_000)
	defer close(notices)
	go func() {
		for b := range notices {
			_, _ = unix.Write(fd, b)
		}
	}()
	buf := make([]byte, maxMessage)
	for {
		if _, err := readFull(from, buf[:4]); err != nil {
			return
		}
		n := le.Uint32(buf)
		if _, err := readFull(from, buf[4:n]); err != nil {
			return
		}
		if kind := le.Uint32(buf[4:]); le.Uint64(buf[8:]) == 0 {
			if kind < nudgeCreate {
				notices <- bytes.Clone(buf[:n])
			}
			continue
		}
		_, _ = unix.Write(fd, buf[:n])
	}
}

func readFull(c net.Conn, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = c.Read(b[n:])
		n += m
	}
	return n, err
}

// TestChecks is the program of TestPOSIX.
func TestChecks(t *testing.T) {
	at := os.Getenv("FOLDER_CHECKS")
	if at == "" {
		t.Skip("TestPOSIX runs it")
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(at, "check-"+name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			check(t, dir)
		})
	}
}
