// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// netBench is one section about the network: a server, a VM with netProgram, and the
// host outside.
type netBench struct {
	*bench
	ctx     context.Context
	s       *server
	id      string
	outside *outside
	guest   *netGuest
}

// netSection runs a section about the network. Without root it only says so.
func (b *bench) netSection(ctx context.Context, run func(*netBench) error) (err error) {
	o, err := newOutside(ctx, b.dir)
	if err != nil {
		b.rep.note("no figures of network policies: %v", err)
		return nil
	}
	defer func() { err = errors.Join(err, o.close(ctx)) }()
	s, err := o.server(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	id, err := s.createVM(ctx, vm.NetOpen)
	if err != nil {
		return err
	}
	g, err := startNetGuest(ctx, s, id)
	if err != nil {
		return err
	}
	n := &netBench{bench: b, ctx: ctx, s: s, id: id, outside: o, guest: g}
	if err := run(n); err != nil {
		return fmt.Errorf("%w\nlast connections:\n%s", err, n.lastConnections())
	}
	return g.end()
}

// lastConnections are the newest records of the guest's connections, one a line.
func (n *netBench) lastConnections() string {
	var list api.Connections
	if err := n.s.call(n.ctx, "GET", "/v1/vms/"+n.id+"/connections", nil, &list); err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, c := range list.Connections[max(0, len(list.Connections)-12):] {
		fmt.Fprintf(&out, "%s %s %s allowed=%v: %s\n", c.Time.Format(time.StampMilli), c.Dest, c.How, c.Allowed, c.Reason)
	}
	return out.String()
}

// netPolicy is a policy with the name that its rows have.
type netPolicy struct {
	name  string
	mode  vm.NetworkMode
	rules []vm.NetRule
}

var openPolicy = netPolicy{name: "open", mode: vm.NetOpen}

// otherRules are 49 rules that match nothing of what is measured, in the mixture of a
// long policy: names, domains, addresses, some denied.
func otherRules() (rules []vm.NetRule) {
	web := []vm.PortRange{{First: tlsPort, Last: tlsPort}, {First: echoPort, Last: rawPort}}
	for i := range 49 {
		r := vm.NetRule{Action: vm.NetAllow, Ports: web}
		switch i % 5 {
		case 0, 1:
			r.To = fmt.Sprintf("api%d.vendor.example", i)
		case 2:
			r.To = fmt.Sprintf("*.team%d.example", i)
		case 3:
			r.To = fmt.Sprintf("203.0.113.%d/32", i)
		case 4:
			r.To, r.Action, r.Ports = fmt.Sprintf("ads%d.vendor.example", i), vm.NetDeny, nil
		}
		rules = append(rules, r)
	}
	return rules
}

// ruled is a closed policy of 50 rules. The last one is the one that matches.
func ruled(name string, last vm.NetRule) netPolicy {
	last.Action = vm.NetAllow
	return netPolicy{name: name, mode: vm.NetClosed, rules: append(otherRules(), last)}
}

func port(n int) []vm.PortRange { return []vm.PortRange{{First: n, Last: n}} }

// set puts a policy in force.
func (n *netBench) set(p netPolicy) error {
	body := map[string]any{"mode": p.mode}
	if p.rules != nil {
		body["rules"] = p.rules
	}
	return n.s.call(n.ctx, "PUT", "/v1/vms/"+n.id+"/network", body, nil)
}

// netSetup measures new connections of a guest: until the server's first byte, and with
// TLS until the end of the handshake.
func (b *bench) netSetup(ctx context.Context) error { return b.netSection(ctx, (*netBench).setup) }

func (n *netBench) setup() error {
	kinds := []struct {
		name, kind string
		port       int
		rule       vm.NetRule
	}{
		{"TCP, rule by address", "tcp", echoPort, vm.NetRule{To: outsideAddr, Ports: port(echoPort)}},
		{"TCP, rule by name", "tcp", echoPort, vm.NetRule{To: outsideName, Ports: port(echoPort)}},
		{"TLS greeting to its answer", "greeting", rawPort, vm.NetRule{To: outsideName, Ports: port(rawPort)}},
		{"TLS handshake", "tls", tlsPort, vm.NetRule{To: outsideName, Ports: port(tlsPort)}},
	}
	for _, k := range kinds {
		prefix := "new connection, " + k.name + ": "
		ways := []netPolicy{openPolicy, ruled("50 rules", k.rule)}
		for round := range 2 + max(20, 5*n.n) { // the first two are warm-up
			for i := range ways {
				p := ways[(i+round)%2]
				if err := n.set(p); err != nil {
					return err
				}
				const first = 2 // after a change caches are cold
				d, err := n.guest.do(order{Do: "setup", Kind: k.kind, Port: k.port, Lookup: k.rule.To == outsideName, N: first + 8})
				if err != nil {
					return fmt.Errorf("%s%s: %w", prefix, p.name, err)
				}
				if s := n.rep.series(prefix+p.name, "ms", bound{}); round > 1 {
					s.Samples = append(s.Samples, d.Ms[first:]...)
				}
			}
		}
		n.compare("new connection, "+k.name+", time: ", " / ", "50 rules", "open", prefix, bound{Max: 1.05})
	}
	return nil
}

// netPassed measures bytes through a connection whose TLS greeting was judged by 50 rules.
// They are not encrypted: emulated encryption would hide what the network costs.
func (b *bench) netPassed(ctx context.Context) error { return b.netSection(ctx, (*netBench).passed) }

func (n *netBench) passed() error {
	ways := []netPolicy{openPolicy, ruled("50 rules", vm.NetRule{To: outsideName, Ports: port(rawPort)})}
	for _, leg := range []struct{ name, way string }{{"to the guest", "d"}, {"from the guest", "u"}} {
		prefix := "passed, " + leg.name + ": "
		for round := range 1 + max(5, n.n) {
			for i := range ways {
				p := ways[(i+round)%2]
				if err := n.set(p); err != nil {
					return err
				}
				err := n.withCPU(prefix+p.name, round > 0, n.size, func() error {
					d, err := n.guest.do(order{Do: "bulk", Way: leg.way, Port: rawPort, Bytes: n.size << 20})
					if s := n.rep.series(prefix+p.name, "MB/s", bound{}); err == nil && round > 0 {
						s.add(d.MBs)
					}
					return err
				})
				if err != nil {
					return fmt.Errorf("%s%s: %w", prefix, p.name, err)
				}
			}
		}
		n.compare("passed, "+leg.name+", rate: ", " / ", "50 rules", "open", prefix, bound{Min: 0.97})
	}
	return nil
}

// withCPU notes the processor time of the VM's monitor while f moves so many MiB. It does
// not depend on the guest, which is emulated here.
func (n *netBench) withCPU(name string, keep bool, mib int64, f func() error) error {
	ours := func(cmdline []byte) bool {
		return strings.Contains(string(cmdline), "warren-monitor") && strings.Contains(string(cmdline), n.id)
	}
	_, before, err := cpuTime(ours)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	_, after, err := cpuTime(ours)
	if s := n.rep.series("monitor's processor time a MiB, "+name, "ms", bound{}); err == nil && keep {
		s.add(1000 * (after - before) / float64(mib))
	}
	return err
}

// netIntercepted measures HTTPS whose requests are judged by a rule about paths.
func (b *bench) netIntercepted(ctx context.Context) error {
	return b.netSection(ctx, (*netBench).intercepted)
}

func (n *netBench) intercepted() error {
	ways := []netPolicy{openPolicy, ruled("intercepted", vm.NetRule{To: outsideName, Ports: port(tlsPort), Paths: []string{"/**"}})}
	mib := min(n.size, 64)
	for _, leg := range []struct {
		name string
		o    order
	}{
		{"to the guest", order{Down: mib << 20}},
		{"from the guest", order{Up: mib << 20, Down: 0}},
	} {
		prefix := "HTTPS, " + leg.name + ": "
		for round := range 1 + max(5, n.n/2) {
			for i := range ways {
				p := ways[(i+round)%2]
				if err := n.set(p); err != nil {
					return err
				}
				err := n.withCPU(prefix+p.name, round > 0, mib, func() error {
					d, err := n.https(leg.o, 1, p.name != "open")
					if s := n.rep.series(prefix+p.name, "MB/s", bound{}); err == nil && round > 0 {
						s.add(float64(mib<<20) / 1e3 / d.Ms[0])
					}
					return err
				})
				if err != nil {
					return fmt.Errorf("%s%s: %w", prefix, p.name, err)
				}
			}
		}
		n.compare("HTTPS, "+leg.name+", rate: ", " / ", "intercepted", "open", prefix, bound{Min: 0.6})
	}
	return nil
}

// https makes requests on one connection, and checks whose certificate the guest saw.
func (n *netBench) https(o order, times int, intercepted bool) (done, error) {
	o.Do, o.Port, o.N = "https", tlsPort, times
	d, err := n.guest.do(o)
	if err != nil {
		return d, err
	}
	own := sha256.Sum256(n.outside.cert.Certificate[0])
	if passed := d.Cert == hex.EncodeToString(own[:]); passed == intercepted {
		return d, fmt.Errorf("intercepted: %v, not %v", !passed, intercepted)
	}
	return d, nil
}

// netChange measures how long a tightened policy takes: from the request until the guest
// saw a new connection refused and its open one cut. The guest tries new connections one
// after the other and says so on a connection that stays allowed.
func (b *bench) netChange(ctx context.Context) error { return b.netSection(ctx, (*netBench).change) }

func (n *netBench) change() error {
	force := n.rep.series("policy tightened: request until it is in force", "ms", bound{Max: 50})
	answered := n.rep.series("policy tightened: until the answer", "ms", bound{})
	refused := n.rep.series("policy tightened: until a new connection was refused", "ms", bound{})
	cut := n.rep.series("policy tightened: until an open connection was cut", "ms", bound{})
	report := vm.NetRule{Action: vm.NetAllow, To: outsideAddr, Ports: port(reportPort)}
	wide := ruled("wide", vm.NetRule{To: outsideAddr, Ports: port(echoPort)})
	wide.rules = append([]vm.NetRule{report}, wide.rules...)
	narrow := netPolicy{name: "narrow", mode: vm.NetClosed, rules: wide.rules[:len(wide.rules)-1]}
	for round := range 2 + max(20, n.n) {
		if err := n.set(wide); err != nil {
			return err
		}
		heard := n.outside.hear()
		ended := make(chan error, 1)
		go func() {
			d, err := n.guest.do(order{Do: "change", Port: echoPort, Report: reportPort})
			if err == nil && !(d.Cut && d.Refused && d.After) {
				err = fmt.Errorf("the guest saw its connection cut: %v, a new one refused: %v (after %d, %q), one at the end refused: %v", d.Cut, d.Refused, d.Tries, d.Why, d.After)
			}
			ended <- err
		}()
		c, err := n.changed(heard, ended, narrow)
		if err != nil {
			return fmt.Errorf("a change of policy: %w", err)
		}
		if round < 2 {
			continue
		}
		answered.took(c.answered)
		refused.took(c.refused)
		cut.took(c.cut)
		force.took(max(c.refused, c.cut))
	}
	return nil
}

// changed is how long the parts of a change took, from its request on.
type changed struct{ answered, refused, cut time.Duration }

// changed changes the policy when the guest has begun, and waits until the guest has said
// that both happened and ended.
func (n *netBench) changed(heard <-chan sighting, ended <-chan error, to netPolicy) (c changed, err error) {
	var sent time.Time
	for got := 0; got < 3 || ended != nil; {
		select {
		case r := <-heard:
			got++
			switch r.what {
			case 'R':
				c.refused = r.at.Sub(sent)
			case 'C':
				c.cut = r.at.Sub(sent)
			default:
				if err := pause(n.ctx, 200*time.Millisecond); err != nil { // new connections are tried meanwhile
					return c, err
				}
				sent = time.Now()
				if err := n.set(to); err != nil {
					return c, errors.Join(err, <-ended)
				}
				c.answered = time.Since(sent)
			}
		case err := <-ended:
			if err != nil {
				return c, err
			}
			ended = nil
		case <-n.ctx.Done():
			return c, n.ctx.Err()
		}
	}
	return c, nil
}
