// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// Usage is what a VM has used since it was made, at a time. The Usage of an
// account has no VM, and is the sum of its VMs, including deleted ones.
type Usage struct {
	Account AccountID `json:"account"`
	VM      ID        `json:"vmId,omitempty"` // "" = for an account
	Name    string    `json:"name,omitempty"` // the VM's last name
	Since   time.Time `json:"since,omitzero"` // when the VM was made
	Gone    time.Time `json:"gone,omitzero"`  // when it was deleted; zero = it exists
	AsOf    time.Time `json:"asOf,omitzero"`  // time of the counts

	RunningSeconds float64 `json:"runningSeconds"` // with a machine, busy or not
	CPUSeconds     float64 `json:"cpuSeconds"`     // of the host's CPUs
	MemorySeconds  float64 `json:"memoryMibSeconds"`
	DiskBytes      int64   `json:"diskBytes"`     // current disk space of this VM alone; 0 after it is deleted
	DiskPeakBytes  int64   `json:"diskPeakBytes"` // the peak; for an account the sum of the peaks
	BytesIn        int64   `json:"bytesIn"`       // network, to the guest
	BytesOut       int64   `json:"bytesOut"`      // network, from the guest

	// Day is the day, in UTC, that DaySeconds refers to.
	Day        string  `json:"day,omitempty"`
	DaySeconds float64 `json:"daySeconds"`
}

// Add adds another usage.
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

// Run adds the time until now of a machine with this much memory, which was
// last counted at since. A clock that was set back counts nothing.
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

// UsageRecord is the stored form of a Usage, with the base of the next count.
type UsageRecord struct {
	Usage
	RunningSince time.Time `json:"runningSince,omitzero"` // start of the machine, or its last count; zero = none runs

	// The machine's counters at the last count, and its process ids: the
	// counters of new processes begin at 0.
	QEMUPID    int           `json:"qemuPid,omitempty"`
	MonitorPID int           `json:"monitorPid,omitempty"`
	CPU        time.Duration `json:"cpu,omitempty"`
	RxBytes    int64         `json:"rxBytes,omitempty"`
	TxBytes    int64         `json:"txBytes,omitempty"`

	// Server is, in the record of an account, the server whose VMs it sums up; "" =
	// written by an older warren.
	Server string `json:"server,omitempty"`
	// Folded is, in the record of an account, the VM whose usage was added last:
	// that VM's record is to be removed.
	Folded ID `json:"folded,omitempty"`

	Host string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
}

// Key returns the id of the record: the VM's or the account's.
func (u *UsageRecord) Key() string {
	switch {
	case u.VM != "":
		return string(u.VM)
	case u.Server != "":
		return string(u.Account) + "." + u.Server
	}
	return string(u.Account)
}

// Count adds the difference of a machine's counters since the last count.
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
