// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server on loopback with the records that tests set.
type DNS struct {
	udp net.PacketConn
	tcp net.Listener
	run sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	txt   map[string][]string
	a     map[string]netip.Addr
	hooks []net.Listener
}

// NewDNS starts a name server; Close ends it.
func NewDNS() (*DNS, error) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	d := &DNS{udp: udp, tcp: tcp, txt: map[string][]string{}, a: map[string]netip.Addr{}}
	d.run.Go(d.serveUDP) // both end with Close
	d.run.Go(d.serveTCP)
	return d, nil
}

// Address is where the server answers, over UDP and TCP.
func (d *DNS) Address() string { return d.tcp.Addr().String() }

// Resolver returns a resolver that uses this server.
func (d *DNS) Resolver() *net.Resolver { return ResolverAt(d.Address()) }

// ResolverAt returns a resolver that uses the name server at an address.
func ResolverAt(address string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

// FreeUDP is an address on loopback where nothing listens yet.
func FreeUDP() (string, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return conn.LocalAddr().String(), conn.Close()
}

// Close ends the server.
func (d *DNS) Close() error {
	err := errors.Join(d.udp.Close(), d.tcp.Close())
	d.mu.Lock()
	for _, l := range d.hooks {
		err = errors.Join(err, l.Close())
	}
	d.mu.Unlock()
	d.run.Wait()
	return err
}

// SetTXT sets a name's TXT records; none removes them.
func (d *DNS) SetTXT(name string, texts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.txt[strings.ToLower(name)] = texts
}

// SetA sets a name's address.
func (d *DNS) SetA(name string, addr netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.a[strings.ToLower(name)] = addr
}

func (d *DNS) serveUDP() {
	buf := make([]byte, 4096)
	for {
		n, from, err := d.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		if out := d.answer(buf[:n]); out != nil {
			_, _ = d.udp.WriteTo(out, from) // clients retry lost answers
		}
	}
}

// serveTCP answers one question on each connection.
func (d *DNS) serveTCP() {
	for {
		conn, err := d.tcp.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err == nil {
			in := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, in); err == nil {
				out := d.answer(in)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
			}
		}
		_ = conn.Close()
	}
}

// answer returns nil for an invalid question.
func (d *DNS) answer(in []byte) []byte {
	var q dnsmessage.Message
	if q.Unpack(in) != nil || len(q.Questions) != 1 {
		return nil
	}
	ask := q.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(ask.Name.String(), "."))
	d.mu.Lock()
	texts, addr := d.txt[name], d.a[name]
	d.mu.Unlock()
	out := &dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true, RecursionDesired: q.RecursionDesired, RecursionAvailable: true},
		Questions: q.Questions,
	}
	add := func(body dnsmessage.ResourceBody) {
		head := dnsmessage.ResourceHeader{Name: ask.Name, Class: dnsmessage.ClassINET, TTL: 1}
		out.Answers = append(out.Answers, dnsmessage.Resource{Header: head, Body: body})
	}
	switch {
	case len(texts) == 0 && !addr.IsValid():
		out.RCode = dnsmessage.RCodeNameError
	case ask.Type == dnsmessage.TypeTXT:
		for _, t := range texts {
			add(&dnsmessage.TXTResource{TXT: []string{t}})
		}
	case ask.Type == dnsmessage.TypeA && addr.Is4():
		add(&dnsmessage.AResource{A: addr.As4()})
	}
	packed, err := out.Pack()
	if err != nil {
		return nil
	}
	return packed
}
