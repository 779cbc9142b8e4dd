// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// CreateRequest asks for a VM. The zero value is a complete request.
type CreateRequest struct {
	Name         string
	DisplayName  string         // what people read instead of the name
	UniqueName   bool           // refuse a name that is taken in the account, kind Exists
	Image        string         // name, image id or snapshot id; "" = the default image
	Size         vm.Size        // a zero field = the default
	Profile      string         // one of vm.Profiles; "" = agent
	Network      vm.NetworkSpec // "" = the profile's, or the server's default
	Persistence  *vm.Persistence
	IdleTimeout  vm.Optional[vm.Seconds] // absent = 5 minutes, null = never
	OnBoot       string                  // a vm.OnBoot; "" = the default of its persistence type
	StopOnIdle   bool                    // stop it after the idle timeout instead of suspending it
	Threshold    int64                   // bytes in ten seconds below which traffic is no activity; 0 = any traffic is
	TTL          vm.Optional[vm.Seconds] // absent and null = no limit
	CaptureEvery vm.Seconds              // between automatic generations; 0 = none
	Workdir      string                  // absolute, "" = the image's, else the home of the Linux user
	OneShot      bool                    // deleted when no exec is attached any more
	Labels       map[string]string
	Paths        []vm.PathRule // its path rules, in order
	Secrets      []string      // names of secrets that it may use
	Sandbox      *vm.Sandbox   // of a client of E2B's API; nil = none
	// Deadline bounds the start, and then the wait for services that signal readiness; 0
	// = the server's, 120 s. Then kind Timeout, code VM_START_TIMEOUT.
	Deadline time.Duration
	// Layers are built innermost first. All but the last are kept and reused; the last is
	// carried out in the VM itself and sets its size.
	Layers    []spec.Layer
	Impatient bool // do not wait for services that signal readiness

	forLayer string // key of the layer for which the VM is made
}

// StartRequest asks to start a VM. An absent idle timeout keeps the last one.
type StartRequest struct {
	IdleTimeout vm.Optional[vm.Seconds]
	Deadline    time.Duration // 0 = 120 s; then kind Timeout, code VM_START_TIMEOUT
	DiskOnly    bool          // drop a suspended VM's memory and boot it on its disk
}

// HoldRequest asks to keep a VM awake.
type HoldRequest struct {
	For    time.Duration // 0 = vm.DefaultHold
	Reason string
}

// Filter narrows List. The zero value lists everything of the account.
type Filter struct {
	States []vm.State
	Search string // part of a name or the start of an id
	Limit  int    // 0 = all
	Offset int
	All    bool // of every account; admins only

	Labels []vm.LabelSelector // all must match
}

// Inspection holds all details of one VM.
type Inspection struct {
	VM         vm.VM
	Machine    *vm.MachineStatus // nil when no machine runs or it does not answer
	MachineErr error             // why Machine is nil though the VM runs
	DiskBytes  int64             // allocated by its overlay
	LogBytes   int64             // of the host's logs of the VM: console, monitor, QEMU
	Usage      vm.Usage          // until now
	Image      *vm.Image         // nil when it is gone
	Warnings   []string          // e.g. vm.EmulatedWarning
	Operation  vm.Op             // in progress; "" = none
}

// HostInfo describes this host for users and `warren doctor`.
type HostInfo struct {
	Platform Platform
	Capacity Capacity
	VMs      map[vm.State]int // of the account; for admins of every account
	Pool     PoolInfo
	Warnings []string
}
