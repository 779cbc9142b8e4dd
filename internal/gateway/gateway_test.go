// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	boxID  = "aaaaaaaaaaaaaaaaaaaa"
	mineID = "acc-mine"
)

var (
	myKey    = strings.Repeat("k", 48)
	myToken  = strings.Repeat("t", 48) // of an identity
	otherKey = strings.Repeat("o", 48)
)

var tokenMade = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// fakeEngine is one VM whose ports are served by tests.
type fakeEngine struct {
	mu       sync.Mutex
	site     vm.Site
	names    map[string]vm.Site
	backend  string // address of the guest's server; "" = refused
	refuse   int    // dials that are refused first
	entered  int
	inside   atomic.Int64
	dials    atomic.Int64
	enterErr error
	statsErr error
	ports    []vm.ListeningPort
	granted  bool // the identity may see the VM
	revoked  bool // its token was
	sessions map[context.Context]func()
}

func (f *fakeEngine) MayPreview(a vm.Actor, site vm.Site) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case a.Account != site.Account:
		return false
	case a.Identity != "":
		return f.granted && !f.revoked && a.Token == "tok" && a.Issued.Equal(tokenMade)
	}
	return a.Key == "key"
}

func (f *fakeEngine) PreviewSession(ctx context.Context, _ vm.Actor, _ vm.Site) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[ctx] = cancel
	return ctx, func() {
		cancel()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.sessions, ctx)
	}
}

// cut closes open connections, as the engine does when a right ends.
func (f *fakeEngine) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cancel := range f.sessions {
		cancel()
	}
}

func (f *fakeEngine) Authenticate(_ context.Context, secret string) (vm.Actor, error) {
	switch secret {
	case myKey:
		return vm.Actor{Account: mineID, Key: "key"}, nil
	case myToken:
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.revoked {
			return vm.Actor{Account: mineID, Identity: "ci", Token: "tok", Issued: tokenMade}, nil
		}
	case otherKey:
		return vm.Actor{Account: "acc-other", Admin: true}, nil
	}
	return vm.Actor{}, vm.Errorf(vm.Unauthenticated, "", "unknown")
}

func (f *fakeEngine) PreviewSite(label string, port uint16) (vm.Site, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.site
	s.Port = port
	return s, label == "box" || label == boxID
}

func (f *fakeEngine) DomainSite(name string) (vm.Site, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.names[name]
	return s, ok
}

func (f *fakeEngine) EnterPreview(context.Context, *vm.Call, vm.Site) (vm.Site, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entered++
	f.inside.Add(1)
	var once sync.Once
	return f.site, func() { once.Do(func() { f.inside.Add(-1) }) }, f.enterErr
}

func (f *fakeEngine) DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (net.Conn, error) {
	f.dials.Add(1)
	f.mu.Lock()
	to := f.backend
	if f.refuse > 0 {
		f.refuse--
		to = ""
	}
	f.mu.Unlock()
	if to == "" || port != 3000 && port != vm.ScreenPort || c.Actor.Account != mineID || ref != boxID {
		return nil, vm.Errorf(vm.Unavailable, ref, "refused")
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to)
}

func (f *fakeEngine) Stats(context.Context, *vm.Call, string) (vm.Stats, error) {
	return vm.Stats{Ports: f.ports}, f.statsErr
}

type stand struct {
	t    *testing.T
	e    *fakeEngine
	g    *Gateway
	addr string
	ca   *x509.CertPool
	dir  layout.Dir
}

func newStand(t *testing.T, guest http.Handler, change ...func(*Config, net.Listener)) *stand {
	t.Helper()
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := OpenCA(dir, []string{"warren.localhost"}, []string{"warren.localhost"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := LinkKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &fakeEngine{
		site:  vm.Site{VM: boxID, Account: mineID, Name: "box", Public: true, Instance: "i1"},
		names: map[string]vm.Site{}, sessions: map[context.Context]func(){},
	}
	if guest != nil {
		b := httptest.NewServer(guest)
		t.Cleanup(b.Close)
		e.backend = b.Listener.Addr().String()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Engine: e, Log: slog.New(slog.DiscardHandler), Domains: []string{"warren.localhost"}, Port: l.Addr().(*net.TCPAddr).Port, LinkKey: key, CA: ca, ListenGrace: time.Second}
	for _, f := range change {
		f(&c, l)
	}
	g := New(c)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, l) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM())
	return &stand{t: t, e: e, g: g, addr: l.Addr().String(), ca: pool, dir: dir}
}

