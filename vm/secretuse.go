// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"slices"
	"strings"
)

// SecretAsk is a monitor's question for the value that belongs into one request of the guest.
type SecretAsk struct {
	Name        string `json:"name"`
	Placeholder string `json:"placeholder"` // that the request has
	Host        string `json:"host"`
	Port        int    `json:"port"`
	Header      string `json:"header"` // in canonical form
	Method      string `json:"method"`
	Path        string `json:"path"`   // as it stands in the request, without the query
	Policy      string `json:"policy"` // digest of the policy in force
}

// SecretValue answers it.
type SecretValue struct {
	Value string `json:"value"`
}

// String hides the value from logs.
func (SecretValue) String() string { return "vm.SecretValue" }

// Misplaced is a request that had a placeholder where it does not belong, and was refused.
type Misplaced struct {
	Name   string `json:"name"` // of the secret
	Where  string `json:"where"`
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"` // without the query
	More   int    `json:"more,omitempty"` // further ones that were not reported
}

// Covers reports whether the use is about a request. A path that a server may read as another
// one, such as /v1/../admin, is covered only by a use for all paths.
func (u SecretUse) Covers(method, path string) bool {
	if len(u.Methods) > 0 && !slices.Contains(u.Methods, method) {
		return false
	}
	if len(u.Paths) == 0 {
		return true
	}
	segments, err := PathSegments(path)
	return err == nil && slices.ContainsFunc(u.Paths, func(p string) bool { return pathMatches(p, segments) })
}

// pathMatches reports whether the segments of a path match a pattern: "*" stands for a part of
// one segment, and "**" at the end for the rest.
func pathMatches(pattern string, have []string) bool {
	rest, deep := strings.CutSuffix(pattern, "**")
	want := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	if len(have) < len(want) || !deep && len(have) != len(want) {
		return false
	}
	for i, w := range want {
		if deep && i == len(want)-1 {
			return strings.HasPrefix(have[i], w)
		}
		if !segmentMatches(w, have[i]) {
			return false
		}
	}
	return true
}

// segmentMatches matches one segment, in which each "*" stands for any characters.
func segmentMatches(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}
