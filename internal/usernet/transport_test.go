// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

var echoAddr = netip.MustParseAddrPort("203.0.113.7:7")

// A half-close is passed on, both ways.
func TestHalfClose(t *testing.T) {
	w := newWorld(t, open)
	w.route("tcp", echoAddr, w.listen(func(c *net.TCPConn) {
		b, _ := io.ReadAll(c) // only ends when the guest's FIN arrives
		_, _ = c.Write(append([]byte("got "), b...))
	}))
	c := w.mustConnect(echoAddr.String())
	defer c.Close()
	_, _ = c.Write([]byte("all of it"))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if b, err := io.ReadAll(c); err != nil || string(b) != "got all of it" {
		t.Errorf("the answer after the half close ended with %v after %q, want all of it", err, b)
	}
}

// A reset of the server's is a reset for the guest, not an orderly end.
func TestServerReset(t *testing.T) {
	w := newWorld(t, open)
	w.route("tcp", echoAddr, w.listen(func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.SetLinger(0)
	}))
	c := w.mustConnect(echoAddr.String())
	defer c.Close()
	_, _ = c.Write([]byte("x"))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the guest sees %v, want a reset", err)
	}
}

// Much data arrives whole, both ways at once.
func TestLargeTransfer(t *testing.T) {
	const size = 48 << 20
	w := newWorld(t, open)
	sum := func(seed uint64) [32]byte {
		h := sha256.New()
		_, _ = io.CopyN(h, rand.NewChaCha8([32]byte{byte(seed)}), size)
		return [32]byte(h.Sum(nil))
	}
	hostGot := make(chan [32]byte, 1)
	w.route("tcp", echoAddr, w.listen(func(c *net.TCPConn) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.CopyN(c, rand.NewChaCha8([32]byte{2}), size)
			_ = c.CloseWrite()
		})
		h := sha256.New()
		_, _ = io.Copy(h, c)
		wg.Wait()
		hostGot <- [32]byte(h.Sum(nil))
	}))
	c := w.mustConnect(echoAddr.String())
	defer c.Close()
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.CopyN(c, rand.NewChaCha8([32]byte{1}), size)
		_ = c.CloseWrite()
	})
	h := sha256.New()
	if n, err := io.Copy(h, c); err != nil || n != size {
		t.Fatalf("the guest got %d bytes: %v", n, err)
	}
	wg.Wait()
	t.Logf("%.0f MB/s together", 2*size/1e6/time.Since(began).Seconds())
	if [32]byte(h.Sum(nil)) != sum(2) {
		t.Error("the guest got other bytes")
	}
	if <-hostGot != sum(1) {
		t.Error("the host got other bytes")
	}
	rx, tx := w.net.Counters()
	if rx < size || tx < size {
		t.Errorf("counters %d and %d", rx, tx)
	}
}

// The number of connections is bounded, and places come free again.
func TestManyConnections(t *testing.T) {
	w := newWorld(t, open)
	w.route("tcp", echoAddr, w.listen(func(c *net.TCPConn) { _, _ = io.Copy(c, c) }))
	var conns []*gonet.TCPConn
	for range maxFlows {
		c := w.mustConnect(echoAddr.String())
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	w.mustReset(echoAddr.String())
	w.refused(echoAddr.String(), "too many connections")
	for _, c := range conns {
		_ = c.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); len(w.net.Live()) > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections stay", len(w.net.Live()))
		}
	}
	_ = w.mustConnect(echoAddr.String()).Close()
}

// A guest that knocks at everything does not flood the record.
func TestRefusalsAreBounded(t *testing.T) {
	w := newWorld(t, closed)
	for range 400 {
		w.net.refuse("tcp", echoAddr, "", egress.Verdict{Reason: "no"})
	}
	w.mu.Lock()
	k := len(w.records)
	w.mu.Unlock()
	if k < 150 || k > 300 {
		t.Errorf("%d records of 400 refusals", k)
	}
	for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		w.net.refuse("tcp", echoAddr, "", egress.Verdict{Reason: "no"})
		w.mu.Lock()
		last := w.records[len(w.records)-1].Reason
		w.mu.Unlock()
		if strings.Contains(last, "more refusals that were not recorded") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the last record is %q", last)
		}
	}
}

