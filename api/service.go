// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// ServiceName is one service of ServiceList, with its state (ours).
type ServiceName struct {
	Name        string `json:"name"`
	ActiveState string `json:"activeState,omitempty"`
	SubState    string `json:"subState,omitempty"`
	Description string `json:"description,omitempty"`
}

// ServiceList answers GET systemd/services.
type ServiceList struct {
	Services []ServiceName `json:"services"`
}

// AddedService answers POST systemd/services.
type AddedService struct {
	Success     bool   `json:"success"`
	Message     string `json:"message"`
	ServiceName string `json:"serviceName"`
}

// RemovedService answers DELETE systemd/services/{id}.
type RemovedService struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// ServiceLogs answers GET systemd/services/{id}/logs, oldest first.
type ServiceLogs struct {
	Logs []vm.UnitLog `json:"logs"`
}

// ServiceIDs is the body of POST systemd/start, stop and restart.
type ServiceIDs struct {
	Services []ServiceID `json:"services"`
}

// ServiceID names a service.
type ServiceID struct {
	ID string `json:"id"`
}

// ServiceResults answers POST systemd/start, stop and restart.
type ServiceResults struct {
	Results []vm.UnitResult `json:"results"`
}
