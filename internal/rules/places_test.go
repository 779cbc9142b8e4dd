// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesNamePlaces: no page calls a place of work a filesystem; each place has one
// name, which the page of the three places gives.
//
// 000-48, 001-01, 001-02
func TestPagesNamePlaces(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`(?i)filesystem`)
	for _, p := range append(pages, filepath.Join(root(t), "README.md"), filepath.Join(root(t), "ARCHITECTURE.md")) {
		name, err := filepath.Rel(root(t), p)
		if err != nil {
			t.Fatal(err)
		}
		if name == "docs/requirements.md" { // it quotes what is asked for
			continue
		}
		text := strings.NewReplacer("FILESYSTEM.md", "", "filesystem-md", "", "warren-agent filesystem", "").Replace(page(t, name)) // a file, and what writes it
		if word.MatchString(text) {
			t.Errorf("%s says \"filesystem\": name the working directory, object storage or the repository", name)
		}
	}
	names := section(t, "docs/truth.md", "Three places")
	says(t, "docs/truth.md", names, "working directory", "live work", "object storage", "what was produced or given", "repository", "what changed and was accepted")
	says(t, "docs/truth.md", names, "| volume |", "| directory of the host |", "| copy |", "| cache |", "| memory |", "| audit record |")
}
