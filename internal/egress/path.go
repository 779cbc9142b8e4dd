// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

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
		segments, err := splitPath(r.Path)
		if err != nil {
			return deny("its path can be read in more than one way, and rules of the network policy are about paths: %s", err), true
		}
		if !slices.ContainsFunc(rule.Paths, func(p string) bool { return matchPath(p, segments, denies) }) {
			return Verdict{}, false
		}
	}
	return Verdict{Allow: !denies, Reason: "a rule of the network policy " + map[bool]string{true: "denies ", false: "allows "}[denies] + said(rule)}, true
}

// splitPath returns the decoded segments of a path as it stands in a request line. It
// refuses every path that two servers may read differently.
func splitPath(path string) ([]string, error) {
	if len(path) > 8<<10 {
		return nil, errors.New("it is longer than 8 KiB")
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, errors.New("it does not begin with a slash")
	}
	parts := strings.Split(rest, "/")
	for i, raw := range parts {
		s, err := decode(raw)
		if err != nil {
			return nil, err
		}
		switch {
		case s == "" && i < len(parts)-1:
			return nil, errors.New("it has an empty part (//)")
		case strings.HasSuffix(s, ".") || strings.HasSuffix(s, " "):
			return nil, errors.New("a part of it ends with a dot or a space")
		}
		parts[i] = s
	}
	return parts, nil
}

// decode reads one segment's percent-encoding, once.
func decode(raw string) (string, error) {
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if i+2 >= len(raw) {
				return "", errors.New("its percent-encoding is malformed")
			}
			hi, lo := unhex(raw[i+1]), unhex(raw[i+2])
			if hi < 0 || lo < 0 {
				return "", errors.New("its percent-encoding is malformed")
			}
			c = byte(hi<<4 | lo)
			i += 2
			if c == '/' || c == '?' || c == '#' || c == '%' {
				return "", errors.New("it hides one of / ? # % in percent-encoding")
			}
		} else if c >= 0x80 || c == ' ' {
			return "", errors.New("it has bytes that should be percent-encoded")
		}
		if c < 0x20 || c == 0x7f || c == '\\' || c == ';' || c == '?' || c == '#' {
			return "", errors.New("it has a control character or one of \\ ; ? #")
		}
		b = append(b, c)
	}
	if !utf8.Valid(b) {
		return "", errors.New("it is not proper UTF-8")
	}
	s := string(b)
	if strings.ContainsFunc(s, lookalike) {
		return "", errors.New("it has a character that some servers read as another one")
	}
	return s, nil
}

// lookalike reports whether some servers fold a character to one of ASCII's, or drop it.
func lookalike(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r < 0xa0, r == 0xad, r >= 0x2000 && r <= 0x206f, r >= 0x2100 && r <= 0x22ff, r >= 0x2460 && r <= 0x24ff,
		r >= 0xfe00 && r <= 0xfe6f, r >= 0xff00 && r <= 0xffef, r == 0xfeff, r >= 0x1d400 && r <= 0x1d7ff, r >= 0xe0000,
		r == 0x3000, r == 0x3002, r == 0x212a, r == 0x17f, r == 0x130, r == 0x131:
		return true
	}
	return false
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
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
