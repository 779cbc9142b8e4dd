// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

const (
	agentChannel = "auth-agent@openssh.com"
	// resolveWithin limits how long the guest may resolve a name.
	resolveWithin = 15 * time.Second
	// resolvedFor is how long an answer is cached.
	resolvedFor  = 30 * time.Second
	maxAddresses = 4 // addresses of a name that are tried
)

// resolved is the guest's answer for a name.
type resolved struct {
	at   time.Time
	list []netip.Addr
}

// tcpPayload is the payload of both kinds of TCP channel.
type tcpPayload struct {
	Host       string
	Port       uint32
	OriginHost string
	OriginPort uint32
}

// directTCP connects to an address in the guest's network: ssh -L, -D and -W.
func (c *client) directTCP(nc ssh.NewChannel) {
	var p tcpPayload
	if ssh.Unmarshal(nc.ExtraData(), &p) != nil || p.Port == 0 || p.Port > 65535 {
		_ = nc.Reject(ssh.ConnectionFailed, "not an address")
		return
	}
	addrs, err := c.resolve(p.Host)
	var conn net.Conn
	for _, a := range addrs {
		if conn, err = c.dial("tcp", netip.AddrPortFrom(a, uint16(p.Port)).String()); err == nil {
			break
		}
	}
	c.connected(nc, conn, err)
}

// directUnix connects to a socket in the guest's file system.
func (c *client) directUnix(nc ssh.NewChannel) {
	var p struct {
		Path      string
		Reserved  string
		Reserved2 uint32
	}
	if ssh.Unmarshal(nc.ExtraData(), &p) != nil {
		_ = nc.Reject(ssh.ConnectionFailed, "not a path")
		return
	}
	conn, err := c.dial("unix", p.Path)
	c.connected(nc, conn, err)
}

func (c *client) dial(network, address string) (net.Conn, error) {
	return c.s.cfg.Engine.DialSocket(c.ctx, c.call(), c.ref, vm.SocketSpec{User: c.name, Network: network, Address: address})
}

// connected joins a channel and a connection, or rejects the channel.
func (c *client) connected(nc ssh.NewChannel, conn net.Conn, err error) {
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, strings.TrimSpace(explain(c.s.cfg.Engine.Conceal(err))))
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	relay(ch, requests, conn)
}

// resolve finds the addresses of a name in the guest, as a program in it would:
// with its hosts file, its resolver and its network policy.
func (c *client) resolve(name string) ([]netip.Addr, error) {
	if name == "localhost" || name == "" || name == "*" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a}, nil
	}
	c.mu.Lock()
	r, ok := c.names[name]
	c.mu.Unlock()
	if ok && time.Since(r.at) < resolvedFor {
		return r.list, nil
	}
	if strings.HasPrefix(name, "-") {
		return nil, vm.Errorf(vm.Invalid, name, "is not a host name")
	}
	ctx, stop := context.WithTimeout(c.ctx, resolveWithin)
	defer stop()
	x, err := c.s.cfg.Engine.Exec(ctx, c.call(), c.ref, vm.ExecSpec{
		Argv: []string{"getent", "ahosts", name}, User: c.name, Cwd: "/", Timeout: vm.Millis(resolveWithin),
	})
	if err != nil {
		return nil, err
	}
	var out limited
	_, err = x.Run(&out, &limited{})
	if err == nil || ctx.Err() != nil { // else the machine has ended, and must not wake for this
		// The user did not start this command.
		_ = c.s.cfg.Engine.ForgetProcess(context.WithoutCancel(ctx), c.call(), c.ref, c.name, x.Process().ID)
	}
	if err != nil {
		return nil, err
	}
	r = resolved{at: time.Now()}
	for line := range bytes.Lines(out.b) {
		first, _, _ := strings.Cut(string(line), " ")
		a, err := netip.ParseAddr(first)
		if err == nil && strings.Contains(string(line), "STREAM") && len(r.list) < maxAddresses {
			r.list = append(r.list, a)
		}
	}
	if len(r.list) == 0 {
		return nil, vm.Errorf(vm.NotFound, name, "the guest knows no such host")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil || len(c.names) > maxStreams {
		c.names = map[string]resolved{}
	}
	c.names[name] = r
	return r.list, nil
}

// limited keeps the beginning of the data written to it.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.b = append(l.b, p[:min(len(p), 64<<10-len(l.b))]...)
	return len(p), nil
}

// reserve counts a forward before any work begins, so that a client cannot
// exceed its limit with concurrent requests. A forward whose port the guest
// chooses gets a temporary name until the port is known.
func (c *client) reserve(spec vm.SocketSpec, key string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if anyPort(spec) {
		c.unnamed++
		key += "#" + strconv.Itoa(c.unnamed)
	}
	_, taken := c.forwards[key]
	if taken || len(c.forwards) >= maxForwards {
		return "", false
	}
	c.forwards[key] = nil
	return key, true
}

// place stores a listener under the name by which the client will cancel it.
// It refuses a name that is taken.
func (c *client) place(l engine.SocketListener, reserved, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.forwards, reserved)
	if _, taken := c.forwards[key]; taken {
		return false
	}
	c.forwards[key] = l
	return true
}

