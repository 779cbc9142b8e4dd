// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitor is the process beside each running VM and the host's side of
// it. The process (Main, in the program warren-monitor) owns one QEMU, the
// VM's network and the link to its agent; it outlives the `serve` that started
// it, and QEMU outlives it. A Launcher starts such processes, finds them again
// and clears away what they leave; a Client speaks with one over its socket.
// It keeps no records and takes no decisions about a VM's life: the engine
// does, through a Launcher. Only warren-monitor may call Main.
package monitor
