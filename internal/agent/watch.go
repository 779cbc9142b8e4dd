// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/warren-vm/warren/vm"
)

const watchMask = syscall.IN_CREATE | syscall.IN_MODIFY | syscall.IN_DELETE | syscall.IN_MOVED_FROM | syscall.IN_MOVED_TO |
	syscall.IN_ATTRIB | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_DONT_FOLLOW | syscall.IN_EXCL_UNLINK

// watcher converts inotify's events.
type watcher struct {
	user  linuxUser
	root  string // as the client has named it
	at    string // its real path
	deep  bool
	f     *os.File
	fd    int
	paths map[int32]string
	emit  func(vm.FileEvent) error
	last  vm.FileEvent // to drop repetitions within one read
	begun bool         // set after the first walk, whose findings are no events
}

// watch reports changes below a path until the client leaves or the path is removed.
func (a *Agent) watch(w *answer, r *request) error {
	u, root, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return vm.Errorf(vm.Limit, root, "cannot watch: %w", err)
	}
	x := &watcher{
		user: u, root: filepath.Clean(root), deep: r.flag("recursive"),
		f: os.NewFile(uintptr(fd), "inotify"), fd: fd, paths: make(map[int32]string),
	}
	defer x.f.Close()
	err = u.do(func() (err error) {
		if x.at, err = u.may(x.root, toRead, true); err != nil {
			return err
		}
		return x.add(x.root, true)
	})
	if err != nil {
		return fileError(root, err)
	}
	ctx, stop := r.untilGone(w)
	defer stop()
	if err := w.head(-1, "Content-Type: application/x-ndjson\r\n"); err != nil {
		return err
	}
	out := &chunkWriter{w: w.conn}
	x.begun = true
	x.emit = func(ev vm.FileEvent) error {
		b, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	}
	if err := x.loop(ctx); err != nil {
		return err
	}
	return out.end()
}

// add watches a directory, with deep also those below it. A new directory is reported once
// its watch exists, and so is everything in it, because that may be older than the watch.
// The directory is listed before it is reported. A client that changes it after the report
// therefore gets one event for each change, in order. A directory that may not be read is not
// watched.
func (x *watcher) add(dir string, first bool) error {
	if !first && x.user.judge(x.real(dir), toRead) != nil {
		if x.begun {
			return x.send("create", dir)
		}
		return nil
	}
	wd, err := syscall.InotifyAddWatch(x.fd, x.real(dir), watchMask&^boolMask(first, syscall.IN_DONT_FOLLOW))
	var entries []os.DirEntry
	var unread error
	if err == nil && x.deep {
		entries, unread = os.ReadDir(x.real(dir))
	}
	if x.begun {
		if err := x.send("create", dir); err != nil {
			return err
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		return vm.Errorf(vm.Limit, dir, "too many directories to watch").
			WithHint("raise fs.inotify.max_user_watches in the VM or watch a smaller tree")
	}
	if err != nil {
		return err
	}
	x.paths[int32(wd)] = dir
	if unread != nil && !errors.Is(unread, syscall.ENOTDIR) {
		return unread
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err := x.add(path, false)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		} else if x.begun {
			if err := x.send("create", path); err != nil {
				return err
			}
		}
	}
	return nil
}

// real is the real path of a path below the root.
func (x *watcher) real(path string) string {
	return filepath.Join(x.at, strings.TrimPrefix(path, x.root))
}

func boolMask(on bool, bits uint32) uint32 {
	if on {
		return bits
	}
	return 0
}

// loop reads events until the client leaves or the path is removed.
func (x *watcher) loop(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = x.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 32<<10)
	for {
		n, err := x.f.Read(buf)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		x.last = vm.FileEvent{}
		for b := buf[:n]; len(b) >= syscall.SizeofInotifyEvent; {
			raw := (*syscall.InotifyEvent)(unsafe.Pointer(&b[0]))
			end := syscall.SizeofInotifyEvent + int(raw.Len)
			name := string(bytes.TrimRight(b[syscall.SizeofInotifyEvent:end], "\x00"))
			b = b[end:]
			over, err := x.event(raw.Wd, raw.Mask, name)
			if err != nil || over {
				return err
			}
		}
	}
}

// event reports one event. It returns true if the watched path was removed.
func (x *watcher) event(wd int32, mask uint32, name string) (over bool, err error) {
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		return false, x.send("overflow", x.root)
	}
	dir, ok := x.paths[wd]
	if !ok {
		return false, nil
	}
	if mask&syscall.IN_IGNORED != 0 {
		delete(x.paths, wd)
		return dir == x.root, nil
	}
	path := dir
	if name != "" {
		path = filepath.Join(dir, name)
	}
	if strings.HasPrefix(name, tempPrefix) {
		return false, nil // a file that writeFile has not completed
	}
	isDir := mask&syscall.IN_ISDIR != 0
	switch {
	case mask&(syscall.IN_CREATE|syscall.IN_MOVED_TO) != 0:
		if !isDir || !x.deep {
			return false, x.send("create", path)
		}
		return false, x.user.do(func() error {
			err := x.add(path, false)
			var errno syscall.Errno
			if errors.As(err, &errno) {
				return nil // removed again, or not readable
			}
			return err
		})
	case mask&syscall.IN_MOVED_FROM != 0:
		if isDir {
			x.drop(path)
		}
		return false, x.send("rename", path)
	case mask&syscall.IN_DELETE != 0:
		return false, x.send("delete", path)
	case mask&syscall.IN_DELETE_SELF != 0 && dir == x.root:
		return true, x.send("delete", path)
	case mask&syscall.IN_MOVE_SELF != 0 && dir == x.root:
		return true, x.send("rename", path)
	case mask&(syscall.IN_MODIFY|syscall.IN_ATTRIB) != 0 && !isDir && name != "", mask&syscall.IN_MODIFY != 0 && dir == x.root:
		return false, x.send("modify", path)
	}
	return false, nil
}

// drop removes the watches of a directory that was moved away.
func (x *watcher) drop(dir string) {
	for wd, p := range x.paths {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			_, _ = syscall.InotifyRmWatch(x.fd, uint32(wd)) // it may be removed already
			delete(x.paths, wd)
		}
	}
}

// send reports an event, unless it repeats the previous one of the same read or the path may not
// be seen.
func (x *watcher) send(kind, path string) error {
	if x.user.judge(x.real(path), toSee) != nil {
		return nil
	}
	ev := vm.FileEvent{Type: kind, Path: path}
	if ev == x.last {
		return nil
	}
	x.last = ev
	return x.emit(ev)
}
