// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"fmt"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const nic tcpip.NICID = 1

const maxInFlight = 256 // TCP connections being judged or dialled

// build makes the stack and starts its services.
func (n *Net) build() error {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	n.stack = s
	n.link = &link{filter: n.admit}
	if err := n.configure(); err != nil {
		s.Destroy()
		return fmt.Errorf("set up the VM's network: %w", err)
	}
	dns, err := n.bind(NameServer.As4(), 53)
	if err != nil {
		s.Destroy()
		return err
	}
	dhcp, err := n.bind([4]byte{}, 67)
	if err != nil {
		_ = dns.Close()
		s.Destroy()
		return err
	}
	n.start(func() { n.serveDNS(dns) }, func() { _ = dns.Close() })
	n.start(func() { serveDHCP(dhcp) }, func() { _ = dhcp.Close() })
	return nil
}

func (n *Net) configure() error {
	s := n.stack
	if err := s.CreateNIC(nic, ethernet.New(n.link)); err != nil {
		return errors.New(err.String())
	}
	for _, a := range [][4]byte{Gateway.As4(), NameServer.As4(), Services.As4()} {
		err := s.AddProtocolAddress(nic, tcpip.ProtocolAddress{
			Protocol:          ipv4.ProtocolNumber,
			AddressWithPrefix: tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(a), PrefixLen: 24},
		}, stack.AddressProperties{})
		if err != nil {
			return errors.New(err.String())
		}
	}
	// Every VM has the same card, so that nothing needs to ask for it; the stack
	// answers for every address outside.
	if err := s.AddStaticNeighbor(nic, ipv4.ProtocolNumber, tcpip.AddrFrom4(Guest.As4()), guestMAC); err != nil {
		return errors.New(err.String())
	}
	if err := s.SetSpoofing(nic, true); err != nil {
		return errors.New(err.String())
	}
	if err := s.SetPromiscuousMode(nic, true); err != nil {
		return errors.New(err.String())
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	if err := tune(s); err != nil {
		return err
	}
	tf := tcp.NewForwarder(s, 0, maxInFlight, n.handleTCP)
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, tf.HandlePacket)
	uf := udp.NewForwarder(s, n.handleUDP)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, uf.HandlePacket)
	return nil
}

// tune keeps buffers small and frees ended connections soon. Buffers hold only what
// is in flight; the figures are windows, not allocations.
func tune(s *stack.Stack) error {
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	rcv := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 256 << 10, Max: 1 << 20}
	snd := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 256 << 10, Max: 1 << 20}
	linger, timeWait := tcpip.TCPLingerTimeoutOption(10*time.Second), tcpip.TCPTimeWaitTimeoutOption(time.Second)
	retries := tcpip.TCPSynRetriesOption(3) // 15 s: a vanished guest must not occupy a slot for long
	for _, o := range []tcpip.SettableTransportProtocolOption{&retries, &sack, &moderate, &rcv, &snd, &linger, &timeWait} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("%T: %s", o, err)
		}
	}
	return nil
}

// bind opens a UDP port of the segment; the zero address means all of them.
func (n *Net) bind(addr [4]byte, port uint16) (*gonet.UDPConn, error) {
	at := tcpip.FullAddress{NIC: nic, Port: port}
	if addr != [4]byte{} {
		at.Addr = tcpip.AddrFrom4(addr)
	}
	wq := new(waiter.Queue)
	ep, err := n.stack.NewEndpoint(udp.ProtocolNumber, ipv4.ProtocolNumber, wq)
	if err != nil {
		return nil, fmt.Errorf("open UDP port %d of the VM's network: %s", port, err)
	}
	ep.SocketOptions().SetBroadcast(true)
	if err := ep.Bind(at); err != nil {
		ep.Close()
		return nil, fmt.Errorf("bind UDP port %d of the VM's network: %s", port, err)
	}
	return gonet.NewUDPConn(wq, ep), nil
}