// The host dials into the guest, whatever the policy.
func TestDial(t *testing.T) {
	w := newWorld(t, closed)
	l, err := gonet.ListenTCP(w.guest, tcpip.FullAddress{NIC: 1, Port: 8080}, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err.Error()
			return
		}
		defer c.Close()
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		_, _ = io.Copy(c, c)
		done <- host
	}()
	c, err := w.net.Dial(t.Context(), 8080)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("both ways "), 20000)
	go func() { _, _ = c.Write(want); _ = c.(interface{ CloseWrite() error }).CloseWrite() }()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back of %d: %v", len(got), len(want), err)
	}
	_ = c.Close()
	if from := <-done; from != Gateway.String() {
		t.Errorf("the guest saw %q, want the gateway", from)
	}
	_ = l.Close()

	began := time.Now()
	if _, err := w.net.Dial(t.Context(), 8081); vm.KindOf(err) != vm.Unavailable || time.Since(began) > time.Second {
		t.Errorf("a dial to a port without a server gives %v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w.wire.detach()
	for w.net.link.connected() {
		runtime.Gosched()
	}
	if _, err := w.net.Dial(ctx, 8080); vm.KindOf(err) != vm.Unavailable {
		t.Errorf("a dial to a guest that is gone gives %v", err)
	}
}

// guestless is a network and the two ends of a link that nobody is behind.
func guestless(t *testing.T) (n *Net, a, b net.Conn) {
	t.Helper()
	n, err := New(Config{Policy: closed})
	if err != nil {
		t.Fatal(err)
	}
	a, b = socketPair(t)
	t.Cleanup(func() {
		_ = b.Close()
		n.Close()
	})
	return n, a, b
}

// A guest that does not answer costs the caller its own deadline only.
func TestDialSilentGuest(t *testing.T) {
	n, a, b := guestless(t)
	served := make(chan error, 1)
	go func() { served <- n.Serve(t.Context(), a) }()
	for !n.link.connected() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.Dial(ctx, 80); vm.KindOf(err) != vm.Timeout {
		t.Errorf("%v, want a timeout", err)
	}
	_ = b.Close()
	if err := <-served; err == nil {
		t.Error("Serve says nothing of a peer that went away")
	}
}

// The link may be replaced, as when a monitor re-attaches.
func TestReconnect(t *testing.T) {
	w := newWorld(t, open)
	w.route("tcp", echoAddr, w.listen(func(c *net.TCPConn) { _, _ = io.Copy(c, c) }))
	_ = w.mustConnect(echoAddr.String()).Close()
	w.net.link.detach()
	w.serve.Wait()
	w.plug()
	c := w.mustConnect(echoAddr.String())
	defer c.Close()
	_, _ = c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// A connection of before a restore is answered by RST: the program notices and
// connects again.
func TestConnectionOfAnotherLife(t *testing.T) {
	w := newWorld(t, open)
	w.route("tcp", echoAddr, w.listen(func(c *net.TCPConn) { _, _ = io.Copy(c, c) }))
	c := w.mustConnect(echoAddr.String())
	defer c.Close()
	fresh, err := New(Config{Policy: open})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	w.net.link.detach()
	w.serve.Wait()
	a, b := socketPair(t)
	w.serve.Go(func() { _ = fresh.Serve(t.Context(), a) })
	w.serve.Go(func() { _ = w.wire.run(b); _ = b.Close() })
	for !w.wire.connected() || !fresh.link.connected() {
		runtime.Gosched()
	}
	_, _ = c.Write([]byte("still there?"))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("%v, want a reset", err)
	}
}

// A guest that stops reading loses frames, never the stream's step.
func TestStalledGuest(t *testing.T) {
	a, b := socketPair(t)
	defer a.Close()
	defer b.Close()
	l := &link{stalled: true, wconn: a}
	frame := append([]byte{0, 0, 3, 232}, bytes.Repeat([]byte{7}, 1000)...)
	for range 300 {
		l.writeLocked(a, bytes.Repeat(frame, 3))
	}
	if !l.stalled {
		t.Fatal("1 MB fits into a socket that nobody reads")
	}
	read := make(chan int, 1)
	go func() {
		n := 0
		for {
			var h [4]byte
			if _, err := io.ReadFull(b, h[:]); err != nil {
				read <- n
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(h[:]))
			if _, err := io.ReadFull(b, body); err != nil || len(body) != 1000 || body[0] != 7 || body[999] != 7 {
				t.Errorf("out of step after %d frames: %v, length %d", n, err, len(body))
				read <- n
				return
			}
			n++
		}
	}()
	for range 100 {
		l.writeLocked(a, frame)
	}
	_ = a.Close()
	if n := <-read; n < 100 {
		t.Errorf("%d frames", n)
	}
}

// A peer that is not QEMU is turned away.
func TestOutOfStepPeer(t *testing.T) {
	n, a, b := guestless(t)
	_, _ = b.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	if err := n.Serve(t.Context(), a); err == nil || !strings.Contains(err.Error(), "out of step") {
		t.Errorf("Serve = %v", err)
	}
}

// An idle network is small: the monitor of an idle VM has 12 MB in all.
func TestFootprint(t *testing.T) {
	const count = 20
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	warmUp, err := New(Config{Policy: closed})
	if err != nil {
		t.Fatal(err)
	}
	defer warmUp.Close()
	before, goroutines := heap(), runtime.NumGoroutine()
	nets := make([]*Net, count)
	for i := range nets {
		if nets[i], err = New(Config{Policy: closed}); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / count
	t.Logf("%d KiB and %d goroutines each", each>>10, (runtime.NumGoroutine()-goroutines)/count)
	if each > 512<<10 {
		t.Errorf("an idle network takes %d KiB", each>>10)
	}
	for _, n := range nets {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDHCP(t *testing.T) {
	ask := func(kind byte, opts ...byte) map[byte][]byte {
		t.Helper()
		q := make([]byte, dhcpHeader)
		q[0], q[1], q[2] = 1, 1, 6
		copy(q[4:8], "tran")
		copy(q[28:34], guestMAC)
		copy(q[236:], dhcpCookie)
		r := dhcpReply(append(append(append(q, 53, 1, kind), opts...), 255))
		if r == nil {
			return nil
		}
		if r[0] != 2 || string(r[4:8]) != "tran" || string(r[28:34]) != string(guestMAC) {
			t.Errorf("header % x", r[:34])
		}
		out := dhcpOptions(r[dhcpHeader:])
		out[0] = r[16:20]
		return out
	}
	offer := ask(dhcpDiscover, 55, 2, 1, 3)
	if string(offer[53]) != "\x02" || string(offer[0]) != "\x0a\x00\x02\x0f" || string(offer[3]) != "\x0a\x00\x02\x02" || string(offer[6]) != "\x0a\x00\x02\x03" || string(offer[1]) != "\xff\xff\xff\x00" {
		t.Errorf("offer %v", offer)
	}
	if ack := ask(dhcpRequest, 50, 4, 10, 0, 2, 15, 54, 4, 10, 0, 2, 2); string(ack[53]) != "\x05" || len(ack[51]) != 4 {
		t.Errorf("ack %v", ack)
	}
	if nak := ask(dhcpRequest, 50, 4, 192, 168, 1, 9); string(nak[53]) != "\x06" {
		t.Errorf("another address: %v", nak)
	}
	if r := ask(dhcpRequest, 54, 4, 192, 168, 1, 1); r != nil {
		t.Errorf("another server's lease: %v", r)
	}
	if r := ask(7); r != nil {
		t.Errorf("release: %v", r)
	}
}

// The whole exchange over the segment, from a guest without an address.
func TestDHCPOverTheWire(t *testing.T) {
	n, a, b := guestless(t)
	served := make(chan struct{})
	go func() { defer close(served); _ = n.Serve(t.Context(), a) }()
	q := make([]byte, dhcpHeader)
	q[0] = 1
	copy(q[236:], dhcpCookie)
	q = append(q, 53, 1, 1, 255)
	udp := binary.BigEndian.AppendUint16(nil, 68)
	udp = binary.BigEndian.AppendUint16(udp, 67)
	udp = append(binary.BigEndian.AppendUint16(udp, uint16(8+len(q))), 0, 0)
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+8+len(q)))
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	frame := append([]byte{255, 255, 255, 255, 255, 255}, guestMAC...)
	frame = append(append(append(append(frame, 8, 0), ip...), udp...), q...)
	_, _ = b.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	_ = b.SetReadDeadline(time.Now().Add(5 * time.Second))
	var h [4]byte
	if _, err := io.ReadFull(b, h[:]); err != nil {
		t.Fatal(err)
	}
	r := make([]byte, binary.BigEndian.Uint32(h[:]))
	if _, err := io.ReadFull(b, r); err != nil {
		t.Fatal(err)
	}
	if len(r) < 42+dhcpHeader || !bytes.Equal(r[42+16:42+20], []byte{10, 0, 2, 15}) {
		t.Errorf("offer % x", r)
	}
	_ = b.Close()
	<-served
}

func hello(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0)
	ext := bytes.Join(extensions, nil)
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(ext))), ext...)
	msg := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return msg
}