// client trusts the CA, resolves every name to the gateway, and follows no redirects.
func (s *stand) client() *http.Client {
	tr := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.ca},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.addr)
		},
	}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

const boxHost = "3000-box.warren.localhost"

func (s *stand) url(host, path string) string { return s.g.URL(host) + path }

func (s *stand) get(rawURL string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", rawURL, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := s.client().Do(r)
	if err != nil {
		s.t.Fatalf("GET %s: %v", rawURL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(body)
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_ = json.NewEncoder(w).Encode(map[string]any{"host": r.Host, "uri": r.RequestURI, "header": r.Header, "size": len(body), "method": r.Method})
}

type echoed struct {
	Host   string
	URI    string
	Header http.Header
	Size   int
}

func (s *stand) echo(path string, headers ...string) echoed {
	s.t.Helper()
	resp, body := s.get(s.url(boxHost, path), headers...)
	var out echoed
	if err := json.Unmarshal([]byte(body), &out); err != nil || resp.StatusCode != 200 {
		s.t.Fatalf("the guest's echo of %s is answered %d %s", path, resp.StatusCode, body)
	}
	return out
}

// TestProxy: HTTP/2 for the client, an unchanged path, and no header that
// only the gateway may set.
func TestProxy(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	resp, _ := s.get(s.url(boxHost, "/"))
	if resp.ProtoMajor != 2 || resp.StatusCode != 200 {
		t.Fatalf("the gateway answers %s %d, want HTTP/2 200", resp.Proto, resp.StatusCode)
	}
	got := s.echo("/a%2Fb/;x?q=1;2&w=%zz", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "X-Forwarded-Prefix", "/x", "Forwarded", "for=6.6.6.6",
		"X-Real-Ip", "6.6.6.6", "X_Forwarded_For", "6.6.6.6",
		"Cookie", "a=1; __Host-warren-preview=secret; b=2", "Authorization", "Bearer app-token", "X-Warren-Key", myKey)
	if got.URI != "/a%2Fb/;x?q=1;2&w=%zz" {
		t.Errorf("the path came to the guest as %q", got.URI)
	}
	if !strings.HasPrefix(got.Host, boxHost) {
		t.Errorf("the host came to the guest as %q, want %s", got.Host, boxHost)
	}
	h := got.Header
	if h.Get("X-Forwarded-For") != "127.0.0.1" || !strings.HasPrefix(h.Get("X-Forwarded-Host"), boxHost) || h.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("forwarded: %v", h)
	}
	for _, name := range []string{"X-Forwarded-Prefix", "Forwarded", "X-Real-Ip", "X_forwarded_for", "X-Warren-Key"} {
		if _, there := h[name]; there {
			t.Errorf("%s reached the guest: %v", name, h)
		}
	}
	if h.Get("Cookie") != "a=1; b=2" || h.Get("Authorization") != "Bearer app-token" {
		t.Errorf("cookie %q authorization %q", h.Get("Cookie"), h.Get("Authorization"))
	}
	c := s.client()
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url(boxHost, "/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Connection": {"X-Hop"}, "X-Hop": {"1"}, "Keep-Alive": {"5"}}
	hop, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer hop.Body.Close()
	var seen echoed
	if err := json.NewDecoder(hop.Body).Decode(&seen); err != nil || seen.Header.Get("X-Hop") != "" || seen.Header.Get("Keep-Alive") != "" {
		t.Errorf("hop-by-hop headers reached the guest: %v %v", seen.Header, err)
	}
	if got := s.echo("/", "Authorization", "Bearer "+myKey); got.Header.Get("Authorization") != "" {
		t.Error("a key of ours reached the guest")
	}
	if n := s.e.inside.Load(); n != 0 {
		t.Errorf("%d requests hold the VM awake", n)
	}
}

// TestPool: connections are reused, but not after a new start of the machine.
func TestPool(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	for range 5 {
		s.echo("/")
	}
	if n := s.e.dials.Load(); n != 1 {
		t.Errorf("%d dials for five requests in turn", n)
	}
	s.e.mu.Lock()
	s.e.site.Instance = "i2"
	s.e.mu.Unlock()
	s.echo("/")
	if n := s.e.dials.Load(); n != 2 {
		t.Errorf("%d dials after another start, want 2", n)
	}
}

// TestPrivate: access is checked, and a stranger cannot distinguish a private VM from none.
func TestPrivate(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	s.e.site.Public = false
	status := func(host string, headers ...string) (int, string) {
		resp, body := s.get(s.url(host, "/"), headers...)
		return resp.StatusCode, body
	}
	private, closed := status(boxHost)
	none, absent := status("3000-nobody.warren.localhost")
	if private != 401 || none != 401 || closed != strings.ReplaceAll(absent, "nobody", "box") {
		t.Errorf("private %d %s\nnone %d %s", private, closed, none, absent)
	}
	if got, body := status(boxHost, "Accept", "text/html"); got != 401 || !strings.Contains(body, "<h1>") {
		t.Errorf("page: %d %s", got, body)
	}
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"X-Warren-Key", myKey, 200},
		{"Authorization", "Bearer " + myKey, 200},
		{"X-Warren-Key", otherKey, 401},
		{"X-Warren-Key", "x", 401},
		{"Cookie", cookieName + "=x.y", 401},
	} {
		if got, _ := status(boxHost, c.header, c.value); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.header, c.value, got, c.want)
		}
	}
	if s.e.entered != 2 {
		t.Errorf("%d requests woke the VM, want those with a key", s.e.entered)
	}
}

