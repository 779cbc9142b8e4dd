// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFailuresHaveWords: a test that fails says which fact failed. Its message
// has a word in addition to the values that it prints; only an error stands alone.
func TestFailuresHaveWords(t *testing.T) {
	walk(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }, func(name string, data []byte) {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, data, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isWordless(call) {
				t.Errorf("%s: the message does not say which fact failed", files.Position(call.Pos()))
			}
			return true
		})
	})
}

var (
	verb = regexp.MustCompile(`%[-+# 0]*[0-9*]*(\.[0-9*]*)?(\[[0-9]+\])?[a-zA-Z%]`)
	word = regexp.MustCompile(`\pL\pL`)
	// An error says by itself what failed: err, readErr, errs[0], r.err, ctx.Err().
	namedError = regexp.MustCompile(`^(err|errs|err[0-9A-Z].*|.*[Ee]rr|.*Errs|Err.*|Cause)$`)
)

// isWordless tells whether a call fails a test with values alone.
func isWordless(call *ast.CallExpr) bool {
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || named(fn.X, "fmt") {
		return false
	}
	switch fn.Sel.Name {
	case "Errorf", "Fatalf":
		text, constant := literal(call.Args[0])
		return constant && !word.MatchString(verb.ReplaceAllString(text, ""))
	case "Error", "Fatal":
		for _, arg := range call.Args {
			if saysItself(arg) {
				return false
			}
		}
		return true
	}
	return false
}

// named tells whether e is the identifier name.
func named(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// literal is the text of a string literal, or of several that are joined, and
// whether e is one.
func literal(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, xok := literal(e.X)
		y, yok := literal(e.Y)
		return x + y, xok || yok
	}
	return "", false
}

// saysItself tells whether an argument of Error or Fatal is an error or has a word.
func saysItself(arg ast.Expr) bool {
	switch arg := arg.(type) {
	case *ast.Ident:
		return namedError.MatchString(arg.Name)
	case *ast.SelectorExpr:
		return namedError.MatchString(arg.Sel.Name)
	case *ast.IndexExpr:
		return saysItself(arg.X)
	case *ast.CallExpr:
		return saysItself(arg.Fun)
	}
	text, ok := literal(arg)
	return ok && word.MatchString(text)
}
