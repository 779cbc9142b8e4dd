// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/binary"
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
	"time"
	"unsafe"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// A folder of the host is a FUSE file system: the agent copies the kernel's messages to the host,
// which answers them. It inspects notifications, and answers some requests itself: see local.
const (
	folderType   = "fuse"
	folderSource = "warren"

	folderMessage = 1<<20 + 4096 // largest message
	folderReaders = 2
	folderAhead   = "1024" // KiB that the kernel reads ahead
	inHeader      = 40     // bytes of a request's head: length [4] · operation [4] · its number [8] · the file's [8] · …
	outHeader     = 16     // bytes of an answer's head: length [4] · -errno [4] · the request's number [8]

	sysOpenTree   = 428
	openTreeClone = 1
)

// folder is one mounted folder. Both descriptors are closed with the stream; then
// every access to the mount fails, so that a program never sees an empty directory.
type folder struct {
	dev   *os.File // the kernel's end
	raw   int      // its descriptor, for writes that must not wait for other writers
	at    string   // its device number, which is its name in fusectl
	tree  int      // a second mount that is writable and not visible in the file system
	conn  net.Conn
	in    io.Reader
	news  chan struct{}
	mu    sync.Mutex // guards queue
	queue [][]byte   // notifications, in order
	ahead ahead
}

// folder mounts a folder of the host and serves it until the stream or the
// mount ends. It first removes what remains of an earlier mount at that path.
func (a *Agent) folder(w *answer, r *request) error {
	path := filepath.Clean(r.query.Get("path"))
	over := leave(path)
	if err := mountPoint(path, over || r.flag("over")); err != nil {
		return err
	}
	if err := a.loadFuse(r.ctx); err != nil {
		return err
	}
	f := &folder{tree: -1, conn: w.conn, in: r.in, news: make(chan struct{}, 1)}
	if err := f.mount(path, r.flag("rw")); err != nil {
		return err
	}
	w.started, w.closing = true, true
	if _, err := io.WriteString(w.conn, upgraded); err != nil {
		f.close()
		return err
	}
	if err := link.WriteFrame(w.conn, link.FrameStarted, nil); err != nil {
		f.close()
		return err
	}
	return f.serve()
}

const fuseDevice = "/dev/fuse"

// loadFuse makes the kernel load the module fuse if it is missing.
func (a *Agent) loadFuse(ctx context.Context) error {
	if _, err := os.Stat(fuseDevice); err == nil {
		return nil
	}
	if out, err := a.freezer.output(exec.CommandContext(ctx, "/sbin/modprobe", "fuse")); err != nil {
		return vm.Errorf(vm.Unsupported, "fuse", "the guest's kernel does not load it: %w: %.200s", err, out)
	}
	return nil
}

// leave removes what remains of a folder's mount at a path.
func leave(path string) bool {
	return deviceAt(path) != "" && syscall.Unmount(path, syscall.MNT_DETACH) == nil
}

// deviceAt returns the minor device number of the folder that is mounted at a
// path, or "" if there is none.
func deviceAt(path string) (number string) {
	number, kind := mountAt(path)
	if kind != folderType+" "+folderSource {
		return ""
	}
	return strings.TrimPrefix(number, "0:")
}

// mountAt returns the device number, and the type and source, of the mount at a path. It asks
// only the kernel, never the file system, whose server may not answer. It identifies the mount
// by its number, because the path may contain links and mountinfo may spell it differently.
func mountAt(path string) (number, kind string) {
	const onlyPath = 0x200000 // O_PATH
	fd, err := syscall.Open(path, onlyPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", ""
	}
	defer syscall.Close(fd) //nolint:errcheck // read-only
	id, real := "", ""
	for _, l := range procLines("/proc/self/fdinfo/" + strconv.Itoa(fd)) {
		if after, ok := strings.CutPrefix(l, "mnt_id:"); ok {
			id = strings.TrimSpace(after)
		}
	}
	if real, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil {
		return "", ""
	}
	for _, l := range procLines("/proc/self/mountinfo") {
		w := strings.Fields(l)
		_, after, ok := strings.Cut(l, " - ")
		if about := strings.Fields(after); ok && len(w) > 4 && len(about) > 1 && w[0] == id && unescape(w[4]) == real {
			return w[2], about[0] + " " + about[1]
		}
	}
	return "", ""
}

