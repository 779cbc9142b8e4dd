// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestSignature: a link to a file is signed as E2B's SDKs sign it.
func TestSignature(t *testing.T) {
	New(Config{}) // its routes do not contradict each other
	got := signature("hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", "")
	if want := "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

// TestKey: the form of a key that E2B's Python SDK takes is the key itself.
func TestKey(t *testing.T) {
	for given, want := range map[string]string{"e2b_616263": "abc", "abc": "abc", "e2b_": "e2b_", "e2b_xyz": "e2b_xyz", "": ""} {
		if got := key(given); got != want {
			t.Errorf("the key %q is read as %q, want %q", given, got, want)
		}
	}
}

// TestMetadataFilter: the filter of a list is escaped as the SDKs do it, three times.
func TestMetadataFilter(t *testing.T) {
	for given, want := range map[string]string{"a%2520k%3Db%2520c": "b c", "a%2520k=b%2520c": "b c"} {
		m, err := metadataOf(given)
		if err != nil || m["a k"] != want {
			t.Errorf("the filter %q means %v (%v), want a k = %s", given, m, err, want)
		}
	}
}

// TestFileMetadata: headers become attributes of a file, within E2B's limits.
func TestFileMetadata(t *testing.T) {
	got, err := attrsOf(http.Header{"X-Metadata-Author": {"mish"}, "X-Other": {"x"}})
	if err != nil || !maps.Equal(got, map[string]string{"e2b.author": "mish"}) {
		t.Errorf("the attributes are %v, %v", got, err)
	}
	if back := fileMetadata(vm.FileInfo{Attrs: map[string]string{"e2b.author": "mish", "other": "x"}}); !maps.Equal(back, map[string]string{"author": "mish"}) {
		t.Errorf("the metadata is %v", back)
	}
	for what, h := range map[string]http.Header{
		"no ASCII": {"X-Metadata-A": {"ü"}}, "a control character": {"X-Metadata-A": {"a\tb"}}, "no key": {"X-Metadata-": {"x"}},
		"too much": {"X-Metadata-A": {strings.Repeat("x", 2048)}, "X-Metadata-B": {strings.Repeat("x", 2048)}},
	} {
		if _, err := attrsOf(h); vm.KindOf(err) != vm.Invalid {
			t.Errorf("metadata with %s gives %v, want it refused", what, err)
		}
	}
}

// TestAge: an SDK of another major version is told so, with the command that installs the right one.
func TestAge(t *testing.T) {
	for agent, want := range map[string]string{
		"": "", "curl/8.0": "", "e2b-js-sdk/2.51.0": "", "e2b-python-sdk/2.45.1 integration": "",
		"e2b-js-sdk/1.13.2":        "too old",
		"e2b-python-sdk/0.17.0":    "too old",
		"e2b-js-sdk/3.0.0-rc.1":    "newer",
		"e2b-js-sdk/99999999999.1": "", // no version
	} {
		err := answers(agent)
		if want == "" && err != nil {
			t.Errorf("%q is refused: %v", agent, err)
		}
		if want != "" && (vm.KindOf(err) != vm.Unsupported || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q gets %v, want that it is %s", agent, err, want)
		}
	}
}
