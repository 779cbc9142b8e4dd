// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/warren-vm/warren/vm"
)

const (
	growPatience = 10 * time.Second
	growLook     = 20 * time.Millisecond
)

// grow makes the guest use the resources of its machine: cpus CPUs, mem MiB of
// memory, a disk of disk MiB. Resources that the request does not name stay as
// they are. It waits for each, because the kernel learns of a change with a delay.
func (a *Agent) grow(w *answer, r *request) error {
	for _, part := range []struct {
		name string
		do   func(int64) error
	}{{"mem", devices("/sys/devices/system").onlineMemory}, {"cpus", devices("/sys/devices/system").onlineCPUs}, {"disk", growRoot}} {
		n, err := r.number(part.name)
		if err == nil && n > 0 {
			err = withinContext(r.ctx, func() error { return part.do(n) })
		}
		if err != nil {
			return err
		}
	}
	return w.done(nil)
}

// withinContext retries until try succeeds or ctx ends.
func withinContext(ctx context.Context, try func() error) error {
	ctx, stop := context.WithTimeout(ctx, growPatience)
	defer stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(growLook):
		}
	}
}

// devices is the kernel's directory of CPUs and memory.
type devices string

// onlineMemory sets every block of memory online, and requires mib in all.
func (d devices) onlineMemory(mib int64) error {
	dir := string(d) + "/memory"
	block, err := strconv.ParseInt(sysLine(dir+"/block_size_bytes"), 16, 64)
	if err != nil {
		return vm.Errorf(vm.Unsupported, "", "this kernel cannot take memory while it runs")
	}
	var have int64
	for _, n := range numbered(dir, "memory") {
		if err := setSysfs(dir+"/memory"+strconv.Itoa(n)+"/state", "online"); err != nil {
			return err
		}
		have += block >> 20
	}
	if have < mib {
		return vm.Errorf(vm.GuestFault, "", "the kernel has found %d of %d MiB", have, mib)
	}
	return nil
}

// onlineCPUs sets the first n CPUs online and all others offline.
func (d devices) onlineCPUs(n int64) error {
	dir := string(d) + "/cpu"
	cpus := numbered(dir, "cpu")
	for i, c := range slices.Backward(cpus) {
		want := "1"
		if int64(i) >= n {
			want = "0"
		}
		path := dir + "/cpu" + strconv.Itoa(c) + "/online"
		if _, err := os.Stat(path); err != nil && i == 0 {
			continue // the first CPU is always online
		} else if err != nil { // the directory appears before its files
			return vm.Errorf(vm.GuestFault, "", "the kernel is still adding CPU %d", c)
		}
		if err := setSysfs(path, want); err != nil {
			return err
		}
	}
	if int64(len(cpus)) < n {
		return vm.Errorf(vm.GuestFault, "", "the kernel has found %d of %d CPUs", len(cpus), n)
	}
	return nil
}

// numbered lists the numbers N of the entries prefixN of a directory, sorted.
func numbered(dir, prefix string) (out []int) {
	names, _ := filepath.Glob(dir + "/" + prefix + "[0-9]*") // fails only for an invalid pattern
	for _, name := range names {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), prefix)); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func sysLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// setSysfs writes a value unless the file already has it.
func setSysfs(path, value string) error {
	if sysLine(path) == value {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0)
}

const (
	blkGetSize64 = 0x80081272
	ext4ResizeFS = 0x40086610
)

// growRoot grows the root file system to its disk, which must have at least mib.
func growRoot(mib int64) error {
	dev, err := os.Open(or(CommandLine("warren.root"), "/dev/vda"))
	if err != nil {
		return err
	}
	defer dev.Close()
	var size uint64
	if err := ioctl64(dev, blkGetSize64, &size); err != nil {
		return err
	}
	if size < uint64(mib)<<20 {
		return vm.Errorf(vm.GuestFault, "", "the kernel sees %d of %d MiB of disk", size>>20, mib)
	}
	root, err := os.Open("/")
	if err != nil {
		return err
	}
	defer root.Close()
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(root.Fd()), &st); err != nil {
		return err
	}
	blocks := size / uint64(st.Bsize)
	if err := ioctl64(root, ext4ResizeFS, &blocks); err != nil {
		return vm.Errorf(vm.Unsupported, "/", "the file system does not grow: %w", err)
	}
	return nil
}

func ioctl64(f *os.File, request uintptr, value *uint64) error {
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(value)))
	if e != 0 {
		return e
	}
	return nil
}
