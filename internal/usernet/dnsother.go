// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

const (
	maxLabels  = 10 // labels of a name that are tried as its zone
	maxServers = 8  // name servers of a zone that are checked
	maxTargets = 16 // records of an answer
)

// moreRecords are the lookups of the host's resolver for other records than
// addresses.
type moreRecords interface {
	LookupCNAME(ctx context.Context, name string) (string, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupNS(ctx context.Context, name string) ([]*net.NS, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// lookupOther answers TXT, MX, NS, SRV and CNAME. Where a name is allowed by itself, it
// answers if the host has public addresses only. Where many names are allowed, it answers for
// those in public zones: the host's resolver also knows the zones of the host's network,
// and the guest learns nothing of those. asked is false when no lookup was needed.
func (n *Net) lookupOther(ctx context.Context, q *question, name string) (v egress.Verdict, asked bool) {
	v = egress.Verdict{Allow: true, Reason: "looked up"}
	r, ok := n.cfg.Resolver.(moreRecords)
	p := n.Policy()
	switch q.q.Type {
	case dnsmessage.TypeTXT, dnsmessage.TypeMX, dnsmessage.TypeSRV, dnsmessage.TypeCNAME:
	case dnsmessage.TypeNS:
		ok = ok && p.Mode == vm.NetOpen
	default:
		ok = false // NOERROR without answers: the network has no AAAA, HTTPS and SVCB
	}
	if !ok {
		return v, false
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	var public bool
	var err error
	if p.Mode == vm.NetOpen || egress.Broad(p, name) || egress.Broad(p, serviceHost(name)) {
		public, err = n.publicZone(ctx, r, name)
	} else {
		public, err = n.publicName(ctx, name)
	}
	if err == nil && !public {
		return egress.Verdict{Reason: name + " is not in a public zone"}, true
	}
	if err == nil {
		err = n.answerOther(ctx, q, r, name+".")
	}
	if err != nil && !notFound(err) {
		q.fail(dnsmessage.RCodeServerFailure, edeOther, "warren: the host could not look the name up")
		v.Reason = "allowed, but the host could not look it up: " + dialError(err)
	}
	return v, true
}

// publicName reports whether records of a name that is allowed by itself may be told: the
// host that it belongs to has no address that the guest may not know.
func (n *Net) publicName(ctx context.Context, name string) (bool, error) {
	host, own := n.host.get(), serviceHost(name)
	addrs, err := n.names.resolve(ctx, own)
	if err != nil && !notFound(err) {
		return false, err
	}
	for _, a := range addrs {
		if !egress.Answerable(n.Policy(), egress.Request{Name: own, IP: a, Host: host}) {
			return false, nil
		}
	}
	return true, nil
}

// serviceHost returns the host of a service's name: "_http._tcp." is cut off.
func serviceHost(name string) string {
	if first, rest, ok := strings.Cut(name, "."); ok && strings.HasPrefix(first, "_") {
		if second, host, ok := strings.Cut(rest, "."); ok && strings.HasPrefix(second, "_") {
			return host
		}
	}
	return name
}

// mayTell reports whether an answer may name a host: only one that the guest may look up.
func (n *Net) mayTell(ctx context.Context, host string) bool {
	name := egress.Normal(host)
	return egress.Evaluate(n.Policy(), egress.Request{Proto: egress.DNS, Name: name}).Allow && n.publicHost(ctx, host)
}

// answerOther fills in the records of a name that may be answered. It leaves out
// hosts that have an address that is not public.
func (n *Net) answerOther(ctx context.Context, q *question, r moreRecords, name string) error {
	add := func(host string, body func(dnsmessage.Name) dnsmessage.ResourceBody) {
		h, err := dnsmessage.NewName(host)
		if err == nil && len(q.answers) < maxTargets && n.mayTell(ctx, host) {
			q.answers = append(q.answers, body(h))
		}
	}
	switch q.q.Type {
	case dnsmessage.TypeTXT:
		texts, err := r.LookupTXT(ctx, name)
		for _, t := range texts {
			q.answers = append(q.answers, &dnsmessage.TXTResource{TXT: chunks(t)})
		}
		return err
	case dnsmessage.TypeMX:
		mx, err := r.LookupMX(ctx, name)
		for _, m := range mx {
			add(m.Host, func(h dnsmessage.Name) dnsmessage.ResourceBody { return &dnsmessage.MXResource{Pref: m.Pref, MX: h} })
		}
		return err
	case dnsmessage.TypeNS:
		ns, err := r.LookupNS(ctx, name)
		for _, s := range ns {
			add(s.Host, func(h dnsmessage.Name) dnsmessage.ResourceBody { return &dnsmessage.NSResource{NS: h} })
		}
		return err
	case dnsmessage.TypeCNAME:
		alias, err := r.LookupCNAME(ctx, name)
		if egress.Normal(alias) != egress.Normal(name) {
			add(alias, func(h dnsmessage.Name) dnsmessage.ResourceBody { return &dnsmessage.CNAMEResource{CNAME: h} })
		}
		return err
	default:
		_, srv, err := r.LookupSRV(ctx, "", "", name)
		for _, s := range srv {
			add(s.Target, func(h dnsmessage.Name) dnsmessage.ResourceBody {
				return &dnsmessage.SRVResource{Priority: s.Priority, Weight: s.Weight, Port: s.Port, Target: h}
			})
		}
		return err
	}
}

// publicZone reports whether the zone of a name is public: each of its name servers
// that has an address has only public ones. A zone without such a server belongs to
// the host's own network.
func (n *Net) publicZone(ctx context.Context, r moreRecords, name string) (bool, error) {
	if strings.Count(name, ".") >= maxLabels {
		return false, nil
	}
	if public, known := n.names.zone(name); known {
		return public, nil
	}
	public := false
	for zone := name; zone != "" && !public; _, zone, _ = strings.Cut(zone, ".") {
		servers, err := r.LookupNS(ctx, zone+".")
		if err != nil && !notFound(err) {
			return false, err
		}
		if err != nil || len(servers) == 0 {
			continue
		}
		reached := false
		for _, s := range servers[:min(len(servers), maxServers)] {
			addrs, aerr := n.names.resolve(ctx, egress.Normal(s.Host))
			if aerr != nil && !notFound(aerr) {
				return false, aerr
			}
			reached = reached || len(addrs) > 0
			if len(addrs) > 0 && !n.publicHost(ctx, s.Host) {
				n.names.noteZone(name, false)
				return false, nil
			}
		}
		if !reached {
			break
		}
		public = true
	}
	n.names.noteZone(name, public)
	return public, nil
}

// publicHost reports whether a host has addresses, and public ones only.
func (n *Net) publicHost(ctx context.Context, host string) bool {
	addrs, err := n.names.resolve(ctx, egress.Normal(host))
	if err != nil || len(addrs) == 0 {
		return false
	}
	own := n.host.get()
	for _, a := range addrs {
		if egress.Private(a, own) != "" {
			return false
		}
	}
	return true
}

func notFound(err error) bool {
	var de *net.DNSError
	return errors.As(err, &de) && de.IsNotFound
}

// zoneAnswer is what is known of the zone of a name.
type zoneAnswer struct {
	public  bool
	expires time.Time
}

// zone returns the cached answer for a name's zone.
func (d *directory) zone(name string) (public, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	z, ok := d.zones[name]
	return z.public, ok && time.Now().Before(z.expires)
}

// noteZone caches whether the zone of a name is public.
func (d *directory) noteZone(name string, public bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.zones) >= maxAnswers {
		clear(d.zones)
	}
	d.zones[name] = zoneAnswer{public: public, expires: time.Now().Add(answerTTL)}
}
