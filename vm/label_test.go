// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestParseLabel(t *testing.T) {
	for s, want := range map[string][2]string{
		"team=web": {"team", "web"}, "example.com/owner=ann@example.com": {"example.com/owner", "ann@example.com"},
		"empty=": {"empty", ""}, "url=https://host:80/x": {"url", "https://host:80/x"}, "1=2": {"1", "2"},
		strings.Repeat("k", MaxLabelKey) + "=" + strings.Repeat("v", MaxLabelValue): {strings.Repeat("k", MaxLabelKey), strings.Repeat("v", MaxLabelValue)},
	} {
		key, value, err := ParseLabel(s)
		if err != nil || [2]string{key, value} != want {
			t.Errorf("the label %q is read as %q and %q (%v), want %q", s, key, value, err, want)
		}
	}
	for _, s := range []string{
		"", "team", "=web", "team-=x", "-team=x", "/a=x", "a b=x", "a=b c", "a=b,c", "a=b=c", "a=\x1b[2J", "ä=x", "a=ä", "!a=x",
		strings.Repeat("k", MaxLabelKey+1) + "=", "k=" + strings.Repeat("v", MaxLabelValue+1),
	} {
		if _, _, err := ParseLabel(s); !errors.Is(err, Invalid) || AsError(err).Hint == "" {
			t.Errorf("the label %q: %v, want invalid with a hint", s, err)
		}
	}
}

// A change does not modify its input, and respects the limits.
func TestChangeLabels(t *testing.T) {
	have := map[string]string{"a": "1", "b": "2"}
	three := "3"
	got, err := ChangeLabels(have, map[string]*string{"b": nil, "c": &three, "none": nil})
	if err != nil || !maps.Equal(got, map[string]string{"a": "1", "c": "3"}) {
		t.Errorf("the changed labels are %v (%v), want a and c", got, err)
	}
	if !maps.Equal(have, map[string]string{"a": "1", "b": "2"}) {
		t.Errorf("what it was of is now %v", have)
	}
	if got, err := ChangeLabels(have, map[string]*string{"a": nil, "b": nil}); got != nil || err != nil {
		t.Errorf("none left: %v, %v", got, err)
	}
	many := map[string]string{}
	for i := range MaxLabels {
		many[fmt.Sprint("k", i)] = ""
	}
	if _, err := ChangeLabels(nil, SetLabels(many)); err != nil {
		t.Error(err)
	}
	if _, err := ChangeLabels(many, SetLabels(map[string]string{"more": ""})); !errors.Is(err, Limit) {
		t.Errorf("one too many: %v", err)
	}
	large := map[string]string{}
	for i := range MaxLabelBytes/MaxLabelValue + 1 {
		large[fmt.Sprint(i)] = strings.Repeat("v", MaxLabelValue)
	}
	if _, err := ChangeLabels(nil, SetLabels(large)); !errors.Is(err, Limit) {
		t.Errorf("too large: %v", err)
	}
	bad := "a b"
	if _, err := ChangeLabels(nil, map[string]*string{"k": &bad}); !errors.Is(err, Invalid) {
		t.Errorf("a bad value: %v, want invalid", err)
	}
}

func TestLabelSelector(t *testing.T) {
	labels := map[string]string{"team": "web", "old": ""}
	for s, want := range map[string]bool{
		"team": true, "none": false, "!team": false, "!none": true, "team=web": true, "team==web": true, "team=db": false,
		"none=web": false, "team!=db": true, "team!=web": false, "none!=web": true, "old=": true, "team=": false, "none=": false,
	} {
		l, err := ParseLabelSelector(s)
		if err != nil || l.Matches(labels) != want {
			t.Errorf("the selector %s matches: %v (%v), want %v", s, !want, err, want)
		}
	}
	for _, s := range []string{"", "!", "=", "!=x", "!a=b", "a b", "a=b c", "a in (b)", "team-"} {
		if _, err := ParseLabelSelector(s); !errors.Is(err, Invalid) || !strings.Contains(AsError(err).Hint, "KEY!=VALUE") {
			t.Errorf("the selector %q: %v, want invalid with a hint at the syntax", s, err)
		}
	}
}
