// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"
	"os"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// What a machine leaves room for. It is part of the machine: other values make
// kept generations unusable.
const (
	maxCPUs      = 8         // vCPUs that can be plugged in, with those of the boot
	maxModules   = 8         // slots for memory modules
	maxMemoryMiB = 256 << 10 // guest addresses set aside end there: a processor has 40 bits of them
)

// smp is the value of -smp.
func smp(boot int) string {
	most := max(boot, maxCPUs)
	if os.Getenv("W_SMP") != "" { fmt.Sscan(os.Getenv("W_SMP"), &most) }
	return fmt.Sprintf("%d,maxcpus=%d,sockets=1,cores=%d,threads=1", boot, most, most)
}

// memorySize is the value of -m.
func memorySize(bootMiB int) string {
	if os.Getenv("W_MEM") != "" { return fmt.Sprintf("%dM", bootMiB) }
	if bootMiB >= maxMemoryMiB {
		return fmt.Sprintf("%dM", bootMiB)
	}
	return fmt.Sprintf("%dM,slots=%d,maxmem=%dM", bootMiB, maxModules, maxMemoryMiB)
}

// plugged are the devices that were plugged in, as the command line of a
// machine names them that continues with them.
func plugged(s vm.MachineSpec) (args []string) {
	boot := s.Plugged.Boot(s.Size)
	model, _, _ := strings.Cut(s.CPU, ",")
	for i := range s.Plugged.CPUs {
		n := boot.VCPU + i
		args = append(args, "-device", fmt.Sprintf("%s-x86_64-cpu,id=%s,socket-id=0,core-id=%d,thread-id=0", model, cpuID(n), n))
	}
	for i, m := range s.Plugged.Modules {
		args = append(args, "-device", fmt.Sprintf("pc-dimm,id=%s,memdev=%s,slot=%d", m.ID, backendOf(m.ID), i))
	}
	return args
}

func cpuID(n int) string { return fmt.Sprintf("cpu%d", n) }

// backendOf names the memory of a module.
func backendOf(module string) string { return module + "-ram" }

// memoryFile is a -object: a file that is mapped privately.
func memoryFile(id string, mib int, path string) string {
	return object("qom-type", "memory-backend-file", "id", id, "size", int64(mib)<<20,
		"mem-path", path, "share", false, "merge", false, "dump", false)
}
