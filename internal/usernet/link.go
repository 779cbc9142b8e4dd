// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	maxFrame  = 65535 + header.EthernetMinimumSize
	writeWait = 2 * time.Second      // how long a guest that does not read may block a writer
	stallWait = 1 * time.Millisecond // the same, after it has blocked one
)

// The cards at both ends of the segment; that of the guest is every VM's.
const (
	gatewayMAC tcpip.LinkAddress = "\x52\x55\x0a\x00\x02\x02"
	guestMAC   tcpip.LinkAddress = "\x52\x54\x00\x12\x34\x56"
)

// link is the segment's end at QEMU: frames with a 32-bit big-endian length on a
// connection that may be replaced. Like a cable, it drops frames for a guest that
// is gone or does not read.
type link struct {
	rx, tx atomic.Int64
	filter func(frame []byte) (reply []byte, ok bool) // constant

	mu   sync.RWMutex // guards disp and conn
	disp stack.NetworkDispatcher
	conn net.Conn

	wmu     sync.Mutex // guards the fields below; taken after mu
	wconn   net.Conn   // connection of the frame in carry
	buf     []byte
	carry   []byte // rest of a frame that a deadline cut
	stalled bool
}

var _ stack.LinkEndpoint = (*link)(nil)

func (l *link) MTU() uint32                      { return mtu + header.EthernetMinimumSize }
func (l *link) SetMTU(uint32)                    {}
func (l *link) MaxHeaderLength() uint16          { return 0 }
func (l *link) LinkAddress() tcpip.LinkAddress   { return gatewayMAC }
func (l *link) SetLinkAddress(tcpip.LinkAddress) {}
func (l *link) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}
func (l *link) Wait()                                   {}
func (l *link) Close()                                  {}
func (l *link) SetOnCloseAction(func())                 {}
func (l *link) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (l *link) AddHeader(*stack.PacketBuffer)           {}
func (l *link) ParseHeader(*stack.PacketBuffer) bool    { return true }

func (l *link) Attach(d stack.NetworkDispatcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disp = d
}

func (l *link) IsAttached() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.disp != nil
}

func (l *link) connected() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.conn != nil
}

// detach closes the connection; frames are dropped until the next run.
func (l *link) detach() {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// WritePackets sends frames to the guest.
func (l *link) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	l.mu.RLock()
	c := l.conn
	l.mu.RUnlock()
	if c == nil {
		return list.Len(), nil
	}
	l.wmu.Lock()
	defer l.wmu.Unlock()
	b := l.buf[:0]
	for _, p := range list.AsSlice() {
		b = binary.BigEndian.AppendUint32(b, uint32(p.Size()))
		for _, s := range p.AsSlices() {
			b = append(b, s...)
		}
	}
	l.buf = b
	l.writeLocked(c, b)
	if cap(l.buf) > 256<<10 {
		l.buf = nil
	}
	return list.Len(), nil
}

func (l *link) writeFrame(frame []byte) {
	l.mu.RLock()
	c := l.conn
	l.mu.RUnlock()
	if c == nil {
		return
	}
	l.wmu.Lock()
	defer l.wmu.Unlock()
	b := binary.BigEndian.AppendUint32(l.buf[:0], uint32(len(frame)))
	l.buf = append(b, frame...)
	l.writeLocked(c, l.buf)
}

// writeLocked writes whole frames. If the guest does not read in time, it drops the
// frames that were not begun and keeps the rest of a begun one, so that the stream
// stays in step.
func (l *link) writeLocked(c net.Conn, frames []byte) {
	if l.wconn != c {
		l.wconn, l.carry, l.stalled = c, nil, false
	}
	wait := writeWait
	if l.stalled {
		wait = stallWait
	}
	if c.SetWriteDeadline(time.Now().Add(wait)) != nil {
		return
	}
	if len(l.carry) > 0 {
		k, err := c.Write(l.carry)
		l.carry = l.carry[k:]
		if err != nil {
			l.stalled = errors.Is(err, os.ErrDeadlineExceeded)
			return
		}
	}
	k, err := c.Write(frames)
	l.tx.Add(int64(k))
	l.stalled = errors.Is(err, os.ErrDeadlineExceeded)
	if !l.stalled {
		return
	}
	for at := 0; at < k; {
		end := at + 4 + int(binary.BigEndian.Uint32(frames[at:]))
		if end > k {
			l.carry = append([]byte(nil), frames[k:end]...)
		}
		at = end
	}
}

// run reads frames from c until it ends.
func (l *link) run(c net.Conn) error {
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conn == c {
			l.conn = nil
		}
	}()
	br := bufio.NewReaderSize(c, 64<<10)
	for {
		var h [4]byte
		if _, err := io.ReadFull(br, h[:]); err != nil {
			return fmt.Errorf("read a frame from QEMU: %w", err)
		}
		size := int(binary.BigEndian.Uint32(h[:]))
		if size > maxFrame {
			return fmt.Errorf("read a frame from QEMU: a length of %d bytes is out of step", size)
		}
		if size == 0 {
			continue
		}
		v := buffer.NewViewSize(size)
		if _, err := io.ReadFull(br, v.AsSlice()); err != nil {
			v.Release()
			return fmt.Errorf("read a frame from QEMU: %w", err)
		}
		l.rx.Add(int64(size) + 4)
		l.deliver(v)
	}
}

// deliver passes one frame to the stack, if the filter allows it.
func (l *link) deliver(v *buffer.View) {
	reply, ok := l.filter(v.AsSlice())
	if reply != nil {
		l.writeFrame(reply)
	}
	l.mu.RLock()
	d := l.disp
	l.mu.RUnlock()
	if !ok || d == nil {
		v.Release()
		return
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(v)})
	defer pkt.DecRef()
	d.DeliverNetworkPacket(0, pkt)
}
