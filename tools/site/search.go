// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// indexFile is the name of the search's index in the site. It is a script: a page that is opened from a directory may
// load scripts beside it, but not fetch data.
const indexFile = "search-index.js"

// searchIndex is what search.js looks through.
type searchIndex struct {
	Pages    []searchPage `json:"pages"`
	Sections []section    `json:"sections"`
}

type searchPage struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// section is a heading of a page, and the text up to the next one.
type section struct {
	Page    int    `json:"page"`    // its number in Pages
	ID      string `json:"id"`      // "" = the page's beginning
	Heading string `json:"heading"` // "" = the page's beginning
	Text    string `json:"text"`
}

// index is the script with the index.
func (s *site) index() ([]byte, error) {
	var made searchIndex
	for i, p := range s.sorted() {
		made.Pages = append(made.Pages, searchPage{p.title, p.out})
		made.Sections = append(made.Sections, sections(i, p)...)
	}
	data, err := json.Marshal(made)
	return []byte("window.searchIndex = " + string(data) + ";\n"), err
}

// sections are the sections of a page in their order.
func sections(number int, p *page) []section {
	all := []section{{Page: number}}
	heading := 0
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if _, ok := n.(*ast.Heading); !ok {
			last := &all[len(all)-1]
			last.Text = strings.TrimSpace(last.Text + " " + plain(n, p.source))
			continue
		}
		if h := p.headings[heading]; h.Level > 1 {
			all = append(all, section{Page: number, ID: h.ID, Heading: h.Text})
		}
		heading++
	}
	return all
}
