// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"slices"
	"time"
)

// Evidence is a guest's load and problems, collected in one pass.
type Evidence struct {
	State        GuestState `json:"world"`      // its ports may not have been probed
	CPUSeconds   float64    `json:"cpuSeconds"` // busy, all CPUs, since boot
	VCPU         int        `json:"vcpuCount"`
	Load1        float64    `json:"load1"`
	MemTotal     int64      `json:"memTotalBytes"`
	MemAvailable int64      `json:"memAvailableBytes"`
	Counters     []Counter  `json:"counters"`
	Locks        []FileLock `json:"locks,omitempty"`

	// The rest is set only if all was requested.
	Kernel  []KernelLine  `json:"kernel,omitempty"` // lines about problems, oldest first
	Deleted []DeletedFile `json:"deleted,omitempty"`
	Inotify InotifyLimits `json:"inotify,omitzero"`
}

// Counter is what a process has done so far.
type Counter struct {
	PID       int   `json:"pid"`
	IO        int64 `json:"io"`                  // bytes that it read or wrote, files and pipes and sockets
	Instances int   `json:"instances,omitempty"` // inotify descriptors
	Watches   int   `json:"watches,omitempty"`   // and the watches of all of them
}

// FileLock is a lock of a file that a process holds, or waits for.
type FileLock struct {
	PID   int    `json:"pid"`
	File  string `json:"file"`           // device and inode, as the kernel names them
	Path  string `json:"path,omitempty"` // where the process has it open
	Waits bool   `json:"waits,omitempty"`
}

// KernelLine is a line of the kernel's log.
type KernelLine struct {
	Time time.Time `json:"time"` // by the guest's clock
	Text string    `json:"text"`
}

// DeletedFile is a deleted file that takes space until its process closes it.
type DeletedFile struct {
	PID   int    `json:"pid"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// InotifyLimits are the kernel's inotify limits of one user.
type InotifyLimits struct {
	Watches   int `json:"maxUserWatches"`
	Instances int `json:"maxUserInstances"`
}

// Severity is how much a finding matters.
type Severity string

// The severities, worst first.
const (
	SeverityError   Severity = "error"   // something does not work
	SeverityWarning Severity = "warning" // something will soon fail, or does not work as intended
	SeverityInfo    Severity = "info"    // it may be intended
)

// Severities lists all, worst first.
var Severities = []Severity{SeverityError, SeverityWarning, SeverityInfo}

// Finding is one thing that is wrong with a VM.
type Finding struct {
	Code     string   `json:"code"` // "disk-full", ...; docs/diagnose.md lists them
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`  // what it is about: "port 3000", "unit web", "process 61"
	Says     string   `json:"says"`     // what is wrong, for people
	Evidence []string `json:"evidence"` // what was observed; texts of the guest are unchanged
	Do       string   `json:"do"`       // what to do about it
}

// Diagnosis is what is wrong with a VM.
type Diagnosis struct {
	ID    ID     `json:"id"`
	Name  string `json:"name"`
	State State  `json:"state"`
	// Live says that the guest was examined. Otherwise only the record was.
	Live     bool      `json:"live"`
	Time     time.Time `json:"time"`
	Seconds  float64   `json:"seconds"`  // between the two samples
	Findings []Finding `json:"findings"` // worst first
	Problems []string  `json:"problems"` // what could not be checked
}

// Top is what a VM does now.
type Top struct {
	ID    ID        `json:"id"`
	Name  string    `json:"name"`
	State State     `json:"state"`
	Live  bool      `json:"live"`
	Why   string    `json:"why,omitempty"` // why it is not live
	Time  time.Time `json:"time"`

	UptimeSeconds float64         `json:"uptimeSeconds"`
	CPUSeconds    float64         `json:"cpuSeconds"` // busy, all CPUs, since boot
	CPUPercent    *float64        `json:"cpuPercent"` // of all CPUs between two samples; null for a single one
	VCPU          int             `json:"vcpuCount"`
	Load1         float64         `json:"load1"`
	MemTotal      int64           `json:"memTotalBytes"`
	MemAvailable  int64           `json:"memAvailableBytes"`
	Mounts        []GuestMount    `json:"mounts"`
	Processes     []TopProcess    `json:"processes"` // the busiest first
	Blocked       []Blocked       `json:"blocked"`
	Ports         []ListeningPort `json:"ports"`
	Services      []GuestService  `json:"services"`
	Logs          []TopLog        `json:"logs"` // the last lines
	Problems      []string        `json:"problems"`
}

// TopProcess is a process with its share of one CPU between two samples.
type TopProcess struct {
	GuestProcess
	CPUPercent float64 `json:"cpuPercent"`
}

// Blocked is a process that cannot continue by itself, and what it waits for.
type Blocked struct {
	PID     int    `json:"pid"`
	State   string `json:"state"`
	Command string `json:"command"`
	Waits   string `json:"waits"` // for what, and which process holds it
}

// TopLog is a line of a log.
type TopLog struct {
	Source string `json:"source"` // "p3" for a command, else the name of a unit or program
	Text   string `json:"text"`
}

// Rate computes how busy the CPUs and processes were since an earlier sample,
// and sorts the processes by that.
func (t *Top) Rate(before Top) {
	seconds := t.UptimeSeconds - before.UptimeSeconds
	if seconds <= 0 || !t.Live || !before.Live {
		return
	}
	percent := 100 * max(t.CPUSeconds-before.CPUSeconds, 0) / seconds / float64(max(t.VCPU, 1))
	t.CPUPercent = &percent
	had := make(map[int]TopProcess, len(before.Processes))
	for _, p := range before.Processes {
		had[p.PID] = p
	}
	for i := range t.Processes {
		p := &t.Processes[i]
		was := 0.0
		if b, ok := had[p.PID]; ok && p.StartedAt.Sub(b.StartedAt).Abs() < time.Second { // else the pid was reused
			was = b.CPUSeconds
		}
		p.CPUPercent = 100 * max(p.CPUSeconds-was, 0) / seconds
	}
	slices.SortStableFunc(t.Processes, func(a, b TopProcess) int {
		return cmp.Or(cmp.Compare(b.CPUPercent, a.CPUPercent), cmp.Compare(b.RSS, a.RSS))
	})
}
