// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// A header that may replace the path is refused where a rule is about paths, and passes
// elsewhere.
func TestPathReplaced(t *testing.T) {
	w := newWorld(t)
	head := map[string]string{"X-Rewrite-Url": "/admin"}
	if status, text, _ := w.do(true, "GET", "/v1/x", "", head); status != 200 {
		t.Errorf("without rules about paths the guest gets %d %q", status, text)
	}
	w.reset()
	w.policy.Rules = []vm.NetRule{{ID: "r-000001", Action: vm.NetAllow, To: "example.com", Paths: []string{"/v1/**"}}}
	if status, text, _ := w.do(true, "GET", "/v1/x", "", head); status != 403 || !strings.Contains(text, "may replace its path") || w.last() != nil {
		t.Errorf("with a rule about paths the guest gets %d %q", status, text)
	}
	if len(w.refused) != 1 {
		t.Errorf("the refusals are %q", w.refused)
	}
}
