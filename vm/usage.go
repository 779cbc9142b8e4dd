// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Usage is what a VM has used since it was made, as of a time. The Usage of
// an account has no VM, and is the sum of its VMs, also of deleted ones.
type Usage struct {
	Account AccountID `json:"account"`
	VM      ID        `json:"vmId,omitempty"` // "" = of an account
	Name    string    `json:"name,omitempty"` // of the VM, as it was last called
	Since   time.Time `json:"since,omitzero"` // the VM was made
	Gone    time.Time `json:"gone,omitzero"`  // it was deleted; zero = it is there
	AsOf    time.Time `json:"asOf,omitzero"`  // what is counted is true of this time

	RunningSeconds float64 `json:"runningSeconds"` // a machine was there, busy or not
	CPUSeconds     float64 `json:"cpuSeconds"`     // of the host's CPUs
	MemorySeconds  float64 `json:"memoryMibSeconds"`
	DiskBytes      int64   `json:"diskBytes"`     // now, of the host's disk, by this VM alone; 0 when it is gone
	DiskPeakBytes  int64   `json:"diskPeakBytes"` // the peak; for an account the sum of the peaks
	BytesIn        int64   `json:"bytesIn"`       // network, to the guest
	BytesOut       int64   `json:"bytesOut"`      // network, from the guest

	// Day is the day, in UTC, of which DaySeconds of running are.
	Day        string  `json:"day,omitempty"`
	DaySeconds float64 `json:"daySeconds"`
}

// Add adds what another has used.
func (u *Usage) Add(o Usage) {
	u.RunningSeconds += o.RunningSeconds
	u.CPUSeconds += o.CPUSeconds
	u.MemorySeconds += o.MemorySeconds
	u.DiskBytes += o.DiskBytes
	u.DiskPeakBytes += o.DiskPeakBytes
	u.BytesIn += o.BytesIn
	u.BytesOut += o.BytesOut
	switch {
	case o.Day > u.Day:
		u.Day, u.DaySeconds = o.Day, o.DaySeconds
	case o.Day == u.Day:
		u.DaySeconds += o.DaySeconds
	}
	if o.AsOf.After(u.AsOf) {
		u.AsOf = o.AsOf
	}
	if u.Since.IsZero() || !o.Since.IsZero() && o.Since.Before(u.Since) {
		u.Since = o.Since
	}
}

// Run counts the time up to now of a machine with so much memory, that was last
// counted at since. A clock that was set back counts nothing.
func (u *Usage) Run(since, now time.Time, memoryMiB int) {
	d := now.Sub(since).Seconds()
	if d <= 0 {
		return
	}
	u.RunningSeconds += d
	u.MemorySeconds += d * float64(memoryMiB)
	if day := now.UTC().Format(time.DateOnly); day != u.Day {
		u.Day, u.DaySeconds = day, 0
	}
	u.DaySeconds += min(d, now.Sub(now.UTC().Truncate(24*time.Hour)).Seconds())
}

// UsageRecord is a Usage as it is stored: with what the next count begins from.
type UsageRecord struct {
	Usage
	RunningSince time.Time `json:"runningSince,omitzero"` // of the machine, or of its last count; zero = none runs

	// What the counters of the machine showed at the last count, and of which
	// processes: those of a new one begin at 0.
	QEMUPID    int           `json:"qemuPid,omitempty"`
	MonitorPID int           `json:"monitorPid,omitempty"`
	CPU        time.Duration `json:"cpu,omitempty"`
	RxBytes    int64         `json:"rxBytes,omitempty"`
	TxBytes    int64         `json:"txBytes,omitempty"`

	// Server is, in the record of an account, the server whose VMs it sums up; "" =
	// an older warren wrote it.
	Server string `json:"server,omitempty"`
	// Folded is, in the record of an account, the VM whose usage was added to it
	// last: its own record is to be removed.
	Folded ID `json:"folded,omitempty"`

	Host     string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
	Revision int64  `json:"-"`
}

// Key is the id of the record: that of the VM, or the account's.
func (u *UsageRecord) Key() string {
	switch {
	case u.VM != "":
		return string(u.VM)
	case u.Server != "":
		return string(u.Account) + "." + u.Server
	}
	return string(u.Account)
}

// Count adds what the counters of a machine show beyond the last count.
func (u *UsageRecord) Count(st MachineStatus) {
	if st.QEMUPID != u.QEMUPID || st.CPU < u.CPU {
		u.CPU = 0
	}
	if st.MonitorPID != u.MonitorPID || st.RxBytes < u.RxBytes || st.TxBytes < u.TxBytes {
		u.RxBytes, u.TxBytes = 0, 0
	}
	u.CPUSeconds += (st.CPU - u.CPU).Seconds()
	u.BytesOut += st.RxBytes - u.RxBytes
	u.BytesIn += st.TxBytes - u.TxBytes
	u.QEMUPID, u.MonitorPID = st.QEMUPID, st.MonitorPID
	u.CPU, u.RxBytes, u.TxBytes = st.CPU, st.RxBytes, st.TxBytes
}
