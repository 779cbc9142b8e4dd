// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// AgentHello describes the agent.
type AgentHello struct {
	Protocol int      `json:"protocol"` // of the agent's verbs
	Version  string   `json:"version"`  // version of Warren that it came with
	Digest   string   `json:"digest"`   // hex SHA-256 of its binary
	Features []string `json:"features"`
	Booted   bool     `json:"booted"`  // init has reached its multi-user target
	BootID   string   `json:"bootId"`  // as programs in the guest read it
	Kernel   string   `json:"kernel"`  // uname -r
	Systemd  bool     `json:"systemd"` // PID 1 is systemd
}

// Names of the resets that every start must acknowledge.
const (
	ResetClock     = "clock"
	ResetRNG       = "rng"
	ResetHostname  = "hostname"
	ResetMachineID = "machine-id"
	ResetBootID    = "boot-id"
	ResetHostKeys  = "host-keys"
	ResetLinkKey   = "link-key"
)

// Resets lists every reset; a start that lacks one acknowledgement fails.
var Resets = []string{ResetClock, ResetRNG, ResetHostname, ResetMachineID, ResetBootID, ResetHostKeys, ResetLinkKey}

// Reset gives a guest that was started from a generation its own identity.
type Reset struct {
	Time      time.Time `json:"time"`      // wall clock, read as late as possible
	Entropy   []byte    `json:"entropy"`   // 64 bytes for the kernel's generator
	Hostname  string    `json:"hostname"`  // the VM's name, or its id
	MachineID string    `json:"machineId"` // 32 hex digits
	BootID    string    `json:"bootId"`    // UUID
	LinkKey   []byte    `json:"linkKey"`   // authenticates the host from now on
	// HostKeys are SSH host keys by file name under /etc/ssh ("ssh_host_ed25519_key"
	// and its .pub). They are written only if the guest has an SSH server.
	HostKeys map[string]string `json:"hostKeys,omitempty"`
	// CA is the certificate of the CA for names below InsideDomain, as PEM; the monitor
	// fills it in. A guest that cannot install it has these names without TLS.
	CA []byte `json:"-"`
	// OwnCA is the certificate of the VM's own CA, for hosts whose requests its network reads;
	// none = it reads no requests. The monitor fills it in, and Secrets.
	OwnCA []byte `json:"-"`
	// Secrets are the placeholders that programs of the guest find.
	Secrets []GuestSecret `json:"-"`
}

// GuestSecret is what a guest holds of a secret.
type GuestSecret struct {
	Name        string // of its file
	Env         string // of its environment variable
	Placeholder string
}

// FreezeReport is the result of freezing a guest's programs.
type FreezeReport struct {
	Groups   int           // control groups that were frozen
	Waited   time.Duration // until they were frozen
	Unfrozen []string      // groups that did not freeze in time: their tasks in the kernel stop when they return
}

// ResetReport maps each reset to "ok" or to why it failed.
type ResetReport map[string]string

// ExecSpec is one command to run in a guest. Exactly one of Argv and Command
// is set.
type ExecSpec struct {
	Argv    []string          `json:"argv,omitempty"`    // run directly; the program is looked up in the guest's PATH
	Command string            `json:"command,omitempty"` // run by the user's /bin/bash -c, else /bin/sh -c
	User    string            `json:"user,omitempty"`    // Linux user; "" = root
	Cwd     string            `json:"cwd,omitempty"`     // "" = the user's home
	Env     map[string]string `json:"env,omitempty"`     // added to a login-like environment
	// Timeout kills the process group when it has passed; 0 = no limit.
	Timeout Millis `json:"timeoutMs,omitempty"`
	// Stdin says that the caller will send input; otherwise the command reads /dev/null.
	Stdin bool `json:"stdin,omitempty"`
	// Background starts the command detached, with a complete log.
	Background bool `json:"background,omitempty"`

	// Turn marks a turn with this note before the command starts; "" = none. Summary asks
	// what the command changed on the disk. Both are the server's work: the guest gets
	// neither.
	Turn    string `json:"turn,omitempty"`
	Summary bool   `json:"summary,omitempty"`
}

