// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser starts Chromium.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no Chromium, in which the search runs: deploy/install-deps.sh --tests installs it")
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		o = append(o, chromedp.NoSandbox)
	}
	ctx, end := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(end)
	ctx, end = chromedp.NewExecAllocator(ctx, o...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end) // waits until it has ended
	return ctx
}

// tab is one page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func (b tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("the browser: %v", err)
	}
}

// text is what an expression of JavaScript answers.
func (b tab) text(js string) string {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](js))
	if err != nil {
		b.t.Fatalf("the page's %s: %v", js, err)
	}
	return got
}

// becomes waits until an expression has an answer.
func (b tab) becomes(js, want string) {
	b.t.Helper()
	got := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = b.text(js); got == want {
			return
		}
	}
	b.t.Fatalf("the page's %s is %q, want %q", js, got, want)
}

// types replaces what the field of the search has. (The driver sends the slash that leads to it twice, as a key and as a letter.)
func (b tab) types(words string) {
	b.t.Helper()
	b.text(`document.getElementById("query").value = ""`)
	b.do(chromedp.KeyEvent(words))
}

// TestSearch: in a browser, the search finds pages by the beginnings of words, and the keyboard alone leads to them. The
// site is opened from a directory, and from a server that has it below another path.
func TestSearch(t *testing.T) {
	b := tab{t, browser(t)}
	dir := filepath.Join(t.TempDir(), "site")
	if err := write(dir, built(t)); err != nil {
		t.Fatalf("the site is not written: %v", err)
	}
	server := httptest.NewServer(http.StripPrefix("/some/where", http.FileServer(http.Dir(dir))))
	defer server.Close()
	const first = `document.querySelector("#results strong")?.textContent ?? ""`
	for _, home := range []string{"file://" + dir, server.URL + "/some/where"} {
		b.do(chromedp.Navigate(home + "/docs/agents/index.html"))
		b.do(chromedp.KeyEvent("/"))
		b.becomes(`document.activeElement.id`, "query")
		b.types("fork")
		b.becomes(`String(document.querySelectorAll("#results a").length)`, "20")
		if got := b.text(`[...document.querySelectorAll("#results strong")].map((s) => s.textContent).join("; ")`); !strings.Contains(got, "warren fork") {
			t.Errorf("%s: a search for fork finds %s, want the command", home, got)
		}
		b.types("secur review")
		b.becomes(first, "The first five minutes of a security reviewer")
		b.do(chromedp.KeyEvent("\r"))
		b.becomes(`location.href + " " + document.readyState`, home+"/docs/start/security.html complete")
		b.do(chromedp.KeyEvent("/"))
		b.types("nosuchword")
		b.becomes(`document.getElementById("count").textContent`, "Nothing has all of these words")
		for _, page := range []string{"/index.html", "/docs/cli.html", "/docs/threats.html", "/docs/adr/index.html"} {
			b.do(chromedp.EmulateViewport(360, 700), chromedp.Navigate(home+page))
			if got := b.text(`String(document.documentElement.scrollWidth)`); got != "360" {
				t.Errorf("%s is %s pixels wide on a telephone of 360", page, got)
			}
		}
	}
}
