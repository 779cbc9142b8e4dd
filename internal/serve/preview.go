// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net"

	"github.com/warren-vm/warren/internal/gateway"
	"github.com/warren-vm/warren/internal/httpd"
)

// gateway makes the preview gateway; nil when previews are off.
func (s *stack) gateway() (*gateway.Gateway, error) {
	if s.previews == nil {
		return nil, nil
	}
	ca, err := gateway.OpenCA(s.dir, s.cfg.PreviewDomain)
	if err != nil {
		return nil, err
	}
	key, err := gateway.LinkKey(s.dir)
	if err != nil {
		return nil, err
	}
	port := 0
	if a, ok := s.previews.Addr().(*net.TCPAddr); ok {
		port = a.Port
	}
	return gateway.New(gateway.Config{
		Engine: s.engine, Log: s.log, Domain: s.cfg.PreviewDomain, Port: port, LinkKey: key, CA: ca,
	}), nil
}

// show serves previews until ctx ends.
func (s *stack) show(ctx context.Context, g *gateway.Gateway) error {
	if g == nil {
		<-ctx.Done()
		return nil
	}
	s.log.Info("previews", "address", s.previews.Addr(), "form", "https://<port>-<VM>."+s.cfg.PreviewDomain)
	return g.Serve(ctx, s.previews)
}

// previewsOf keeps a gateway that is off from looking like one.
func previewsOf(g *gateway.Gateway) httpd.Previews {
	if g == nil {
		return nil
	}
	return g
}