// Process is a command started by exec, running or ended. Its id is unique in
// its VM and stays valid, with its log, after the end.
type Process struct {
	ID        string     `json:"id"` // "p1", "p2", ...
	PID       int        `json:"pid"`
	Argv      []string   `json:"argv"`
	User      string     `json:"user"`
	Cwd       string     `json:"cwd"`
	StartedAt time.Time  `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
	// ExitCode is nil while it runs; 128+n when signal n ended it.
	ExitCode *int   `json:"exitCode,omitempty"`
	Signal   string `json:"signal,omitempty"` // e.g. "KILL"
	TimedOut bool   `json:"timedOut,omitempty"`
	// Background is true when no client is attached any more, or never was.
	Background bool  `json:"background"`
	LogBytes   int64 `json:"logBytes"` // absolute end offset of its log; 0 = none
	LogStart   int64 `json:"logStart"` // absolute offset of the oldest kept byte
}

// ExitStatus is how a command ended.
type ExitStatus struct {
	Code     int    `json:"code"` // 0 to 255; 128+n for signal n
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timedOut,omitempty"`
}

// FileKind is the kind of a directory entry.
type FileKind string

// The kinds of directory entries.
const (
	FileRegular   FileKind = "file"
	FileDirectory FileKind = "directory"
	FileSymlink   FileKind = "symlink"
	FileOther     FileKind = "other" // device, socket, pipe
)

// FileInfo describes one directory entry without following a symlink.
type FileInfo struct {
	Name    string    `json:"name"` // base name
	Path    string    `json:"path"` // absolute in the guest
	Kind    FileKind  `json:"kind"`
	Size    int64     `json:"size"`
	Mode    uint32    `json:"mode"` // permission bits, with setuid, setgid and sticky
	UID     int       `json:"uid"`
	GID     int       `json:"gid"`
	ModTime time.Time `json:"modTime"`
	Target  string    `json:"target,omitempty"` // of a symlink
	// Attrs are the extended attributes that user programs may set, without "user." before
	// their names (xattr(7)). Those past 8 KiB of names and values, and
	// values that are not UTF-8, are left out. So are all where a file is read, in a list of
	// a folder of the host, and past 1 MiB in any list.
	Attrs map[string]string `json:"attrs,omitempty"`
}

// WriteOptions configure how a file is written into a guest.
type WriteOptions struct {
	Mode    uint32 `json:"mode"`    // permission bits of a new file; 0 = 0644
	Parents bool   `json:"parents"` // create missing parent directories, 0755
	// Size is the number of bytes to come; -1 = until the end of the reader. If
	// the stream is shorter or longer, the write fails and the old file stays.
	Size int64 `json:"size"`
	// Attrs are all the extended attributes of the written file, without "user." before
	// their names. Nil = none: those of an older file there are not kept.
	Attrs map[string]string `json:"attrs"`
}

// FileEvent is one change that a watch reported.
type FileEvent struct {
	Type string `json:"eventType"` // create, modify, delete, rename
	Path string `json:"filename"`  // absolute in the guest
}

// SystemProcess is one line of a guest's process table.
type SystemProcess struct {
	PID        int     `json:"pid"`
	PPID       int     `json:"ppid"`
	User       string  `json:"user"`
	State      string  `json:"state"` // R, S, D, Z, T
	RSS        int64   `json:"rss"`   // bytes
	CPUSeconds float64 `json:"cpuSeconds"`
	Command    string  `json:"command"`
}

// ListeningPort is one socket in a guest that accepts connections.
type ListeningPort struct {
	Proto   string `json:"proto"` // tcp, tcp6, udp, udp6
	Address string `json:"address"`
	Port    int    `json:"port"`
	PID     int    `json:"pid,omitempty"` // 0 = not found
	Command string `json:"command,omitempty"`
}

// Stats is a guest's use of its machine at one moment.
type Stats struct {
	Time          time.Time       `json:"time"`
	UptimeSeconds float64         `json:"uptimeSeconds"`
	CPUSeconds    float64         `json:"cpuSeconds"` // busy, all CPUs, since boot
	VCPU          int             `json:"vcpuCount"`
	Load1         float64         `json:"load1"`
	MemTotal      int64           `json:"memTotalBytes"`
	MemAvailable  int64           `json:"memAvailableBytes"`
	DiskTotal     int64           `json:"diskTotalBytes"`
	DiskFree      int64           `json:"diskFreeBytes"`
	Processes     []SystemProcess `json:"processes"`
	Ports         []ListeningPort `json:"ports"`
}
