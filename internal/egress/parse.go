// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const (
	maxRanges  = 32
	maxMethods = 16
	maxPaths   = 64
	maxPattern = 1 << 10
	ruleHint   = "write a host and its port, such as api.example.com:443, *.example.com, 10.0.0.0/8:5432 or udp:1.1.1.1:53"
)

func invalid(subject, format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, subject, format, args...).WithHint(ruleHint)
}

// ParseRule reads an allow rule as people write it: [tcp:|udp:]HOST[:PORT[-PORT]][/PATH].
// HOST is a name, "*." and a domain, an address, a CIDR, or "*". An IPv6 address with a
// port stands in brackets. A URL with http:// or https:// names port 80 or 443. Errors are
// Invalid.
func ParseRule(text string) (vm.NetRule, error) {
	r := vm.NetRule{Action: vm.NetAllow}
	rest := strings.TrimSpace(text)
	subject := rest
	if rest == "" {
		return r, invalid("", "the rule is empty")
	}
	if proto, after, ok := strings.Cut(rest, ":"); ok && (proto == TCP || proto == UDP) {
		r.Proto, rest = proto, after
	}
	for scheme, port := range map[string]int{"http://": 80, "https://": 443} {
		if after, ok := strings.CutPrefix(rest, scheme); ok {
			rest = after
			r.Ports = []vm.PortRange{{First: port, Last: port}}
		}
	}
	host, ports, err := splitTarget(subject, rest, &r)
	if err != nil {
		return r, err
	}
	if ports != "" {
		g, err := parsePorts(subject, ports)
		if err != nil {
			return r, err
		}
		r.Ports = []vm.PortRange{g}
	}
	r.To = spelled(host)
	if err := CheckRule(r); err != nil {
		return r, err
	}
	return r, nil
}

// splitTarget cuts "HOST[:PORTS][/PATH]" and notes the path.
func splitTarget(subject, s string, r *vm.NetRule) (host, ports string, err error) {
	if after, ok := strings.CutPrefix(s, "["); ok {
		host, after, ok = strings.Cut(after, "]")
		if !ok {
			return "", "", invalid(subject, "the bracket is not closed")
		}
		ports, ok = strings.CutPrefix(after, ":")
		if after != "" && !ok {
			return "", "", invalid(subject, "what follows the bracket is not a port")
		}
		return host, ports, nil
	}
	if _, ok := prefixOf(s); ok {
		return s, "", nil
	}
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		if _, ok := prefixOf(s[:i]); ok {
			return s[:i], s[i+1:], nil
		}
	}
	if i := strings.IndexByte(s, '/'); i >= 0 {
		if _, perr := netip.ParseAddr(s[:i]); perr == nil {
			return "", "", invalid(subject, "is not a CIDR")
		}
		if path := s[i:]; path != "/" {
			r.Paths = []string{path}
		}
		s = s[:i]
	}
	host, ports, _ = strings.Cut(s, ":")
	return host, ports, nil
}

func parsePorts(subject, s string) (vm.PortRange, error) {
	a, b, ranged := strings.Cut(s, "-")
	if !ranged {
		b = a
	}
	first, err1 := strconv.ParseUint(a, 10, 16)
	last, err2 := strconv.ParseUint(b, 10, 16)
	if err1 != nil || err2 != nil {
		return vm.PortRange{}, invalid(subject, "%q is not a port or a range of ports", s)
	}
	return vm.PortRange{First: int(first), Last: int(last)}, nil
}

// spelled is the one spelling of a rule's To.
func spelled(to string) string {
	if p, ok := prefixOf(to); ok {
		if p.IsSingleIP() {
			return p.Addr().String()
		}
		return p.String()
	}
	return Normal(to)
}

// Canonical returns a rule in its one spelling: its To and Proto in lower case, its methods
// in upper case. The result may still be invalid.
func Canonical(r vm.NetRule) vm.NetRule {
	r.To = spelled(strings.TrimSpace(r.To))
	r.Proto = strings.ToLower(r.Proto)
	r.Methods = slices.Clone(r.Methods)
	for i, m := range r.Methods {
		r.Methods[i] = strings.ToUpper(m)
	}
	return r
}