func sni(name string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(name)+5))
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)+3))
	b = append(b, 0)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(name))), name...)
}

func record(b []byte) []byte {
	return append([]byte{22, 3, 1, byte(len(b) >> 8), byte(len(b))}, b...)
}

func TestClientHello(t *testing.T) {
	good := hello(sni("Reg.Example."))
	tests := []struct {
		name string
		in   []byte
		want clientHello
		err  string
	}{
		{"plain", record(good), clientHello{ServerName: "reg.example"}, ""},
		{"in two records", append(record(good[:3]), record(good[3:])...), clientHello{ServerName: "reg.example"}, ""},
		{"no name", record(hello()), clientHello{}, ""},
		{"hidden name", record(hello(sni("front.example"), []byte{0xfe, 0x0d, 0, 1, 0})), clientHello{ServerName: "front.example", Encrypted: true}, ""},
		{"two names", record(hello(sni("a.example"), sni("b.example"))), clientHello{}, "two servers"},
		{"NUL in the name", record(hello(sni("a.example\x00.evil"))), clientHello{}, "not a host name"},
		{"cut", record(good)[:40], clientHello{}, "ended early"},
		{"no handshake", []byte("22 hours of nothing"), clientHello{}, "not a TLS"},
		{"a server's", record([]byte{2, 0, 0, 0}), clientHello{}, "not a client's"},
		{"endless", record([]byte{1, 255, 255, 255}), clientHello{}, "too long"},
		{"empty records", []byte{22, 3, 1, 0, 0, 22, 3, 1, 0, 0}, clientHello{}, "not a TLS"},
		{"rubbish after", record(append(hello()[:4:4], append(hello()[4:], 9)...)), clientHello{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, raw, err := readClientHello(bytes.NewReader(tt.in))
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if err == nil && (got.ServerName != tt.want.ServerName || got.Encrypted != tt.want.Encrypted) {
				t.Errorf("the hello is read as %+v, want %+v", got, tt.want)
			}
			if !bytes.HasPrefix(tt.in, raw) {
				t.Errorf("raw bytes differ")
			}
		})
	}
}

