//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser starts Chromium, which trusts the keys of the host's own CA and no
// others beside its own.
func (s *shown) browser() context.Context {
	s.t.Helper()
	block, _ := pem.Decode([]byte(s.ok("ca", "print")))
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.t.Fatal(err)
	}
	key := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return startChromium(s.t, chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])))
}

// startChromium starts a browser that ends with the test.
func startChromium(t testing.TB, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("no Chromium: run deploy/install-deps.sh --tests")
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		o = append(o, chromedp.NoSandbox)
	}
	ctx, end := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(end)
	ctx, end = chromedp.NewExecAllocator(ctx, append(o, options...)...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end) // waits until it has ended
	return ctx
}

// shows waits until the page's main part says something, without a reload.
func (s *shown) shows(ctx context.Context, want string) {
	s.t.Helper()
	text := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var err error
		if text, err = chromedp.Run(ctx, chromedp.Evaluate[string](`(document.querySelector("main") || document.body).innerText`)); err != nil {
			s.t.Fatal(err)
		}
		if strings.TrimSpace(text) == want {
			return
		}
	}
	s.t.Fatalf("the page says %q, not %q", text, want)
}

// TestPreviewChromium: a real browser, logged in by a key, sees a development
// server with hot reload in a guest; the VM falls asleep behind it, and a load
// of the page wakes it with the state that it had.
func TestPreviewChromium(t *testing.T) {
	s := newShown(t)
	ctx := s.browser()
	home := s.url("3000-box", "/")
	began := time.Now()
	err := chromedp.Do(ctx,
		chromedp.Navigate(home), // refused: the page leads to the log-in
		chromedp.Click(chromedp.CSS("a"), chromedp.NodeVisible),
		chromedp.SendKeys(chromedp.CSS("input[name=key]"), s.key, chromedp.NodeVisible),
		chromedp.Submit(chromedp.CSS("form")),
		chromedp.WaitVisible(chromedp.CSS("main")),
	)
	if err != nil {
		t.Fatal(err)
	}
	where, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		t.Fatal(err)
	}
	number := func(js string) int {
		t.Helper()
		n, err := chromedp.Run(ctx, chromedp.Evaluate[int](js, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatalf("the page's script %s fails: %v", js, err)
		}
		return n
	}
	number("window.kept = 1")
	if where != home {
		t.Errorf("the log-in leads to %s", where)
	}
	s.shows(ctx, "first")
	t.Logf("first page, by a log-in, after %v", time.Since(began))
	s.write(strings.ReplaceAll(page, "first", "second"))
	s.shows(ctx, "second")
	if number("window.kept || 0") != 1 {
		t.Error("the page was loaded anew, not told")
	}
	const count = `fetch("/count").then(r => r.json())`
	before := number(count)
	s.sleep() // though the page's WebSocket is open
	began = time.Now()
	if err := chromedp.Do(ctx, chromedp.Navigate(home)); err != nil {
		t.Fatal(err)
	}
	s.shows(ctx, "second")
	t.Logf("woken by a load of the page, which was there after %v", time.Since(began))
	if after := number(count); after != before+1 {
		t.Errorf("its counter went from %d to %d", before, after)
	}
	s.write(strings.ReplaceAll(page, "first", "third")) // the page's socket is a new one
	s.shows(ctx, "third")
}
