// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/time/rate"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const (
	maxLookups    = 32 // at once
	lookupsPerSec = 100
	lookupBurst   = 300
	maxDNSPayload = 1232
	maxDNSAnswers = 24
	dnsStreamIdle = 10 * time.Second
)

// The extended errors (RFC 8914) of refusals.
const (
	edeOptionCode = 15
	edeBlocked    = 15
	edeOther      = 0
)

// lookups bounds those of one VM, over UDP and TCP together.
type lookups struct {
	limit *rate.Limiter
	slots chan struct{}
}

func newLookups() lookups {
	return lookups{rate.NewLimiter(lookupsPerSec, lookupBurst), make(chan struct{}, maxLookups)}
}

// serveDNS answers the datagrams of the name server until c is closed.
func (n *Net) serveDNS(c *gonet.UDPConn) {
	var wg sync.WaitGroup
	defer wg.Wait()
	b := make([]byte, 4096)
	for {
		k, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		if !n.lookups.limit.Allow() {
			if r := tooMany(b[:k], false); r != nil {
				_, _ = c.WriteTo(r, from)
			}
			continue
		}
		select {
		case n.lookups.slots <- struct{}{}:
		case <-n.ctx.Done():
			return
		}
		q := slices.Clone(b[:k])
		wg.Go(func() {
			defer func() { <-n.lookups.slots }()
			if r := n.answer(n.ctx, q, false); r != nil {
				_, _ = c.WriteTo(r, from)
			}
		})
	}
}

// serveDNSStream answers lookups over TCP, one after the other.
func (n *Net) serveDNSStream(c *guestConn) {
	for range 100 {
		_ = c.SetDeadline(time.Now().Add(dnsStreamIdle))
		var h [2]byte
		if _, err := io.ReadFull(c, h[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(h[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		r := n.answerStream(q)
		if r == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(r))), r...)); err != nil {
			return
		}
	}
}

// answerStream answers one lookup of a stream; nil when it must not be answered.
func (n *Net) answerStream(q []byte) []byte {
	if !n.lookups.limit.Allow() {
		return tooMany(q, true)
	}
	select {
	case n.lookups.slots <- struct{}{}:
	case <-n.ctx.Done():
		return nil
	}
	defer func() { <-n.lookups.slots }()
	return n.answer(n.ctx, q, true)
}

// question is a parsed lookup and its answer.
type question struct {
	header  dnsmessage.Header
	q       dnsmessage.Question
	payload int // what the client can take; 0 = no EDNS
	rcode   dnsmessage.RCode
	ede     uint16
	why     string // extended error text; "" = none
	answers []dnsmessage.ResourceBody
}

// parseQuery reads one question. ok is false when it must not be answered.
func parseQuery(b []byte) (q question, ok bool) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.Response {
		return q, false
	}
	q.header = h
	if h.OpCode != 0 {
		q.rcode = dnsmessage.RCodeNotImplemented
		return q, true
	}
	if q.q, err = p.Question(); err != nil {
		q.rcode = dnsmessage.RCodeFormatError
		return q, true
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		q.rcode = dnsmessage.RCodeFormatError
		return q, true
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, true
	}
	for {
		rh, err := p.AdditionalHeader()
		if err != nil {
			break
		}
		if rh.Type == dnsmessage.TypeOPT {
			q.payload = max(512, min(int(rh.Class), maxDNSPayload))
		}
		if p.SkipAdditional() != nil {
			break
		}
	}
	return q, true
}

// pack encodes the answer, cut to what the client can take.
func (q *question) pack(stream bool) []byte {
	limit := max(512, q.payload)
	if stream {
		limit = 65535
	}
	for cut := false; ; cut = true {
		out, err := q.build(cut)
		if err != nil {
			return nil
		}
		if len(out) <= limit || cut {
			return out
		}
	}
}

func (q *question) build(cut bool) ([]byte, error) {
	h := dnsmessage.Header{
		ID: q.header.ID, Response: true, RecursionDesired: q.header.RecursionDesired,
		RecursionAvailable: true, RCode: q.rcode, Truncated: cut,
	}
	m := dnsmessage.Message{Header: h}
	if q.q.Name.Length > 0 {
		m.Questions = []dnsmessage.Question{q.q}
	}
	if !cut {
		for _, a := range q.answers {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.q.Name, Class: dnsmessage.ClassINET, TTL: uint32(answerTTL / time.Second)},
				Body:   a,
			})
		}
	}
	if q.payload > 0 {
		var rh dnsmessage.ResourceHeader
		if err := rh.SetEDNS0(maxDNSPayload, q.rcode, false); err != nil {
			return nil, err
		}
		opt := &dnsmessage.OPTResource{}
		if q.why != "" && !cut {
			data := append(binary.BigEndian.AppendUint16(nil, q.ede), q.why...)
			opt.Options = []dnsmessage.Option{{Code: edeOptionCode, Data: data}}
		}
		m.Additionals = []dnsmessage.Resource{{Header: rh, Body: opt}}
	}
	return m.Pack()
}

func tooMany(b []byte, stream bool) []byte {
	q, ok := parseQuery(b)
	if !ok {
		return nil
	}
	q.fail(dnsmessage.RCodeServerFailure, edeOther, "too many look-ups at once")
	return q.pack(stream)
}

func (q *question) fail(code dnsmessage.RCode, ede uint16, why string) {
	q.rcode, q.ede, q.why, q.answers = code, ede, why, nil
}