// release removes a forward, unless another one has its name by now.
func (c *client) release(l engine.SocketListener, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forwards[key] == l {
		delete(c.forwards, key)
	}
}

// anyPort reports whether the guest chooses the port.
func anyPort(spec vm.SocketSpec) bool {
	return spec.Network == "tcp" && strings.HasSuffix(spec.Address, ":0")
}

// forward listens in the guest for the client: ssh -R. key is its reservation.
func (c *client) forward(r *ssh.Request, spec vm.SocketSpec, key string) {
	spec.User = c.name
	l, err := c.s.cfg.Engine.ListenSocket(c.ctx, c.call(), c.ref, spec)
	if err != nil {
		c.s.cfg.Log.Debug("ssh: a forward was refused", "vm", c.ref, "address", spec.Address, "err", err)
		c.release(nil, key)
		_ = r.Reply(false, nil)
		return
	}
	defer shut(l)
	reserved := key
	port := uint32(0)
	var reply []byte
	if ap, err := netip.ParseAddrPort(l.Address()); err == nil {
		port = uint32(ap.Port())
		if anyPort(spec) {
			reply = ssh.Marshal(struct{ Port uint32 }{port})
			key = key[:strings.LastIndexByte(key, ':')] + ":" + strconv.Itoa(int(port))
		}
	}
	if !c.place(l, reserved, key) {
		_ = r.Reply(false, nil)
		return
	}
	defer c.release(l, key)
	if c.ctx.Err() != nil || r.Reply(true, reply) != nil {
		return
	}
	c.serveForward(l, key, spec.Network, port)
}

// forwardSpec parses a request to listen. TCP listens on the guest's loopback
// whatever address is requested, as OpenSSH's server does by default.
func forwardSpec(r *ssh.Request) (s vm.SocketSpec, key string, ok bool) {
	if strings.HasSuffix(r.Type, "streamlocal-forward@openssh.com") {
		var p struct{ Path string }
		ok := ssh.Unmarshal(r.Payload, &p) == nil && p.Path != ""
		return vm.SocketSpec{Network: "unix", Address: p.Path}, "unix " + p.Path, ok
	}
	var p struct {
		Host string
		Port uint32
	}
	if ssh.Unmarshal(r.Payload, &p) != nil || p.Port > 65535 {
		return s, "", false
	}
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if p.Host == "::1" {
		ip = netip.IPv6Loopback()
	}
	address := netip.AddrPortFrom(ip, uint16(p.Port)).String()
	return vm.SocketSpec{Network: "tcp", Address: address}, p.Host + ":" + strconv.Itoa(int(p.Port)), true
}

// unforward cancels a forward. One that is still being made does not count.
func (c *client) unforward(r *ssh.Request) bool {
	_, key, ok := forwardSpec(r)
	if !ok {
		return false
	}
	c.mu.Lock()
	l := c.forwards[key]
	c.mu.Unlock()
	if l == nil {
		return false
	}
	c.release(l, key)
	_ = l.Close()
	return true
}

// serveForward passes connections to the client.
func (c *client) serveForward(l engine.SocketListener, key, network string, port uint32) {
	host, _ := strings.CutSuffix(key, ":"+strconv.Itoa(int(port)))
	c.accept(l, func(peer string) (string, []byte) {
		if network == "unix" {
			return "forwarded-streamlocal@openssh.com", ssh.Marshal(struct{ Path, Reserved string }{strings.TrimPrefix(key, "unix "), ""})
		}
		p := tcpPayload{Host: host, Port: port, OriginHost: "127.0.0.1"}
		if ap, err := netip.ParseAddrPort(peer); err == nil {
			p.OriginHost, p.OriginPort = ap.Addr().String(), uint32(ap.Port())
		}
		return "forwarded-tcpip", ssh.Marshal(p)
	})
}

// accept opens a channel to the client for each connection.
func (c *client) accept(l engine.SocketListener, about func(peer string) (kind string, payload []byte)) {
	var open streams
	for {
		conn, peer, err := l.Accept()
		if err != nil {
			break
		}
		if !open.begin() {
			_ = conn.Close()
			continue
		}
		go func() { // ends with the connection to the client
			defer open.end()
			kind, payload := about(peer)
			ch, requests, err := c.conn.OpenChannel(kind, payload)
			if err != nil {
				_ = conn.Close()
				return
			}
			relay(ch, requests, conn)
		}()
	}
	open.wait()
}

// forwardAgent creates a socket in the guest that leads to the client's agent.
func (s *session) forwardAgent() bool {
	if s.agent != nil {
		return true
	}
	l, err := s.c.s.cfg.Engine.ListenSocket(s.ctx, s.c.call(), s.c.ref, vm.SocketSpec{User: s.c.name, Network: "unix"})
	if err != nil {
		s.c.s.cfg.Log.Debug("ssh: an agent was not forwarded", "vm", s.c.ref, "err", err)
		return false
	}
	s.agent = l
	s.over.Go(func() { s.c.accept(l, func(string) (string, []byte) { return agentChannel, nil }) })
	return true
}