// TestLink follows a signed link like a browser, and misuses it.
func TestLink(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	s.e.site.Public = false
	site := s.e.site
	site.Port = 3000
	link := s.g.Link(site, boxHost, time.Now().Add(time.Hour)) + "&a=b"
	resp, _ := s.get(link)
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/?a=b" || len(resp.Cookies()) != 1 {
		t.Fatalf("a link is answered %d %v, want 303 to /?a=b with a cookie", resp.StatusCode, resp.Header)
	}
	c := resp.Cookies()[0]
	if c.Name != cookieName || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("the link's cookie is %+v, want it secure, lax, for this host and for programs out of reach", c)
	}
	if left := time.Until(c.Expires); left < 59*time.Minute {
		t.Errorf("the cookie of a link for an hour ends in %v", left)
	}
	open := func(want int, host string, headers ...string) {
		t.Helper()
		if resp, _ := s.get(s.url(host, "/"), append(headers, "Cookie", c.Name+"="+c.Value)...); resp.StatusCode != want {
			t.Errorf("%s %v: %d, want %d", host, headers, resp.StatusCode, want)
		}
	}
	open(200, boxHost)
	open(200, boxHost, "Origin", s.g.URL(boxHost), "Sec-Fetch-Site", "same-origin")
	open(200, boxHost, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	// For a browser another preview is the same site; this one must refuse it.
	open(401, boxHost, "Origin", s.g.URL("3000-evil.warren.localhost"))
	open(401, boxHost, "Origin", "null")
	open(401, boxHost, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors")
	open(401, boxHost, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe")
	open(401, "3001-box.warren.localhost") // another port
	if resp, _ := s.get(s.g.Link(site, boxHost, time.Now().Add(-time.Second))); resp.StatusCode != 401 {
		t.Errorf("an old link: %d", resp.StatusCode)
	}
	forged := s.g.Link(site, boxHost, time.Now().Add(time.Hour))
	later := strings.Replace(forged, linkParam+"=", linkParam+"=z", 1)
	if resp, _ := s.get(later); resp.StatusCode != 401 {
		t.Errorf("a link with a later end: %d", resp.StatusCode)
	}
	if resp, _ := s.get(strings.Replace(link, "/?", "//evil.example/?", 1)); resp.Header.Get("Location") != "/evil.example/?a=b" {
		t.Errorf("leads away: %q", resp.Header.Get("Location"))
	}
	s.e.mu.Lock()
	s.e.site.Epoch++ // the port was closed
	s.e.mu.Unlock()
	open(401, boxHost)
}

// TestGuestCookies: a guest sets cookies of its own host name only.
func TestGuestCookies(t *testing.T) {
	s := newStand(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Set-Cookie", "a=1; Path=/; Domain=warren.localhost; HttpOnly")
		w.Header().Add("Set-Cookie", "__host-Warren-preview=x; Secure; Path=/")
	}))
	resp, _ := s.get(s.url(boxHost, "/"))
	if got := resp.Header["Set-Cookie"]; len(got) != 1 || got[0] != "a=1; Path=/; HttpOnly" {
		t.Errorf("the guest's cookies reach the browser as %q, want a=1 alone, without the domain", got)
	}
}

