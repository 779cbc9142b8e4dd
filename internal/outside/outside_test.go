// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// TestPrivateAddressesAreRefused: a user's request reaches no private address, neither
// by number nor by name nor by a redirect, unless the operator allowed it.
func TestPrivateAddressesAreRefused(t *testing.T) {
	n := New(nil)
	for _, ip := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "192.168.1.1", "0.0.0.0"} {
		if err := n.Check(netip.MustParseAddr(ip)); vm.KindOf(err) != vm.Denied {
			t.Errorf("%s is %v, want refused", ip, err)
		}
	}
	for _, ip := range []string{"203.0.113.5", "8.8.8.8", "2606:4700::1"} {
		if err := n.Check(netip.MustParseAddr(ip)); err != nil {
			t.Errorf("%s is refused: %v", ip, err)
		}
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	for _, name := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		_, err := n.Client().Get("http://" + name + ":" + port)
		if vm.KindOf(err) != vm.Denied {
			t.Errorf("a request to %s ends with %v, want refused", name, err)
		}
	}
	inner := httptest.NewServer(http.NotFoundHandler())
	defer inner.Close()
	to := strings.Replace(inner.URL, "127.0.0.1", "127.0.0.2", 1)
	outer := httptest.NewServer(http.RedirectHandler(to, http.StatusFound))
	defer outer.Close()
	if _, err := New(loopback).Client().Get(outer.URL); vm.KindOf(err) != vm.Denied {
		t.Errorf("a redirect to an address that is not allowed ends with %v, want refused", err)
	}
	file := httptest.NewServer(http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	defer file.Close()
	if _, err := New(loopback).Client().Get(file.URL); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a redirect to a file ends with %v, want refused", err)
	}
}

func TestCheckURL(t *testing.T) {
	for _, bad := range []string{"", "file:///etc/passwd", "ssh://git@host/x", "git@host:x", "ext::sh -c id", "http://", "https://-oProxy=x/", "http://a b/", "http://a/\n", "gopher://x/", "https:opaque"} {
		if _, err := CheckURL(bad); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%q is %v, want invalid", bad, err)
		}
	}
	for _, good := range []string{"https://example.com/a.git", "http://203.0.113.1:3000/x", "https://u:p@example.com/"} {
		if _, err := CheckURL(good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
}

// site serves a bare repository with one commit.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	dir := t.TempDir()
	run := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	run("init", "-q", "-b", "main", "work")
	noise := make([]byte, 4096) // which git cannot make smaller
	_, _ = rand.Read(noise)
	if err := os.WriteFile(filepath.Join(dir, "work", "f"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	run("-C", "work", "add", "f")
	run("-C", "work", "commit", "-qm", "first")
	run("clone", "-q", "--bare", "work", "r.git")
	run("-C", "r.git", "update-server-info")
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	return s
}

// clone runs git through a tunnel.
func clone(t *testing.T, tunnel *Tunnel, from string) (string, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "c")
	cmd := exec.Command("git", "clone", "-q", "--", from, to)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0"}, Environment(tunnel.GitConfig())...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestGitGoesThroughTheTunnel: git fetches by the tunnel only, by the Net's rules and
// within its limit.
func TestGitGoesThroughTheTunnel(t *testing.T) {
	s := site(t)
	open := func(allow []netip.Prefix, limit int64) *Tunnel {
		tunnel, err := New(allow).Tunnel(t.Context(), limit, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tunnel.Close)
		return tunnel
	}
	ok := open(loopback, 1<<20)
	if out, err := clone(t, ok, s.URL+"/r.git"); err != nil || ok.Refused() != nil {
		t.Errorf("a clone through the tunnel fails: %v, %v\n%s", err, ok.Refused(), out)
	}
	closed := open(nil, 1<<20)
	if out, err := clone(t, closed, s.URL+"/r.git"); err == nil || vm.KindOf(closed.Refused()) != vm.Denied {
		t.Errorf("a clone from a private address: %v, refused with %v\n%s", err, closed.Refused(), out)
	}
	small := open(loopback, 2048)
	if _, err := clone(t, small, s.URL+"/r.git"); err == nil || vm.KindOf(small.Refused()) != vm.Limit {
		t.Errorf("a clone beyond the limit: %v, refused with %v", err, small.Refused())
	}
	for _, from := range []string{"file://" + t.TempDir(), "ext::sh -c id", "ssh://localhost/x"} {
		out, err := clone(t, ok, from)
		if err == nil || !strings.Contains(out, "not allowed") {
			t.Errorf("git takes %s: %v\n%s", from, err, out)
		}
	}
}

// TestTunnelNeedsItsSecret: another program on this computer cannot use the tunnel.
func TestTunnelNeedsItsSecret(t *testing.T) {
	tunnel, err := New(loopback).Tunnel(t.Context(), 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tunnel.Close()
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	proxy, _ := url.Parse("http://warren:wrong@" + tunnel.addr)
	c := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	resp, err := c.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusProxyAuthRequired {
		t.Errorf("a request with a wrong secret gets %d, want 407", resp.StatusCode)
	}
}

// TestTunnelConnects: CONNECT carries bytes both ways, and ends with the tunnel.
func TestTunnelConnects(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer s.Close()
	tunnel, err := New(loopback).Tunnel(t.Context(), 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	proxy, _ := url.Parse(tunnel.URL())
	c := s.Client()
	c.Transport.(*http.Transport).Proxy = http.ProxyURL(proxy)
	resp, err := c.Post(s.URL, "text/plain", strings.NewReader("through"))
	if err != nil {
		t.Fatal(err)
	}
	data, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(data) != "through" {
		t.Errorf("the tunnel carried %q", data)
	}
	tunnel.Close()
	if _, err := net.DialTimeout("tcp", tunnel.addr, dialTimeout); err == nil {
		t.Error("a closed tunnel still listens")
	}
	if _, err := New(nil).Dial(context.Background(), "tcp", s.Listener.Addr().String()); vm.KindOf(err) != vm.Denied {
		t.Errorf("a dial of a private address ends with %v", err)
	}
}
