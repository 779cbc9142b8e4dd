// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"regexp"
	"strings"
	"testing"
)

// TestDurationsHaveOneType: a setting that is a duration is a vm.Seconds or vm.Millis
// where JSON has it, and a time.Duration everywhere else, never a plain integer.
func TestDurationsHaveOneType(t *testing.T) {
	plain := regexp.MustCompile(`\b(\w*[a-z](?:Seconds|Millis|Ms))\s+\*?u?int(?:64|32)?\b`)
	sources(t, func(name string, data []byte) {
		for i, line := range strings.Split(string(data), "\n") {
			m := plain.FindStringSubmatch(line)
			if m != nil && !strings.HasSuffix(m[1], "AtMs") { // that is a time: milliseconds since 1970
				t.Errorf("%s:%d gives a duration an integer: use vm.Seconds, vm.Millis or time.Duration for %s", name, i+1, m[1])
			}
		}
	})
}
