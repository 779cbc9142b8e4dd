// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "testing"

// A secret for some paths is for no path that a server may read as another one.
func TestCovers(t *testing.T) {
	u := SecretUse{Methods: []string{"GET"}, Paths: []string{"/v1/**", "/repos/*/issues", "/files/a b", "/keys/x*"}}
	for path, want := range map[string]bool{
		"/v1/x": true, "/v1/a/b": true, "/v1/": true, "/v1/a%20b": true, "/v1/%61": true, "/v1/%C3%BC": true, "/repos/acme/issues": true, "/files/a%20b": true, "/keys/x1": true, "/keys/%78": true,
		"/v1": false, "/v2/x": false, "/repos/acme/issues/1": false, "/repos/issues": false, "/": false, "": false, "*": false,
		"/v1/../x": false, "/v1/..": false, "/v1/%2e%2e/x": false, "/v1/a%3b/../x": false, "/v1/a%3bb": false, "/v1/a;b": false, "/v1/a%3fb": false, "/v1/a%23b": false, "/v1/%0a": false, "/v1/%0d%0a": false,
		"/v1/%c0%ae%c0%ae/x": false, "/v1/%ff": false, "/v1/x.": false, "/v1/x%20": false, "/v1/..%20/x": false, "/v1//x": false, "/v1/%2fx": false, "/v1/%5cx": false, "/v1/\\x": false, "/v1/%252e": false,
		"/v1/%00": false, "/v1/%": false, "/v1/%zz": false, "/v1/%ef%bc%8e%ef%bc%8e/x": false, "/v1/\x80": false, "/v1/a b": false,
	} {
		if got := u.Covers("GET", path); got != want {
			t.Errorf("the path %q is covered: %v, want %v", path, got, want)
		}
	}
	if u.Covers("POST", "/v1/x") {
		t.Error("another method is covered")
	}
	if all := (SecretUse{}); !all.Covers("POST", "/v1/..;/x") {
		t.Error("a use for all paths covers not all paths")
	}
}
