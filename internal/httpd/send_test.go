// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// An answer that cannot be encoded is not begun: an error can still be answered.
func TestUnencodableAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	q := &request{Request: httptest.NewRequest(http.MethodGet, "/v1/vms", nil), w: w, call: &vm.Call{}}
	if err := q.ok([]any{"first", math.NaN()}); vm.KindOf(err) != vm.Internal {
		t.Errorf("the error is %v", err)
	}
	if q.sent || w.Body.Len() > 0 {
		t.Errorf("%q was sent", w.Body)
	}
}