// CheckRule reports what is wrong with a rule in its canonical spelling. Errors are Invalid.
func CheckRule(r vm.NetRule) error {
	subject := r.To
	if r.Action != vm.NetAllow && r.Action != vm.NetDeny {
		return invalid(subject, "%q is not an action of a rule", string(r.Action)).WithHint("use allow or deny")
	}
	if err := checkTo(r.To); err != nil {
		return err
	}
	if r.Proto != "" && r.Proto != TCP && r.Proto != UDP {
		return invalid(subject, "%q is not a protocol of a rule", r.Proto).WithHint("use tcp or udp")
	}
	if len(r.Ports) > maxRanges {
		return invalid(subject, "the rule has more than %d ranges of ports", maxRanges).WithHint("write several rules")
	}
	for _, g := range r.Ports {
		if g.First < 1 || g.Last > 65535 || g.First > g.Last {
			return invalid(subject, "%d-%d is not a range of ports", g.First, g.Last).WithHint("ports are 1 to 65535, the lower one first")
		}
	}
	if r.Limit.Connections < 0 || r.Limit.Bytes < 0 || r.Limit.Rate < 0 {
		return invalid(subject, "a limit is negative").WithHint("leave the limit out for none")
	}
	if r.Limit != (vm.NetLimit{}) && r.Action == vm.NetDeny {
		return invalid(subject, "a rule that denies has a limit").WithHint("set the limit on a rule that allows")
	}
	return checkRequests(r)
}

func checkTo(to string) error {
	_, byAddress := prefixOf(to)
	switch {
	case to == "":
		return invalid("", "the rule names no host")
	case to == Any:
		return nil
	case to != spelled(to):
		return invalid(to, "is not written in its usual form").WithHint("write %s", spelled(to))
	case byAddress:
		return nil
	case strings.Contains(to, "/"):
		return invalid(to, "is not a CIDR")
	}
	name := strings.TrimPrefix(to, "*.")
	switch {
	case strings.Contains(name, "*"):
		return invalid(to, "is not a host pattern: a star stands for whole names before a domain").WithHint("write *.%s", strings.TrimLeft(name[strings.LastIndexByte(name, '*')+1:], ".-"))
	case strings.ContainsFunc(to, func(c rune) bool { return c >= 0x80 }):
		return invalid(to, "has letters that are not ASCII").WithHint("write the name in its xn-- form")
	case !ValidName(name):
		return invalid(to, "is not a host name, an address or a CIDR")
	case name == to && !strings.Contains(name, "."):
		return invalid(to, "is not a full host name")
	case name == vm.InsideDomain || strings.HasSuffix(name, "."+vm.InsideDomain):
		return invalid(to, "is a name inside the VM's own network, which answers under every policy").WithHint("leave the rule out")
	}
	return nil
}

// checkRequests checks the parts of a rule that are about HTTP requests.
func checkRequests(r vm.NetRule) error {
	if !r.HTTP() {
		return nil
	}
	_, byAddress := prefixOf(r.To)
	switch {
	case byAddress || r.To == Any:
		return invalid(r.To, "a rule about methods or paths must name a host").WithHint("name the host, such as api.example.com")
	case r.Proto == UDP:
		return invalid(r.To, "a rule about methods or paths is about TCP").WithHint("leave udp out")
	case len(r.Methods) > maxMethods || len(r.Paths) > maxPaths:
		return invalid(r.To, "the rule has more than %d methods or %d paths", maxMethods, maxPaths).WithHint("write several rules")
	}
	for _, m := range r.Methods {
		if m == "" || len(m) > 32 || strings.ContainsFunc(m, func(c rune) bool { return (c < 'A' || c > 'Z') && c != '-' && c != '_' }) {
			return invalid(r.To, "%q is not an HTTP method in upper case", m).WithHint("write GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS")
		}
	}
	for _, p := range r.Paths {
		if err := checkPattern(r.To, p); err != nil {
			return err
		}
	}
	return nil
}

