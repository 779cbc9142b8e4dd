// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// System is what resets change in the kernel; tests replace it.
type System interface {
	SetClock(t time.Time) error
	Reseed(entropy []byte) error
	SetHostname(name string) error
	// SetBootID makes the kernel's boot_id file return id; file stores the id.
	SetBootID(id, file string) error
	Signal(pid int, s syscall.Signal) error
	Reboot(reboot bool) error
	// Cgroups returns the directory of the control groups, version 2.
	Cgroups() (string, error)
	// OwnGroup returns the agent's own group, "/" for the root.
	OwnGroup() string
	// Disks returns the mount points of writable local file systems.
	Disks() []string
	// SyncDisk writes a file system's dirty pages to its disk.
	SyncDisk(dir string) error
	// FreezeDisk does the same, and blocks changes until ThawDisk.
	FreezeDisk(dir string) error
	ThawDisk(dir string) error
}

// hello describes the agent. Facts that cannot change are cached, because a
// guest that wakes has no time to find them out.
func (a *Agent) hello() vm.AgentHello {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.intro
	if !h.Booted {
		h = vm.AgentHello{Protocol: Protocol, Version: a.cfg.Version, Digest: a.cfg.Digest, Features: Features, Kernel: kernelRelease(), BootID: h.BootID}
		h.Booted = syscall.Access(filepath.Join(a.cfg.RunDir, "booted"), 0) == nil
		h.Systemd = Initial() == "systemd"
		a.intro = h
	}
	if h.BootID == "" {
		if b, err := os.ReadFile(bootIDFile); err == nil {
			h.BootID = strings.TrimSpace(string(b))
		}
	}
	return h
}

func kernelRelease() string {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return ""
	}
	var rel []byte
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		rel = append(rel, byte(c))
	}
	return string(rel)
}

// wake does the resets and answers with their report, and with a hello if the request wants it.
func (a *Agent) wake(w *answer, r *request, hello bool) error {
	b, err := r.words()
	if err != nil {
		return err
	}
	report, err := a.wakeUp(b)
	if err != nil {
		return err
	}
	var h vm.AgentHello
	if hello {
		h = a.hello()
	}
	return w.bytes(link.EncodeWake(h, report))
}

// wakeWords is wake with a hello, before a session exists. On an error the answer
// holds that error instead of a report.
func (a *Agent) wakeWords(key, words []byte) (answer []byte, sent func()) {
	a.keys.used(key)
	sent = urgent()
	report, err := a.wakeUp(words)
	if err != nil {
		report = make(vm.ResetReport, len(vm.Resets))
		for _, name := range vm.Resets {
			report[name] = err.Error()
		}
	}
	return link.EncodeWake(a.hello(), report), sent
}

// wakeUp does the resets, and resumes the programs if none failed.
func (a *Agent) wakeUp(words []byte) (vm.ResetReport, error) {
	reset, err := link.DecodeReset(words)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, "", "malformed reset: %w", err)
	}
	if err := a.freezer.thawDisks(); err != nil { // resets write files
		return nil, err
	}
	report := a.reset(reset)
	if report[vm.ResetBootID] == "ok" {
		a.mu.Lock()
		a.intro.BootID = reset.BootID
		a.mu.Unlock()
	}
	return report, a.freezer.thawAfter(report)
}

// reset gives the guest an identity of its own. It does each part even if
// another one fails; the host destroys a guest with a failed reset.
func (a *Agent) reset(r vm.Reset) vm.ResetReport {
	report := make(vm.ResetReport, len(vm.Resets))
	did := func(name string, err error) {
		report[name] = "ok"
		if err != nil {
			report[name] = err.Error()
		}
	}
	did(vm.ResetClock, a.resetClock(r.Time)) // first, because the given time becomes outdated
	did(vm.ResetRNG, a.resetRNG(r.Entropy))
	did(vm.ResetHostname, a.resetHostname(r.Hostname))
	did(vm.ResetMachineID, a.resetMachineID(r.MachineID))
	did(vm.ResetBootID, a.resetBootID(r.BootID))
	did(vm.ResetHostKeys, a.resetHostKeys(r.HostKeys))
	did(vm.ResetLinkKey, a.resetLinkKey(r.LinkKey))
	a.trust(r.CA)
	a.readme(r.Hostname)
	a.offer()
	a.door.cut() // of the machine that this guest was captured on
	a.give(r)
	return report
}

func (a *Agent) resetClock(t time.Time) error {
	if t.Unix() <= 0 {
		return errors.New("no time given")
	}
	return a.sys.SetClock(t)
}

func (a *Agent) resetRNG(entropy []byte) error {
	if len(entropy) < 32 || len(entropy) > 4096 {
		return fmt.Errorf("%d bytes of entropy given, at least 32 are needed", len(entropy))
	}
	return a.sys.Reseed(entropy)
}

