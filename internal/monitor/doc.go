// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitor is the process beside each running VM and the host's side of it.
// The process (Main, in the program warren-monitor) owns one QEMU, the VM's network
// and the link to its agent; it outlives the `serve` that started it, and QEMU
// outlives it. A Launcher starts such processes, finds them again and removes what
// they leave behind; a Client calls one over its socket. The package keeps no
// records and makes no decision about a VM's life: the engine does, through a
// Launcher. Only warren-monitor may call Main.
package monitor