// TestNothingListens: the owner sees the ports that have a listener.
func TestNothingListens(t *testing.T) {
	s := newStand(t, nil)
	s.e.site.Public = false
	s.e.ports = []vm.ListeningPort{{Proto: "tcp", Address: "0.0.0.0", Port: 8080}, {Proto: "tcp6", Address: "::", Port: 8080}, {Proto: "tcp", Address: "127.0.0.1", Port: 5432}, {Proto: "tcp", Address: "127.0.0.53", Port: 53}, {Proto: "udp", Address: "0.0.0.0", Port: 53}}
	resp, body := s.get(s.url(boxHost, "/"), keyHeader, myKey)
	var p struct{ Ports []int }
	if err := json.Unmarshal([]byte(body), &p); err != nil || resp.StatusCode != 502 || !slices.Equal(p.Ports, []int{8080, 5432}) {
		t.Errorf("the owner of a silent port is answered %d %s, want 502 and the ports 8080 and 5432", resp.StatusCode, body)
	}
	if _, body := s.get(s.url(boxHost, "/"), keyHeader, myKey, "Accept", "text/html"); !strings.Contains(body, "https://8080-"+boxID+".warren.localhost:") || !strings.Contains(body, "Nothing listens on port 3000") {
		t.Errorf("page: %s", body)
	}
	if _, body := s.get(s.url("5432-box.warren.localhost", "/"), keyHeader, myKey); !strings.Contains(body, "Something listens on port 5432") {
		t.Errorf("on the loopback: %s", body)
	}
	s.e.enterErr = vm.Errorf(vm.NoSpace, boxID, "no memory")
	if resp, _ := s.get(s.url(boxHost, "/"), keyHeader, myKey); resp.StatusCode < 500 {
		t.Errorf("a VM that can't wake: %d", resp.StatusCode)
	}
}

// TestWake: after a start the dial is repeated until the guest's server listens.
func TestWake(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	s.e.site.Started, s.e.refuse = time.Now(), 4
	s.echo("/")
	if n := s.e.dials.Load(); n != 5 {
		t.Errorf("%d dials", n)
	}
	s.e.site.Started, s.e.site.Instance, s.e.refuse = time.Now().Add(-time.Hour), "i2", 1
	if resp, _ := s.get(s.url(boxHost, "/")); resp.StatusCode != 502 {
		t.Errorf("long after its start a refusal is one: %d", resp.StatusCode)
	}
}

