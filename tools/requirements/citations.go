// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// number matches the number of a requirement, whether it exists or not.
var number = regexp.MustCompile(`\b00\d-\d\d\b`)

// citation is a test that names a requirement: a function of a package, or a script.
type citation struct {
	pkg, test string
	script    bool
}

// citations are all citations in a repository. A citation is a number in a
// comment. It belongs to the test function that contains the comment or follows
// it, even if the comment is in a subtest; in a script it belongs to the script.
type citations struct {
	of    map[string][]citation // by number, in the order of the files
	stray []string              // citations that belong to no test, each with its place
}

func (c *citations) add(number string, by citation) {
	if !slices.Contains(c.of[number], by) {
		c.of[number] = append(c.of[number], by)
	}
}

// findCitations reads the tests and scripts below root.
func findCitations(root string) (citations, error) {
	out := citations{of: map[string][]citation{}}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "node_modules" || p != root && (strings.HasPrefix(n, ".") || n == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		switch rel = filepath.ToSlash(rel); {
		case strings.HasSuffix(p, "_test.go"):
			return out.readGo(p, rel)
		case strings.HasSuffix(p, ".mjs"):
			return out.readScript(p, rel)
		}
		return nil
	})
	return out, err
}

// readGo finds the numbers in the comments of a test file.
func (c *citations) readGo(name, rel string) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range f.Comments {
		for _, comment := range group.List {
			for _, n := range number.FindAllString(comment.Text, -1) {
				if test := owner(f, group); test != "" {
					c.add(n, citation{pkg: filepath.ToSlash(filepath.Dir(rel)), test: test})
				} else {
					c.stray = append(c.stray, fmt.Sprintf("%s:%d cites %s outside any test", rel, fset.Position(comment.Pos()).Line, n))
				}
			}
		}
	}
	return nil
}

// owner returns the test function that contains the comment or follows it.
func owner(f *ast.File, group *ast.CommentGroup) string {
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !isTest.MatchString(fn.Name.Name) {
			continue
		}
		if fn.Doc == group || fn.Pos() <= group.Pos() && group.End() <= fn.End() {
			return fn.Name.Name
		}
	}
	return ""
}

var isTest = regexp.MustCompile(`^(Test|Fuzz)($|[^a-z])`)

// readScript finds the numbers in the comments of a script.
func (c *citations) readScript(name, rel string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	test, isTest := strings.CutSuffix(filepath.Base(name), ".test.mjs")
	for i, line := range strings.Split(string(data), "\n") {
		_, comment, _ := strings.Cut(line, "//")
		for _, n := range number.FindAllString(comment, -1) {
			if isTest {
				c.add(n, citation{pkg: filepath.ToSlash(filepath.Dir(rel)), test: test, script: true})
			} else {
				c.stray = append(c.stray, fmt.Sprintf("%s:%d cites %s outside any test", rel, i+1, n))
			}
		}
	}
	return nil
}
