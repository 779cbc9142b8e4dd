// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// maxCopied is the most that a file may have which a page links to.
const maxCopied = 1 << 20

// resolve makes the links of a page those of the site.
func (s *site) resolve(p *page) {
	// The walk calls a function that returns no error.
	_ = ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			s.link(p, n)
		case *ast.AutoLink:
			if u := string(n.URL(p.source)); n.AutoLinkType == ast.AutoLinkURL && !outside(u) {
				s.fail(p, "link to %s: only http, https and mailto lead out of the site", u)
			}
		case *ast.Image:
			s.fail(p, "image %s: the site shows no images", n.Destination)
		}
		return ast.WalkContinue, nil
	})
}

// outside: the link leads to another site, by a scheme that runs nothing.
func outside(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (slices.Contains([]string{"http", "https"}, u.Scheme) && u.Host != "" || u.Scheme == "mailto")
}

// link makes one link of a page one of the site.
func (s *site) link(p *page, n *ast.Link) {
	to := string(n.Destination)
	if outside(to) {
		n.SetAttributeString("rel", []byte("noopener noreferrer"))
		return
	}
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.RawQuery != "" || strings.HasPrefix(u.Path, "/") {
		s.fail(p, "link to %s: only http, https, mailto and paths relative to the page are links", to)
		return
	}
	target := p
	if u.Path != "" {
		name := path.Join(path.Dir(p.file), u.Path)
		if target = s.pageAt(name); target == nil {
			s.copy(p, n, name, u.Fragment)
			return
		}
		p.leads = append(p.leads, target)
	}
	if u.Fragment != "" && !slices.ContainsFunc(target.headings, func(h heading) bool { return h.ID == u.Fragment }) {
		s.fail(p, "link to %s: %s has no heading with that anchor", to, target.file)
		return
	}
	made := url.URL{Fragment: u.Fragment}
	if target != p {
		made.Path = root(p.out) + target.out
	}
	n.Destination = []byte(made.String())
}

// pageAt is the page of a path: a file, or the README of a directory; nil = there is none.
func (s *site) pageAt(name string) *page {
	if p := s.pages[name]; p != nil {
		return p
	}
	return s.pages[path.Join(name, "README.md")]
}

// copy lets a link lead to a copy of a file that is no page. As a text file, a browser shows it and runs nothing.
func (s *site) copy(p *page, n *ast.Link, name, fragment string) {
	info, err := fs.Stat(s.repository, name)
	switch {
	case err != nil:
		s.fail(p, "link to %s: there is no %s", n.Destination, name)
		return
	case !info.Mode().IsRegular() || info.Size() > maxCopied:
		s.fail(p, "link to %s: it is neither a page nor a file of at most 1 MiB", n.Destination)
		return
	case fragment != "":
		s.fail(p, "link to %s: only pages have anchors", n.Destination)
		return
	}
	data, err := fs.ReadFile(s.repository, name)
	if err != nil {
		s.fail(p, "link to %s: %v", n.Destination, err)
		return
	}
	out := "source/" + name + ".txt"
	s.copied[out] = data
	n.Destination = []byte((&url.URL{Path: root(p.out) + out}).String())
}
