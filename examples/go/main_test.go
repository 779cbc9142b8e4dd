// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http/httptest"
	"testing"
)

func TestGreet(t *testing.T) {
	for path, want := range map[string]string{"/": "hello, \"world\"\n", "/?name=ann": "hello, \"ann\"\n"} {
		w := httptest.NewRecorder()
		greet(w, httptest.NewRequest("GET", path, nil))
		if got := w.Body.String(); got != want {
			t.Errorf("%s answers %q, want %q", path, got, want)
		}
	}
}
