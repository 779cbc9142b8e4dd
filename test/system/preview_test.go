//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

const (
	page    = "<!doctype html><title>dev</title><main>first</main>"
	keyName = "X-Warren-Key"
)

// shown is a host with a preview gateway, and a VM with a development server.
type shown struct {
	*host
	t    *testing.T
	addr string
	port string
	ca   *x509.CertPool
	key  string
}

// newShown starts a host and the VM box, which falls asleep after four seconds.
// It is held awake, so that tests are not about that.
func newShown(t *testing.T) *shown {
	t.Helper()
	s := newGated(t)
	s.poolReady()
	s.ok("up", "--name", "box", "--idle", "4s")
	t.Cleanup(func() { s.run("rm", "box") })
	s.ok("hold", "box", "--for", "10m", "--reason", "test")
	s.ok("exec", "box", "--", "mkdir", "-p", "/srv")
	s.ok("cp", "testdata/dev.py", "box:/srv/dev.py")
	s.write(page)
	s.ok("exec", "box", "--background", "--", "python3", "/srv/dev.py", "3000")
	s.sh("box", "until curl -sfo /dev/null localhost:3000/count; do sleep 0.1; done")
	return s
}

// newGated starts a host and knows the key of its account.
func newGated(t *testing.T) *shown {
	t.Helper()
	addr := vmtest.FreePort(t)
	s := &shown{host: newHost(t, "--preview", addr), t: t, addr: addr, ca: x509.NewCertPool()}
	_, s.port, _ = net.SplitHostPort(addr)
	if !s.ca.AppendCertsFromPEM([]byte(s.ok("ca", "print"))) {
		t.Fatal("no certificate of the CA")
	}
	key, err := os.ReadFile(filepath.Join(s.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.key = strings.TrimSpace(string(key))
	return s
}

// write changes the page in the guest.
func (s *shown) write(text string) {
	s.t.Helper()
	s.sh("box", "cat > /srv/index.new <<'END'\n"+text+"\nEND\nmv /srv/index.new /srv/index.html")
}

// sleep lets the VM fall asleep.
func (s *shown) sleep() {
	s.t.Helper()
	if holds := s.idle("box").Holds; len(holds) > 0 {
		s.ok("hold", "release", "box", string(holds[0].ID))
	}
	s.falls("box")
}

func (s *shown) url(site, path string) string {
	return "https://" + site + ".warren.localhost:" + s.port + path
}

// client trusts the gateway's CA alone, finds every name at the gateway, follows
// nothing and keeps cookies.
func (s *shown) client(http2 bool) *http.Client {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.ca}, ForceAttemptHTTP2: http2,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.addr)
		},
	}
	s.t.Cleanup(tr.CloseIdleConnections)
	jar, _ := cookiejar.New(nil) // never fails
	return &http.Client{Transport: tr, Jar: jar, Timeout: 2 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// try makes a request and returns its answer with the body read.
func (s *shown) try(c *http.Client, to string, headers ...string) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", to, nil)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// get is try for what must have an answer.
func (s *shown) get(c *http.Client, to string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	resp, body, err := s.try(c, to, headers...)
	if err != nil {
		s.t.Fatalf("GET %s: %v", to, err)
	}
	return resp, body
}

// count asks the guest's server for its counter.
func (s *shown) count(c *http.Client, site string, headers ...string) int {
	s.t.Helper()
	resp, body := s.get(c, s.url(site, "/count"), headers...)
	n, err := strconv.Atoi(body)
	if err != nil || resp.StatusCode != 200 {
		s.t.Fatalf("the counter of %s is answered %d %s", site, resp.StatusCode, body)
	}
	return n
}

// TestPreview: a development server in a guest, seen from outside through all
// that previews do, on one VM and its fork.
//
// 000-24, 001-46, 002-15
func TestPreview(t *testing.T) {
	t.Parallel()
	s := newShown(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *shown)
	}{
		{"access", testPreviewAccess},
		{"proxy", testPreviewProxy},
		{"streams", testPreviewStreams},
		{"tricks", testPreviewTricks},
		{"nobody listens", testPreviewNobody},
		{"forward", testPreviewForward},
		{"loopback", testPreviewLoopback},
		{"fork", testPreviewFork},
		{"wake", testPreviewWake},
		{"restart", testPreviewRestart},
	} {
		t.Run(part.name, func(t *testing.T) {
			s.t, s.host.t = t, t
			part.test(t, s)
		})
	}
	s.t, s.host.t = t, t
}