// answer judges and answers one lookup; nil when it must not be answered.
func (n *Net) answer(ctx context.Context, b []byte, stream bool) []byte {
	q, ok := parseQuery(b)
	if !ok {
		return nil
	}
	if q.rcode == dnsmessage.RCodeSuccess {
		n.lookup(ctx, &q)
	}
	return q.pack(stream)
}

// lookup fills q in and records it. Questions that are never looked up (AAAA,
// HTTPS) are recorded only if they are refused.
func (n *Net) lookup(ctx context.Context, q *question) {
	began := time.Now()
	name := egress.Normal(q.q.Name.String())
	if name == vm.InsideDomain || strings.HasSuffix(name, "."+vm.InsideDomain) {
		n.lookupInside(q, name)
		return
	}
	v := egress.Evaluate(n.Policy(), egress.Request{Proto: egress.DNS, Name: name})
	if !v.Allow && q.q.Type == dnsmessage.TypeSRV && n.serviceOfAllowed(name) {
		v = egress.Evaluate(n.Policy(), egress.Request{Proto: egress.DNS, Name: serviceHost(name)})
	}
	if v.Allow && !egress.ValidName(name) {
		v = egress.Verdict{Reason: "it is not a host name"}
	}
	quiet := false
	switch {
	case !v.Allow:
	case q.q.Class != dnsmessage.ClassINET:
		q.fail(dnsmessage.RCodeNotImplemented, 0, "")
	case q.q.Type == dnsmessage.TypeA:
		v = n.lookupA(ctx, q, name)
	default:
		var asked bool
		v, asked = n.lookupOther(ctx, q, name)
		quiet = !asked
		if v.Allow && len(q.answers) == 0 && q.rcode == dnsmessage.RCodeSuccess && serviceHost(name) != name {
			q.fail(dnsmessage.RCodeNameError, 0, "") // package managers ask for services first, and then for the host
		}
	}
	if !v.Allow {
		q.fail(dnsmessage.RCodeRefused, edeBlocked, "warren: "+v.Reason)
		quiet = q.q.Type == dnsmessage.TypeAAAA || q.q.Type == dnsmessage.TypeHTTPS
	}
	if !quiet {
		n.rec.add(vm.Connection{
			Time: began, Proto: egress.DNS, Dest: name, Name: name, How: how(v), Rule: v.Rule, Policy: n.digest(),
			Allowed: v.Allow, Reason: v.Record(), Duration: time.Since(began),
		}, v.Reason)
	}
}

// lookupInside answers for a name of the VM's own network, under every policy. Nothing of
// it is asked outside or recorded.
func (n *Net) lookupInside(q *question, name string) {
	switch {
	case n.cfg.Inside == nil || !n.cfg.Inside.Has(name):
		q.fail(dnsmessage.RCodeNameError, 0, "")
	case q.q.Class == dnsmessage.ClassINET && q.q.Type == dnsmessage.TypeA:
		q.answers = []dnsmessage.ResourceBody{&dnsmessage.AResource{A: Services.As4()}}
	}
}

// serviceOfAllowed reports whether name is a service record ("_http._tcp.") of a host that
// may be looked up. The labels are those of RFC 6335, so that they carry next to nothing
// out.
func (n *Net) serviceOfAllowed(name string) bool {
	host := serviceHost(name)
	if host == name {
		return false
	}
	service, proto, _ := strings.Cut(strings.TrimSuffix(name, "."+host), ".")
	return len(service) <= 16 && (proto == "_tcp" || proto == "_udp" || proto == "_tls") &&
		egress.Evaluate(n.Policy(), egress.Request{Proto: egress.DNS, Name: host}).Allow
}

// lookupA answers with the public addresses of a name. A name with no public
// address is refused, as connections to it would be.
func (n *Net) lookupA(ctx context.Context, q *question, name string) egress.Verdict {
	addrs, err := n.names.resolve(ctx, name)
	if err != nil {
		var de *net.DNSError
		if errors.As(err, &de) && de.IsNotFound {
			q.fail(dnsmessage.RCodeNameError, 0, "")
			return egress.Verdict{Allow: true, Reason: "allowed, but the name does not exist"}
		}
		q.fail(dnsmessage.RCodeServerFailure, edeOther, "warren: the host could not look the name up")
		return egress.Verdict{Allow: true, Reason: "allowed, but the host could not look it up: " + dialError(err)}
	}
	host := n.host.get()
	var no egress.Verdict
	var public []netip.Addr
	for _, a := range addrs {
		if why := egress.Private(a, host); why != "" && !egress.Answerable(n.Policy(), egress.Request{Name: name, IP: a, Host: host}) {
			no = egress.NotPublic(name, a, why)
			continue
		}
		public = append(public, a)
	}
	if len(public) == 0 && no.Reason != "" {
		return no
	}
	for _, a := range public[:min(len(public), maxDNSAnswers)] {
		q.answers = append(q.answers, &dnsmessage.AResource{A: a.As4()})
	}
	return egress.Verdict{Allow: true, Reason: "looked up"}
}

// chunks cuts a text into strings of at most 255 bytes, as TXT records hold them.
func chunks(s string) []string {
	out := []string{}
	for len(s) > 255 {
		out, s = append(out, s[:255]), s[255:]
	}
	return append(out, s)
}

// how says how a judged lookup went.
func how(v egress.Verdict) string {
	if v.Allow {
		return vm.NetPassed
	}
	return vm.NetRefused
}