func (a *Agent) resetHostname(name string) error {
	if !validHostname(name) {
		return fmt.Errorf("not a host name: %q", name)
	}
	if err := a.sys.SetHostname(name); err != nil {
		return err
	}
	if err := overwrite(filepath.Join(a.cfg.EtcDir, "hostname"), name+"\n", 0o644); err != nil {
		return err
	}
	hosts := filepath.Join(a.cfg.EtcDir, "hosts")
	b := make([]byte, maxSmall)
	n, err := readSmall(hosts, b)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if n == len(b) { // longer than any file that a person wrote
		if b, err = os.ReadFile(hosts); err != nil {
			return err
		}
		n = len(b)
	}
	return overwrite(hosts, withHost(string(b[:n]), name), 0o644)
}

func validHostname(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// withHost returns hosts with the line 127.0.1.1 for name, which replaces an old one.
func withHost(hosts, name string) string {
	line := "127.0.1.1\t" + name
	if hosts == "" {
		hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost\n"
	}
	var out strings.Builder
	done := false
	for l := range strings.SplitSeq(strings.TrimSuffix(hosts, "\n"), "\n") {
		if f := strings.Fields(l); len(f) > 0 && f[0] == "127.0.1.1" {
			if done {
				continue
			}
			l, done = line, true
		}
		out.WriteString(l + "\n")
	}
	if !done {
		out.WriteString(line + "\n")
	}
	return out.String()
}

func (a *Agent) resetMachineID(id string) error {
	if !isHex(id) || len(id) != 32 {
		return fmt.Errorf("not a machine id: %q", id)
	}
	return overwrite(filepath.Join(a.cfg.EtcDir, "machine-id"), id+"\n", 0o444)
}

func (a *Agent) resetBootID(id string) error {
	if len(id) != 36 || !isHex(strings.ReplaceAll(id, "-", "")) {
		return fmt.Errorf("not a boot id: %q", id)
	}
	return a.sys.SetBootID(id, filepath.Join(a.cfg.RunDir, "boot_id"))
}

func isHex(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}

// resetHostKeys writes the SSH host keys if an SSH server is installed.
func (a *Agent) resetHostKeys(keys map[string]string) error {
	dir := filepath.Join(a.cfg.EtcDir, "ssh")
	if _, err := os.Stat(filepath.Join(dir, "sshd_config")); err != nil {
		return nil
	}
	for name, key := range keys {
		if !strings.HasPrefix(name, "ssh_host_") || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("not a host key file: %q", name)
		}
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, ".pub") {
			mode = 0o644
		}
		if err := overwrite(filepath.Join(dir, name), key, mode); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) resetLinkKey(key []byte) error {
	if len(key) != link.KeySize {
		return fmt.Errorf("a link key of %d bytes, not %d", len(key), link.KeySize)
	}
	return a.keys.replace(key)
}

// kernel is the System of a real guest.
type kernel struct {
	runDir string
	random int // /dev/urandom, never closed; negative = it could not be opened
}

func newKernel(runDir string) kernel {
	fd, err := openRaw("/dev/urandom", syscall.O_RDWR, 0)
	if err != nil {
		fd = -1 // the first reset reports it
	}
	return kernel{runDir: runDir, random: fd}
}

const bootIDFile = "/proc/sys/kernel/random/boot_id"

func (kernel) SetClock(t time.Time) error {
	tv := syscall.NsecToTimeval(t.UnixNano())
	return syscall.Settimeofday(&tv)
}

const (
	rndAddEntropy = 0x40085203
	rndReseedCRNG = 0x5207
)

// Reseed adds entropy to the kernel's generator and makes it reseed at once.
// Without the reseed, copies of a guest would draw equal bytes for a while.
func (k kernel) Reseed(entropy []byte) error {
	// struct rand_pool_info { int entropy_count; int buf_size; __u32 buf[]; }
	pool := make([]int32, 2+(len(entropy)+3)/4)
	pool[0], pool[1] = int32(len(entropy)*8), int32(len(entropy))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&pool[2])), len(entropy)), entropy)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(k.random), rndAddEntropy, uintptr(unsafe.Pointer(&pool[0]))); e != 0 {
		return e
	}
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(k.random), rndReseedCRNG, 0); e != 0 {
		return e
	}
	return nil
}

func (kernel) SetHostname(name string) error { return syscall.Sethostname([]byte(name)) }

// SetBootID writes the id to a file that is mounted over the kernel's. The
// mount survives in generations; later only the file changes.
func (kernel) SetBootID(id, file string) error {
	if err := overwrite(file, id+"\n", 0o444); err != nil { // in place: the mount refers to this inode
		return err
	}
	var have [64]byte
	n, err := readSmall(bootIDFile, have[:])
	if err == nil && strings.TrimSpace(string(have[:n])) == id {
		return nil
	}
	return syscall.Mount(file, bootIDFile, "", syscall.MS_BIND, "")
}

func (kernel) Signal(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }

func (kernel) Reboot(reboot bool) error {
	syscall.Sync()
	cmd := syscall.LINUX_REBOOT_CMD_POWER_OFF
	if reboot {
		cmd = syscall.LINUX_REBOOT_CMD_RESTART
	}
	return syscall.Reboot(cmd)
}