func testPreviewAccess(t *testing.T, s *shown) {
	c, home := s.client(true), s.url("3000-box", "/")
	if got := strings.TrimSpace(s.ok("preview", "box", "3000")); got+"/" != home {
		t.Errorf("its address is said to be %s", got)
	}
	closed, text := s.get(c, home, "Accept", "text/html")
	none, absent := s.get(c, s.url("3000-xob", "/"), "Accept", "text/html")
	if closed.StatusCode != 401 || none.StatusCode != 401 || text != strings.ReplaceAll(absent, "xob", "box") || !strings.Contains(text, "warren preview box 3000 --open") {
		t.Errorf("private: %d %s\nnone: %d", closed.StatusCode, text, none.StatusCode)
	}
	if resp, body := s.get(c, home, keyName, s.key); resp.StatusCode != 200 || !strings.Contains(body, "first") || resp.ProtoMajor != 2 {
		t.Errorf("with an API key: %d %s %s", resp.StatusCode, resp.Proto, body)
	}
	// An identity's token, before its permission, with it, and revoked while a
	// WebSocket continues.
	s.ok("identity", "create", "ci")
	var tok struct{ ID, Token string }
	if err := json.Unmarshal([]byte(s.ok("token", "create", "ci", "--json")), &tok); err != nil {
		t.Fatal(err)
	}
	if resp, _ := s.get(c, home, keyName, tok.Token); resp.StatusCode != 401 {
		t.Errorf("a token without a permission: %d", resp.StatusCode)
	}
	s.ok("identity", "grant", "ci", "box")
	if resp, _ := s.get(c, home, keyName, tok.Token); resp.StatusCode != 200 {
		t.Errorf("a token with a permission: %d", resp.StatusCode)
	}
	ws := s.socket(s.client(false), "/ws", keyName, tok.Token)
	s.ok("token", "revoke", "ci", tok.ID)
	if _, _, err := ws.Read(t.Context()); err == nil {
		t.Error("a WebSocket goes on by a revoked token")
	}
	// A signed link, a ticket for one use, and a link that has expired.
	follow := func(link string) (*http.Client, int) {
		c := s.client(true)
		resp, _ := s.get(c, link)
		if resp.StatusCode != http.StatusSeeOther {
			return c, resp.StatusCode
		}
		if to := resp.Header.Get("Location"); to != "/" {
			t.Errorf("leads to %s", to)
		}
		resp, _ = s.get(c, home)
		return c, resp.StatusCode
	}
	for _, how := range []string{"--link", "--open"} {
		link := strings.TrimSpace(s.ok("preview", "box", "3000", how))
		c, status := follow(link)
		if status != 200 {
			t.Errorf("the link that %s made is answered %d, want 200", how, status)
		}
		if resp, _ := s.get(c, s.url("3001-box", "/")); resp.StatusCode != 401 {
			t.Errorf("%s opens another port: %d", how, resp.StatusCode)
		}
		if _, again := follow(link); again != map[string]int{"--link": 200, "--open": 401}[how] {
			t.Errorf("%s twice: %d", how, again)
		}
	}
	old := strings.TrimSpace(s.ok("preview", "box", "3000", "--link", "--for", "1s"))
	c, _ = follow(old)
	<-time.After(1100 * time.Millisecond)
	if _, status := follow(old); status != 401 {
		t.Errorf("an expired link: %d", status)
	}
	if resp, _ := s.get(c, home); resp.StatusCode != 401 {
		t.Errorf("the cookie of an expired link: %d", resp.StatusCode)
	}
	s.ok("preview", "box", "3000", "--public")
	if resp, _ := s.get(s.client(true), home); resp.StatusCode != 200 {
		t.Errorf("public: %d", resp.StatusCode)
	}
	s.ok("preview", "box", "3000", "--private")
	if resp, _ := s.get(s.client(true), home); resp.StatusCode != 401 {
		t.Errorf("private again: %d", resp.StatusCode)
	}
	if plain, _ := s.get(s.client(false), "http://3000-box.warren.localhost:"+s.port+"/a?b=c"); plain.StatusCode != 308 || plain.Header.Get("Location") != s.url("3000-box", "/a?b=c") {
		t.Errorf("plain HTTP: %d %v", plain.StatusCode, plain.Header)
	}
}

