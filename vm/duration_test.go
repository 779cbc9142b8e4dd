// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// TestDurationsOnTheWire: records, answers and requests keep the numbers that an older
// warren wrote, and the names of their members.
func TestDurationsOnTheWire(t *testing.T) {
	for text, to := range map[string]any{
		`"idleTimeoutSeconds":300`:       new(VM),
		`"idleTimeoutSeconds":null`:      new(VM),
		`"ttlSeconds":3600`:              new(VM),
		`"captureEverySeconds":60`:       new(VM),
		`"timeoutMs":1500`:               new(ExecSpec),
		`"idleTimeoutSeconds":316224000`: new(Idle),
	} {
		if err := json.Unmarshal([]byte("{"+text+"}"), to); err != nil {
			t.Errorf("%T does not read %s: %v", to, text, err)
		}
		back, err := json.Marshal(to)
		if err != nil || !strings.Contains(string(back), text) {
			t.Errorf("%T read %s and wrote %s, %v", to, text, back, err)
		}
	}
	for _, text := range []string{`"ttlSeconds":"5"`, `"ttlSeconds":1.5`, `"ttlSeconds":9223372036854775808`} {
		if err := json.Unmarshal([]byte("{"+text+"}"), new(VM)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// TestDurationTooLong: a number that a time.Duration cannot hold is longer than any
// setting may be, and does not wrap around.
func TestDurationTooLong(t *testing.T) {
	var s Seconds
	var m Millis
	for _, n := range []string{"9223372037", "9223372036854775807"} {
		if err := json.Unmarshal([]byte(n), &s); err != nil || s <= Seconds(MaxDuration) {
			t.Errorf("%s seconds became %v, %v", n, time.Duration(s), err)
		}
	}
	if err := json.Unmarshal([]byte("9223372036854775807"), &m); err != nil || m <= Millis(MaxDuration) {
		t.Errorf("the most milliseconds became %v, %v", time.Duration(m), err)
	}
	if err := json.Unmarshal([]byte("-9223372036854775808"), &s); err != nil || s >= 0 || s == math.MinInt64 {
		t.Errorf("the fewest seconds became %v, %v", time.Duration(s), err)
	}
}
