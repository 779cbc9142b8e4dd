// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package qemu runs one QEMU: its command line as a pure function of a
// vm.MachineSpec, its process, the capture of a running machine into files, the
// check of such files, and empty disk overlays. It does not talk to the guest and
// makes no decision about a VM's life. Package monitor uses it; warm and the
// launcher of monitors use its files.
package qemu

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// The descriptors that QEMU inherits, in the order of exec.Cmd.ExtraFiles. All but
// the last ones are listening sockets: QEMU is always the server, so that a new
// monitor can connect to a machine whose monitor has died. They listen before QEMU
// runs, so no client has to poll for them.
const (
	fdQMP = 3 + iota
	fdAgent
	fdConsole
	fdNet
	fdDevice // device state of a generation, read once
)

// MAC is the address of every VM's network card. Each VM has a network of its own,
// and the guest of a fork must not notice the fork.
const MAC = "52:54:00:12:34:56"

// sparePorts are PCIe root ports for devices that are plugged in later. They are
// part of the machine, so every start of a generation must have the same number.
const sparePorts = 4

// tbSizeMiB bounds TCG's cache of translated code. The default takes 239 MiB per
// VM; this one takes 92 at the same speed. Half of it is slow.
const tbSizeMiB = 64

// A browser's code does not fit into that, nor that of Docker's engine: QEMU would translate
// the same code again and again. With 64 MiB the start of a container takes twice the time. A
// machine with memory for such programs gets a larger cache.
const (
	largeTBSizeMiB = 256
	largeMemoryMiB = 1024
)

func tbSize(boot vm.Size) int {
	if boot.MemoryMiB >= largeMemoryMiB {
		return largeTBSizeMiB
	}
	return tbSizeMiB
}

// RAMPath is the memory file that s maps privately: its generation's, or the empty
// one of a cold boot.
func RAMPath(s vm.MachineSpec) string {
	if s.Generation != nil {
		return s.Generation.RAM
	}
	return layout.VMDir(s.Dir).ColdRAM()
}

// Args returns QEMU's arguments for s, without the program's name. It touches
// nothing. A machine that starts on a generation gets exactly the devices of
// the machine that was captured.
func Args(s vm.MachineSpec) []string {
	args := []string{
		"-name", string(s.ID),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-action", "reboot=shutdown",
		"-global", "migration.send-configuration=off",
	}
	args = append(args, Devices(s)...)
	args = append(args, connections()...)
	if s.Disk != "" {
		args = append(args, "-blockdev", object(
			"driver", "qcow2", "node-name", "disk0", "discard", "unmap",
			"file", map[string]any{"driver": "file", "filename": s.Disk, "discard": "unmap"}))
	}
	args = append(args, "-object", string(encode(memoryFile("ram0", s.Plugged.Boot(s.Size).MemoryMiB, RAMPath(s)))))
	for i, m := range s.Plugged.Modules {
		args = append(args, "-object", string(encode(memoryFile(backendOf(m.ID), m.MiB, ModulePath(s, i)))))
	}
	args = append(args, volumeBlocks(s)...)
	if s.Generation != nil {
		return append(args, "-incoming", "defer") // see Process.load
	}
	if s.Boot.Kernel == "" { // the disk's own boot loader
		return args
	}
	return append(args, "-kernel", s.Boot.Kernel, "-initrd", s.Boot.Initramfs, "-readconfig", bootPipe(s))
}

// bootPipe is where QEMU reads the kernel's command line, which contains a key:
// every user of the host can read QEMU's own arguments.
func bootPipe(s vm.MachineSpec) string {
	return filepath.Join(layout.VMDir(s.Dir).Lent(), "boot")
}

// maxConfigLine is the longest line of a file for -readconfig, without its end.
const maxConfigLine = 1000

// bootConfig is the content of bootPipe.
func bootConfig(s vm.MachineSpec) ([]byte, error) {
	line := cmdline(s)
	if len(line) > maxConfigLine || strings.ContainsAny(line, "\"\n") {
		return nil, vm.Errorf(vm.Unsupported, string(s.ID), "the kernel's command line has %d bytes, at most %d and no quotes can be passed", len(line), maxConfigLine).
			WithHint("shorten the image's command line")
	}
	return []byte("[machine]\nappend = \"" + line + "\"\n"), nil
}

// cmdline is the kernel's command line with parameters for the agent in the
// initramfs: its digest, and the first key of the guest link, which the first reset
// replaces.
func cmdline(s vm.MachineSpec) string {
	line := s.Boot.Cmdline
	if line != "" {
		line += " "
	}
	if s.Disk == "" {
		line += "warren.probe=1 "
	}
	if s.AgentDigest != "" {
		line += "warren.agent=" + s.AgentDigest + " "
	}
	return line + "warren.key=" + hex.EncodeToString(s.GuestKey)
}

// Devices returns the arguments that define the machine as the guest sees it. Two
// machines may share a generation only if theirs are equal.
func Devices(s vm.MachineSpec) []string {
	boot := s.Plugged.Boot(s.Size)
	accel := string(s.Accel)
	if s.Accel == vm.TCG {
		accel = fmt.Sprintf("tcg,thread=multi,tb-size=%d", tbSize(boot))
	}
	nic := "virtio-net-pci,id=nic0,netdev=net0,mac=" + MAC + ",romfile=,bus=pcie.0,addr=0x3"
	if s.QuietNIC {
		nic += vm.QuietNIC
	}
	args := []string{
		"-M", s.Machine + ",memory-backend=ram0,usb=off,vmport=off,smm=off",
		"-accel", accel,
		"-cpu", s.CPU,
		"-smp", smp(boot.VCPU),
		"-m", memorySize(boot.MemoryMiB),
		"-rtc", "base=utc",
		"-serial", "chardev:console",
		"-device", "virtio-serial-pci,id=serial0,bus=pcie.0,addr=0x2",
		"-device", "virtserialport,bus=serial0.0,nr=1,chardev=agent,id=agent0,name=" + link.PortName,
		"-device", nic,
	}
	if s.Disk != "" {
		args = append(args, "-device", "virtio-blk-pci,id=vda,drive=disk0,bus=pcie.0,addr=0x4")
	}
	for i := range sparePorts {
		args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=port%d,bus=pcie.0,addr=0x%x,chassis=%d,slot=%d", i+1, 0x10+i, i+1, i+1))
	}
	return append(append(args, plugged(s)...), volumeDevices(s)...)
}

// connections are the host's ends of the machine's channels.
func connections() []string {
	socket := func(id string, fd int) []string {
		return []string{"-chardev", fmt.Sprintf("socket,id=%s,fd=%d,server=on,wait=off", id, fd)}
	}
	var args []string
	args = append(args, socket("qmp", fdQMP)...)
	args = append(args, "-mon", "chardev=qmp,mode=control")
	args = append(args, socket("agent", fdAgent)...)
	args = append(args, socket("console", fdConsole)...)
	return append(args, "-netdev", fmt.Sprintf("stream,id=net0,server=on,addr.type=fd,addr.str=%d", fdNet))
}

// object renders name, value pairs as a JSON object in that order. In JSON, paths
// with commas need no quoting.
func object(pairs ...any) string {
	out := []byte{'{'}
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, encode(pairs[i])...)
		out = append(out, ':')
		out = append(out, encode(pairs[i+1])...)
	}
	return string(append(out, '}'))
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("qemu: " + err.Error()) // values are strings, numbers, booleans and maps of these
	}
	return data
}
