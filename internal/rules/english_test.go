// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notEnglish lists wordings that docs/style.md rules out. Each one is clear-cut:
// it is wrong, or has a plainer equivalent, wherever this repository used it.
// A wording that is right in half of the places does not belong here: "what is"
// at the start of a sentence, "of several", "whoever" and "what becomes of" were
// tried and dropped.
var notEnglish = []struct {
	what string         // the wording, as the test reports it
	find *regexp.Regexp // matches it in a paragraph on one line
	say  string         // the plainer wording
}{
	// "go on" reads as a translation of one word that English splits: a process
	// keeps running, a guest resumes, a build continues, a connection stays open.
	{"go on", regexp.MustCompile(`(?i)\b(go|goes|going|gone|went) on\b`), "continue, keep running, resume"},
	// A sentence with a bare Who as its subject hides the subject: "Who ends it is
	// told" is "The caller that ends it gets an error".
	{"Who as a subject", regexp.MustCompile(`(^|[.:;] )Who [^?]*?[.;:](\s|$)`), "name the subject: a caller, an account, a client"},
	{"whom", regexp.MustCompile(`(?i)\bwhom\b`), "name the person or thing"},
	// A possessive without its noun sends the reader back to find the noun.
	{"that of the other", regexp.MustCompile(`(?i)\bthat of the others?\b`), "repeat the noun"},
	// Words that English had, and idioms that it never had.
	{"of no use", regexp.MustCompile(`(?i)\bof no use\b`), "cannot be used, does not help, useless"},
	{"as long as there is", regexp.MustCompile(`(?i)\bas long as there (is|are)\b`), "while it exists"},
	{"on its way", regexp.MustCompile(`(?i)\bon (its|their) way\b`), "being made, in transit, in progress"},
	{"under way", regexp.MustCompile(`(?i)\bunder way\b`), "in progress"},
	{"all the same", regexp.MustCompile(`(?i)\ball the same\b`), "anyway"},
	{"besides", regexp.MustCompile(`(?i)\bbesides\b`), "also, except, in addition to"},
	{"anew", regexp.MustCompile(`(?i)\banew\b`), "again, from the start"},
	{"lest", regexp.MustCompile(`(?i)\blest\b`), "so that ... not"},
	{"mend", regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix, repair"},
	{"comes of", regexp.MustCompile(`(?i)\b(come|comes|came) of (it|them|that|this|these|those|a|an|the|each|every|one)\b`), "the result, results from"},
	{"such a one", regexp.MustCompile(`(?i)\bsuch a one\b`), "such a, one like it"},
	// A virtual machine or its processes are paused; only a person stands still.
	{"stand still", regexp.MustCompile(`(?i)\b(stand|stands|stood|standing|hold|holds|held|holding) still\b`), "paused, frozen"},
}

// TestPlainEnglish holds docs/style.md where a machine can: comments of Go
// files, string literals that the product may show to somebody (those with a
// space), pages, scripts and units.
func TestPlainEnglish(t *testing.T) {
	walk(t, func(name string) bool {
		return slices.Contains([]string{".go", ".md", ".sh", ".mjs", ".py", ".service", ".yaml"}, path.Ext(name)) &&
			name != "docs/requirements.md" && name != "internal/rules/english_test.go"
	}, func(name string, data []byte) {
		for _, p := range prose(t, name, data) {
			for _, bad := range notEnglish {
				for _, at := range bad.find.FindAllStringIndex(p.text, -1) {
					t.Errorf("%s:%d: %s (say: %s): %s", name, p.line, bad.what, bad.say, around(p.text, at))
				}
			}
		}
	})
}

// paragraph is some text of a file on one line, and where it begins.
type paragraph struct {
	line int
	text string
}

// prose is what a file says to people. Of a page, what it quotes as wrong
// (a table row or list item that begins with ✗) is left out.
func prose(t *testing.T, name string, data []byte) []paragraph {
	t.Helper()
	if path.Ext(name) == ".go" {
		return goProse(t, name, data)
	}
	var all []paragraph
	begun := 0
	var words []string
	for i, line := range append(strings.Split(string(data), "\n"), "") {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "#/>*"))
		if line != "" && !strings.HasPrefix(line, "|") {
			if len(words) == 0 {
				begun = i + 1
			}
			words = append(words, line)
			continue
		}
		if len(words) > 0 {
			all = append(all, paragraph{begun, strings.Join(words, " ")})
			words = nil
		}
		for cell := range strings.SplitSeq(line, "|") {
			if cell = strings.TrimSpace(cell); cell != "" && !strings.HasPrefix(cell, "✗") {
				all = append(all, paragraph{i + 1, cell})
			}
		}
	}
	return all
}

// goProse is the comments of a Go file, and of product code the strings.
func goProse(t *testing.T, name string, data []byte) []paragraph {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, data, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var all []paragraph
	for _, group := range f.Comments {
		line := files.Position(group.Pos()).Line
		for part := range strings.SplitSeq(group.Text(), "\n\n") {
			all = append(all, paragraph{line, strings.Join(strings.Fields(part), " ")})
		}
	}
	if strings.HasSuffix(name, "_test.go") {
		return all
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, paragraph{files.Position(lit.Pos()).Line, strings.Join(strings.Fields(text), " ")})
			}
		}
		return true
	})
	return all
}

// around is a finding with some of the words on both sides.
func around(text string, at []int) string {
	from, to := max(0, at[0]-40), min(len(text), at[1]+40)
	return strings.ToValidUTF8("…"+text[from:to]+"…", "")
}
