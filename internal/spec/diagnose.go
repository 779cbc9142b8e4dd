// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Diagnostics describes the guest's services after a failed setup, in the
// contract's form.
type Diagnostics struct {
	ServiceStates               []ServiceStates `json:"serviceStates"` // never null
	FailedServiceLogs           []ServiceLog    `json:"failedServiceLogs"`
	AdditionalFailedServiceLogs []ServiceLog    `json:"additionalFailedServiceLogs"`
}

// ServiceStates are the services in one state.
type ServiceStates struct {
	ActiveState string   `json:"activeState"`
	SubState    string   `json:"subState"`
	Services    []string `json:"services"`
}

// ServiceLog is the end of a service's log.
type ServiceLog struct {
	UnitName string `json:"unitName"`
	Log      string `json:"log"`
}

// Diagnose groups services by state, in the order they come in, and joins the
// lines of each log.
func Diagnose(list []vm.UnitStatus, logs map[string][]vm.UnitLog) Diagnostics {
	out := Diagnostics{ServiceStates: []ServiceStates{}, FailedServiceLogs: []ServiceLog{}}
	for _, u := range list {
		i := slices.IndexFunc(out.ServiceStates, func(s ServiceStates) bool { return s.ActiveState == u.ActiveState && s.SubState == u.SubState })
		if i < 0 {
			i = len(out.ServiceStates)
			out.ServiceStates = append(out.ServiceStates, ServiceStates{ActiveState: u.ActiveState, SubState: u.SubState})
		}
		out.ServiceStates[i].Services = append(out.ServiceStates[i].Services, u.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		lines := make([]string, 0, len(logs[name]))
		for _, l := range logs[name] {
			lines = append(lines, l.Message)
		}
		out.FailedServiceLogs = append(out.FailedServiceLogs, ServiceLog{UnitName: name, Log: strings.Join(lines, "\n")})
	}
	return out
}
