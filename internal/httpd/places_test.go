// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestDescriptionNamesPlaces: the description of the API names no place a file system, and
// its members for a copy name the three places by their own ids.
//
// 001-01, 001-39
func TestDescriptionNamesPlaces(t *testing.T) {
	b := newBench(t)
	raw := b.as("", "GET", "/openapi.json", nil).ok(t).body
	word := regexp.MustCompile(`(?i)[^"]{0,40}file[ -]?systems?[^"]{0,40}`)
	for _, found := range word.FindAllString(string(raw), -1) {
		if !strings.Contains(found, "fileSystem") && !strings.Contains(found, "filesystemMd") { // a disk's format, and the file FILESYSTEM.md
			t.Errorf("the description says %q, want a name of the place that is meant", found)
		}
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	for name, s := range doc.Components.Schemas {
		if strings.HasSuffix(name, "DataCopy") {
			members = s.Properties
		}
	}
	for _, want := range []string{"place", "generation", "repo", "commit", "bucket", "key", "version", "volume", "host"} {
		if members[want] == nil {
			t.Errorf("a copy of data has no member %q in the description: %v", want, fmt.Sprint(members))
		}
	}
}
