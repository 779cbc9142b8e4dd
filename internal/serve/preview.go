// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/gateway"
	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/names"
)

// previewRooms holds the rooms that the preview gateway uses.
type previewRooms struct {
	*engine.Engine
	*inside.Inside
	*names.Names
	*access.Access
}

// gateway makes the preview gateway, or nil when previews are off.
func (s *stack) gateway(lifetime context.Context) (*gateway.Gateway, error) {
	if s.previews == nil {
		return nil, nil
	}
	ca, err := gateway.OpenCA(s.dir, s.cfg.ownCA(), s.cfg.PreviewDomain)
	if err != nil {
		return nil, err
	}
	key, err := gateway.LinkKey(s.dir)
	if err != nil {
		return nil, err
	}
	certs, err := s.certificates(lifetime)
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Config{
		Engine: previewRooms{s.engine, s.house.Inside, s.house.Names, s.house.Access}, Log: s.log, Domains: s.cfg.PreviewDomain, Port: s.previewPort(), LinkKey: key, CA: ca, Certs: certs,
	}), nil
}

// previewPort is the port in the addresses of previews.
func (s *stack) previewPort() int {
	port, _ := strconv.Atoi(s.cfg.PreviewPort) // check has validated it
	if a, ok := s.previews.Addr().(*net.TCPAddr); ok && port == 0 {
		port = a.Port
	}
	return port
}

// certificates orders certificates of mapped and of preview domains. It is nil when the
// operator has named no ACME server.
func (s *stack) certificates(lifetime context.Context) (*gateway.Certs, error) {
	if s.cfg.ACMEDirectory == "" && s.cfg.ACMEEmail == "" {
		return nil, nil
	}
	return gateway.NewCerts(lifetime, gateway.CertConfig{
		Directory: s.cfg.ACMEDirectory, Email: s.cfg.ACMEEmail, Store: s.dir.Certificates(), Address: s.previews.Addr(),
		May: s.house.Names.MayCertify, Own: s.cfg.certified(), DNSHook: s.cfg.ACMEDNSHook, Log: s.log,
	})
}

// resolver is the resolver for verifications; nil = the system's.
func (s *stack) resolver() names.Resolver {
	if s.cfg.Resolver == "" {
		return nil
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.cfg.Resolver)
	}}
}

// show serves previews until ctx ends.
func (s *stack) show(ctx context.Context, g *gateway.Gateway) error {
	if g == nil {
		<-ctx.Done()
		return nil
	}
	if g.Certs != nil {
		defer g.Certs.Close()
		var sweep sync.WaitGroup
		defer sweep.Wait()
		sweep.Go(func() { // ends with ctx
			if err := g.Certs.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("sweeping old certificates", "err", err)
			}
		})
	}
	return g.Serve(ctx, s.previews)
}

// previewsOf converts a nil gateway to a nil interface.
func previewsOf(g *gateway.Gateway) httpd.Previews {
	if g == nil {
		return nil
	}
	return g
}
