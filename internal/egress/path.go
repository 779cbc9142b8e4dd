// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// overrides are the headers by which some servers let a request change its own method.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// Methods returns the methods that a server may take a request for: its own, and those
// that headers put in its place. Each of them must be allowed. header is in the canonical
// form of net/http.
func Methods(method string, header map[string][]string) []string {
	out := []string{method}
	for _, name := range overrides {
		for _, v := range header[name] {
			if v = strings.TrimSpace(v); !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
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
