// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
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

// TestNamesDifferByMoreThanCase: two functions of a package, or two methods of a type, are
// not told apart by a capital alone.
func TestNamesDifferByMoreThanCase(t *testing.T) {
	seen := map[string]string{}
	sources(t, func(name string, data []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, data, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name == "init" {
				continue
			}
			scope := filepath.Dir(name) + " " + receiver(fn)
			key := scope + " " + strings.ToLower(fn.Name.Name)
			if other := seen[key]; other != "" && other != fn.Name.Name {
				t.Errorf("%s: %s and %s differ only by case: give one a name that says what is different", strings.TrimSpace(scope), other, fn.Name.Name)
			}
			seen[key] = fn.Name.Name
		}
	})
}

// receiver is the name of a method's type; "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	var name string
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
