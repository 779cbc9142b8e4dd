// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"github.com/warren-vm/warren/internal/e2b"
	"github.com/warren-vm/warren/internal/gateway"
	"github.com/warren-vm/warren/vm"
)

// sandboxes makes the door for the SDKs of E2B.
func (s *stack) sandboxes(lifetime context.Context) (*e2b.Door, error) {
	secret, err := gateway.LinkKey(s.dir)
	if err != nil {
		return nil, err
	}
	domain := ""
	if s.previews != nil && len(s.cfg.PreviewDomain) > 0 {
		domain = s.cfg.PreviewDomain[0]
		if port := s.previewPort(); port != 443 {
			domain = net.JoinHostPort(domain, strconv.Itoa(port))
		}
	}
	h := s.house
	return e2b.New(e2b.Config{
		Engine: h.Engine, Inside: h.Inside, Access: h.Access, Policy: h.Policy, Journal: h.Journal, Log: s.log, Secret: secret, Domain: domain, Lifetime: lifetime, Dir: s.dir,
		Pace: s.pace, DefaultNetwork: cmp.Or(vm.NetworkMode(s.cfg.NetDefault), vm.NetClosed),
	}), nil
}
