// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const (
	runDir  = "/run/warren"
	program = runDir + "/agent"
	newRoot = "/root"

	diskPatience = 10 * time.Second
)

// Boot is the first program of a guest, PID 1 of the initramfs. It loads the
// modules, mounts the root disk, brings the network up, starts the agent under its
// supervisor, and execs the disk's /sbin/init. Without that file, or without a disk
// (warren.probe=1), it becomes the supervisor itself. It returns only on failure.
//
// Parameters of the kernel command line: warren.root=DEVICE (default
// /dev/vda), warren.rootfstype=TYPE (ext4), warren.rootflags=OPTIONS,
// warren.init=PATH (/sbin/init; none = the agent), warren.net=off.
func Boot(ctx context.Context) error {
	for _, m := range []struct{ what, on, kind, opts string }{
		{"dev", "/dev", "devtmpfs", "mode=0755"}, {"proc", "/proc", "proc", ""}, {"sys", "/sys", "sysfs", ""},
	} {
		if err := os.MkdirAll(m.on, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.what, m.on, m.kind, 0, m.opts); err != nil && !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.on, err)
		}
	}
	if err := loadModules("/modules"); err != nil {
		return err
	}
	if CommandLine("warren.net") != "off" {
		if err := configureNetwork(); err != nil {
			Kmsg("network: " + err.Error()) // the guest works without a network, too
		}
	}
	if CommandLine("warren.probe") != "" {
		if err := installProgram("/init"); err != nil {
			return err
		}
		return Supervise(ctx, 0)
	}
	if err := mountRoot(ctx); err != nil {
		return err
	}
	if err := switchRoot(); err != nil {
		return err
	}
	tune()
	return startInit(ctx)
}

// Kmsg writes a line to the kernel's log, which the console shows.
func Kmsg(line string) {
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString("<4>warren: " + line + "\n")
}

// loadModules loads the modules that the file "order" lists, in that order.
func loadModules(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "order"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // all modules are built in
	}
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(b)) {
		if err := loadModule(filepath.Join(dir, filepath.Base(name))); err != nil {
			Kmsg("module " + name + ": " + err.Error()) // whatever needs the module reports it better
		}
	}
	return nil
}

// sysFinitModule is the number of finit_module, which package syscall lacks.
const sysFinitModule = 313

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	none := [1]byte{}
	_, _, e := syscall.Syscall(sysFinitModule, f.Fd(), uintptr(unsafe.Pointer(&none[0])), 0)
	if e != 0 && e != syscall.EEXIST {
		return e
	}
	return nil
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// mountRoot mounts the disk once the kernel has found it.
func mountRoot(ctx context.Context) error {
	dev := or(CommandLine("warren.root"), "/dev/vda")
	ctx, stop := context.WithTimeout(ctx, diskPatience)
	defer stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(dev); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no disk %s after %v", dev, diskPatience)
		case <-tick.C:
		}
	}
	if err := os.MkdirAll(newRoot, 0o755); err != nil {
		return err
	}
	kind := or(CommandLine("warren.rootfstype"), "ext4")
	if err := syscall.Mount(dev, newRoot, kind, 0, CommandLine("warren.rootflags")); err != nil {
		return fmt.Errorf("mount %s (%s): %w", dev, kind, err)
	}
	return nil
}

// switchRoot makes the mounted disk the root and frees the initramfs's memory.
func switchRoot() error {
	for _, d := range []string{"/dev", "/proc", "/sys"} {
		if err := os.MkdirAll(newRoot+d, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(d, newRoot+d, "", syscall.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", d, err)
		}
	}
	if err := os.MkdirAll(newRoot+"/run", 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("run", newRoot+"/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := copyProgram("/init", newRoot+program); err != nil {
		return err
	}
	_ = os.RemoveAll("/modules")
	_ = os.Remove("/init")
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := syscall.Mount(newRoot, "/", "", syscall.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}

// installProgram copies the agent to the path where upgrades look for it,
// when the initramfs stays the root.
func installProgram(from string) error {
	for _, d := range []string{"/run", "/etc"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return copyProgram(from, program)
}

func copyProgram(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// tune sets kernel parameters.
func tune() {
	for path, value := range map[string]string{
		"/proc/sys/fs/inotify/max_user_watches":   "524288",
		"/proc/sys/fs/inotify/max_user_instances": "1024",
		// These wake an idle guest several times a second, which costs the
		// host three quarters of the CPU time of the idle guest.
		"/proc/sys/vm/compaction_proactiveness": "0", // huge pages are still made on demand
		"/proc/sys/kernel/watchdog":             "0", // the pause of a capture would look like a lockup
		"/proc/sys/vm/stat_interval":            "10",
	} {
		_ = os.WriteFile(path, []byte(value), 0) // the default works, too
	}
}

// startInit starts the agent, then execs the disk's init.
func startInit(ctx context.Context) error {
	initPath := or(CommandLine("warren.init"), "/sbin/init")
	if initPath == "none" || syscall.Access(initPath, 1) != nil {
		if initPath != "none" { // an image that is meant to have no other init
			Kmsg("no " + initPath + ": the agent acts as init")
		}
		mountForPrograms()
		return syscall.Exec(program, []string{agentName, "supervise"}, os.Environ())
	}
	_, err := syscall.ForkExec(program, []string{agentName, "supervise"}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true},
		Files: kmsgFiles(),
	})
	if err != nil {
		Kmsg("the agent did not start: " + err.Error())
	}
	return syscall.Exec(initPath, []string{initPath}, []string{"PATH=" + defaultPath, "TERM=linux"})
}

// kmsgFiles are the supervisor's stdin, stdout and stderr: its messages go to
// the kernel's log, so to the console.
func kmsgFiles() []uintptr {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return []uintptr{0, 1, 2}
	}
	kmsg, err := syscall.Open("/dev/kmsg", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		kmsg = null
	}
	return []uintptr{uintptr(null), uintptr(kmsg), uintptr(kmsg)}
}

// mountForPrograms makes the mounts that an init system would make.
func mountForPrograms() {
	for _, m := range []struct {
		on, kind, opts string
		flags          uintptr
	}{
		{"/dev/pts", "devpts", "mode=0620,ptmxmode=0666,gid=5", syscall.MS_NOSUID | syscall.MS_NOEXEC},
		{"/dev/shm", "tmpfs", "mode=1777", syscall.MS_NOSUID | syscall.MS_NODEV},
		{"/tmp", "tmpfs", "mode=1777", syscall.MS_NOSUID | syscall.MS_NODEV},
		{"/sys/fs/cgroup", "cgroup2", "", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
	} {
		if m.on == "/tmp" && isContainer() {
			continue // its disk has one, as in a container
		}
		err := os.MkdirAll(m.on, 0o755)
		if err == nil {
			err = syscall.Mount(m.kind, m.on, m.kind, m.flags, m.opts)
		}
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			Kmsg("mount " + m.on + ": " + err.Error())
		}
	}
	_ = os.Symlink("/proc/self/fd", "/dev/fd")
	if err := os.WriteFile(runDir+"/booted", nil, 0o644); err != nil {
		Kmsg(err.Error())
	}
}