func checkPattern(subject, p string) error {
	const hint = "write a path such as /v1/messages, /repos/*/issues or /v1/**, without its query and without percent-encoding"
	if len(p) > maxPattern {
		return invalid(subject, "a pattern of a path is longer than %d bytes", maxPattern).WithHint(hint)
	}
	segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
	bad := ""
	switch {
	case !strings.HasPrefix(p, "/"):
		bad = "does not begin with a slash"
	case strings.ContainsAny(p, "%?#;\\") || strings.ContainsFunc(p, func(c rune) bool { return c < 0x20 || c == 0x7f || vm.Lookalike(c) || c == 0xfffd }):
		bad = "has a character that no path has after decoding"
	case slices.Contains(segments[:len(segments)-1], ""):
		bad = "has an empty part (//)"
	case slices.ContainsFunc(segments, func(s string) bool { return strings.HasSuffix(s, ".") || strings.HasSuffix(s, " ") }):
		bad = "has a part that ends with a dot or a space"
	case slices.ContainsFunc(segments[:len(segments)-1], func(s string) bool { return strings.Contains(s, "**") }),
		strings.Contains(segments[len(segments)-1], "**") && segments[len(segments)-1] != "**":
		bad = "has ** elsewhere than as its last part"
	}
	if bad != "" {
		return invalid(subject, "the pattern %q %s", p, bad).WithHint(hint)
	}
	return nil
}

// ValidName reports whether s can be the name of a host: letters, digits, "-" and "_" in
// labels of 1 to 63 bytes, the last of which is not a number, so that no program takes the
// name for an address.
func ValidName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.ContainsFunc(l, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
		}) {
			return false
		}
	}
	return !numeric(labels[len(labels)-1])
}

// numeric reports whether a label is a decimal, octal or hexadecimal number.
func numeric(l string) bool {
	l = strings.ToLower(l)
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		return !strings.ContainsFunc(hex, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
	}
	return !strings.ContainsFunc(l, func(c rune) bool { return c < '0' || c > '9' })
}

// NeedsAdmin reports whether only an admin account may write a rule: it allows addresses
// that are not public, or an address of this host.
func NeedsAdmin(r vm.NetRule) bool {
	if r.Action == vm.NetDeny {
		return false
	}
	prefix, byAddress := prefixOf(r.To)
	if !byAddress {
		return false
	}
	host, err := HostAddresses()
	if err != nil || Private(prefix.Addr(), host) != "" {
		return true
	}
	for _, s := range specials {
		if s.prefix.Overlaps(prefix) {
			return true
		}
	}
	if prefix.Addr().Is6() && !prefix.IsSingleIP() {
		for _, p := range []netip.Prefix{nat64, sixToFour, v4Compatible} {
			if p.Overlaps(prefix) {
				return true // IPv4 addresses in IPv6 form
			}
		}
		return !globalUnicast.Contains(prefix.Addr()) || prefix.Bits() < globalUnicast.Bits()
	}
	return slices.ContainsFunc(host, func(h netip.Addr) bool { return prefix.IsSingleIP() && prefix.Contains(h) })
}

// said is a rule in words, for reasons: it shows what the rule's author wrote.
func said(r vm.NetRule) string {
	var b strings.Builder
	if len(r.Methods) > 0 {
		b.WriteString(strings.Join(r.Methods, ", ") + " at ")
	}
	b.WriteString(r.To)
	if len(r.Paths) > 0 {
		b.WriteString(" " + strings.Join(r.Paths, ", "))
	}
	if len(r.Ports) > 0 {
		b.WriteString(" port " + ports(r.Ports))
	}
	if r.Proto == UDP {
		b.WriteString(" (udp)")
	}
	return b.String()
}

func ports(gs []vm.PortRange) string {
	out := make([]string, 0, len(gs))
	for _, g := range gs {
		s := fmt.Sprint(g.First)
		if g.Last != g.First {
			s = fmt.Sprintf("%d-%d", g.First, g.Last)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// Say is a rule in words: its id, what it does, and to what.
func Say(r vm.NetRule) string {
	s := string(r.Action) + " " + said(r)
	if r.ID != "" {
		s = r.ID + ": " + s
	}
	if !r.Until.IsZero() {
		s += " until " + r.Until.UTC().Format("2006-01-02 15:04 UTC")
	}
	return s
}
