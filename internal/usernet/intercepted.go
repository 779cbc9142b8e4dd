// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"io"
	"net"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// intercept hands a connection to the interceptor, which ends its flow by closing c.
func (n *Net) intercept(f *flow, c *webConn, r egress.Request, dial func(ctx context.Context) (net.Conn, error)) {
	f.note(vm.NetIntercepted)
	n.cfg.Intercept.Serve(c, Intercepted{
		Name: r.Name, Port: r.Port,
		Dial:   func(ctx context.Context) (net.Conn, error) { return f.keep(dial(ctx)) },
		Policy: n.Policy,
		Judge: func(method, path string) (egress.Verdict, func()) {
			one := r
			one.Method, one.Path = method, path
			return f.open(one)
		},
		Note:   f.note,
		Refuse: func(method, path string, v egress.Verdict) { n.refuseRequest(f, r.Name, method, path, v) },
	})
}

// refuseRequest records an HTTP request that the policy does not allow. The record of the
// connection stays as it is.
func (n *Net) refuseRequest(f *flow, name, method, path string, v egress.Verdict) {
	n.rec.add(vm.Connection{
		Time: f.began, Proto: egress.TCP, Dest: f.dst.String(), Name: name,
		Reason: "HTTP request: " + v.Record(), How: vm.NetRefused, Rule: v.Rule, Policy: n.digest(), Method: cut(method, 32), Path: cut(path, 1<<10),
	}, v.Reason)
}

// cut bounds a guest's text for a record, and removes control bytes from it.
func cut(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return printable(s)
}

const scanned = 255 // bytes of earlier reads that a scan sees again

// scanner reads the guest's bytes and fails if they must not leave.
type scanner struct {
	net  *Net
	flow *flow
	src  io.Reader
	seen []byte
}

// scanned returns src, or a scanner of it while the policy has secrets.
func (n *Net) scanned(f *flow, src io.Reader) io.Reader {
	if n.cfg.ScanBytes == nil || len(n.Policy().Secrets) == 0 {
		return src
	}
	return &scanner{net: n, flow: f, src: src}
}

func (s *scanner) Read(b []byte) (int, error) {
	k, err := s.src.Read(b)
	if k > 0 {
		s.seen = append(s.seen, b[:k]...)
		if why := s.net.cfg.ScanBytes(s.net.Policy(), s.seen); why != "" {
			s.flow.stop("cut: " + why)
			s.net.refuse(s.flow.proto, s.flow.dst, "", egress.Verdict{Reason: why})
			return 0, errNotAllowed
		}
		if over := len(s.seen) - scanned; over > 0 {
			s.seen = append(s.seen[:0], s.seen[over:]...)
		}
	}
	return k, err
}
