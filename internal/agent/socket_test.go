// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func TestLinuxUser(t *testing.T) {
	r := newRig(t)
	u, err := r.LinuxUser(t.Context(), "daemon")
	if err != nil || u.Name != "daemon" || u.UID != 1 || u.Home == "" || u.Shell == "" {
		t.Errorf("daemon is %+v (%v), want user 1 with a home and a shell", u, err)
	}
	if u, err := r.LinuxUser(t.Context(), "nobody"); err != nil || u.Home != "/" {
		t.Errorf("a home that is not there: %+v, %v", u, err)
	}
	if _, err := r.LinuxUser(t.Context(), "stranger"); !errors.Is(err, vm.NotFound) {
		t.Errorf("an unknown user: %v, want not-found", err)
	}
}

// TestDialSocket: each direction ends separately, TCP and unix.
func TestDialSocket(t *testing.T) {
	r := newRig(t)
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			all, _ := io.ReadAll(conn) // until the end of the client's bytes
			_, _ = conn.Write(append([]byte("got "), all...))
		}()
		conn, err := r.DialSocket(t.Context(), vm.SocketSpec{Network: network, Address: l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Repeat([]byte("x"), 300<<10)
		if _, err := conn.Write(want); err != nil {
			t.Fatal(err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != "got "+string(want) {
			t.Errorf("%s: %d bytes, %v", network, len(got), err)
		}
		_ = conn.Close()
	}
	for what, s := range map[string]vm.SocketSpec{
		"refused": {Network: "tcp", Address: "127.0.0.1:1"}, "a name": {Network: "tcp", Address: "localhost:1"},
		"missing": {Network: "unix", Address: "/none"}, "network": {Network: "udp", Address: "127.0.0.1:1"},
		"user": {Network: "tcp", Address: "127.0.0.1:1", User: "stranger"}, "empty": {Network: "unix"},
	} {
		if conn, err := r.DialSocket(t.Context(), s); err == nil {
			_ = conn.Close()
			t.Errorf("%s: no refusal", what)
		}
	}
}

// TestListenSocket: concurrent connections; the socket is removed with its
// listener, connections stay.
func TestListenSocket(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "s")
	for _, s := range []vm.SocketSpec{{Network: "tcp", Address: "127.0.0.1:0"}, {Network: "unix", Address: path}, {Network: "unix"}} {
		l, err := r.ListenSocket(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Network == "unix" && s.Address == "" {
			if st, err := os.Stat(filepath.Dir(l.Address())); err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("the socket's directory is %v (%v), want mode 0700", st, err)
			}
		}
		var wg sync.WaitGroup
		var kept []net.Conn
		for range 5 {
			c, err := net.Dial(s.Network, l.Address())
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, c)
			there, _, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { _, _ = io.Copy(there, there); _ = there.Close() })
		}
		blocked := make(chan error, 1)
		go func() { _, _, err := l.Accept(); blocked <- err }()
		time.Sleep(20 * time.Millisecond)
		_ = l.Close()
		if err := <-blocked; err == nil {
			t.Error("a connection came of nothing")
		}
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			c, err := net.Dial(s.Network, l.Address())
			if err != nil {
				break
			}
			_ = c.Close()
			if time.Now().After(end) {
				t.Fatal("it still listens")
			}
		}
		for _, c := range kept {
			buf := make([]byte, 2)
			_, werr := c.Write([]byte("hi"))
			if _, err := io.ReadFull(c, buf); werr != nil || err != nil || string(buf) != "hi" {
				t.Errorf("a kept connection answers %q (write %v, read %v), want hi", buf, werr, err)
			}
			_ = c.Close()
		}
		wg.Wait()
		if s.Network == "unix" {
			for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(l.Address()); errors.Is(err, os.ErrNotExist) {
					break
				}
				if time.Now().After(end) {
					t.Error("the socket is left")
					break
				}
			}
		}
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, err := r.ListenSocket(t.Context(), vm.SocketSpec{Network: "tcp", Address: busy.Addr().String()}); err == nil {
		t.Error("a port that is taken was given")
	}
}

