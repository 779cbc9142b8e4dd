// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"encoding/binary"
	"net"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// The parts of DHCP (RFC 2131) that a fixed lease needs.
const (
	dhcpHeader   = 240 // with the magic cookie
	dhcpDiscover = 1
	dhcpOffer    = 2
	dhcpRequest  = 3
	dhcpAck      = 5
	dhcpNak      = 6
	dhcpInform   = 8

	optMask, optRouter, optDNS, optMTU         = 1, 3, 6, 26
	optRequested, optLease, optType, optServer = 50, 51, 53, 54
	optEnd, optPad                             = 255, 0
	leaseSeconds                               = 86400
)

var dhcpCookie = []byte{99, 130, 83, 99}

// serveDHCP gives the guest its one address.
func serveDHCP(c *gonet.UDPConn) {
	b := make([]byte, 1500)
	for {
		k, _, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		if r := dhcpReply(b[:k]); r != nil {
			_, _ = c.WriteTo(r, &net.UDPAddr{IP: net.IPv4bcast.To4(), Port: 68})
		}
	}
}

// dhcpReply answers one message; nil when it needs none.
func dhcpReply(q []byte) []byte {
	if len(q) < dhcpHeader || q[0] != 1 || !bytes.Equal(q[236:240], dhcpCookie) {
		return nil
	}
	opts := dhcpOptions(q[dhcpHeader:])
	kind := opts[optType]
	if len(kind) != 1 {
		return nil
	}
	gw, dns, guest := Gateway.As4(), NameServer.As4(), Guest.As4()
	if s := opts[optServer]; s != nil && !bytes.Equal(s, gw[:]) {
		return nil // the client took another server's offer
	}
	r := make([]byte, dhcpHeader, 300)
	copy(r, q[:44]) // header, addresses and the client's hardware address
	r[0] = 2
	clear(r[16:28])
	copy(r[236:], dhcpCookie)
	answer := byte(dhcpAck)
	switch kind[0] {
	case dhcpDiscover:
		answer = dhcpOffer
	case dhcpRequest:
		if want := opts[optRequested]; want != nil && !bytes.Equal(want, guest[:]) {
			return append(r, optType, 1, dhcpNak, optServer, 4, gw[0], gw[1], gw[2], gw[3], optEnd)
		}
	case dhcpInform:
	default:
		return nil
	}
	if kind[0] != dhcpInform {
		copy(r[16:20], guest[:])
	}
	add := func(opt byte, v ...byte) { r = append(append(r, opt, byte(len(v))), v...) }
	add(optType, answer)
	add(optServer, gw[:]...)
	if kind[0] != dhcpInform {
		add(optLease, binary.BigEndian.AppendUint32(nil, leaseSeconds)...)
	}
	add(optMask, 255, 255, 255, 0)
	add(optRouter, gw[:]...)
	add(optDNS, dns[:]...)
	add(optMTU, binary.BigEndian.AppendUint16(nil, mtu)...)
	return append(r, optEnd)
}

func dhcpOptions(b []byte) map[byte][]byte {
	out := make(map[byte][]byte)
	for len(b) > 0 && b[0] != optEnd {
		if b[0] == optPad {
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			break
		}
		out[b[0]] = b[2 : 2+int(b[1])]
		b = b[2+int(b[1]):]
	}
	return out
}
