// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

func itoa(n int) string { return strconv.Itoa(n) }

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-len(s))) }

// parseBytes reads a size such as 512, 512M or 2G; a bare number counts units
// of one unit.
func parseBytes(s string, unit int64) (int64, error) {
	bad := func() (int64, error) {
		return 0, usage("%s is not a size", printable(s)).WithHint("give a size such as 512M or 2G")
	}
	digits := strings.TrimRight(strings.ToUpper(s), "BIKMGT")
	switch suffix := strings.ToUpper(s)[len(digits):]; suffix {
	case "":
	case "B":
		unit = 1
	case "K", "KB", "KIB":
		unit = 1 << 10
	case "M", "MB", "MIB":
		unit = 1 << 20
	case "G", "GB", "GIB":
		unit = 1 << 30
	case "T", "TB", "TIB":
		unit = 1 << 40
	default:
		return bad()
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || math.IsNaN(n) || n*float64(unit) > 1<<60 {
		return bad()
	}
	return int64(n * float64(unit)), nil
}

// parseSeconds reads a number of seconds or a duration such as 90s, 15m, 2h,
// 3d; at least a millisecond and at most ten years.
func parseSeconds(s string) (time.Duration, error) {
	text := s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil {
			text = strconv.FormatFloat(n*24, 'f', -1, 64) + "h"
		}
	} else if _, err := strconv.ParseFloat(s, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > 10*365*24*time.Hour {
		return 0, usage("%s is not a time", printable(s)).WithHint("give seconds, or a duration such as 90s, 15m, 2h, 3d")
	}
	return d, nil
}

// human renders a number of bytes.
func human(n int64) string {
	const units = "KMGT"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if v < 10 && v != math.Trunc(v) {
		return fmt.Sprintf("%.1f %ciB", v, units[u])
	}
	return fmt.Sprintf("%.0f %ciB", v, units[u])
}

// span renders a duration by its largest unit.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// age is how long ago a time was.
func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(time.Since(t))
}

// mib renders MiB, in GiB where that is whole.
func mib(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d GiB", n/1024)
	}
	return fmt.Sprintf("%d MiB", n)
}

// place is one side of a copy: a path in a VM, or, without a VM, on this host.
type place struct {
	vm   string
	path string
}

func (p place) String() string { return printable(p.typed()) }

// typed is the place as a command line has it.
func (p place) typed() string {
	if p.vm == "" {
		return p.path
	}
	return p.vm + ":" + p.path
}

// parsePlace takes NAME:PATH for a path in a VM. Anything with a slash before
// the colon is a path on this host.
func parsePlace(s string) place {
	name, rest, ok := strings.Cut(s, ":")
	if ok && !strings.Contains(name, "/") && (vm.IsID(name) || vm.CheckName(name) == nil) {
		if rest == "" {
			rest = "."
		}
		return place{vm: name, path: rest}
	}
	return place{path: s}
}

// guestPlace requires NAME:PATH.
func guestPlace(s string) (place, error) {
	p := parsePlace(s)
	if p.vm == "" {
		return p, usage("%s does not name a path in a VM", printable(s)).WithHint("write NAME:/path")
	}
	return p, nil
}

// parseEnv turns K=V into a map; K alone takes its value from this process's
// environment.
func parseEnv(list []string, getenv func(string) string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if k == "" {
			return nil, usage("%s is not a variable", printable(kv)).WithHint("write -e NAME=VALUE")
		}
		if !ok {
			v = getenv(k)
		}
		out[k] = v
	}
	return out, nil
}

// counted is a number with its noun: 1 path, 2 paths.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return itoa(n) + " " + noun
}
