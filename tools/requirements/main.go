// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command requirements prints each requirement number of docs/requirements.md,
// the tests that cite it and how they ended in the last test run. It reads
// sources and .work/test-results.json and runs nothing.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

var number = regexp.MustCompile(`\b00[0-4]-\d\d\b`)

// citation is one test that names a requirement.
type citation struct{ pkg, test string }

// result is one line of .work/test-results.json.
type result struct {
	Outcome string `json:"outcome"`
}

func main() {
	gaps := flag.Bool("gaps", false, "print only what no passing test cites")
	flag.Parse()
	if err := run(os.Stdout, ".", *gaps); err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string, gaps bool) error {
	lines, err := readRequirements(filepath.Join(root, "docs/requirements.md"))
	if err != nil {
		return err
	}
	cited, err := citations(root)
	if err != nil {
		return err
	}
	results := map[string]result{}
	data, err := os.ReadFile(filepath.Join(root, ".work/test-results.json"))
	if err == nil {
		err = json.Unmarshal(data, &results)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	covered := 0
	for _, l := range lines {
		tests, ok := describe(cited[l.number], results)
		if ok {
			covered++
		}
		if gaps && ok {
			continue
		}
		fmt.Fprintf(out, "%s  %s\n", l.number, l.text)
		for _, t := range tests {
			fmt.Fprintln(out, "        "+t)
		}
	}
	fmt.Fprintf(out, "%d of %d requirements are cited by a test that passed\n", covered, len(lines))
	return nil
}

// describe renders the tests of one requirement and reports whether one passed.
func describe(cites []citation, results map[string]result) (lines []string, passed bool) {
	for _, c := range cites {
		outcome := "not run"
		for key, r := range results {
			pkg, test, _ := strings.Cut(key, " ")
			if strings.HasSuffix(pkg, c.pkg) && (test == c.test || path.Base(test) == c.test) {
				outcome = r.Outcome
				break
			}
		}
		passed = passed || outcome == "pass"
		lines = append(lines, fmt.Sprintf("%-7s %s %s", outcome, c.pkg, c.test))
	}
	sort.Strings(lines)
	return lines, passed
}

type requirement struct{ number, text string }

func readRequirements(name string) ([]requirement, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []requirement
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		cells := strings.Split(sc.Text(), "|")
		if len(cells) == 4 && number.MatchString(cells[1]) {
			out = append(out, requirement{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])})
		}
	}
	return out, sc.Err()
}

// citations walks the tests below root.
func citations(root string) (map[string][]citation, error) {
	out := map[string][]citation{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "node_modules" || (strings.HasPrefix(n, ".") && n != ".") || n == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(p, "_test.go"):
			return goCitations(p, filepath.Dir(rel), out)
		case strings.HasSuffix(p, ".test.mjs"), strings.HasSuffix(p, ".txtar"):
			return fileCitations(p, filepath.Dir(rel), out)
		}
		return nil
	})
	return out, err
}

// goCitations finds numbers in the comments above and inside test functions.
func goCitations(name, pkg string, out map[string][]citation) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !(strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
			continue
		}
		from := fn.Pos()
		if fn.Doc != nil {
			from = fn.Doc.Pos()
		}
		seen := map[string]bool{}
		for _, group := range f.Comments {
			if group.Pos() < from || group.End() > fn.End() {
				continue
			}
			for _, n := range number.FindAllString(group.Text(), -1) {
				if !seen[n] {
					seen[n] = true
					out[n] = append(out[n], citation{filepath.ToSlash(pkg), fn.Name.Name})
				}
			}
		}
	}
	return nil
}

// fileCitations finds numbers anywhere in a script; the test is the file's name.
func fileCitations(name, pkg string, out map[string][]citation) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	base := filepath.Base(name)
	for _, ext := range []string{".txtar", ".test.mjs"} {
		base = strings.TrimSuffix(base, ext)
	}
	seen := map[string]bool{}
	for _, n := range number.FindAllString(string(data), -1) {
		if !seen[n] {
			seen[n] = true
			out[n] = append(out[n], citation{strings.TrimSuffix(filepath.ToSlash(pkg), "/testdata/script"), base})
		}
	}
	return nil
}
