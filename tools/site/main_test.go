// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

var once = sync.OnceValues(func() (map[string][]byte, error) { return build(os.DirFS("../.."), "v0") })

// built is the site of this repository.
func built(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := once()
	if err != nil {
		t.Fatalf("the pages of this repository make no site:\n%v", err)
	}
	return files
}

// TestRepository: the pages of this repository make a site. No link of them is broken, each page is reached from
// README.md, and the same pages give the same bytes.
func TestRepository(t *testing.T) {
	files := built(t)
	for _, name := range []string{"index.html", "ARCHITECTURE.html", "docs/cli.html", "docs/adr/index.html", "docs/adr/0007-one-ledger.html", "docs/agents/index.html", "docs/start/operator.html", "examples/go/index.html", "clients/python/index.html", "source/test/receipt/verify.py.txt"} {
		if len(files[name]) == 0 {
			t.Errorf("the site has no %s", name)
		}
	}
	again, err := build(os.DirFS("../.."), "v0")
	if err != nil {
		t.Fatalf("made again, the pages make no site: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !bytes.Equal(files[name], again[name]) {
			t.Errorf("%s has other bytes when it is made again", name)
		}
	}
}

// TestNothingFromOutside: a browser asks no other host for anything, only a reader's click leads there. No page has a
// script of its own.
func TestNothingFromOutside(t *testing.T) {
	asks := regexp.MustCompile(`(?i)<(script|link|img|iframe|source|object|embed|audio|video|form|base|meta)\b[^>]*>`)
	ours := regexp.MustCompile(`^<script defer src="(\.\./)*search\.js">$|^<link rel="(icon|stylesheet)" href="(data:,|(\.\./)*style\.css)">$|^<meta (charset|name)=`)
	byScript := regexp.MustCompile(`(?i)url\(|@import|https?:|fetch\(|XMLHttpRequest|WebSocket`)
	for name, data := range built(t) {
		switch filepath.Ext(name) {
		case ".html":
			for _, tag := range asks.FindAllString(string(data), -1) {
				if !ours.MatchString(tag) {
					t.Errorf("%s makes a browser ask for %s", name, tag)
				}
			}
		case ".css", ".js":
			if found := byScript.Find(data); found != nil && name != indexFile {
				t.Errorf("%s may ask for something by %q", name, found)
			}
		}
	}
}

// TestStartPages: each first page is short, and README.md and the navigation lead to it.
func TestStartPages(t *testing.T) {
	files := built(t)
	pages, err := filepath.Glob("../../docs/start/*.md")
	if err != nil || len(pages) != 3 {
		t.Fatalf("there are %d first pages (%v), want 3", len(pages), err)
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > 60 {
			t.Errorf("%s has %d lines, want at most 60", name, n)
		}
		link := `<li><a href="../docs/start/` + strings.TrimSuffix(filepath.Base(name), ".md") + `.html">`
		if !strings.Contains(string(files["docs/network.html"]), link) {
			t.Errorf("the navigation of a page has no link %s", link)
		}
	}
}

