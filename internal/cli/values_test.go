// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]int64{"512": 512 << 20, "512M": 512 << 20, "1g": 1 << 30, "1.5G": 3 << 29, "64KiB": 64 << 10, "7B": 7, "0": 0, "2T": 2 << 40} {
		if got, err := parseBytes(s, 1<<20); err != nil || got != want {
			t.Errorf("%s is %d bytes (%v), want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "G", "-1", "1X", "1GM", "NaN", "Inf", "1e30", "9999999T", "1 G"} {
		if got, err := parseBytes(s, 1); !errors.Is(err, vm.Invalid) {
			t.Errorf("the size %q is %d (%v), want invalid", s, got, err)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for s, want := range map[string]time.Duration{"1": time.Second, "1.5": 1500 * time.Millisecond, "90s": 90 * time.Second, "2h": 2 * time.Hour, "3d": 72 * time.Hour} {
		if got, err := parseSeconds(s); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "d", "1y", "NaN", "1e12", "Inf"} {
		if got, err := parseSeconds(s); !errors.Is(err, vm.Invalid) {
			t.Errorf("the duration %q is %s (%v), want invalid", s, got, err)
		}
	}
}

func TestParsePlace(t *testing.T) {
	for s, want := range map[string]place{
		"box:/a": {"box", "/a"}, "box:a b": {"box", "a b"}, "box:": {"box", "."}, "box:/a:b": {"box", "/a:b"},
		"abcdefghij0123456789:/x": {"abcdefghij0123456789", "/x"},
		"./box:/a":                {"", "./box:/a"}, "/x:y": {"", "/x:y"}, "Box:/a": {"", "Box:/a"}, "a": {"", "a"}, ":/a": {"", ":/a"},
	} {
		if got := parsePlace(s); got != want {
			t.Errorf("the place %q is read as %+v, want %+v", s, got, want)
		}
	}
}

// FuzzValues: no input makes a parser fail otherwise than by a typed refusal.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"512M", "1.5G", "3d", "box:/a", "sticky:3", "A=b", "", "\x1b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseBytes(s, 1<<20); err == nil && n < 0 || err != nil && !errors.Is(err, vm.Invalid) {
			t.Errorf("size %q: %d, %v", s, n, err)
		}
		if d, err := parseSeconds(s); err == nil && d <= 0 || err != nil && !errors.Is(err, vm.Invalid) {
			t.Errorf("time %q: %s, %v", s, d, err)
		}
		if _, err := parsePersist(s); err != nil && !errors.Is(err, vm.Invalid) {
			t.Errorf("persistence %q: %v", s, err)
		}
		if _, err := parseMode(s); err != nil && !errors.Is(err, vm.Invalid) {
			t.Errorf("mode %q: %v", s, err)
		}
		if p := parsePlace(s); p.vm != "" && (p.path == "" || strings.Contains(p.vm, "/")) {
			t.Errorf("place %q: %+v", s, p)
		}
		if strings.ContainsAny(printable(s), "\x1b\n\r\x00") {
			t.Errorf("%q is printed raw", s)
		}
	})
}
