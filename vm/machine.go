// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// MachineFormat is the newest version of a MachineSpec's file.
const MachineFormat = 1

// GenerationFormat is the newest version of a generation's manifest.
const GenerationFormat = 1

// CheckFormat refuses a spec that a newer Warren wrote. Kind Unsupported.
func (s MachineSpec) CheckFormat() error {
	if s.Format <= MachineFormat {
		return nil
	}
	return Errorf(Unsupported, string(s.ID), "its machine was recorded by a newer warren (format %d, this one knows %d)", s.Format, MachineFormat).
		WithHint("use the warren that wrote it, or a newer one")
}

// MachineSpec is everything a monitor needs to run one VM. It is written to
// the VM's directory (0600: it holds the link key) before the monitor starts,
// and read again by a monitor that re-attaches.
type MachineSpec struct {
	Format int    `json:"format"` // version of this file; MachineFormat
	ID     ID     `json:"id"`
	Dir    string `json:"dir"`    // absolute: the VM's data directory (overlay, logs)
	RunDir string `json:"runDir"` // absolute: the VM's socket directory, 0700

	QEMU    string `json:"qemu"`    // absolute path of qemu-system-x86_64
	Accel   Accel  `json:"accel"`   //
	CPU     string `json:"cpu"`     // CPU model, e.g. "Nehalem"
	Machine string `json:"machine"` // machine type, e.g. "pc-q35-7.2"
	Size    Size   `json:"size"`
	// QuietNIC says that the network card does not announce itself after a load; those of
	// older Warrens do.
	QuietNIC bool `json:"quietNic,omitempty"`
	// Plugged is what was put into the machine while it ran; part of Size.
	Plugged Plugged `json:"plugged,omitzero"`
	Disk    string  `json:"disk"` // absolute: the active overlay

	// Boot is used for a cold boot, when Generation is nil.
	Boot BootSource `json:"boot"`
	// Generation is the memory to start on; nil = cold boot.
	Generation *GenerationSource `json:"generation,omitempty"`

	Network NetworkPolicy `json:"network"`
	// GuestKey authenticates the host on the link: the key the guest's agent
	// holds when it wakes. Reset.LinkKey replaces it once acknowledged.
	GuestKey []byte `json:"guestKey"`
	// OtherKeys are tried beside GuestKey; see Generation.OtherKeys.
	OtherKeys [][]byte `json:"otherKeys,omitempty"`
	Reset     Reset    `json:"reset"` // Time and Entropy are filled in by the monitor, at the last moment

	Agent       string `json:"agent"`       // absolute path of this version's agent binary
	AgentDigest string `json:"agentDigest"` // hex SHA-256; a guest with another one is replaced in place

	WaitBooted bool          `json:"waitBooted"` // cold boot: wait for multi-user before "ready"
	Deadline   time.Duration `json:"deadline"`   // for the whole start, in nanoseconds; 0 = 120 s
	// Patient adds to Deadline what QEMU waits for a CPU, up to twice as much again.
	Patient bool `json:"patient,omitempty"`

	// VolumeKeys open the disks of Plugged.Volumes. They are handed from process
	// to process and never written down.
	VolumeKeys map[VolumeID]VolumeKey `json:"-"`

	// Folders are the directories of the host that the guest has. LostFolders are
	// paths at which its memory has one mounted that it does not get any more.
	Folders     []Folder `json:"folders,omitempty"`
	LostFolders []string `json:"lostFolders,omitempty"`

	// Pooled says that the machine is no VM's yet; see Adoption.
	Pooled bool `json:"pooled,omitempty"`
	// Spare says that the machine will probably be captured again soon: what a
	// capture copies of its base is copied in advance.
	Spare bool `json:"spare,omitempty"`
}

// Adoption is what makes a paused machine of the pool a VM.
type Adoption struct {
	Reset    Reset         `json:"reset"` // Time and Entropy are filled in by the monitor
	Network  NetworkPolicy `json:"network"`
	Deadline time.Duration `json:"deadline"` // for all of it; 0 = 120 s
}

// BootSource names the files of a cold boot; all paths absolute.
type BootSource struct {
	Kernel    string `json:"kernel"`
	Initramfs string `json:"initramfs"`
	Cmdline   string `json:"cmdline"`
}

// GenerationSource names the memory files of a generation; all paths absolute.
type GenerationSource struct {
	RAM    string `json:"ram"`    // mapped private by QEMU, never written
	Device string `json:"device"` // device state, as xen-save-devices-state wrote it
	// Fresh says that this host wrote the files moments ago and their sums are
	// still being made: they are not checked.
	Fresh bool `json:"fresh,omitempty"`
	// Secret says that RAM may hold what is in a volume: no more copies of it
	// lie about than there must be.
	Secret bool `json:"secret,omitempty"`
	// Modules are the memory files of the first of the machine's modules, in
	// their order, mapped private like RAM. Modules beyond were plugged in since.
	Modules []string `json:"modules,omitempty"`
}

