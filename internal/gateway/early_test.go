// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"testing"

	"github.com/warren-vm/warren/internal/vmtest"
)

// TestEarlyAnswer: an answer whose beginning the client has before the end of the request was read arrives whole.
func TestEarlyAnswer(t *testing.T) {
	vmtest.EarlyAnswer(t, "/", func(behind http.Handler) http.Handler {
		s := newStand(t, behind)
		site, _ := s.e.PreviewSite("box", 3000)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.g.proxy.serve(w, r, boxHost, site, false) })
	})
}