// socket opens a WebSocket to a path of the preview.
func (s *shown) socket(c *http.Client, path string, headers ...string) *websocket.Conn {
	s.t.Helper()
	return s.socketTo("3000-box", c, path, headers...)
}

func (s *shown) socketTo(site string, c *http.Client, path string, headers ...string) *websocket.Conn {
	s.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	ws, _, err := websocket.Dial(s.t.Context(), "wss"+strings.TrimPrefix(s.url(site, path), "https"), &websocket.DialOptions{HTTPClient: c, HTTPHeader: h})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

func testPreviewProxy(t *testing.T, s *shown) {
	var peers [2]int
	for i := range peers {
		_, body := s.get(s.client(i == 0), s.url("3000-box", "/x%2Fy?q=%zz;1"), keyName, s.key, "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "Forwarded", "for=6.6.6.6",
			"Cookie", "mine=1; __Host-warren-preview=x", "X-Mine", "yes", "X-Copy", s.key)
		var got struct {
			Path   string
			Peer   int
			Header map[string]string
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		h := got.Header
		if got.Path != "/x%2Fy?q=%zz;1" {
			t.Errorf("the path came to the guest as %q", got.Path)
		}
		host := "3000-box.warren.localhost:" + s.port
		for name, want := range map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": host, "Host": host,
			"Cookie": "mine=1", "X-Mine": "yes", "Forwarded": "",
		} {
			if h[name] != want {
				t.Errorf("the header %s came to the guest as %q, want %q", name, h[name], want)
			}
		}
		if strings.Contains(body, s.key) {
			t.Errorf("the key came to the guest: %s", body)
		}
		peers[i] = got.Peer
	}
	if peers[0] != peers[1] {
		t.Errorf("the connection to the guest is not kept: %v", peers)
	}
}

func testPreviewStreams(t *testing.T, s *shown) {
	ws := s.socket(s.client(false), "/ws", keyName, s.key)
	for _, text := range []string{"one", "two"} {
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := ws.Read(t.Context()); err != nil || string(data) != text {
			t.Errorf("the WebSocket gives back %q (%v), want %q", data, err, text)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url("3000-box", "/events"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(keyName, s.key)
	resp, err := s.client(true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var came []time.Time
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if lines.Text() != "" {
			came = append(came, time.Now())
		}
	}
	if len(came) != 4 || came[3].Sub(came[0]) < 600*time.Millisecond {
		t.Errorf("events are held back: %v", came)
	}
	blob := make([]byte, 64<<20)
	_, _ = rand.Read(blob)
	sum := sha256.Sum256(blob)
	up, err := http.NewRequestWithContext(t.Context(), "POST", s.url("3000-box", "/blob"), bytes.NewReader(blob))
	if err != nil {
		t.Fatal(err)
	}
	up.Header.Set(keyName, s.key)
	c, began := s.client(true), time.Now()
	resp, err = c.Do(up)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(got) != hex.EncodeToString(sum[:]) {
		t.Errorf("upload: %s %v", got, err)
	}
	t.Logf("64 MiB up, and their digest, after %v", time.Since(began))
	began = time.Now()
	if _, body := s.get(c, s.url("3000-box", "/blob"), keyName, s.key); sha256.Sum256([]byte(body)) != sum {
		t.Errorf("download: %d bytes, not what was sent", len(body))
	}
	t.Logf("64 MiB down after %v", time.Since(began))
}

// raw sends bytes on a TLS connection for a name and returns the status of the
// first answer, 0 for none.
func (s *shown) raw(sni, text string) int {
	s.t.Helper()
	c, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.ca, ServerName: sni, NextProtos: []string{"http/1.1"}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body) // until it ends or the time has come
	resp.Body.Close()
	return resp.StatusCode
}

func testPreviewTricks(t *testing.T, s *shown) {
	const name = "3000-box.warren.localhost"
	auth := keyName + ": " + s.key + "\r\n"
	hidden := "GET /smuggled HTTP/1.1\r\nHost: " + name + "\r\n\r\n"
	length := strconv.Itoa(len(hidden) + 5)
	for _, c := range []struct {
		what, text string
		want       int
	}{
		{"plain", "GET /count HTTP/1.1\r\nHost: " + name + "\r\n" + auth + "Connection: close\r\n\r\n", 200},
		{"two hosts", "GET / HTTP/1.1\r\nHost: " + name + "\r\nHost: 3000-evil.warren.localhost\r\n" + auth + "\r\n", 400},
		{"absolute address", "GET http://" + name + "/smuggled HTTP/1.1\r\nHost: " + name + "\r\n" + auth + "\r\n", 400},
		{"another name than the connection's", "GET / HTTP/1.1\r\nHost: 3001-box.warren.localhost\r\n" + auth + "\r\n", 421},
		{"no name", "GET / HTTP/1.1\r\n" + auth + "\r\n", 400},
		{"a path in the name", "GET / HTTP/1.1\r\nHost: " + name + "/smuggled\r\n" + auth + "\r\n", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: " + name + "\r\n" + auth + "Content-Length: 3\r\nContent-Length: " + length + "\r\n\r\nabc" + hidden, 400},
		{"a length with a sign", "POST / HTTP/1.1\r\nHost: " + name + "\r\n" + auth + "Content-Length: +3\r\n\r\nabc" + hidden, 400},
		{"an unknown coding", "POST / HTTP/1.1\r\nHost: " + name + "\r\n" + auth + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, 501},
		{"a space before the colon", "POST / HTTP/1.1\r\nHost: " + name + "\r\n" + auth + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, 400},
	} {
		if got := s.raw(name, c.text); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	// Both lengths: what a server that goes by the other one would take for a
	// second request, without a key, reaches the guest as none.
	s.raw(name, "POST / HTTP/1.1\r\nHost: "+name+"\r\n"+auth+"Content-Length: "+length+"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+hidden)
	if _, paths := s.get(s.client(true), s.url("3000-box", "/paths"), keyName, s.key); strings.Contains(paths, "smuggled") {
		t.Errorf("a hidden request reached the guest: %s", paths)
	}
}

func testPreviewNobody(t *testing.T, s *shown) {
	resp, body := s.get(s.client(true), s.url("4000-box", "/"), keyName, s.key)
	var p struct {
		Message string
		Ports   []int
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil || resp.StatusCode != 502 || len(p.Ports) != 1 || p.Ports[0] != 3000 {
		t.Errorf("the owner of a silent port is answered %d %s, want 502 and port 3000", resp.StatusCode, body)
	}
	if _, body := s.get(s.client(true), s.url("4000-box", "/"), keyName, s.key, "Accept", "text/html"); !strings.Contains(body, "port 3000</a>") {
		t.Errorf("the page of a silent port does not lead to port 3000: %s", body)
	}
}

// testPreviewLoopback: servers that listen on one address of the guest's loopback,
// as development servers do by default, are reached like all others.
func testPreviewLoopback(t *testing.T, s *shown) {
	_, port, _ := net.SplitHostPort(vmtest.FreePort(t))
	servers := map[string]string{"5000": "127.0.0.1", "5001": "::1"}
	for guest, address := range servers {
		s.ok("exec", "box", "--background", "--", "python3", "/srv/dev.py", guest, "/srv/index.html", address)
	}
	for guest, address := range servers {
		s.eventually(address+" is shown", func() bool {
			resp, _ := s.get(s.client(true), s.url(guest+"-box", "/count"), keyName, s.key)
			return resp.StatusCode == http.StatusOK
		})
		ws := s.socketTo(guest+"-box", s.client(false), "/ws", keyName, s.key)
		if err := ws.Write(t.Context(), websocket.MessageText, []byte("one")); err != nil {
			t.Fatal(err)
		}
		if _, data, err := ws.Read(t.Context()); err != nil || string(data) != "one" {
			t.Errorf("the WebSocket by %s gives back %q (%v), want one", address, data, err)
		}
		// To the server it comes from a user without rights.
		hex := map[string]string{"5000": ":1388", "5001": ":1389"}[guest]
		if uid := strings.TrimSpace(s.sh("box", "cat /proc/net/tcp /proc/net/tcp6 | awk '$3 ~ /"+hex+"$/ && $4 == \"01\" {print $8}' | sort -u")); uid != "65534" {
			t.Errorf("%s: connections of the users %q", address, uid)
		}
		s.forwards(t, "box", port+":"+guest, func() {
			if body := get(t, "http://127.0.0.1:"+port+"/"); !strings.Contains(body, "first") {
				t.Errorf("the forwarded port of %s shows %s, want the first page", address, body)
			}
		})
	}
}

func testPreviewForward(t *testing.T, s *shown) {
	_, port, _ := net.SplitHostPort(vmtest.FreePort(t))
	s.forwards(t, "box", port+":3000", func() {
		if body := get(t, "http://127.0.0.1:"+port+"/"); !strings.Contains(body, "first") {
			t.Errorf("the forwarded port shows %s, want the first page", body)
		}
	})
}

// forwards does something while `warren forward` runs.
func (s *shown) forwards(t *testing.T, name, ports string, do func()) {
	t.Helper()
	cmd := exec.Command(s.binary, "forward", name, ports)
	cmd.Env = s.environ()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	do()
}

func testPreviewFork(t *testing.T, s *shown) {
	c := s.client(true)
	link := strings.TrimSpace(s.ok("preview", "box", "3000", "--link"))
	s.get(c, link)
	s.ok("preview", "box", "3000", "--public")
	before := s.count(c, "3000-box")
	s.ok("fork", "box", "--name", "kid")
	defer s.run("rm", "kid-1")
	if resp, _ := s.get(c, s.url("3000-kid-1", "/")); resp.StatusCode != 401 {
		t.Errorf("a fork of a public preview is open: %d", resp.StatusCode)
	}
	cookie := strings.SplitN(link, "=", 2)[1]
	if resp, _ := s.get(c, s.url("3000-kid-1", "/?warren-link="+cookie)); resp.StatusCode != 401 {
		t.Errorf("its parent's link opens a fork: %d", resp.StatusCode)
	}
	if n := s.count(c, "3000-kid-1", keyName, s.key); n != before+1 {
		t.Errorf("the fork's server counts %d, after %d", n, before)
	}
	s.count(c, "3000-kid-1", keyName, s.key)
	if n := s.count(c, "3000-box"); n != before+1 {
		t.Errorf("the parent counts %d, after %d", n, before)
	}
	s.ok("preview", "box", "3000", "--private")
}

func testPreviewWake(t *testing.T, s *shown) {
	id := s.find("box").ID
	c := s.client(true)
	before := s.count(c, "3000-box", keyName, s.key)
	ws := s.socket(s.client(false), "/ws", keyName, s.key)
	s.sleep() // beside the connections of the gateway, and a WebSocket that is still
	if _, _, err := ws.Read(t.Context()); err == nil {
		t.Error("the WebSocket brought something")
	}
	starts, began := s.woken(id), time.Now()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { // each with a connection of its own
			_, body, err := s.try(s.client(true), s.url("3000-box", "/count"), keyName, s.key)
			if n, bad := strconv.Atoi(body); bad != nil || n <= before || n > before+20 {
				t.Errorf("%v %s, after %d", err, body, before)
			}
		})
	}
	wg.Wait()
	t.Logf("twenty requests woke it and were answered after %v", time.Since(began))
	if n := s.woken(id) - starts; n != 1 {
		t.Errorf("%d starts", n)
	}
	if n := s.count(c, "3000-box", keyName, s.key); n != before+21 {
		t.Errorf("it counts %d, after %d and twenty", n, before)
	}
	if i := s.idle("box"); i.LastKind != vm.ActivityGateway {
		t.Errorf("the last use is %q, want the gateway's", i.LastKind)
	}
}

func testPreviewRestart(t *testing.T, s *shown) {
	link, ticket := s.client(true), s.client(true)
	s.get(link, strings.TrimSpace(s.ok("preview", "box", "3000", "--link")))
	s.get(ticket, strings.TrimSpace(s.ok("preview", "box", "3000", "--open")))
	before := s.count(link, "3000-box")
	s.killServer()
	s.serve("--preview", s.addr)
	for i, c := range []*http.Client{link, ticket} {
		if n := s.count(c, "3000-box"); n != before+1+i {
			t.Errorf("it counts %d, after %d", n, before+i)
		}
	}
}
