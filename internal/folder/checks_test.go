// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// must ends a check.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %.40q (%v), want %.40q", filepath.Base(path), got, err, want)
	}
}

func file(t *testing.T, path, content string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func opened(t *testing.T, path string, flags int, mode os.FileMode) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, mode)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// checks are what programs expect of a file system.
var checks = map[string]func(t *testing.T, d string){
	"rename": func(t *testing.T, d string) {
		a := file(t, d+"/a", "1")
		must(t, os.Rename(a, d+"/b"))
		holds(t, d+"/b", "1")
		_, err := os.Stat(a)
		wants(t, "the old name", err, os.ErrNotExist)
	},
	"rename-over": func(t *testing.T, d string) {
		must(t, os.Rename(file(t, d+"/a", "1"), file(t, d+"/b", "2")))
		holds(t, d+"/b", "1")
	},
	"rename-exchange": func(t *testing.T, d string) {
		a, b := file(t, d+"/a", "1"), file(t, d+"/b", "2")
		must(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
		holds(t, a, "2")
		holds(t, b, "1")
	},
	"rename-noreplace": func(t *testing.T, d string) {
		a, b := file(t, d+"/a", "1"), file(t, d+"/b", "2")
		wants(t, "rename", unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE), unix.EEXIST)
		holds(t, b, "2")
	},
	"rename-dir": func(t *testing.T, d string) {
		must(t, os.MkdirAll(d+"/x/y", 0o755))
		file(t, d+"/x/y/f", "1")
		wants(t, "into itself", os.Rename(d+"/x", d+"/x/y/z"), unix.EINVAL)
		must(t, os.Rename(d+"/x", d+"/w"))
		holds(t, d+"/w/y/f", "1")
	},
	"symlink": func(t *testing.T, d string) {
		must(t, os.Symlink("f", d+"/l"))
		file(t, d+"/f", "1")
		holds(t, d+"/l", "1")
		if to, err := os.Readlink(d + "/l"); to != "f" || err != nil {
			t.Errorf("the link leads to %q (%v), want f", to, err)
		}
		must(t, os.Symlink(strings.Repeat("x", 2000), d+"/long"))
	},
	"hard-link": func(t *testing.T, d string) {
		must(t, os.Link(file(t, d+"/a", "1"), d+"/b"))
		file(t, d+"/b", "22")
		holds(t, d+"/a", "22")
		st, err := os.Stat(d + "/a")
		must(t, err)
		if n := st.Sys().(*syscall.Stat_t).Nlink; n != 2 {
			t.Errorf("%d links", n)
		}
	},
	"chmod": func(t *testing.T, d string) {
		a := file(t, d+"/a", "1")
		must(t, os.Chmod(a, 0o751))
		if st, err := os.Stat(a); err != nil || st.Mode() != 0o751 {
			t.Errorf("the file's mode is %v (%v), want 0751", st.Mode(), err)
		}
	},
	"create-mode": func(t *testing.T, d string) {
		opened(t, d+"/a", os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
		ro := opened(t, d+"/ro", os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o400)
		_, err := ro.WriteString("1")
		must(t, err)
		for name, want := range map[string]os.FileMode{"a": 0o600, "ro": 0o400} {
			if st, err := os.Stat(d + "/" + name); err != nil || st.Mode() != want {
				t.Errorf("the mode of %s is %v (%v), want %v", name, st.Mode(), err, want)
			}
		}
	},
	"chown": func(t *testing.T, d string) {
		a := file(t, d+"/a", "1")
		must(t, os.Chown(a, 0, 0))
		wants(t, "to another", os.Chown(a, 1000, 1000), unix.EPERM)
	},
	"utimes": func(t *testing.T, d string) {
		when := time.Unix(1600000000, 123456789)
		must(t, os.Chtimes(file(t, d+"/a", "1"), when, when))
		if st, err := os.Stat(d + "/a"); err != nil || !st.ModTime().Equal(when) {
			t.Errorf("the file's time is %v (%v), want %v", st.ModTime(), err, when)
		}
	},
	"truncate": func(t *testing.T, d string) {
		a := file(t, d+"/a", "123456")
		must(t, os.Truncate(a, 3))
		holds(t, a, "123")
		must(t, os.Truncate(a, 5))
		holds(t, a, "123\x00\x00")
		opened(t, a, os.O_WRONLY|os.O_TRUNC, 0)
		holds(t, a, "")
	},
	"mmap": func(t *testing.T, d string) {
		f := opened(t, file(t, d+"/a", strings.Repeat("x", 8192)), os.O_RDWR, 0)
		m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(t, err)
		copy(m[5000:], "written")
		must(t, unix.Msync(m, unix.MS_SYNC))
		must(t, unix.Munmap(m))
		holds(t, d+"/a", strings.Repeat("x", 5000)+"written"+strings.Repeat("x", 8192-5007))
	},
	"flock": func(t *testing.T, d string) {
		a, b := opened(t, file(t, d+"/a", ""), os.O_RDWR, 0), opened(t, d+"/a", os.O_RDWR, 0)
		must(t, unix.Flock(int(a.Fd()), unix.LOCK_EX))
		wants(t, "again", unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
		must(t, unix.Flock(int(a.Fd()), unix.LOCK_UN))
		must(t, unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	},
	"posix-lock": func(t *testing.T, d string) {
		a, b := opened(t, file(t, d+"/a", ""), os.O_RDWR, 0), opened(t, d+"/a", os.O_RDWR, 0)
		l := &unix.Flock_t{Type: unix.F_WRLCK, Len: 10}
		must(t, unix.FcntlFlock(a.Fd(), unix.F_OFD_SETLK, l))
		wants(t, "again", unix.FcntlFlock(b.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 5, Len: 10}), unix.EAGAIN)
		must(t, unix.FcntlFlock(b.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 10, Len: 10}))
	},
	"fallocate": func(t *testing.T, d string) {
		f := opened(t, d+"/a", os.O_CREATE|os.O_RDWR, 0o644)
		must(t, unix.Fallocate(int(f.Fd()), 0, 0, 1<<20))
		if st, err := f.Stat(); err != nil || st.Size() != 1<<20 {
			t.Errorf("the file has %d bytes (%v), want 1 MiB", st.Size(), err)
		}
	},
	"xattr": func(t *testing.T, d string) {
		a := file(t, d+"/a", "1")
		must(t, unix.Setxattr(a, "user.x", []byte("value"), 0))
		buf := make([]byte, 100)
		n, err := unix.Getxattr(a, "user.x", buf)
		if err != nil || string(buf[:n]) != "value" {
			t.Errorf("the attribute is %q (%v), want value", buf[:max(n, 0)], err)
		}
		n, err = unix.Listxattr(a, buf)
		if err != nil || string(buf[:n]) != "user.x\x00" {
			t.Errorf("the attributes are %q (%v), want user.x", buf[:max(n, 0)], err)
		}
		must(t, unix.Removexattr(a, "user.x"))
		_, err = unix.Getxattr(a, "user.x", buf)
		wants(t, "removed", err, unix.ENODATA)
	},
	"fsync": func(t *testing.T, d string) {
		f := opened(t, d+"/a", os.O_CREATE|os.O_RDWR, 0o644)
		_, err := f.WriteString("1")
		must(t, err)
		must(t, f.Sync())
		must(t, unix.Fdatasync(int(f.Fd())))
		dir := opened(t, d, os.O_RDONLY, 0)
		must(t, dir.Sync())
	},
	"open-unlinked": func(t *testing.T, d string) {
		f := opened(t, file(t, d+"/a", "123"), os.O_RDWR, 0)
		must(t, os.Remove(d+"/a"))
		_, err := f.WriteAt([]byte("X"), 1)
		must(t, err)
		buf := make([]byte, 3)
		if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "1X3" {
			t.Errorf("the removed file reads as %q (%v), want 1X3", buf, err)
		}
		st, err := f.Stat()
		must(t, err)
		if n := st.Sys().(*syscall.Stat_t).Nlink; n != 0 {
			t.Errorf("%d links", n)
		}
		must(t, f.Truncate(1))
	},
	"append": func(t *testing.T, d string) {
		a, b := opened(t, d+"/a", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644), opened(t, d+"/a", os.O_WRONLY|os.O_APPEND, 0)
		for range 3 {
			_, err := a.WriteString("a")
			must(t, err)
			_, err = b.WriteString("b")
			must(t, err)
		}
		holds(t, d+"/a", "ababab")
	},
	"fifo": func(t *testing.T, d string) {
		must(t, unix.Mkfifo(d+"/p", 0o644))
		go func() { _ = os.WriteFile(d+"/p", []byte("through"), 0) }()
		holds(t, d+"/p", "through")
	},
	"device": func(t *testing.T, d string) {
		wants(t, "mknod", unix.Mknod(d+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), unix.EPERM)
	},
	"inotify": func(t *testing.T, d string) {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		must(t, err)
		defer unix.Close(fd)
		_, err = unix.InotifyAddWatch(fd, d, unix.IN_CREATE|unix.IN_CLOSE_WRITE)
		must(t, err)
		file(t, d+"/a", "1")
		buf := make([]byte, 4096)
		n, err := unix.Read(fd, buf)
		if err != nil || le.Uint32(buf[4:]) != unix.IN_CREATE || n < 16 {
			t.Errorf("the first event is %x (%v), want a create", buf[:max(n, 0)], err)
		}
	},
	"tmpfile": func(t *testing.T, d string) {
		fd, err := unix.Open(d, unix.O_TMPFILE|unix.O_RDWR, 0o600)
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip("this kernel is older than 6.1")
		}
		must(t, err)
		f := os.NewFile(uintptr(fd), "tmpfile")
		defer f.Close()
		_, err = f.WriteString("later")
		must(t, err)
		must(t, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, d+"/named", unix.AT_SYMLINK_FOLLOW))
		holds(t, d+"/named", "later")
	},
	"statfs": func(t *testing.T, d string) {
		var st unix.Statfs_t
		must(t, unix.Statfs(d, &st))
		if st.Blocks == 0 || st.Namelen != 255 || st.Bsize == 0 {
			t.Errorf("the file system is %+v, want blocks, a block size and names of 255 bytes", st)
		}
	},
	"dirs": func(t *testing.T, d string) {
		must(t, os.MkdirAll(d+"/x/y", 0o750))
		wants(t, "not empty", os.Remove(d+"/x"), unix.ENOTEMPTY)
		wants(t, "again", os.Mkdir(d+"/x", 0o755), os.ErrExist)
		file(t, d+"/f", "")
		_, err := os.Stat(d + "/f/g")
		wants(t, "in a file", err, unix.ENOTDIR)
		must(t, os.Remove(d+"/x/y"))
		must(t, os.Remove(d+"/x"))
	},
	"many": func(t *testing.T, d string) {
		const n = 400
		for i := range n {
			file(t, fmt.Sprintf("%s/a-file-with-a-longer-name-%04d", d, i), "1")
		}
		names, err := os.ReadDir(d)
		if err != nil || len(names) != n {
			t.Errorf("%d names, %v", len(names), err)
		}
		for i, e := range names {
			if info, err := e.Info(); err != nil || info.Size() != 1 || e.Name() != fmt.Sprintf("a-file-with-a-longer-name-%04d", i) {
				t.Fatalf("name %d is %s (%v), want its number and a file of 1 byte", i, e.Name(), err)
			}
		}
	},
	"names": func(t *testing.T, d string) {
		for _, name := range []string{strings.Repeat("n", 255), "with space", "ü\xff\n", "-rf", "..."} {
			file(t, d+"/"+name, name)
			holds(t, d+"/"+name, name)
		}
		wants(t, "a long name", os.Mkdir(d+"/"+strings.Repeat("n", 256), 0o755), unix.ENAMETOOLONG)
	},
	"exclusive": func(t *testing.T, d string) {
		file(t, d+"/a", "1")
		_, err := os.OpenFile(d+"/a", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
		wants(t, "again", err, os.ErrExist)
	},
	"sparse": func(t *testing.T, d string) {
		f := opened(t, d+"/a", os.O_CREATE|os.O_RDWR, 0o644)
		_, err := f.WriteAt([]byte("end"), 4<<20)
		must(t, err)
		if at, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_DATA); err != nil || at != 4<<20 {
			t.Errorf("data at %d, %v", at, err)
		}
	},
	"copy-range": func(t *testing.T, d string) {
		from, to := opened(t, file(t, d+"/a", "0123456789"), os.O_RDONLY, 0), opened(t, d+"/b", os.O_CREATE|os.O_RDWR, 0o644)
		off := int64(2)
		n, err := unix.CopyFileRange(int(from.Fd()), &off, int(to.Fd()), nil, 5, 0)
		if err != nil || n != 5 {
			t.Fatalf("copied %d bytes (%v), want 5", n, err)
		}
		holds(t, d+"/b", "23456")
	},
	"large": func(t *testing.T, d string) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 500_000)
		must(t, os.WriteFile(d+"/a", data, 0o644))
		must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0))
		if got, err := os.ReadFile(d + "/a"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	},
	"permissions": func(t *testing.T, d string) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, os.Chmod(file(t, d+"/a", "1"), 0o600))
		must(t, unix.Setfsuid(1000)) // of this thread
		_, err := os.ReadFile(d + "/a")
		must(t, unix.Setfsuid(0))
		wants(t, "somebody else", err, os.ErrPermission)
	},
}