// CaptureSpec says where a capture of a running machine goes. All paths are
// absolute.
type CaptureSpec struct {
	RAM    string `json:"ram,omitempty"`    // made, must not exist; "" = only the disk is captured
	Device string `json:"device,omitempty"` // made, must not exist; "" with RAM
	// Overlay, where not empty, is an empty overlay over the disk as it is now:
	// the machine continues writing there, and what it wrote so far is frozen
	// with its memory.
	Overlay string `json:"overlay,omitempty"`
	// Note, where not empty, is a file that gets the Captured as JSON when all of
	// the above is written, before the machine keeps running or ends: whoever
	// finds it knows that the capture is complete.
	Note string `json:"note,omitempty"`
	// Freeze freezes the guest's programs from before the capture until the
	// resets of whoever starts on it, so that no two copies draw the same
	// random numbers. Without memory the file systems are frozen too.
	Freeze bool `json:"freeze,omitempty"`
	// Quit ends the machine when all is written; otherwise it continues.
	Quit bool `json:"quit,omitempty"`
	// Hold leaves the machine as it is captured, paused, when all is written:
	// the caller resumes it or ends it.
	Hold bool `json:"hold,omitempty"`
	// GuestKey is the link key that the agent holds, for the manifest. The monitor
	// fills it in: nobody else has it at that instant.
	GuestKey []byte `json:"-"`
}

// Captured is what a capture did.
type Captured struct {
	Pause        time.Duration `json:"pause"` // the guest was paused for so long; 0 with Quit
	Total        time.Duration `json:"total"`
	RAMBytes     int64         `json:"ramBytes"` // data in the memory file
	DeviceBytes  int64         `json:"deviceBytes"`
	PrivatePages int64         `json:"privatePages"`
	// Machine is what a start on it needs to know; without ids and files.
	Machine Manifest `json:"machine"`
}

// MachineStatus is what a monitor says of its machine.
type MachineStatus struct {
	ID         ID         `json:"id"`
	Protocol   int        `json:"protocol"` // of the monitor's socket; see monitor.Protocol
	MonitorPID int        `json:"monitorPid"`
	QEMUPID    int        `json:"qemuPid"`
	Ready      bool       `json:"ready"` // agent answered, every reset acknowledged, network connected
	RunState   string     `json:"runState"`
	RAM        string     `json:"ram,omitempty"`     // the file that it maps as its memory
	Size       Size       `json:"size"`              // as it is now
	Plugged    Plugged    `json:"plugged,omitzero"`  // what of it was plugged in
	Folders    []string   `json:"folders,omitempty"` // paths at which it is to have directories of the host
	Agent      AgentHello `json:"agent"`
	StartedAt  time.Time  `json:"startedAt"`
	// Resets holds the acknowledgement of each reset: "ok" or the reason of
	// its failure.
	Resets ResetReport `json:"resets,omitempty"`
	// Timings of the start, for bench and events.
	Timings map[string]time.Duration `json:"timings,omitempty"`
	// Confined lists what separates QEMU from the rest of the host.
	Confined []string      `json:"confined,omitempty"`
	CPU      time.Duration `json:"cpu"`     // CPU time used by QEMU
	RSS      int64         `json:"rss"`     // bytes resident in QEMU
	PSS      int64         `json:"pss"`     // bytes, shared pages counted by share; 0 = could not be read
	MonRSS   int64         `json:"monRss"`  // bytes resident in the monitor
	RxBytes  int64         `json:"rxBytes"` // that came from the guest
	TxBytes  int64         `json:"txBytes"` // that went to it
}

// MachineExit is how a machine ended.
type MachineExit struct {
	Reason string    `json:"reason,omitempty"` // "guest-poweroff", "guest-reboot", "stop", "kill", "qemu-crash", "host-restart"
	Detail string    `json:"detail,omitempty"` // e.g. the last line of QEMU's stderr
	Time   time.Time `json:"time,omitzero"`
}

// ExitUnseen is the Detail of a machine's end that nobody saw: the time of the end
// is unknown.
const ExitUnseen = "its processes were gone"

// Connection is one connection of a guest to the outside, as the egress
// policy judged it.
type Connection struct {
	Time     time.Time     `json:"time"`
	Proto    string        `json:"proto"` // tcp, udp, dns
	Dest     string        `json:"dest"`  // address and port, or the name asked for
	Name     string        `json:"name,omitempty"`
	Allowed  bool          `json:"allowed"`
	Reason   string        `json:"reason"` // why it was allowed or refused, for people
	Up       int64         `json:"up"`     // bytes from the guest
	Down     int64         `json:"down"`   // bytes to the guest
	Duration time.Duration `json:"duration,omitempty"`
}
