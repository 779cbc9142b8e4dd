// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/vm"
)

const screenHost = "5900-box.warren.localhost"

// The package is what the npm registry has, by its integrity there.
func TestNoVNCIsAsPublished(t *testing.T) {
	const integrity = "ucEJOx4T2avIRCleodk7YobZj5O2Ga2AeLfQ69A/yjG9HHba2+PDgwSkN3FttrmG+70ZGx21sElNFouK13RzyA=="
	if sum := sha512.Sum512(noVNC); base64.StdEncoding.EncodeToString(sum[:]) != integrity {
		t.Errorf("the embedded package has the digest sha512-%s", base64.StdEncoding.EncodeToString(sum[:]))
	}
	if !bytes.Contains(screenPage, takeOver) {
		t.Errorf("the page does not have the link that watchers do not get: %s", takeOver)
	}
}

// newScreen is a stand whose VM has a VNC server that only reads. got gives all that
// arrived on a connection, once that has ended.
func newScreen(t *testing.T) (s *stand, got chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got = make(chan string, 10)
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("RFB 003.008\n"))
			data, _ := io.ReadAll(c)
			_ = c.Close()
			got <- string(data)
		}
	}()
	s = newStand(t, http.HandlerFunc(echo))
	s.e.site.Public = false
	s.e.backend = l.Addr().String()
	return s, got
}

// open follows a link and returns the cookie that it leads to.
func (s *stand) openLink(link string) string {
	s.t.Helper()
	resp, _ := s.get(link)
	if resp.StatusCode != 303 || len(resp.Cookies()) != 1 {
		s.t.Fatalf("the link is answered %d %v, want 303 with a cookie", resp.StatusCode, resp.Header)
	}
	return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}

// sent opens the socket of the screen, sends what a viewer sends, and returns what the VNC
// server got of it.
func (s *stand) sent(got chan string, query, cookie, data string) string {
	s.t.Helper()
	c := s.client()
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = false // a WebSocket needs HTTP/1.1
	ws, _, err := websocket.Dial(s.t.Context(), "wss"+strings.TrimPrefix(s.url(screenHost, screenPath+"socket"+query), "https"), &websocket.DialOptions{HTTPClient: c, HTTPHeader: http.Header{"Cookie": {cookie}}})
	if err != nil {
		s.t.Fatalf("the socket of the screen does not open: %v", err)
	}
	defer ws.CloseNow()
	if _, hello, err := ws.Read(s.t.Context()); err != nil || string(hello) != "RFB 003.008\n" {
		s.t.Errorf("the server's greeting arrives as %q, %v", hello, err)
	}
	for i := range len(data) { // a filter sees no message at once
		if err := ws.Write(s.t.Context(), websocket.MessageBinary, []byte(data[i:i+1])); err != nil {
			s.t.Fatal(err)
		}
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
	select {
	case all := <-got:
		return all
	case <-time.After(10 * time.Second):
		s.t.Fatal("the connection to the VNC server does not end with the viewer's")
		return ""
	}
}

const (
	viewerHello = "RFB 003.008\n\x01\x00"
	viewerKey   = "\x04\x01\x00\x00\x00\x00\x00a"
	viewerAsks  = "\x03\x01xxxxyyyy"
)

func TestScreenControl(t *testing.T) {
	s, got := newScreen(t)
	site := s.e.site
	site.Port = vm.ScreenPort
	if resp, _ := s.get(s.url(screenHost, screenPath)); resp.StatusCode != 401 {
		t.Errorf("a stranger is answered %d, not 401", resp.StatusCode)
	}
	cookie := s.openLink(s.g.Link(site, screenHost, time.Now().Add(time.Hour)))
	if resp, _ := s.get(s.url(screenHost, "/"), "Cookie", cookie); resp.Header.Get("Location") != screenPath {
		t.Errorf("the screen's host leads to %q, not to the page", resp.Header.Get("Location"))
	}
	resp, page := s.get(s.url(screenHost, screenPath), "Cookie", cookie)
	if resp.StatusCode != 200 || !strings.Contains(page, string(takeOver)) {
		t.Errorf("the page is %d %s", resp.StatusCode, page)
	}
	for name, want := range map[string]int{"screen.js": 200, "core/rfb.js": 200, "vendor/pako/lib/zlib/inflate.js": 200, "core/../core/rfb.js": 404, "package.json": 404, "x": 404} {
		resp, _ := s.get(s.url(screenHost, screenPath+name), "Cookie", cookie)
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, want)
		}
	}
	if all := s.sent(got, "", cookie, viewerHello+viewerKey+viewerAsks); all != viewerHello+viewerKey+viewerAsks {
		t.Errorf("of who controls the screen the server got %q", all)
	}
	if all := s.sent(got, "?watch", cookie, viewerHello+viewerKey+viewerAsks); strings.Contains(all, viewerKey) {
		t.Errorf("of who chose to watch the server got %q", all)
	}
}

func TestScreenWatch(t *testing.T) {
	s, got := newScreen(t)
	site := s.e.site
	site.Port = vm.ScreenPort
	cookie := s.openLink(s.g.WatchLink(site, screenHost, time.Now().Add(time.Hour)))
	if resp, _ := s.get(s.url(screenHost, screenPath), "Cookie", cookie); resp.Header.Get("Location") != screenPath+"?watch" {
		t.Errorf("the page leads a watcher to %q", resp.Header.Get("Location"))
	}
	if resp, page := s.get(s.url(screenHost, screenPath+"?watch"), "Cookie", cookie); resp.StatusCode != 200 || strings.Contains(page, string(takeOver)) {
		t.Errorf("a watcher's page is %d %s", resp.StatusCode, page)
	}
	// Whatever his page asks for, he only watches.
	for _, query := range []string{"", "?watch", "?control=1"} {
		if all := s.sent(got, query, cookie, viewerHello+viewerKey+viewerAsks); all != "RFB 003.008\n\x01\x01"+viewerAsks {
			t.Errorf("%s: of a watcher the server got %q", query, all)
		}
	}
	_, value, _ := strings.Cut(cookie, "=")
	for what, c := range map[string]struct{ host, path, cookie string }{
		"the guest's pages":      {screenHost, "/x", cookie},
		"another port":           {boxHost, screenPath, cookie},
		"the cookie that enters": {screenHost, screenPath, cookieName + "=" + value},
	} {
		if resp, _ := s.get(s.url(c.host, c.path), "Cookie", c.cookie); resp.StatusCode != 401 {
			t.Errorf("a watcher opens %s: %d", what, resp.StatusCode)
		}
	}
	if resp, _ := s.get(s.url(screenHost, screenPath+"?"+linkParam+"="+value+"x")); resp.StatusCode != 401 {
		t.Errorf("a forged link is answered %d", resp.StatusCode)
	}
	s.e.mu.Lock()
	s.e.site.Epoch++ // the port was made private
	s.e.mu.Unlock()
	if resp, _ := s.get(s.url(screenHost, screenPath+"?watch"), "Cookie", cookie); resp.StatusCode != 401 {
		t.Errorf("after the links have ended a watcher is answered %d", resp.StatusCode)
	}
}
