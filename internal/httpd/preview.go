// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Previews is what the API needs of the preview gateway.
type Previews interface {
	// URL is the address of a host name on the gateway.
	URL(host string) string
	// Host is the host name of a port of a VM; ref is its id, or its unique name.
	Host(ref string, port uint16) string
	// Names are the names of a VM that need no mapping.
	Names(id vm.ID) []string
	// Link is an address that opens a port until expires.
	Link(site vm.Site, host string, expires time.Time) string
	// WatchLink is an address at which the screen of a VM can only be watched, until expires.
	WatchLink(site vm.Site, host string, expires time.Time) string
	// Ticket is an address that opens a port for an actor, once and within a short time.
	Ticket(a vm.Actor, site vm.Site, host string) (string, time.Time)
	// Certificate describes the certificate of a mapped name.
	Certificate(ctx context.Context, host string) string
	// Authority is the certificate of the gateway's own CA in PEM.
	Authority() []byte
}

func (s *server) previewRoutes() []route {
	return []route{
		{"GET", "/v1/ca", token, s.ca, "The certificate of the CA that signs preview names, as PEM.", nil, nil, false, ""},
		{"GET", "/v1/vms/{vm}/previews", granted, s.previews, "Ports that were made public, or private again.", nil, api.PreviewList{}, false, ""},
		{"GET", "/v1/vms/{vm}/previews/{port}", granted, s.preview, "One port at the preview gateway.", nil, api.Preview{}, false, ""},
		{"PUT", "/v1/vms/{vm}/previews/{port}", key, s.setPreview, "Make a port public, or private again.", api.SetPreview{}, api.Preview{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/previews/{port}", key, s.closePreview, "Make a port private and end every link to it.", nil, api.Preview{}, false, ""},
		{"POST", "/v1/vms/{vm}/previews/{port}/links", key, s.linkPreview, "Sign a link that opens a private port for a limited time.", api.NewLink{}, api.PreviewLink{}, false, ""},
		{"POST", "/v1/vms/{vm}/previews/{port}/tickets", granted, s.ticketPreview, "An address that logs a browser in to a port as the caller: for one use, within 30 seconds.", nil, api.PreviewLink{}, false, ""},
		{"GET", "/v1/vms/{vm}/dial/{port}", granted, s.dial, "A connection to a port of the guest, as binary messages of a WebSocket.", nil, nil, true, ""},
	}
}

func (q *request) port() (uint16, error) {
	n, err := strconv.ParseUint(q.values["port"], 10, 16)
	if err != nil || n == 0 {
		return 0, vm.Errorf(vm.Invalid, q.values["port"], "not a port").WithHint("give a number from 1 to 65535")
	}
	return uint16(n), nil
}

func (s *server) ca(q *request) error {
	if s.Previews == nil {
		return previewsOff()
	}
	q.header("application/x-pem-file")
	_, _ = q.w.Write(s.Previews.Authority())
	return nil
}

func previewsOff() error {
	return vm.Errorf(vm.Unsupported, "previews", "the preview gateway is off").WithHint("start the server with --preview ADDRESS")
}

// showPreview is a preview with its address, which uses the VM's name if that is unique.
func (s *server) showPreview(q *request, p vm.Preview) (api.Preview, error) {
	site, host, err := s.siteOf(q, p.Port)
	if err != nil {
		return api.Preview{}, err
	}
	out := api.Preview{VM: site.VM, Port: p.Port, Public: p.Public}
	if s.Previews != nil {
		out.URL = s.Previews.URL(host)
	}
	return out, nil
}

func (s *server) siteOf(q *request, port uint16) (vm.Site, string, error) {
	site, byName, err := s.Names.Site(q.Context(), q.call, q.ref(), port)
	if err != nil || s.Previews == nil {
		return site, "", err
	}
	if byName {
		return site, s.Previews.Host(site.Name, port), nil
	}
	return site, s.Previews.Host(string(site.VM), port), nil
}

func (s *server) previews(q *request) error {
	list, err := s.Names.Previews(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	out := api.PreviewList{Previews: []api.Preview{}}
	for _, p := range list {
		shown, err := s.showPreview(q, p)
		if err != nil {
			return err
		}
		out.Previews = append(out.Previews, shown)
	}
	return q.ok(out)
}

func (s *server) preview(q *request) error {
	port, err := q.port()
	if err != nil {
		return err
	}
	site, _, err := s.siteOf(q, port)
	if err != nil {
		return err
	}
	return s.sendPreview(q, vm.Preview{Port: port, Public: site.Public}, nil)
}

func (s *server) sendPreview(q *request, p vm.Preview, err error) error {
	if err != nil {
		return err
	}
	out, err := s.showPreview(q, p)
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) setPreview(q *request) error {
	var in api.SetPreview
	port, err := q.port()
	if err != nil {
		return err
	}
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	p, err := s.Names.SetPreview(q.Context(), q.call, q.ref(), port, in.Public)
	return s.sendPreview(q, p, err)
}

func (s *server) closePreview(q *request) error {
	port, err := q.port()
	if err != nil {
		return err
	}
	p, err := s.Names.ClosePreview(q.Context(), q.call, q.ref(), port)
	return s.sendPreview(q, p, err)
}

const (
	linkFor = time.Hour
	maxLink = 30 * 24 * time.Hour
)

func (s *server) linkPreview(q *request) error {
	var in api.NewLink
	port, err := q.port()
	if err != nil {
		return err
	}
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.Watch && port != vm.ScreenPort {
		return vm.Errorf(vm.Invalid, "watch", "only a screen can be watched, and port %d is none", port).WithHint("the screen's port is %d", vm.ScreenPort)
	}
	d := linkFor
	if in.For != 0 {
		if in.For < 0 || in.For > vm.Seconds(maxLink) {
			return vm.Errorf(vm.Invalid, "forSeconds", "%s is not within 1 second to 30 days", in.For)
		}
		d = time.Duration(in.For)
	}
	site, host, err := s.siteOf(q, port)
	if err != nil {
		return err
	}
	if s.Previews == nil {
		return previewsOff()
	}
	at, sign := time.Now().Add(d).UTC().Truncate(time.Second), s.Previews.Link
	if in.Watch {
		sign = s.Previews.WatchLink
	}
	return q.send(http.StatusOK, api.PreviewLink{URL: sign(site, host, at), ExpiresAt: at})
}

func (s *server) ticketPreview(q *request) error {
	port, err := q.port()
	if err != nil {
		return err
	}
	site, host, err := s.siteOf(q, port)
	if err != nil {
		return err
	}
	if s.Previews == nil {
		return previewsOff()
	}
	to, until := s.Previews.Ticket(q.call.Actor, site, host)
	return q.send(http.StatusOK, api.PreviewLink{URL: to, ExpiresAt: until.UTC()})
}
