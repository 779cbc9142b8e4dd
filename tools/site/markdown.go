// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown is Markdown with tables. HTML in a page is shown as text.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(ownNodes{}, 1))),
)

func parseMarkdown(source []byte) ast.Node {
	return markdown.Parser().Parse(text.NewReader(source))
}

func render(doc ast.Node, source []byte) (string, error) {
	var out bytes.Buffer
	err := markdown.Renderer().Render(&out, source, doc)
	return out.String(), err
}

// slug is the anchor of a heading, as GitHub makes it, so that links work on both.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '-':
			return '-'
		case r == '_', unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// plain is the text of a node without its markup, in one line.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	// The walk calls a function that returns no error.
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			value := n.Value(source)
			if n.Parent().Kind() != ast.KindCodeSpan {
				value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
			}
			out.Write(value)
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.AutoLink:
			out.Write(n.Label(source))
		case *ast.RawHTML:
			out.Write(n.Segments.Value(source))
		case *ast.CodeBlock, *ast.FencedCodeBlock, *ast.HTMLBlock:
			out.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}

// ownNodes renders what differs from goldmark's own HTML.
type ownNodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (ownNodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, headingHTML)
	r.Register(ast.KindCodeBlock, codeHTML)
	r.Register(ast.KindFencedCodeBlock, codeHTML)
	r.Register(ast.KindRawHTML, rawHTML)
	r.Register(ast.KindHTMLBlock, rawHTML)
	r.Register(tables.KindTable, tableHTML)
}

// headingHTML is a heading with a link to itself.
func headingHTML(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.Heading)
	id := ""
	if value, ok := h.AttributeString("id"); ok {
		id = html.EscapeString(string(value.([]byte)))
	}
	switch {
	case entering && id != "":
		fmt.Fprintf(w, `<h%d id="%s">`, h.Level, id)
	case entering:
		fmt.Fprintf(w, "<h%d>", h.Level)
	case id != "" && h.Level > 1:
		fmt.Fprintf(w, ` <a class="anchor" href="#%s" aria-label="Link to this section">#</a></h%d>`+"\n", id, h.Level)
	default:
		fmt.Fprintf(w, "</h%d>\n", h.Level)
	}
	return ast.WalkContinue, nil
}

// codeHTML is a block of code, which the keyboard can scroll.
func codeHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		fmt.Fprintf(w, `<pre tabindex="0"><code>%s</code></pre>`+"\n", html.EscapeString(string(node.Lines().Value(source))))
	}
	return ast.WalkSkipChildren, nil
}

// rawHTML shows HTML of a page as the text that it is.
func rawHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkSkipChildren, nil
	}
	switch n := node.(type) {
	case *ast.RawHTML:
		_, _ = w.WriteString(html.EscapeString(string(n.Segments.Value(source)))) // the writer keeps its error
	case *ast.HTMLBlock:
		shown := string(n.Lines().Value(source))
		if n.HasClosure() {
			shown += string(n.ClosureLine.Value(source))
		}
		fmt.Fprintf(w, "<p>%s</p>\n", html.EscapeString(shown))
	}
	return ast.WalkSkipChildren, nil
}

// tableHTML is a table in a box that scrolls where the window is narrow.
func tableHTML(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<div class="wide" tabindex="0"><table>` + "\n") // the writer keeps its error
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}
