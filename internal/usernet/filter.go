// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"encoding/binary"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/warren-vm/warren/vm"
)

// admit filters the segment: ARP and IPv4 from the guest's own address pass,
// everything else is dropped. An echo request to the outside is answered with
// "administratively prohibited"; otherwise the stack would answer it for any
// address.
func (n *Net) admit(frame []byte) (reply []byte, ok bool) {
	if len(frame) < header.EthernetMinimumSize {
		return nil, false
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case uint16(header.ARPProtocolNumber):
		return nil, true
	case uint16(header.IPv4ProtocolNumber):
	default:
		return nil, false
	}
	p := frame[header.EthernetMinimumSize:]
	if len(p) < header.IPv4MinimumSize || p[0]>>4 != 4 {
		return nil, false
	}
	hlen := int(p[0]&15) * 4
	if hlen < header.IPv4MinimumSize || len(p) < hlen+8 {
		return nil, false
	}
	src, dst := netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	proto, first := p[9], binary.BigEndian.Uint16(p[6:])&0x1fff == 0
	dhcp := proto == uint8(header.UDPProtocolNumber) && first && binary.BigEndian.Uint16(p[hlen+2:]) == 67
	if src != Guest && (!dhcp || !src.IsUnspecified()) {
		return nil, false
	}
	last := dst.As4()
	if dst.IsLoopback() {
		return nil, false // no honest kernel sends it
	}
	if dst.IsMulticast() || dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || last == [4]byte{10, 0, 2, 255} {
		return nil, dhcp
	}
	if proto == uint8(header.ICMPv4ProtocolNumber) && dst != Gateway && dst != NameServer && dst != Services {
		if first && p[hlen] == uint8(header.ICMPv4Echo) {
			const why = "ping to the outside is refused"
			n.rec.add(vm.Connection{Time: time.Now(), Proto: "icmp", Dest: dst.String(), Reason: why}, why)
			return prohibited(frame, p[:hlen+8]), false
		}
		return nil, false
	}
	return nil, true
}

// prohibited builds the ICMP answer to a frame whose IP header and first eight
// bytes are quoted.
func prohibited(frame, quote []byte) []byte {
	const ipAt, icmpAt = header.EthernetMinimumSize, header.EthernetMinimumSize + header.IPv4MinimumSize
	out := make([]byte, icmpAt+header.ICMPv4MinimumSize+len(quote))
	copy(out, frame[6:12])
	copy(out[6:], frame[:6])
	binary.BigEndian.PutUint16(out[12:], uint16(header.IPv4ProtocolNumber))
	ip := out[ipAt:icmpAt]
	ip[0], ip[8], ip[9] = 0x45, 64, uint8(header.ICMPv4ProtocolNumber)
	binary.BigEndian.PutUint16(ip[2:], uint16(len(out)-ipAt))
	gw, guest := Gateway.As4(), Guest.As4()
	copy(ip[12:], gw[:])
	copy(ip[16:], guest[:])
	binary.BigEndian.PutUint16(ip[10:], ^checksum.Checksum(ip, 0))
	icmp := out[icmpAt:]
	icmp[0], icmp[1] = uint8(header.ICMPv4DstUnreachable), 13
	copy(icmp[header.ICMPv4MinimumSize:], quote)
	binary.BigEndian.PutUint16(icmp[2:], ^checksum.Checksum(icmp, 0))
	return out
}
