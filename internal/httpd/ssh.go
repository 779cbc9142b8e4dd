// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"net"
	"strings"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// SSH is the SSH gateway.
type SSH interface {
	// ServeActor serves a connection of a caller that the API has authenticated.
	ServeActor(ctx context.Context, conn net.Conn, from string, a vm.Actor, ref string)
	// HostKey is the public host key in the form of known_hosts: type and key.
	HostKey() string
}

func (s *server) sshRoutes() []route {
	return []route{
		{"GET", "/v1/ssh", token, s.sshInfo, "Where the SSH gateway listens, and its host key.", nil, api.SSHInfo{}, false, ""},
		{"GET", "/v1/vms/{vm}/ssh", granted, s.sshSocket, "SSH over a WebSocket: its binary messages are the bytes of a connection to the gateway, which needs no further login; the SSH user is the Linux user.", nil, nil, true, ""},
	}
}

func (s *server) sshInfo(q *request) error {
	if s.SSH == nil {
		return noSSH()
	}
	return q.ok(api.SSHInfo{Address: s.SSHAddress, HostKey: s.SSH.HostKey()})
}

func noSSH() error { return vm.Errorf(vm.Unsupported, "ssh", "this server has no SSH gateway") }

// sshSocket connects the caller's WebSocket to the gateway.
func (s *server) sshSocket(q *request) error {
	rec, err := s.Engine.Get(q.Context(), q.call, q.ref()) // refuse while an HTTP status is still possible
	switch {
	case err != nil:
		return err
	case s.SSH == nil:
		return noSSH()
	case !strings.EqualFold(q.Header.Get("Upgrade"), "websocket"):
		return vm.Errorf(vm.Invalid, q.URL.Path, "is a WebSocket").WithHint("`warren ssh-config` writes what OpenSSH needs for it")
	}
	conn, err := s.upgrade(q)
	if err != nil {
		return nil // Accept has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1) // the gateway has its own limit
	ctx, cancel := s.streaming(q)
	defer cancel()
	from, _, err := net.SplitHostPort(q.RemoteAddr)
	if err != nil {
		from = q.RemoteAddr
	}
	s.SSH.ServeActor(ctx, websocket.NetConn(ctx, conn, websocket.MessageBinary), from, q.call.Actor, string(rec.ID))
	return nil
}