// pages is a small repository.
func pages(more map[string]string) fstest.MapFS {
	all := fstest.MapFS{
		"README.md":       {Data: []byte("# Top\n\n## More\n\n- **Read**: [the design](ARCHITECTURE.md) · [a page](docs/a.md)\n")},
		"ARCHITECTURE.md": {Data: []byte("# Design\n")},
		"docs/a.md":       {Data: []byte("# Page a\n\ntext\n")},
		"Makefile":        {Data: []byte("all:\n")},
	}
	for name, text := range more {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// TestBroken: what is wrong with a page is an error that names the page.
func TestBroken(t *testing.T) {
	const more = "\n## More\n\n- **Read**: [a](docs/a.md) [b](ARCHITECTURE.md)\n"
	for want, change := range map[string]map[string]string{
		"docs/a.md: link to b.md: there is no docs/b.md":                         {"docs/a.md": "# A\n\n[x](b.md)\n"},
		"docs/a.md: link to #here: docs/a.md has no heading with that anchor":    {"docs/a.md": "# A\n\n[x](#here)\n"},
		"docs/a.md: link to ../README.md#less: README.md has no heading":         {"docs/a.md": "# A\n\n[x](../README.md#less)\n"},
		"docs/a.md: link to ../../etc/passwd: there is no ../etc/passwd":         {"docs/a.md": "# A\n\n[x](../../etc/passwd)\n"},
		"docs/a.md: link to /etc/passwd: only http":                              {"docs/a.md": "# A\n\n[x](/etc/passwd)\n"},
		"docs/a.md: link to //example.com/x: only http":                          {"docs/a.md": "# A\n\n[x](//example.com/x)\n"},
		"docs/a.md: link to javascript:alert(1): only http":                      {"docs/a.md": "# A\n\n[x](javascript:alert(1))\n"},
		"docs/a.md: link to data:text/html,x: only http":                         {"docs/a.md": "# A\n\n[x](data:text/html,x)\n"},
		"docs/a.md: link to javascript:x: only http, https and mailto lead":      {"docs/a.md": "# A\n\n<javascript:x>\n"},
		"docs/a.md: image https://example.com/a.png: the site shows no images":   {"docs/a.md": "# A\n\n![x](https://example.com/a.png)\n"},
		"docs/a.md: link to ../Makefile#all: only pages have anchors":            {"docs/a.md": "# A\n\n[x](../Makefile#all)\n"},
		"docs/a.md: link to ../docs: it is neither a page nor a file":            {"docs/a.md": "# A\n\n[x](../docs)\n"},
		"docs/a.md: it has no title":                                             {"docs/a.md": "text\n"},
		`docs/a.md: it has two titles, "A" and "B"`:                              {"docs/a.md": "# A\n\n# B\n"},
		"docs/b.md: no link leads to it from README.md":                          {"docs/b.md": "# B\n\n[x](a.md)\n"},
		"README.md: it has no list below a heading More":                         {"README.md": "# Top\n\n[a](docs/a.md) [b](ARCHITECTURE.md)\n"},
		`README.md: the item "loose" below More has no name in bold, or no link`: {"README.md": "# Top\n" + more + "- loose\n"},
	} {
		_, err := build(pages(change), "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the pages give the error %v, want in it %q", err, want)
		}
	}
	if _, err := build(pages(nil), ""); err != nil {
		t.Errorf("pages without a fault: %v", err)
	}
}

// TestMarkup: links become those of the site, HTML of a page is shown and not obeyed, and tables and code can be
// scrolled by the keyboard.
func TestMarkup(t *testing.T) {
	files, err := build(pages(map[string]string{
		"docs/a.md": "# Page *a*\n\n## One `--two`: three_four!\n\n## One `--two`: three_four!\n\n" +
			"[up](../README.md) [more](../README.md#more) [below](#one---two-three_four-1) [file](../Makefile) [out](https://example.com/?a=1&b=2)\n\n" +
			"<script>alert(1)</script>\n\nin a line <img src=x onerror=alert(1)> of text & <NAME>\n\n" +
			"| a | b |\n|---|---|\n| `x\\|y` | 2 |\n\n    <b>code</b>\n\n```js\n1 < 2\n```\n",
	}), "v1")
	if err != nil {
		t.Fatalf("the pages make no site: %v", err)
	}
	got := string(files["docs/a.html"])
	for _, want := range []string{
		"<title>Page a – Warren</title>", `<h2 id="one---two-three_four">`, `<h2 id="one---two-three_four-1">`,
		`<a href="../index.html">up</a>`, `<a href="../index.html#more">more</a>`, `<a href="#one---two-three_four-1">below</a>`,
		`<a href="../source/Makefile.txt">file</a>`, `<a href="https://example.com/?a=1&amp;b=2" rel="noopener noreferrer">out</a>`,
		"&lt;script&gt;alert(1)&lt;/script&gt;", "in a line &lt;img src=x onerror=alert(1)&gt; of text &amp; &lt;NAME&gt;",
		`<div class="wide" tabindex="0"><table>`, "<code>x|y</code>", `<pre tabindex="0"><code>&lt;b&gt;code&lt;/b&gt;`, "1 &lt; 2",
		`<a href="../docs/a.html" aria-current="page">A page</a>`, "Warren v1 · made from <code>docs/a.md</code>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s:\n%s", want, got)
		}
	}
	if string(files["source/Makefile.txt"]) != "all:\n" {
		t.Errorf("the copy of the Makefile has %q", files["source/Makefile.txt"])
	}
	index := string(files[indexFile])
	for _, want := range []string{`{"title":"Page a","url":"docs/a.html"}`, `"id":"one---two-three_four-1","heading":"One --two: three_four!"`, `a b x|y 2 \u003cb\u003ecode\u003c/b\u003e 1 \u003c 2`} {
		if !strings.Contains(index, want) {
			t.Errorf("the index of the search lacks %s:\n%s", want, index)
		}
	}
}

// TestWrite: a site replaces an earlier one whole, and nothing else.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	for _, files := range []map[string][]byte{{indexFile: nil, "docs/old.html": nil}, {indexFile: []byte("new"), "index.html": nil}} {
		if err := write(dir, files); err != nil {
			t.Fatalf("the site is not written: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "docs")); err == nil {
		t.Error("a page of the earlier site is left")
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(other, map[string][]byte{indexFile: nil}); err == nil || !strings.Contains(err.Error(), "name an empty directory") {
		t.Errorf("a directory with other files gives the error %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "mine")); err != nil {
		t.Errorf("a file that is no site's is gone: %v", err)
	}
}
