// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

// The guest's addresses on its user network. They are the same in every VM and never change.
var (
	guestAddr = [4]byte{10, 0, 2, 15}
	guestMask = [4]byte{255, 255, 255, 0}
	gateway   = [4]byte{10, 0, 2, 2}
)

// ifreq is the kernel's struct ifreq; data is its union.
type ifreq struct {
	name [16]byte
	data [24]byte
}

// sockaddr is a sockaddr_in.
func sockaddr(ip [4]byte) (b [16]byte) {
	binary.NativeEndian.PutUint16(b[:], syscall.AF_INET)
	copy(b[4:], ip[:])
	return b
}

// rtentry is the kernel's struct rtentry on 64-bit machines.
type rtentry struct {
	_       uint64
	dst     [16]byte
	gateway [16]byte
	mask    [16]byte
	flags   uint16
	_       [6]byte
	_       [2]uint64 // rt_pad3, rt_tos...
	_       uint16    // metric
	_       [6]byte
	dev     uintptr
	mtu     uint64
	window  uint64
	irtt    uint16
	_       [6]byte
}

// configureNetwork brings up the loopback and the one network card.
func configureNetwork() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(s) }()
	if err := setFlags(s, "lo", syscall.IFF_UP); err != nil {
		return err
	}
	card, err := firstCard()
	if err != nil || card == "" {
		return err
	}
	if err := setAddress(s, card); err != nil {
		return fmt.Errorf("%s: %w", card, err)
	}
	return nil
}

func setAddress(s int, card string) error {
	if err := ifcall(s, card, syscall.SIOCSIFADDR, sockaddr(guestAddr)); err != nil {
		return err
	}
	if err := ifcall(s, card, syscall.SIOCSIFNETMASK, sockaddr(guestMask)); err != nil {
		return err
	}
	if err := setFlags(s, card, syscall.IFF_UP|syscall.IFF_RUNNING); err != nil {
		return err
	}
	r := rtentry{dst: sockaddr([4]byte{}), mask: sockaddr([4]byte{}), gateway: sockaddr(gateway), flags: syscall.RTF_UP | syscall.RTF_GATEWAY}
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCADDRT, uintptr(unsafe.Pointer(&r)))
	if e != 0 && !errors.Is(e, syscall.EEXIST) {
		return e
	}
	return nil
}

// firstCard returns the name of the network card, or "".
func firstCard() (string, error) {
	cards, err := filepath.Glob("/sys/class/net/*/device")
	if err != nil || len(cards) == 0 {
		return "", err
	}
	return filepath.Base(filepath.Dir(cards[0])), nil
}

func ifcall(s int, name string, call uintptr, addr [16]byte) error {
	var r ifreq
	copy(r.name[:15], name)
	copy(r.data[:], addr[:])
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), call, uintptr(unsafe.Pointer(&r))); e != 0 {
		return os.NewSyscallError("ioctl", e)
	}
	return nil
}

// setFlags adds flags to an interface.
func setFlags(s int, name string, flags uint16) error {
	var r ifreq
	copy(r.name[:15], name)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCGIFFLAGS, uintptr(unsafe.Pointer(&r))); e != 0 {
		return os.NewSyscallError("ioctl", e)
	}
	binary.NativeEndian.PutUint16(r.data[:], binary.NativeEndian.Uint16(r.data[:])|flags)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&r))); e != 0 {
		return os.NewSyscallError("ioctl", e)
	}
	return nil
}
