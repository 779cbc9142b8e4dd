// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
)

// TestAnswers: doctor takes a port in use for fine only if a Warren server uses it.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		what, header string
		want         bool
	}{{"a Warren server", api.HeaderVersion, true}, {"another server", "Server", false}} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(c.header, "1") }))
		if got := answers(t.Context(), strings.TrimPrefix(s.URL, "http://")); got != c.want {
			t.Errorf("%s answers: %t, want %t", c.what, got, c.want)
		}
		s.Close()
	}
	if answers(t.Context(), "127.0.0.1:1") {
		t.Error("where nobody listens, a Warren server answers")
	}
}
