// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestDocFiles: a file doc.go holds the package comment and nothing else. Code is
// in files that are named for it.
func TestDocFiles(t *testing.T) {
	sources(t, func(name string, data []byte) {
		if filepath.Base(name) != "doc.go" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc == nil {
			t.Errorf("%s has no package comment", name)
		}
		if len(f.Decls) > 0 {
			t.Errorf("%s holds code: move it to a file that is named for it", name)
		}
	})
}