// TestStreams: WebSocket, events as they come, large bodies both ways.
func TestStreams(t *testing.T) {
	next := make(chan string)
	const size = 64 << 20
	s := newStand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ws":
			c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
			if err != nil {
				return
			}
			defer c.CloseNow()
			typ, data, err := c.Read(r.Context())
			if err == nil {
				_ = c.Write(r.Context(), typ, append([]byte("echo "), data...))
			}
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for m := range next {
				fmt.Fprintf(w, "data: %s\n\n", m)
				w.(http.Flusher).Flush()
			}
		case "/big":
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		case "/down":
			_, _ = io.CopyN(w, zeros{}, size)
		}
	}))
	c := s.client()
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = false // a WebSocket needs HTTP/1.1
	ws, _, err := websocket.Dial(t.Context(), "wss"+strings.TrimPrefix(s.url(boxHost, "/ws"), "https"), &websocket.DialOptions{HTTPClient: c})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if n := s.e.inside.Load(); n != 0 {
		t.Errorf("an idle WebSocket holds the VM awake (%d)", n)
	}
	if err := ws.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := ws.Read(t.Context()); err != nil || string(data) != "echo hi" {
		t.Errorf("the WebSocket gives back %q (%v), want echo hi", data, err)
	}
	resp, err := s.client().Get(s.url(boxHost, "/events"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, m := range []string{"one", "two"} {
		next <- m
		if line, err := lines.ReadString('\n'); err != nil || line != "data: "+m+"\n" {
			t.Errorf("the stream's next line is %q (%v), want data: %s", line, err, m)
		}
		_, _ = lines.ReadString('\n')
	}
	close(next)
	up, err := s.client().Post(s.url(boxHost, "/big"), "application/octet-stream", io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatal(err)
	}
	defer up.Body.Close()
	if got, _ := io.ReadAll(up.Body); string(got) != fmt.Sprint(size) {
		t.Errorf("up: %s", got)
	}
	down, err := s.client().Get(s.url(boxHost, "/down"))
	if err != nil {
		t.Fatal(err)
	}
	defer down.Body.Close()
	if n, err := io.Copy(io.Discard, down.Body); n != size || err != nil {
		t.Errorf("down: %d %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// raw sends bytes on a TLS connection made for a name, and returns the first
// answer's status, 0 for none.
func (s *stand) raw(sni, text string) int {
	s.t.Helper()
	c, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.ca, ServerName: sni, NextProtos: []string{"http/1.1"}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestHostTricks: a request that could name two hosts is refused.
func TestHostTricks(t *testing.T) {
	var reached atomic.Int64
	s := newStand(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/smuggled" {
			reached.Add(100)
		}
		reached.Add(1)
	}))
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"plain", "GET / HTTP/1.1\r\nHost: " + boxHost + "\r\n\r\n", 200},
		{"upper case", "GET / HTTP/1.1\r\nHost: " + strings.ToUpper(boxHost) + "\r\n\r\n", 200},
		{"last dot", "GET / HTTP/1.1\r\nHost: " + boxHost + ".\r\n\r\n", 200},
		{"with port", "GET / HTTP/1.1\r\nHost: " + boxHost + ":8443\r\n\r\n", 200},
		{"bad port", "GET / HTTP/1.1\r\nHost: " + boxHost + ":99999\r\n\r\n", 400},
		{"other than SNI", "GET / HTTP/1.1\r\nHost: 3000-" + boxID + ".warren.localhost\r\n\r\n", 421},
		{"absolute form", "GET http://" + boxHost + "/ HTTP/1.1\r\nHost: " + boxHost + "\r\n\r\n", 400},
		{"two hosts", "GET / HTTP/1.1\r\nHost: " + boxHost + "\r\nHost: evil\r\n\r\n", 400},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"old without host", "GET / HTTP/1.0\r\n\r\n", 400},
		{"address", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400},
		{"address 6", "GET / HTTP/1.1\r\nHost: [::1]:8443\r\n\r\n", 400},
		{"user", "GET / HTTP/1.1\r\nHost: a@" + boxHost + "\r\n\r\n", 400},
		{"connect", "CONNECT " + boxHost + ":443 HTTP/1.1\r\nHost: " + boxHost + "\r\n\r\n", 400},
		{"star", "OPTIONS * HTTP/1.1\r\nHost: " + boxHost + "\r\n\r\n", 400},
		{"space before colon", "GET / HTTP/1.1\r\nHost: " + boxHost + "\r\nContent-Length : 3\r\n\r\nabc", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: " + boxHost + "\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
		{"odd coding", "POST / HTTP/1.1\r\nHost: " + boxHost + "\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
		{"two codings", "POST / HTTP/1.1\r\nHost: " + boxHost + "\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501},
		{"line folding", "GET / HTTP/1.1\r\nHost: " + boxHost + "\r\nX-A: b\r\n Transfer-Encoding: chunked\r\n\r\n", 200},
	} {
		if got := s.raw(boxHost, c.text); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	// With both lengths, the guest gets one request with one length, and
	// never a second request that a confused server would see.
	reached.Store(0)
	s.raw(boxHost, "POST / HTTP/1.1\r\nHost: "+boxHost+"\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: "+boxHost+"\r\n\r\n")
	if n := reached.Load(); n > 1 {
		t.Errorf("a smuggled request came through: %d", n)
	}
}

// TestPlain: plain HTTP on the same port redirects to HTTPS, for the gateway's names only.
func TestPlain(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	resp, _ := s.get("http://"+boxHost+"/a?b=c", "X", "y")
	if resp.StatusCode != 308 || resp.Header.Get("Location") != s.url(boxHost, "/a?b=c") {
		t.Errorf("plain HTTP is answered %d %v, want 308 to HTTPS", resp.StatusCode, resp.Header)
	}
	if resp, _ := s.get("http://evil.example/"); resp.StatusCode != 421 {
		t.Errorf("a foreign name: %d", resp.StatusCode)
	}
}

// TestDomains: a mapped domain opens its port; one without a certificate fails earlier.
func TestDomains(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	s.e.site.Public = false
	to := s.e.site
	to.Port, to.Public = 3000, true
	s.e.names["app.warren.localhost"] = to
	if resp, body := s.get(s.url("app.warren.localhost", "/")); resp.StatusCode != 200 || !strings.Contains(body, "app.warren.localhost") {
		t.Errorf("the mapped domain is answered %d %s, want the guest's echo", resp.StatusCode, body)
	}
	if got := s.g.Certificate(t.Context(), "app.example.com"); !strings.HasPrefix(got, "none") {
		t.Errorf("without an ACME server: %q", got)
	}
	for _, name := range []string{"app.example.com", "a.b.warren.localhost"} {
		if _, err := s.client().Get(s.url(name, "/")); err == nil {
			t.Errorf("%s has a certificate", name)
		}
	}
}

// TestCA: it survives a restart, has mode 0600, and cannot sign other names.
func TestCA(t *testing.T) {
	s := newStand(t, nil)
	again, err := OpenCA(s.dir, []string{"warren.localhost"}, []string{"warren.localhost"})
	if err != nil {
		t.Fatal(err)
	}
	if string(again.PEM()) != string(s.g.CA.PEM()) {
		t.Fatal("a CA that is opened again is another one")
	}
	for _, path := range []string{s.dir.PreviewCAKey(), s.dir.PreviewKey()} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("the key %s is %v (%v), want mode 600", path, st, err)
		}
	}
	leaf, err := again.Leaf("bank.example")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: s.ca, DNSName: "bank.example"}); err == nil {
		t.Error("the CA may speak for any name")
	}
	if _, err := OpenCA(s.dir, []string{"other.localhost"}, []string{"other.localhost"}); vm.KindOf(err) != vm.Invalid {
		t.Errorf("another domain: %v", err)
	}
	if err := os.WriteFile(s.dir.PreviewCA(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCA(s.dir, []string{"warren.localhost"}, []string{"warren.localhost"}); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("damaged: %v", err)
	}
}

func TestParseLabel(t *testing.T) {
	for _, c := range []struct {
		in   string
		port uint16
		name string
		ok   bool
	}{
		{"3000-box", 3000, "box", true},
		{"3000-my-box", 3000, "my-box", true},
		{"0-box", 0, "", false},
		{"65536-box", 0, "", false},
		{"03000-box", 0, "", false},
		{"box", 0, "", false},
		{"3000-", 0, "", false},
		{"-3000-box", 0, "", false},
		{"+80-box", 0, "", false},
	} {
		port, name, ok := ParseLabel(c.in)
		if port != c.port || name != c.name || ok != c.ok {
			t.Errorf("%q is port %d of %q, %v, want %d of %q, %v", c.in, port, name, ok, c.port, c.name, c.ok)
		}
	}
}
