// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Verdict says whether data at rest is encrypted. A caller that must be sure
// treats everything but Encrypted as no.
type Verdict string

// The verdicts.
const (
	Encrypted Verdict = "encrypted"
	Plain     Verdict = "not encrypted"
	Memory    Verdict = "in memory" // in memory, which may be swapped out
	Unknown   Verdict = "not known"
)

// Backing finds out on what a directory is stored.
type Backing struct {
	Sysfs     string // "/sys" outside tests
	Mountinfo string // "/proc/self/mountinfo" outside tests
	// ZFS returns the encryption of a data set, "off" = none; nil = it cannot be
	// asked.
	ZFS func(dataset string) (string, error)
}

// Host is the view of this host's kernel.
func Host() Backing {
	return Backing{Sysfs: "/sys", Mountinfo: "/proc/self/mountinfo", ZFS: zfsEncryption}
}

// zfsEncryption asks for the encryption of a data set; "off" = none.
func zfsEncryption(dataset string) (string, error) {
	var out strings.Builder
	cmd := exec.Command("zfs", "get", "-H", "-p", "-o", "value", "encryption", "--", dataset)
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	late := time.AfterFunc(zfsWait, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	return strings.TrimSpace(out.String()), err
}

const zfsWait = 5 * time.Second

// Encrypted says whether the files of the directory are encrypted on the disk, and
// why. It needs no privilege.
func (b Backing) Encrypted(dir string) (Verdict, string) { return b.judge(dir, 0) }

const maxDepth = 16

func (b Backing) judge(dir string, depth int) (Verdict, string) {
	if depth > maxDepth {
		return Unknown, "devices upon devices without an end"
	}
	if v, ok := fscryptPolicy(dir); ok {
		return Encrypted, fmt.Sprintf("fscrypt policy v%d", v)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Unknown, err.Error()
	}
	m, err := b.mountOf(real)
	if err != nil {
		return Unknown, err.Error()
	}
	switch fs := m.fsType; {
	case strings.HasPrefix(fs, "fuse.gocryptfs"), fs == "fuse.cryfs", fs == "fuse.encfs", fs == "ecryptfs":
		return Encrypted, fs + " on " + m.point
	case fs == "tmpfs", fs == "ramfs":
		return Memory, fs + " on " + m.point + "; swap should be encrypted"
	case fs == "overlay":
		return b.overlay(m, depth)
	case fs == "btrfs":
		return b.btrfs(m, depth)
	case fs == "zfs":
		return b.zfs(m)
	case strings.HasPrefix(fs, "nfs"), fs == "cifs", fs == "9p", fs == "virtiofs", strings.HasPrefix(fs, "fuse"):
		return Unknown, fs + " on " + m.point + ": kept elsewhere"
	}
	dev, err := b.device(m)
	if err != nil {
		return Unknown, fmt.Sprintf("no block device below %s (%s)", m.point, m.fsType)
	}
	return b.blockDevice(dev, depth+1)
}

// zfs asks the file system's own tool.
func (b Backing) zfs(m mount) (Verdict, string) {
	if b.ZFS == nil {
		return Unknown, "zfs: see `zfs get encryption " + m.source + "`"
	}
	switch how, err := b.ZFS(m.source); {
	case err != nil || how == "" || how == "-":
		return Unknown, "zfs: `zfs get encryption " + m.source + "` does not say"
	case how == "off":
		return Plain, "zfs without encryption: " + m.source
	default:
		return Encrypted, "zfs (" + how + "): " + m.source
	}
}

// overlay judges the upper directory of an overlay, to which it writes.
func (b Backing) overlay(m mount, depth int) (Verdict, string) {
	for _, o := range strings.Split(m.options, ",") {
		if upper, ok := strings.CutPrefix(o, "upperdir="); ok {
			if v, why := b.judge(upper, depth+1); v != Unknown {
				return v, "overlay over " + why
			}
		}
	}
	return Unknown, "overlay on " + m.point + ": its upper directory is not visible here"
}

// btrfs judges every device of the file system to which the mount's source belongs.
func (b Backing) btrfs(m mount, depth int) (Verdict, string) {
	name := filepath.Base(m.source)
	if real, err := filepath.EvalSymlinks(m.source); err == nil {
		name = filepath.Base(real)
	}
	mine, err := filepath.Glob(filepath.Join(b.Sysfs, "fs/btrfs/*/devices", name))
	if err != nil || len(mine) != 1 {
		return Unknown, "btrfs: its devices are not visible here"
	}
	return b.everyDevice(filepath.Dir(mine[0]), "the file system on "+m.point, depth)
}

// mount is a line of mountinfo.
type mount struct {
	point, fsType, source, options string
	dev                            string // MAJOR:MINOR
}

// mountOf returns the mount of path: the longest mount point that is a prefix, and
// of equal ones the last, which hides the others.
func (b Backing) mountOf(path string) (mount, error) {
	data, err := os.ReadFile(b.Mountinfo)
	if err != nil {
		return mount{}, err
	}
	var best mount
	for _, line := range strings.Split(string(data), "\n") {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 2 {
			continue
		}
		point := unescape(left[4])
		if path != point && !strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/") || len(point) < len(best.point) {
			continue
		}
		best = mount{point: point, dev: left[2], fsType: right[0], source: unescape(right[1])}
		if len(right) > 2 {
			best.options = unescape(right[2])
		}
	}
	if best.point == "" {
		return mount{}, errors.New("no mount holds " + path)
	}
	return best, nil
}

