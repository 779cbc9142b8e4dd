// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) serviceRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/systemd/services", asUser, s.services, "Services of the guest's systemd.", nil, api.ServiceList{}, false, ""},
		{"POST", "/v1/vms/{vm}/systemd/services", asUser, s.addService, "Install a service, and start it unless enable is false.", vm.Unit{}, api.AddedService{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/systemd/services/{service}", asUser, s.removeService, "Stop and remove a service that was added.", nil, api.RemovedService{}, false, ""},
		{"GET", "/v1/vms/{vm}/systemd/services/{service}/status", asUser, s.serviceStatus, "The state of a service.", nil, vm.UnitStatus{}, false, ""},
		{"GET", "/v1/vms/{vm}/systemd/services/{service}/logs", asUser, s.serviceLogs, "The last lines of a service's journal, oldest first; with follow, as JSON lines as they arrive.", nil, api.ServiceLogs{}, false, "lines since follow"},
		{"POST", "/v1/vms/{vm}/systemd/start", asUser, s.switchServices("start"), "Start services.", api.ServiceIDs{}, api.ServiceResults{}, false, ""},
		{"POST", "/v1/vms/{vm}/systemd/stop", asUser, s.switchServices("stop"), "Stop services.", api.ServiceIDs{}, api.ServiceResults{}, false, ""},
		{"POST", "/v1/vms/{vm}/systemd/restart", asUser, s.switchServices("restart"), "Restart services.", api.ServiceIDs{}, api.ServiceResults{}, false, ""},
	}
}

func (s *server) services(q *request) error {
	l, err := s.Inside.Services(q.Context(), q.call, q.ref(), q.user())
	if err != nil {
		return err
	}
	out := api.ServiceList{Services: []api.ServiceName{}}
	for _, u := range l {
		out.Services = append(out.Services, api.ServiceName{Name: u.Name, ActiveState: u.ActiveState, SubState: u.SubState, Description: u.Description})
	}
	return q.ok(out)
}

func (s *server) addService(q *request) error {
	var in vm.Unit
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r, err := s.Inside.AddService(q.Context(), q.call, q.ref(), q.user(), in)
	if err != nil {
		return err
	}
	return q.ok(api.AddedService{Success: r.Success, Message: r.Message, ServiceName: r.ServiceID})
}

func (s *server) removeService(q *request) error {
	r, err := s.Inside.RemoveService(q.Context(), q.call, q.ref(), q.user(), q.values["service"])
	if err != nil {
		return err
	}
	return q.ok(api.RemovedService{Success: r.Success, Message: r.Message})
}

func (s *server) serviceStatus(q *request) error {
	u, err := s.Inside.Service(q.Context(), q.call, q.ref(), q.user(), q.values["service"])
	if err != nil {
		return err
	}
	return q.ok(u)
}

func (s *server) serviceLogs(q *request) error {
	lines, err := q.int("lines", 0)
	if err != nil {
		return err
	}
	if follow, err := q.bool("follow"); err != nil || follow {
		if err != nil {
			return err
		}
		return s.followService(q, int(lines))
	}
	l, err := s.Inside.ServiceLogs(q.Context(), q.call, q.ref(), q.user(), q.values["service"], int(lines), q.query().Get("since"))
	if err != nil {
		return err
	}
	return q.ok(api.ServiceLogs{Logs: l})
}

func (s *server) switchServices(verb string) func(*request) error {
	return func(q *request) error {
		var in api.ServiceIDs
		if err := q.decode(&in, maxBody); err != nil {
			return err
		}
		var names []string
		for _, s := range in.Services {
			names = append(names, s.ID)
		}
		r, err := s.Inside.SwitchServices(q.Context(), q.call, q.ref(), q.user(), verb, names)
		if err != nil {
			return err
		}
		return q.ok(api.ServiceResults{Results: r})
	}
}
