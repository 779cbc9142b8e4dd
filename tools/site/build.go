// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

//go:embed assets
var assets embed.FS

var frame = template.Must(template.ParseFS(assets, "assets/page.html"))

// site is the pages of a repository while they become a site.
type site struct {
	repository fs.FS
	pages      map[string]*page  // by the path in the repository; made pages by the path of their directory
	copied     map[string][]byte // files of the repository that a page names, by their name in the site
	groups     []group           // the navigation
	errs       []error
}

// page is one page.
type page struct {
	file     string // path in the repository; "" for the list of a directory
	out      string // name in the site
	title    string
	source   []byte
	doc      ast.Node
	headings []heading
	leads    []*page // the pages that it links to
}

// heading is one heading of a page.
type heading struct {
	Level    int
	ID, Text string
}

// build returns the files of the site. The error names everything that is wrong with the pages.
func build(repository fs.FS, version string) (map[string][]byte, error) {
	s := &site{repository: repository, pages: map[string]*page{}, copied: map[string][]byte{}}
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		source, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		s.parse(name, source)
	}
	s.listDirectory("docs/adr", "Decisions")
	for _, p := range s.sorted() {
		s.resolve(p)
	}
	s.navigation()
	s.reached()
	if len(s.errs) > 0 {
		return nil, errors.Join(s.errs...)
	}
	return s.files(version)
}

func (s *site) fail(p *page, format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("%s: %s", p.file, fmt.Sprintf(format, args...)))
}

// names are the paths of the pages: all of docs/, and what says README elsewhere.
func (s *site) names() ([]string, error) {
	names := []string{"README.md", "ARCHITECTURE.md"}
	for _, top := range []string{"docs", "examples", "clients"} {
		err := fs.WalkDir(s.repository, top, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && name == top:
				return nil
			case err != nil:
				return err
			case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
				return fs.SkipDir
			case d.Type().IsRegular() && (d.Name() == "README.md" || top == "docs" && path.Ext(name) == ".md"):
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// outName is the name of a page in the site.
func outName(file string) string {
	if dir, ok := strings.CutSuffix(file, "README.md"); ok {
		return dir + "index.html"
	}
	return strings.TrimSuffix(file, ".md") + ".html"
}

// parse reads a page and gives each heading its anchor.
func (s *site) parse(file string, source []byte) {
	p := &page{file: file, out: outName(file), source: source}
	p.doc = parseMarkdown(source)
	ids := map[string]bool{}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			continue
		}
		text := plain(h, source)
		id := slug(text)
		for n := 1; ids[id]; n++ { // as GitHub tells equal headings apart
			id = fmt.Sprintf("%s-%d", slug(text), n)
		}
		ids[id] = true
		h.SetAttributeString("id", []byte(id))
		p.headings = append(p.headings, heading{h.Level, id, text})
		if h.Level != 1 {
			continue
		}
		if p.title != "" {
			s.fail(p, "it has two titles, %q and %q: begin the second with ##", p.title, text)
		}
		p.title = text
	}
	if p.title == "" {
		s.fail(p, "it has no title: begin it with a line # TITLE")
	}
	s.pages[file] = p
}

// listDirectory makes a page of links to the pages of a directory, which has no README.
func (s *site) listDirectory(dir, title string) {
	var text strings.Builder
	for _, p := range s.sorted() {
		if path.Dir(p.file) == dir {
			fmt.Fprintf(&text, "- [%s](%s)\n", p.title, path.Base(p.file))
		}
	}
	if text.Len() == 0 {
		return
	}
	source := []byte("# " + title + "\n\n" + text.String())
	s.parse(dir+"/README.md", source)
}

// sorted are the pages by path.
func (s *site) sorted() []*page {
	var all []*page
	for _, p := range s.pages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *page) int { return strings.Compare(a.file, b.file) })
	return all
}

// reached wants a way of links from README.md to each page.
func (s *site) reached() {
	top := s.pages["README.md"]
	seen := map[*page]bool{top: true}
	for todo := []*page{top}; len(todo) > 0; todo = todo[1:] {
		for _, p := range todo[0].leads {
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	for _, p := range s.sorted() {
		if !seen[p] {
			s.fail(p, "no link leads to it from README.md")
		}
	}
}

// view is what the frame shows of a page.
type view struct {
	Root, Title, Out, File, Version string
	Body                            template.HTML
	Contents                        []heading
	Groups                          []group
	Here                            string // the page of the navigation that is marked
}

// files renders everything.
func (s *site) files(version string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, data := range s.copied {
		files[name] = data
	}
	for _, p := range s.sorted() {
		body, err := render(p.doc, p.source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		v := view{
			Root: root(p.out), Title: p.title, Out: p.out, File: p.file, Version: version, Groups: s.groups, Here: s.here(p),
			Body: template.HTML(body), //nolint:gosec // goldmark has escaped it
		}
		for _, h := range p.headings {
			if h.Level == 2 || h.Level == 3 {
				v.Contents = append(v.Contents, h)
			}
		}
		if len(v.Contents) < 3 {
			v.Contents = nil
		}
		var out bytes.Buffer
		if err := frame.Execute(&out, v); err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		files[p.out] = out.Bytes()
	}
	var err error
	for _, name := range []string{"style.css", "search.js"} {
		if files[name], err = fs.ReadFile(assets, "assets/"+name); err != nil {
			return nil, err
		}
	}
	files[indexFile], err = s.index()
	return files, err
}

// root is the way from a page to the top of the site.
func root(out string) string { return strings.Repeat("../", strings.Count(out, "/")) }
