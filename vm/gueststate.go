// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// GuestState lists what runs in a VM: what a user expects to find again after a
// resume or a fork. The guest reports most of it itself; ports are probed with
// a request; roles name their evidence.
type GuestState struct {
	ID    ID     `json:"id"`
	Name  string `json:"name"`
	State State  `json:"state"`
	// Live says that the lists were read in the guest now. Otherwise the VM has
	// no machine, and only its record is shown.
	Live bool      `json:"live"`
	Time time.Time `json:"time"`

	StartedAt  time.Time    `json:"startedAt,omitzero"`
	From       string       `json:"from"`                 // what the machine was started from, for people
	Generation GenerationID `json:"generation,omitempty"` // that generation, unless it was an image
	Parent     ID           `json:"parent,omitempty"`     // the VM that it was forked from
	Restored   []string     `json:"restored"`             // by the last start
	Losses     []string     `json:"losses"`               // parts that the last start did not restore, and why

	UptimeSeconds float64         `json:"uptimeSeconds,omitempty"` // of the guest's kernel
	Processes     []GuestProcess  `json:"processes"`
	Terminals     []GuestTerminal `json:"terminals"`
	Ports         []GuestPort     `json:"ports"`
	Services      []GuestService  `json:"services"`
	Mounts        []GuestMount    `json:"mounts"`
	Roles         []GuestRole     `json:"roles"`

	// Problems names what could not be read, or was cut at a limit. A list that
	// a problem names is incomplete.
	Problems []string `json:"problems"`
}

// GuestProcess is a process of the guest; kernel threads are left out.
type GuestProcess struct {
	SystemProcess
	StartedAt time.Time `json:"startedAt"`          // by the guest's clock
	Unit      string    `json:"unit,omitempty"`     // the systemd unit of its control group
	Exec      string    `json:"exec,omitempty"`     // id of the exec command that it belongs to ("p1")
	Terminal  string    `json:"terminal,omitempty"` // "pts/0"
	Cwd       string    `json:"cwd,omitempty"`      //
	Waits     string    `json:"waits,omitempty"`    // what it does now: "runs", "sleeps", "reads its terminal", ...
	System    bool      `json:"system,omitempty"`   // of the system or of Warren, not a user's
}

// GuestTerminal is a terminal that a session controls.
type GuestTerminal struct {
	Name       string `json:"name"`                 // "pts/0", "ttyS0"
	Leader     int    `json:"leader,omitempty"`     // pid of its session's leader; 0 = it has ended
	Shell      string `json:"shell,omitempty"`      // the leader's command
	Foreground int    `json:"foreground,omitempty"` // pid of the leader of its foreground process group
	Command    string `json:"command,omitempty"`    // of that process
	User       string `json:"user,omitempty"`
	Cwd        string `json:"cwd,omitempty"`
	Waits      string `json:"waits,omitempty"`
}

// GuestPort is a listening port with the answer to a request.
type GuestPort struct {
	ListeningPort
	Probe Probe `json:"probe"`
}

// GuestService is a systemd service.
type GuestService struct {
	Name        string `json:"name"`   // without .service
	Active      string `json:"active"` // active, failed, activating, inactive, ...
	Sub         string `json:"sub"`    // running, exited, auto-restart, dead, ...
	Description string `json:"description,omitempty"`
}

// GuestMount is a file system that can hold data.
type GuestMount struct {
	Path      string `json:"path"`
	Source    string `json:"source"`
	Type      string `json:"type"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
	Total     int64  `json:"totalBytes,omitempty"` // 0 = not read: a server or a program serves it
	Free      int64  `json:"freeBytes,omitempty"`
	Files     int64  `json:"totalFiles,omitempty"` // inodes; 0 = no limit, or not read
	FilesLeft int64  `json:"freeFiles,omitempty"`
}

// Role is the purpose of a program.
type Role string

// The roles.
const (
	RoleWatcher  Role = "watcher"  // watches files for changes
	RoleWorker   Role = "worker"   // takes jobs from a queue
	RoleDatabase Role = "database" //
	RoleBrowser  Role = "browser"  //
	RoleREPL     Role = "repl"     // reads commands from a terminal
)

// GuestRole is a program in a role, with its evidence.
type GuestRole struct {
	Role    Role   `json:"role"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
	Alive   bool   `json:"alive"` // false = a zombie, stopped by a signal, or (databases) it does not answer
	Seen    string `json:"seen"`  // what was found
	Why     string `json:"why"`   // the evidence
}
