// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func matches(t *testing.T, q SearchQuery, text string) (out []string) {
	t.Helper()
	f, err := newFinder(q, "EMPTY_QUERY", "INVALID_REGEX")
	if err != nil {
		t.Fatal(err)
	}
	f.lines([]byte(text), func(number, from, to, start, end int) bool {
		out = append(out, fmt.Sprintf("%d:%s:%d-%d", number, text[from:to], start, end))
		return true
	})
	return out
}

// TestFinder: a search finds each line that matches, once, with the bytes of its first
// match.
func TestFinder(t *testing.T) {
	const text = "one Two\nthree\r\n\ntwo two\nfour_two two\nend"
	for _, c := range []struct {
		q    SearchQuery
		want string
	}{
		{SearchQuery{Query: "two"}, "1:one Two:4-7 4:two two:0-3 5:four_two two:5-8"},
		{SearchQuery{Query: "two", CaseSensitive: true}, "4:two two:0-3 5:four_two two:5-8"},
		{SearchQuery{Query: "two", WholeWord: true}, "1:one Two:4-7 4:two two:0-3 5:four_two two:9-12"},
		{SearchQuery{Query: "^t.*e$", Regex: true}, "2:three:0-5"},
		{SearchQuery{Query: `\Atwo`, Regex: true}, "4:two two:0-3"},
		{SearchQuery{Query: `(?i)END`, Regex: true}, "6:end:0-3"},
		{SearchQuery{Query: `e\s*t`, Regex: true}, "1:one Two:2-5"},
		{SearchQuery{Query: "t.e", Regex: false}, ""},
		{SearchQuery{Query: "d$", Regex: true}, "6:end:2-3"},
		{SearchQuery{Query: "[^x]two", Regex: true}, "1:one Two:3-7 4:two two:3-7 5:four_two two:4-8"},
	} {
		if got := strings.Join(matches(t, c.q, text), " "); got != c.want {
			t.Errorf("%+v finds %q, want %q", c.q, got, c.want)
		}
	}
}

// TestHostileExpressions: no expression takes long, and one that cannot be is refused
// with its reason.
func TestHostileExpressions(t *testing.T) {
	text := strings.Repeat("a", 100_000)
	began := time.Now()
	matches(t, SearchQuery{Query: `(a*)*(a|aa)+(a+)+$b`, Regex: true}, text)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("an expression that makes others backtrack took %s", took)
	}
	for _, bad := range []string{"(", `(a)\1`, "a{1,2000}", strings.Repeat("a", 2000), "(?=a)"} {
		_, err := newFinder(SearchQuery{Query: bad, Regex: true}, "EMPTY_QUERY", "INVALID_REGEX")
		if e := vm.AsError(err); err == nil || e.Code != "INVALID_REGEX" || e.Fields["reason"] == "" {
			t.Errorf("%.20q is %v, want INVALID_REGEX with a reason", bad, err)
		}
	}
	if _, err := newFinder(SearchQuery{}, "EMPTY_QUERY", "INVALID_REGEX"); vm.AsError(err).Code != "EMPTY_QUERY" {
		t.Errorf("an empty query is %v", err)
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct{ glob, takes, leaves string }{
		{"*.go", "a.go b/c.go .go", "a.gox go"},
		{"src/**/*.ts", "src/a.ts src/x/y/a.ts", "a.ts lib/src/a.ts"},
		{"node_modules/**", "node_modules/a node_modules/a/b", "x/node_modules/a node_modules"},
		{"/a?.{js,ts}", "ab.js ac.ts", "a.js x/ab.js abc.ts"},
		{"d[0-9]/*", "d1/x", "dx/x d1/x/y"},
		{"d[!0-9]/ü*", "dx/üb", "d1/üb dx/ub"},
		{`a\*b`, "a*b", "axb"},
		{"a.b", "a.b x/a.b", "axb"},
	} {
		re, err := globExpression(c.glob, true)
		if err != nil {
			t.Errorf("the pattern %s is refused: %v", c.glob, err)
			continue
		}
		for _, p := range strings.Fields(c.takes) {
			if !re.MatchString(p) {
				t.Errorf("%s leaves out %s", c.glob, p)
			}
		}
		for _, p := range strings.Fields(c.leaves) {
			if re.MatchString(p) {
				t.Errorf("%s takes %s", c.glob, p)
			}
		}
	}
	for _, bad := range []string{"a{b", "a}", "[a", `a\`, "[z-a]", strings.Repeat("*", 2000)} {
		if _, err := globExpression(bad, true); err == nil {
			t.Errorf("%.20q is taken for a pattern", bad)
		}
	}
}

// TestDiffNames: the name of a file is read as git quotes it.
func TestDiffNames(t *testing.T) {
	for quoted, want := range map[string]string{
		"a/plain": "plain", `"a/new\nline"`: "new\nline", `"a/\303\274\""`: "ü\"", "a/with space\t": "with space", `"a/tab\tb"`: "tab\tb",
	} {
		if got, ok := diffName(quoted, "a/"); !ok || got != want {
			t.Errorf("%s is read as %q, %v", quoted, got, ok)
		}
	}
	if _, ok := diffName("/dev/null", "a/"); ok {
		t.Error("/dev/null is taken for a file")
	}
	for _, name := range []string{"plain", "new\nline", "ü\"", `back\slash`, "tab\t"} {
		if got := unquoteC(quoteC(name)); got != name {
			t.Errorf("%q comes back as %q", name, got)
		}
	}
}
