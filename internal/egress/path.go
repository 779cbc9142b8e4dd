// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Headers by which some servers let a request change its own method or path, in lower case
// and with "-" for "_", which some servers take for the same.
var (
	methodHeaders = []string{"x-http-method-override", "x-http-method", "x-method-override"}
	pathHeaders   = []string{"x-original-url", "x-rewrite-url"}
)

func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// Methods returns the methods that a server may take a request for: its own, and those
// that headers put in its place. Each of them must be allowed.
func Methods(method string, header map[string][]string) []string {
	out := []string{method}
	for name, values := range header {
		if !slices.Contains(methodHeaders, folded(name)) {
			continue
		}
		for _, v := range values {
			for one := range strings.SplitSeq(v, ",") {
				if one = strings.TrimSpace(one); !slices.Contains(out, one) {
					out = append(out, one)
				}
			}
		}
	}
	slices.Sort(out[1:])
	return out
}

// PathHeader returns a header of a request by which some servers replace its path; "" = it
// has none.
func PathHeader(header map[string][]string) string {
	for name := range header {
		if slices.Contains(pathHeaders, folded(name)) {
			return name
		}
	}
	return ""
}

// PathMoved refuses a request by its headers: rules about paths hold for its host, and some
// servers would take it for another path. An empty Reason means that it does not refuse.
func PathMoved(p vm.NetworkPolicy, name string, port int, header map[string][]string) Verdict {
	by := PathHeader(header)
	if by == "" || !Requests(p, name, port) {
		return Verdict{}
	}
	now := time.Now()
	for _, rule := range p.Rules {
		if len(rule.Paths) > 0 && !over(rule, now) && covers(rule, TCP, uint16(port)) && matchesName(rule.To, Normal(name)) {
			v := deny("its header %s may replace its path, and rules of the network policy are about paths", by)
			v.Rule = rule.ID
			return v
		}
	}
	return Verdict{}
}

// applyHTTP judges one HTTP request by a rule about requests.
func applyHTTP(rule vm.NetRule, r Request) (v Verdict, decided bool) {
	denies := rule.Action != vm.NetAllow
	if len(rule.Methods) > 0 && !slices.ContainsFunc(rule.Methods, func(m string) bool {
		return m == r.Method || denies && strings.EqualFold(m, r.Method)
	}) {
		return Verdict{}, false
	}
	if len(rule.Paths) > 0 {
		segments, err := vm.PathSegments(r.Path)
		if err != nil {
			return deny("its path can be read in more than one way, and rules of the network policy are about paths: %s", err), true
		}
		if !slices.ContainsFunc(rule.Paths, func(p string) bool { return matchPath(p, segments, denies) }) {
			return Verdict{}, false
		}
	}
	return Verdict{Allow: !denies, Reason: "a rule of the network policy " + map[bool]string{true: "denies ", false: "allows "}[denies] + said(rule)}, true
}

// matchPath reports whether a pattern covers a path. A rule that denies covers more, as
// some servers do: letters of either case, and a slash at the end or none.
func matchPath(pattern string, segments []string, denies bool) bool {
	want := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	if denies {
		want, segments = trimLast(want), trimLast(segments)
	}
	for i, p := range want {
		if p == "**" && i == len(want)-1 {
			return true
		}
		if i >= len(segments) {
			return false
		}
		s := segments[i]
		if denies {
			p, s = strings.ToLower(p), strings.ToLower(s)
		}
		if !matchSegment(p, s) {
			return false
		}
	}
	return len(want) == len(segments)
}

func trimLast(parts []string) []string {
	if n := len(parts); n > 1 && parts[n-1] == "" {
		return parts[:n-1]
	}
	return parts
}

// matchSegment matches one segment; each "*" stands for any characters. An empty segment
// is matched by an empty pattern alone.
func matchSegment(pattern, s string) bool {
	if s == "" || pattern == "" {
		return s == pattern
	}
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for {
		part, more, again := strings.Cut(rest, "*")
		if !again {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], more
	}
}
