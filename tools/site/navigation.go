// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// group is a part of the navigation.
type group struct {
	Name  string
	Links []entry
}

// entry is one page of the navigation.
type entry struct{ Label, Out string }

// navigation makes the navigation from the list below README.md's heading More: each item is a group, begins with its
// name in bold, and has links to pages.
func (s *site) navigation() {
	top := s.pages["README.md"]
	more := false
	for n := top.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			more = plain(h, top.source) == "More"
		}
		if list, ok := n.(*ast.List); ok && more {
			for item := list.FirstChild(); item != nil; item = item.NextSibling() {
				s.groups = append(s.groups, s.group(top, item))
			}
		}
	}
	if len(s.groups) == 0 {
		s.fail(top, "it has no list below a heading More, which the site needs for its navigation")
	}
}

// group reads one item of the list.
func (s *site) group(top *page, item ast.Node) group {
	var g group
	// The walk calls a function that returns no error.
	_ = ast.Walk(item, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Emphasis:
			if n.Level == 2 && g.Name == "" {
				g.Name = plain(n, top.source)
			}
		case *ast.Link:
			label := plain(n, top.source)
			first, size := utf8.DecodeRuneInString(label)
			out, _, _ := strings.Cut(string(n.Destination), "#") // of the site already: see resolve
			g.Links = append(g.Links, entry{string(unicode.ToUpper(first)) + label[size:], out})
		}
		return ast.WalkContinue, nil
	})
	if g.Name == "" || len(g.Links) == 0 {
		s.fail(top, "the item %q below More has no name in bold, or no link", plain(item, top.source))
	}
	return g
}

// here is the page of the navigation that stands for a page: itself, or the list of its directory.
func (s *site) here(p *page) string {
	for _, g := range s.groups {
		for _, e := range g.Links {
			if e.Out == p.out {
				return p.out
			}
		}
	}
	if p.file == "README.md" {
		return ""
	}
	for dir := path.Dir(p.file); dir != "."; dir = path.Dir(dir) {
		if up := s.pages[path.Join(dir, "README.md")]; up != nil && up != p {
			return s.here(up)
		}
	}
	return ""
}
