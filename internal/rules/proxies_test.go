// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"
)

// TestProxiesLetAnswersBeEarly: a file that makes a reverse proxy has its server keep the request's body open when
// an answer begins before the request was read to its end. Else the answer is cut.
func TestProxiesLetAnswersBeEarly(t *testing.T) {
	sources(t, func(name string, data []byte) {
		if text := string(data); strings.Contains(text, "httputil.ReverseProxy{") && !strings.Contains(text, ".EnableFullDuplex()") {
			t.Errorf("%s makes a reverse proxy without EnableFullDuplex of http.ResponseController", name)
		}
	})
}
