// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"testing"

	"github.com/warren-vm/warren/internal/audit"
)

// TestAuditRecordsKeepBoth: the result of an action does not hide what was asked
// for.
func TestAuditRecordsKeepBoth(t *testing.T) {
	got := auditRecords([]audit.Record{{Entry: audit.Entry{Detail: map[string]any{"to": "laptop:/out", "n": 1}}, Result: map[string]any{"bytes": 77, "n": 2}}})[0].Detail
	for name, want := range map[string]any{"to": "laptop:/out", "bytes": 77, "n": 2} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
}
