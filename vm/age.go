// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"strconv"
	"strings"
	"time"
)

// ParseAge reads an age: a number of days such as 90d, or a duration such as 36h. Kind
// Invalid.
func ParseAge(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d, nil
	}
	return 0, Errorf(Invalid, Clip(s, 80), "not an age").WithHint("give one such as 90d or 36h")
}