// TestSocketUser: the peer of a socket sees the user, not root, and root's rights are not used.
func TestSocketUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	r := newRig(t)
	dir, err := os.MkdirTemp("", "warren-socket-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() error {
		conn, err := r.DialSocket(t.Context(), vm.SocketSpec{User: "daemon", Network: "unix", Address: path})
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := dial(); err == nil {
		t.Error("a user has connected to a socket of root's")
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // the agent's end lives as long as this one
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil || cred.Uid != 1 || cred.Gid != 1 {
			t.Errorf("the other end sees %+v, %v", cred, err)
		}
	})
	if l, err := r.ListenSocket(t.Context(), vm.SocketSpec{User: "daemon", Network: "tcp", Address: "127.0.0.1:999"}); err == nil {
		low, _ := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
		if n, _ := strconv.Atoi(strings.TrimSpace(string(low))); n > 999 {
			t.Error("a user listens on a port of root's")
		}
		_ = l.Close()
	}
	// Afterwards the agent acts as root again.
	for range 50 {
		if out, err := exec.Command("id", "-u").Output(); err != nil || string(out) != "0\n" {
			t.Fatalf("the agent runs as %q (%v), want root", out, err)
		}
		if err := dial(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHandle: concurrent access to pieces of a file in any order; errors do not end the stream.
func TestHandle(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "f")
	f, err := r.OpenHandle(t.Context(), "", path, vm.OpenOptions{Read: true, Write: true, Create: true, Exclusive: true, Mode: 0o640})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i >> 8)
	}
	var wg sync.WaitGroup
	for at := 0; at < len(want); at += 96 << 10 {
		wg.Go(func() {
			part := want[at:min(len(want), at+96<<10)]
			if n, err := f.WriteAt(part, int64(at)); err != nil || n != len(part) {
				t.Errorf("wrote %d bytes (%v), want %d", n, err, len(part))
			}
		})
	}
	wg.Wait()
	got := make([]byte, len(want)+10)
	if n, err := f.ReadAt(got, 0); n != len(want) || !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], want) {
		t.Errorf("read %d bytes (%v), want the %d written ones and the end of the file", n, err, len(want))
	}
	if _, err := f.WriteAt([]byte("x"), -1); err == nil {
		t.Error("written before the beginning")
	}
	if n, err := f.ReadAt(got[:3], 5); n != 3 || err != nil {
		t.Errorf("after an error: %d, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadAt(got[:3], 0); err == nil {
		t.Error("read after the close")
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o640 || st.Size() != int64(len(want)) {
		t.Errorf("the file is %v (%v), want mode 0640 and %d bytes", st, err, len(want))
	}
	size, mode, when := int64(3), uint32(0o600), time.Unix(1_600_000_000, 0)
	if err := r.SetAttr(t.Context(), "", path, vm.FileAttr{Size: &size, Mode: &mode, Atime: when, Mtime: when}); err != nil {
		t.Error(err)
	}
	if err := r.Link(t.Context(), "", path, path+"2"); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("f", path+"3"); err != nil {
		t.Fatal(err)
	}
	st, err := r.StatFollow(t.Context(), "", path+"3")
	if err != nil || st.Size != 3 || st.Mode != 0o600 || !st.ModTime.Equal(when) || st.Kind != vm.FileRegular {
		t.Errorf("behind the link is %+v (%v), want a file of 3 bytes with the mode and time that were set", st, err)
	}
	f, err = r.OpenHandle(t.Context(), "", path+"2", vm.OpenOptions{Write: true, Append: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("end"), 0); err != nil {
		t.Error(err)
	}
	_ = f.Close()
	if data, err := os.ReadFile(path); err != nil || !bytes.HasSuffix(data, []byte("end")) || len(data) != 6 {
		t.Errorf("the file holds %q (%v), want 6 bytes with end at the end", data, err)
	}
	for what, o := range map[string]vm.OpenOptions{
		path + "9": {Read: true}, path: {Write: true, Create: true, Exclusive: true}, t.TempDir(): {Read: true}, "/dev/zero": {Read: true},
	} {
		if f, err := r.OpenHandle(t.Context(), "", what, o); err == nil {
			_ = f.Close()
			t.Errorf("%s: opened", what)
		}
	}
}