func FuzzClientHello(f *testing.F) {
	f.Add(record(hello(sni("a.example"))))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _ = readClientHello(bytes.NewReader(b)) })
}

func FuzzDHCP(f *testing.F) {
	q := make([]byte, dhcpHeader)
	q[0] = 1
	copy(q[236:], dhcpCookie)
	f.Add(append(q, 53, 1, 1, 255))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = dhcpReply(b) })
}

func FuzzDNS(f *testing.F) {
	w := &world{names: map[string][]netip.Addr{"apt.example": {aptAddr}}}
	n, err := New(Config{Policy: open, Resolver: w})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = n.Close() })
	f.Add(query(f, "apt.example", dnsmessage.TypeA))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := n.answer(t.Context(), b, false)
		if len(r) > maxDNSPayload {
			t.Errorf("an answer of %d bytes", len(r))
		}
		if r != nil && (r[0] != b[0] || r[1] != b[1] || r[2]&0x80 == 0) {
			t.Error("not an answer to this question")
		}
	})
}

// Whatever frames a guest sends, nothing crashes and nothing is dialled.
func FuzzFrames(f *testing.F) {
	dialled := make(chan string, 1)
	n, err := New(Config{Policy: packages, Resolver: &world{names: map[string][]netip.Addr{}}, Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		select {
		case dialled <- network + " " + address:
		default:
		}
		return nil, errors.New("no")
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = n.Close() })
	a, b := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, b) }()
	served := f.Context()
	go func() { _ = n.Serve(served, a) }()
	f.Add(echo(echoAddr.Addr()))
	f.Add(append(echo(echoAddr.Addr())[:23], 6))
	f.Add(append([]byte(gatewayMAC+guestMAC), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > maxFrame {
			return
		}
		_ = b.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := b.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			t.Fatal(err)
		}
		select {
		case d := <-dialled:
			t.Fatalf("dialled %s", d)
		default:
		}
	})
}
