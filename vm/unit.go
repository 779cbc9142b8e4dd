// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// The modes of a Unit.
const (
	UnitService = "service" // a program that keeps running
	UnitOneshot = "oneshot" // commands that end
)

// Unit is a systemd service as callers describe it. An empty or nil member
// has its default; in a patch it keeps the value of the patched unit.
type Unit struct {
	Name               string            `json:"name"`           // without a dot it gets ".service"
	Mode               string            `json:"mode,omitempty"` // oneshot or service (the default)
	Exec               []string          `json:"exec,omitempty"` // command lines, run in order; for a service the last one is its program
	Env                map[string]string `json:"env,omitempty"`
	User               *string           `json:"user,omitempty"`
	Group              *string           `json:"group,omitempty"`
	Workdir            *string           `json:"workdir,omitempty"`
	After              []string          `json:"after,omitempty"`
	Requires           []string          `json:"requires,omitempty"`
	OnFailure          []string          `json:"onFailure,omitempty"`
	WantedBy           []string          `json:"wantedBy"`         // null = multi-user.target
	Enable             *bool             `json:"enable,omitempty"` // default true
	TimeoutSec         *float64          `json:"timeoutSec,omitempty"`
	DeleteAfterSuccess *bool             `json:"deleteAfterSuccess,omitempty"` // of a oneshot; default false
	RemainAfterExit    *bool             `json:"remainAfterExit,omitempty"`    // default true of a oneshot
	ReadySignal        *bool             `json:"readySignal,omitempty"`        // it reports with sd_notify when it is ready
	WatchdogSec        *float64          `json:"watchdogSec,omitempty"`
	RestartPolicy      *RestartPolicy    `json:"restartPolicy,omitempty"`
}

// RestartPolicy says when systemd starts a service again.
type RestartPolicy struct {
	Policy                string   `json:"policy"` // no, on-failure, always, on-abnormal
	RestartSec            *float64 `json:"restartSec,omitempty"`
	StartLimitBurst       *int     `json:"startLimitBurst,omitempty"`
	StartLimitIntervalSec *float64 `json:"startLimitIntervalSec,omitempty"`
}

// Enabled reports whether the unit starts with the VM.
func (u Unit) Enabled() bool { return u.Enable == nil || *u.Enable }

// Oneshot reports whether the unit runs commands to their end.
func (u Unit) Oneshot() bool { return u.Mode == UnitOneshot }

// Notifies reports whether the unit itself reports when it is ready.
func (u Unit) Notifies() bool { return u.ReadySignal != nil && *u.ReadySignal }

// Vanishes reports whether the unit is removed once it has succeeded.
func (u Unit) Vanishes() bool {
	return u.Oneshot() && u.DeleteAfterSuccess != nil && *u.DeleteAfterSuccess
}

// UnitStatus is systemd's state of a unit.
type UnitStatus struct {
	Name        string `json:"name"`
	ActiveState string `json:"activeState"` // active, inactive, failed, activating, ...
	SubState    string `json:"subState"`    // running, exited, dead, ...
	LoadState   string `json:"loadState"`   // loaded, not-found, ...
	Description string `json:"description"`
	Enabled     string `json:"unitFileState,omitempty"` // enabled, disabled, static, ...
}

// UnitLog is one line of a unit's journal.
type UnitLog struct {
	Message   string    `json:"message"`
	Timestamp time.Time `json:"timestamp"`
	Priority  *int      `json:"priority,omitempty"` // 0 emergency to 7 debug
	Unit      string    `json:"unit,omitempty"`
}

// UnitResult is the result of starting or stopping a unit.
type UnitResult struct {
	ServiceID string `json:"serviceId"`
	Success   bool   `json:"success"`
	Message   string `json:"message"`
}
