// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/vm"
)

const badRequest = "FILES_BAD_REQUEST"

// TestUserAndKernelFiles: users that the agent acts for cannot read or write root's kernel files.
func TestUserAndKernelFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act for another user")
	}
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	const pattern = "/proc/sys/kernel/core_pattern" // who writes it runs programs as root
	before, err := os.ReadFile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.OpenHandle(ctx, "nobody", pattern, vm.OpenOptions{Write: true, Truncate: true, Create: true})
	if err == nil {
		_, err = f.WriteAt(before, 0) // the same, to do no harm
		_ = f.Close()
		t.Errorf("%s was opened for a user; the writing gave %v", pattern, err)
	} else {
		wantError(t, "write "+pattern, err, vm.Invalid, badRequest)
	}
	const secret = "/proc/sys/kernel/usermodehelper/bset" // mode 0600
	_, rc, err := r.Open(ctx, "nobody", secret)
	if err == nil {
		_ = rc.Close()
	}
	wantError(t, "read "+secret, err, vm.Invalid, badRequest)
	if _, b := readAll(t, r, "nobody", "/proc/sys/kernel/ostype"); string(b) != "Linux\n" {
		t.Errorf("what everybody may read: %q", b)
	}
	// Everybody may open this one; the kernel checks the user at the write.
	const lastPID = "/proc/sys/kernel/ns_last_pid"
	now, err := os.ReadFile(lastPID)
	if errors.Is(err, os.ErrNotExist) {
		t.Log("this kernel has no " + lastPID)
		return
	}
	f, err = r.OpenHandle(ctx, "nobody", lastPID, vm.OpenOptions{Write: true})
	if err == nil {
		_, err = f.WriteAt(now, 0)
		_ = f.Close()
	}
	if err == nil {
		t.Errorf("a user has written %s", lastPID)
	}
}

// TestUserAndAgentFiles: only root reaches the agent's open files and memory
// through /proc, although the thread that acts for a user belongs to the agent.
func TestUserAndAgentFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act for another user")
	}
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	dir := t.TempDir() // closed to others, as is what is in it
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(filepath.Join(dir, "open"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := open.Chmod(0o666); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(ownDir(t), "link")
	if err := errors.Join(os.Chmod(filepath.Dir(link), 0o755), os.Symlink("/proc/self/maps", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		fmt.Sprintf("/proc/self/fd/%d", open.Fd()), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), open.Fd()),
		"/proc/self/maps", "/proc/thread-self/maps", fmt.Sprintf("/proc/%d/task/%d/maps", os.Getpid(), os.Getpid()), link,
	} {
		if _, rc, err := r.Open(ctx, "nobody", path); err == nil {
			_ = rc.Close()
			t.Errorf("a user reads %s", path)
		}
		if rc, err := r.TarDown(ctx, "nobody", path); err == nil {
			if n, err := io.Copy(io.Discard, rc); err == nil {
				t.Errorf("a user has %d bytes of archive of %s", n, path)
			}
			_ = rc.Close()
		}
		if f, err := r.OpenHandle(ctx, "nobody", path, vm.OpenOptions{Read: true, Write: strings.Contains(path, "/fd/")}); err == nil {
			_ = f.Close()
			t.Errorf("a user has opened %s", path)
		}
	}
	if list, err := r.ReadDir(ctx, "nobody", "/proc/self/fd"); err == nil {
		t.Errorf("a user lists what the agent has open: %d files", len(list))
	}
	if list, err := r.ReadDir(ctx, "nobody", "/proc/1"); err != nil || len(list) < 10 {
		t.Errorf("of another process: %d files, %v", len(list), err)
	}
}

// TestUserVerbs: no file verb does anything for a user that only root may do.
func TestUserVerbs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act for another user")
	}
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	top := ownDir(t)
	if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(top+"/closed", 0o700), os.WriteFile(top+"/closed/f", []byte("secret"), 0o644), os.WriteFile(top+"/f", []byte("root's"), 0o644)); err != nil {
		t.Fatal(err)
	}
	size, mode, id := int64(0), uint32(0o777), 65534
	for what, try := range map[string]func() error{
		"list":    func() error { _, err := r.ReadDir(ctx, "nobody", top+"/closed"); return err },
		"stat":    func() error { _, err := r.Stat(ctx, "nobody", top+"/closed/f"); return err },
		"watch":   func() error { w, err := r.Watch(ctx, "nobody", top+"/closed", false); closeWatch(w); return err },
		"tar":     func() error { rc, err := r.TarDown(ctx, "nobody", top+"/closed"); closeReader(rc); return err },
		"unpack":  func() error { return r.TarUp(ctx, "nobody", top+"/new", emptyTar()) },
		"rename":  func() error { return r.Rename(ctx, "nobody", top+"/f", top+"/g") },
		"chmod":   func() error { return r.Chmod(ctx, "nobody", top+"/f", 0o777) },
		"symlink": func() error { return r.Symlink(ctx, "nobody", "f", top+"/new") },
		"link":    func() error { return r.Link(ctx, "nobody", top+"/f", top+"/new") },
		"mkdir":   func() error { return r.Mkdir(ctx, "nobody", top+"/new", 0, false) },
		"remove":  func() error { return r.Remove(ctx, "nobody", top+"/f", false) },
		"tree":    func() error { return r.Remove(ctx, "nobody", top+"/closed", true) },
		"resize":  func() error { return r.SetAttr(ctx, "nobody", top+"/f", vm.FileAttr{Size: &size}) },
		"mode":    func() error { return r.SetAttr(ctx, "nobody", top+"/f", vm.FileAttr{Mode: &mode}) },
		"give":    func() error { return r.SetAttr(ctx, "nobody", top+"/f", vm.FileAttr{UID: &id, GID: &id}) },
		"times": func() error {
			return r.SetAttr(ctx, "nobody", top+"/f", vm.FileAttr{Atime: time.Unix(1, 0), Mtime: time.Unix(1, 0)})
		},
		"replace": func() error {
			_, err := r.WriteFile(ctx, "nobody", top+"/f", vm.WriteOptions{Size: 1}, strings.NewReader("x"))
			return err
		},
	} {
		wantError(t, what, try(), vm.Invalid, badRequest)
	}
	if b, err := os.ReadFile(top + "/f"); err != nil || string(b) != "root's" {
		t.Errorf("the file of root holds %q (%v), want what root wrote", b, err)
	}
	if names, err := os.ReadDir(top); err != nil || len(names) != 2 {
		t.Errorf("the directory holds %v (%v), want 2 files", names, err)
	}
}

func closeWatch(w *guest.Watch) {
	if w != nil {
		w.Close()
	}
}

func closeReader(rc io.ReadCloser) {
	if rc != nil {
		_ = rc.Close()
	}
}
