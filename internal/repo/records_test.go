// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"slices"
	"strings"
	"testing"
)

// TestRecords: a message that somebody made very long is read in part, and what follows
// it is read as ever.
func TestRecords(t *testing.T) {
	var sizes []int
	text := "one\x00" + strings.Repeat("x", 4*maxMessage) + "\x00three\x00"
	err := records(strings.NewReader(text), func(rec []byte) error {
		sizes = append(sizes, len(rec))
		return nil
	})
	if err != nil || len(sizes) != 3 || sizes[0] != 3 || sizes[2] != 5 {
		t.Fatalf("the records have %d bytes (%v), want three, of 3 and 5 bytes at the ends", sizes, err)
	}
	if slices.Max(sizes) > 2*maxMessage {
		t.Errorf("of a message of %d bytes %d were kept, want at most %d", 4*maxMessage, sizes[1], 2*maxMessage)
	}
}