// abort makes the kernel fail all requests that wait for an answer. Closing the
// agent's end is not enough while a write to it waits.
func (f *folder) abort() {
	const connections = "/sys/fs/fuse/connections"
	file := connections + "/" + f.at + "/abort"
	if _, err := os.Stat(file); err != nil {
		_ = syscall.Mount("fusectl", connections, "fusectl", 0, "") // if systemd has not mounted it
	}
	_ = os.WriteFile(file, []byte("1"), 0)
	_ = f.dev.SetReadDeadline(time.Unix(1, 0))
}

func (f *folder) mount(path string, rw bool) (err error) {
	fault := func(err error) error {
		f.close()
		return vm.Errorf(vm.GuestFault, path, "the folder cannot be mounted: %w", err)
	}
	fd, err := syscall.Open(fuseDevice, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fault(err)
	}
	const flags = syscall.MS_NODEV | syscall.MS_NOSUID
	options := "fd=" + strconv.Itoa(fd) + ",rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
	err = syscall.Mount(folderSource, path, folderType, flags, options)
	f.raw, f.dev = fd, os.NewFile(uintptr(fd), fuseDevice) // only a mounted descriptor can be polled
	if err != nil {
		return fault(err)
	}
	f.at = deviceAt(path)
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return fault(err)
	}
	cwd := -100 // AT_FDCWD
	tree, _, no := syscall.Syscall(sysOpenTree, uintptr(cwd), uintptr(unsafe.Pointer(name)), openTreeClone|syscall.O_CLOEXEC)
	if f.tree = int(tree); no != 0 {
		f.tree = -1
		_ = syscall.Unmount(path, syscall.MNT_DETACH)
		return fault(no)
	}
	if !rw { // the host enforces this in any case
		if err := syscall.Mount("", path, "", flags|syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
			_ = syscall.Unmount(path, syscall.MNT_DETACH)
			return fault(err)
		}
	}
	return nil
}

func (f *folder) close() {
	if f.dev != nil {
		_ = f.dev.Close()
	}
	if f.tree >= 0 {
		_ = syscall.Close(f.tree)
	}
}

// serve copies messages until one side ends.
func (f *folder) serve() error {
	var wg sync.WaitGroup
	for range folderReaders {
		wg.Go(f.toHost)
	}
	done := make(chan struct{})
	wg.Go(func() { f.tell(done) })
	err := f.toKernel()
	close(done)
	_ = f.conn.Close() // a reader may be writing to it
	f.abort()
	wg.Wait()
	f.close()
	return err
}

// toHost copies the kernel's messages.
func (f *folder) toHost() {
	buf := make([]byte, folderMessage)
	for {
		n, err := f.dev.Read(buf)
		switch {
		case errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOENT): // the requesting process has ended
			continue
		case err != nil:
			_ = f.conn.Close() // the folder was unmounted
			return
		}
		out, tell := f.local(buf[:n])
		if out != nil {
			_, _ = f.dev.Write(out) // the requesting process may have ended
		}
		if !tell {
			continue
		}
		if _, err := f.conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// toKernel copies the host's answers. A notification may have to wait for an
// answer, so another goroutine writes it.
func (f *folder) toKernel() error {
	buf := make([]byte, folderMessage)
	for first := true; ; first = false {
		if _, err := io.ReadFull(f.in, buf[:outHeader]); err != nil {
			return nil // the host has closed the stream
		}
		n := int(binary.LittleEndian.Uint32(buf))
		if n < outHeader || n > len(buf) {
			return vm.Errorf(vm.Invalid, "", "a message of %d bytes", n)
		}
		if _, err := io.ReadFull(f.in, buf[outHeader:n]); err != nil {
			return nil
		}
		number := binary.LittleEndian.Uint64(buf[8:])
		if number == 0 {
			if f.ahead.told(buf[:n]) {
				continue
			}
			f.mu.Lock()
			f.queue = append(f.queue, append([]byte(nil), buf[:n]...))
			f.mu.Unlock()
			select {
			case f.news <- struct{}{}:
			default:
			}
			continue
		}
		f.ahead.answered(number)
		if _, err := f.dev.Write(buf[:n]); errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EPERM) || errors.Is(err, os.ErrClosed) {
			return nil // the folder was unmounted
		}
		if first {
			go f.readAhead() // asks the host; ends with its answer
		}
	}
}

// readAhead makes the kernel read in large pieces when files are read sequentially.
func (f *folder) readAhead() {
	var st syscall.Stat_t
	if err := syscall.Fstat(f.tree, &st); err == nil { // by then the kernel and the host have negotiated the protocol
		_ = os.WriteFile("/sys/class/bdi/0:"+f.at+"/read_ahead_kb", []byte(folderAhead), 0)
	}
}

func minor(dev uint64) int { return int(dev&0xff | dev>>12&^0xff) }
