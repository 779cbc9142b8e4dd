// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package receipt

import "testing"

// TestCanonical: the canonical form is that of RFC 8785.
func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[true,null,-5]}`:               `{"a":[true,null,-5],"b":1}`,
		` { "\u20ac" : "\u000F\nA'B\"\\\/<>" } `:   "{\"€\":\"\\u000f\\nA'B\\\"\\\\/<>\"}",
		`{"\ufb33":1,"\ud83d\ude00":2,"\u00f6":3}`: "{\"ö\":3,\"😀\":2,\"\ufb33\":1}",
		`"\u007f\b\t\f\r"`:                         "\"\x7f\\b\\t\\f\\r\"",
	} {
		if got, err := canonicalBytes([]byte(in)); err != nil || string(got) != want {
			t.Errorf("the canonical form of %s is %s (%v), want %s", in, got, err, want)
		}
	}
	for _, in := range []string{`{"a":1,"a":2}`, `1.5`, `9007199254740992`, `1 2`, `{`, ``} {
		if got, err := canonicalBytes([]byte(in)); err == nil {
			t.Errorf("the canonical form of %s is %s, want an error", in, got)
		}
	}
}
