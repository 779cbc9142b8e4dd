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
// the VM's directory (0600: it holds the link key) before the monitor starts.
// A monitor that re-attaches reads it again.
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
	// QuietNIC says that the network card does not announce itself after a load; cards of
	// older Warrens do.
	QuietNIC bool `json:"quietNic,omitempty"`
	// Plugged was added to the machine while it ran; it is a part of Size.
	Plugged Plugged `json:"plugged,omitzero"`
	Disk    string  `json:"disk"` // absolute: the active overlay

	// Boot is used for a cold boot, when Generation is nil.
	Boot BootSource `json:"boot"`
	// Generation is the memory to start from; nil = cold boot.
	Generation *GenerationSource `json:"generation,omitempty"`

	Network NetworkPolicy `json:"network"`
	Paths   []PathRule    `json:"paths,omitempty"` // for Folders
	// GuestKey authenticates the host on the link: the guest's agent holds it
	// when it wakes. Reset.LinkKey replaces it once acknowledged.
	GuestKey []byte `json:"guestKey"`
	// OtherKeys are tried in addition to GuestKey; see Manifest.OtherKeys.
	OtherKeys [][]byte `json:"otherKeys,omitempty"`
	Reset     Reset    `json:"reset"` // the monitor fills in Time and Entropy at the last moment

	Agent       string `json:"agent"`       // absolute path of this version's agent binary
	AgentDigest string `json:"agentDigest"` // hex SHA-256; another agent in the guest is replaced in place

	WaitBooted bool          `json:"waitBooted"` // cold boot: wait for multi-user before "ready"
	Deadline   time.Duration `json:"deadline"`   // limits the whole start, in nanoseconds; 0 = 120 s
	// Patient extends Deadline by the time that QEMU waits for a CPU, to at most
	// three times Deadline.
	Patient bool `json:"patient,omitempty"`

	// VolumeKeys open the disks of Plugged.Volumes. They are passed from process
	// to process and never written to disk.
	VolumeKeys map[VolumeID]VolumeKey `json:"-"`

	// Folders are the directories of the host that the guest has. LostFolders are
	// paths at which its memory has one mounted that it no longer gets.
	Folders     []Folder `json:"folders,omitempty"`
	LostFolders []string `json:"lostFolders,omitempty"`

	// Pooled says that the machine does not belong to a VM yet; see Adoption.
	Pooled bool `json:"pooled,omitempty"`
	// Spare says that the machine will probably be captured again soon: base
	// pages that a capture copies are then copied in advance.
	Spare bool `json:"spare,omitempty"`
}

// Adoption turns a paused machine of the pool into a VM.
type Adoption struct {
	Reset    Reset         `json:"reset"` // the monitor fills in Time and Entropy
	Network  NetworkPolicy `json:"network"`
	Paths    []PathRule    `json:"paths,omitempty"`
	Deadline time.Duration `json:"deadline"` // limits all of it; 0 = 120 s
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
	// Fresh says that this host has just written the files and is still
	// computing their sums, so they are not checked.
	Fresh bool `json:"fresh,omitempty"`
	// Secret says that RAM may hold contents of a volume, so it is copied no more than necessary.
	Secret bool `json:"secret,omitempty"`
	// Modules are the memory files of the machine's first modules, in order,
	// mapped private like RAM. Later modules were plugged in since.
	Modules []string `json:"modules,omitempty"`
}

// CaptureSpec says where a capture of a running machine is written. All paths are absolute.
type CaptureSpec struct {
	RAM    string `json:"ram,omitempty"`    // created, must not exist; "" = only the disk is captured
	Device string `json:"device,omitempty"` // created, must not exist; "" with RAM
	// Overlay, if set, is an empty overlay over the current disk: the machine continues
	// to write there, and its disk so far is frozen together with its memory.
	Overlay string `json:"overlay,omitempty"`
	// Note, if set, is a file that gets the Captured as JSON once everything above is written,
	// before the machine resumes or ends. Its existence shows that the capture is complete.
	Note string `json:"note,omitempty"`
	// Freeze freezes the guest's programs from before the capture until the
	// resets of a start from it, so that no two copies draw the same random
	// numbers. Without memory the file systems are frozen, too.
	Freeze bool `json:"freeze,omitempty"`
	// Sync has the guest write what its programs have written to its disk, before the
	// pause. A guest whose agent cannot is captured without; see Captured.Synced.
	Sync bool `json:"sync,omitempty"`
	// Quit ends the machine when everything is written; otherwise it resumes.
	Quit bool `json:"quit,omitempty"`
	// Hold leaves the machine paused when everything is written: the caller
	// resumes it or ends it.
	Hold bool `json:"hold,omitempty"`
	// GuestKey is the link key that the agent holds, for the manifest. The monitor
	// fills it in: only it has the key at that instant.
	GuestKey []byte `json:"-"`
}

// Captured is the result of a capture.
type Captured struct {
	Pause        time.Duration `json:"pause"` // how long the guest was paused; 0 with Quit
	Total        time.Duration `json:"total"`
	RAMBytes     int64         `json:"ramBytes"` // data in the memory file
	DeviceBytes  int64         `json:"deviceBytes"`
	PrivatePages int64         `json:"privatePages"`
	// Synced says that the disk has all that programs had written before the pause.
	Synced bool `json:"synced,omitempty"`
	// Machine has what a start from it needs, except ids and files.
	Machine Manifest `json:"machine"`
}

// MachineStatus is a monitor's report on its machine.
type MachineStatus struct {
	ID         ID         `json:"id"`
	Protocol   int        `json:"protocol"` // of the monitor's socket; see monitor.Protocol
	MonitorPID int        `json:"monitorPid"`
	QEMUPID    int        `json:"qemuPid"`
	Ready      bool       `json:"ready"` // agent answered, every reset acknowledged, network connected
	RunState   string     `json:"runState"`
	RAM        string     `json:"ram,omitempty"`     // the file that is mapped as its memory
	Size       Size       `json:"size"`              // as it is now
	Plugged    Plugged    `json:"plugged,omitzero"`  // the part that was plugged in
	Folders    []string   `json:"folders,omitempty"` // paths that are directories of the host
	Agent      AgentHello `json:"agent"`
	StartedAt  time.Time  `json:"startedAt"`
	// Resets holds the acknowledgement of each reset: "ok" or the reason of
	// its failure.
	Resets ResetReport `json:"resets,omitempty"`
	// Timings of the start, for bench and events.
	Timings map[string]time.Duration `json:"timings,omitempty"`
	// Confined lists the barriers between QEMU and the host.
	Confined []string      `json:"confined,omitempty"`
	CPU      time.Duration `json:"cpu"`     // CPU time used by QEMU
	RSS      int64         `json:"rss"`     // bytes resident in QEMU
	PSS      int64         `json:"pss"`     // bytes, with shared pages divided among their users; 0 = could not be read
	MonRSS   int64         `json:"monRss"`  // bytes resident in the monitor
	RxBytes  int64         `json:"rxBytes"` // bytes from the guest
	TxBytes  int64         `json:"txBytes"` // bytes to the guest
}

// MachineExit is how a machine ended.
type MachineExit struct {
	Reason string    `json:"reason,omitempty"` // "guest-poweroff", "guest-reboot", "stop", "kill", "qemu-crash", "host-restart"
	Detail string    `json:"detail,omitempty"` // e.g. the last line of QEMU's stderr
	Time   time.Time `json:"time,omitzero"`
}

// ExitUnseen is the Detail if nobody saw the machine end: the time of the end is unknown.
const ExitUnseen = "its processes were gone"
