// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

func itoa(n int) string { return strconv.Itoa(n) }

// hostOf returns the normalised host name of a request. It refuses requests
// that the gateway and a guest could understand as different hosts.
func (g *Gateway) hostOf(r *http.Request) (string, error) {
	switch {
	case r.Method == http.MethodConnect:
		return "", vm.Errorf(vm.Invalid, "CONNECT", "the gateway is not a proxy")
	case r.URL.Host != "" || r.URL.Scheme != "" || !strings.HasPrefix(r.URL.Path, "/"):
		return "", vm.Errorf(vm.Invalid, r.RequestURI, "the request names a host twice, or no path")
	}
	host := r.Host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", vm.Errorf(vm.Invalid, r.Host, "not a port")
		}
		host = h
	}
	return vm.HostName(host)
}

// find returns the VM's port that a name leads to. Mapped domains take precedence.
func (g *Gateway) find(name string) (vm.Site, bool) {
	if s, ok := g.Engine.DomainSite(name); ok {
		return s, true
	}
	port, ref, ok := g.named(name)
	if !ok {
		return vm.Site{}, false
	}
	return g.Engine.PreviewSite(ref, port)
}

// sandbox returns what answers a name of E2B's SDKs. Mapped domains take precedence.
func (g *Gateway) sandbox(name string) (http.Handler, bool) {
	label, _, below := g.below(name)
	if g.Sandboxes == nil || !below {
		return nil, false
	}
	if _, mapped := g.Engine.DomainSite(name); mapped {
		return nil, false
	}
	return g.Sandboxes.Label(label)
}

// DefaultPort is the port that a VM's own name shows, <id>.<preview domain>.
const DefaultPort = 3000

// named parses the host name of a preview.
func (g *Gateway) named(name string) (port uint16, ref string, ok bool) {
	label, _, ok := g.below(name)
	if !ok {
		return 0, "", false
	}
	if vm.IsID(label) {
		return DefaultPort, label, true
	}
	return ParseLabel(label)
}

// ParseLabel splits <port>-<name or id>, the first label of a preview's host.
func ParseLabel(label string) (uint16, string, bool) {
	digits, rest, ok := strings.Cut(label, "-")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || n == 0 || rest == "" || digits[0] == '0' {
		return 0, "", false
	}
	return uint16(n), rest, true
}

// Host returns the host name of a VM's port. ref is the VM's id, or its name if that is unique.
func (g *Gateway) Host(ref string, port uint16) string {
	return itoa(int(port)) + "-" + ref + "." + g.Domains[0]
}

// Names returns the names of a VM that need no mapping, one below each preview domain.
func (g *Gateway) Names(id vm.ID) []string {
	names := make([]string, len(g.Domains))
	for i, d := range g.Domains {
		names[i] = string(id) + "." + d
	}
	return names
}
