// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "strings"

// MaxSeconds is the longest duration in requests, in seconds: a hundred years.
const MaxSeconds = 100 * 366 * 24 * 3600

// Clip returns the first most bytes of a text, with an ellipsis if it was longer.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