// unescape decodes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// device returns the sysfs directory of the mount's block device. File systems on
// several devices have a number of their own, so the source is tried as well.
func (b Backing) device(m mount) (string, error) {
	dev, err := filepath.EvalSymlinks(filepath.Join(b.Sysfs, "dev/block", m.dev))
	if err == nil || !strings.HasPrefix(m.source, "/dev/") {
		return dev, err
	}
	name := m.source
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	return filepath.EvalSymlinks(filepath.Join(b.Sysfs, "class/block", filepath.Base(name)))
}

// blockDevice judges the device whose sysfs directory is dev. Encrypted is a
// device-mapper target of cryptsetup, and a device whose parts are all on such
// targets.
func (b Backing) blockDevice(dev string, depth int) (Verdict, string) {
	if depth > maxDepth {
		return Unknown, "devices upon devices without an end"
	}
	uuid, err := os.ReadFile(filepath.Join(dev, "dm/uuid"))
	if err == nil && strings.HasPrefix(string(uuid), "CRYPT-") {
		kind, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(uuid)), "CRYPT-"), "-")
		return Encrypted, fmt.Sprintf("dm-crypt (%s) on %s", kind, filepath.Base(dev))
	}
	if _, err := os.Stat(filepath.Join(dev, "partition")); err == nil {
		return b.blockDevice(filepath.Dir(dev), depth+1)
	}
	if file, err := os.ReadFile(filepath.Join(dev, "loop/backing_file")); err == nil {
		v, why := b.judge(filepath.Dir(strings.TrimSpace(string(file))), depth+1)
		return v, "loop over " + why
	}
	slaves, err := os.ReadDir(filepath.Join(dev, "slaves"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Unknown, err.Error()
	}
	if len(slaves) == 0 {
		return Plain, "plain device " + filepath.Base(dev)
	}
	return b.everyDevice(filepath.Join(dev, "slaves"), filepath.Base(dev), depth)
}

// everyDevice judges the devices that a sysfs directory links to: encrypted if all
// are, else the verdict on the first that is not.
func (b Backing) everyDevice(dir, what string, depth int) (Verdict, string) {
	links, err := os.ReadDir(dir)
	if err != nil || len(links) == 0 {
		return Unknown, "no devices in " + dir
	}
	var last string
	for _, l := range links {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, l.Name()))
		if err != nil {
			return Unknown, err.Error()
		}
		v, why := b.blockDevice(real, depth+1)
		if v != Encrypted {
			return v, why
		}
		last = why
	}
	return Encrypted, fmt.Sprintf("%s, as every device below %s", last, what)
}

// Swap names the swap areas that are not known to be encrypted. Memory of machines
// may be swapped out there.
func (b Backing) Swap(procSwaps string) []string {
	data, err := os.ReadFile(procSwaps)
	if err != nil {
		return nil
	}
	var out []string
	for i, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) < 2 || strings.HasPrefix(filepath.Base(f[0]), "zram") {
			continue
		}
		v := Unknown
		if name := unescape(f[0]); f[1] == "file" {
			v, _ = b.judge(filepath.Dir(name), 0)
		} else if dev, err := filepath.EvalSymlinks(filepath.Join(b.Sysfs, "class/block", filepath.Base(name))); err == nil {
			v, _ = b.blockDevice(dev, 0)
		}
		if v != Encrypted {
			out = append(out, f[0])
		}
	}
	return out
}

// fsGetPolicyEx is FS_IOC_GET_ENCRYPTION_POLICY_EX.
const fsGetPolicyEx = 0xc0096616

// fscryptPolicy returns the version of the directory's fscrypt policy.
func fscryptPolicy(dir string) (version byte, ok bool) {
	f, err := os.Open(dir)
	if err != nil {
		return 0, false
	}
	defer f.Close()  // only read
	var arg [32]byte // u64 size of the policy, then the policy
	arg[0] = 24
	_, _, errno := unix.Syscall(syscall.SYS_IOCTL, f.Fd(), fsGetPolicyEx, uintptr(unsafe.Pointer(&arg[0])))
	return arg[8], errno == 0
}
