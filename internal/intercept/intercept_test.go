// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/internal/usernet"
	"github.com/warren-vm/warren/vm"
)

const (
	value  = "sk-live-THE-VALUE-that-no-guest-may-ever-see-1"
	holder = "sk-live-placeholder-of-this-vm-0123456789abcdef"
	old    = "sk-live-placeholder-of-its-parent-9876543210abc"
)

// world is a host with a secret, and the network of a VM before it.
type world struct {
	t      *testing.T
	i      *Interceptor
	roots  *x509.CertPool // of the guest
	server *httptest.Server
	policy vm.NetworkPolicy
	judge  func(method, path string) egress.Verdict

	open atomic.Int64 // requests that were judged and have not ended

	mu       sync.Mutex
	seen     []*http.Request // by the host
	asked    []vm.SecretAsk
	refuse   error // of the server, when it is asked for a value
	reports  []vm.Misplaced
	notes    []string
	refused  []string
	answered func(http.ResponseWriter, *http.Request)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, roots: x509.NewCertPool()}
	w.policy.Secrets = []vm.SecretUse{{
		ID: "1", Name: "token", Placeholder: holder, Inherited: []string{old}, Host: "example.com", Port: 443, Header: "Authorization",
	}}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := r.Clone(context.Background())
		one.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.seen = append(w.seen, one)
		answered := w.answered
		w.mu.Unlock()
		if answered != nil {
			answered(rw, r)
		}
	}))
	w.server.EnableHTTP2 = true
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	t.Cleanup(func() {
		within(t, func() bool { return w.open.Load() == 0 }, "the end of each request that was judged")
	})
	hosts := x509.NewCertPool()
	hosts.AddCert(w.server.Certificate())
	dir := t.TempDir()
	a, err := OpenAuthority(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	w.roots.AppendCertsFromPEM(a.PEM())
	w.i = New(t.Context(), Config{
		Authority: func() (*Authority, error) { return a, nil }, Roots: hosts,
		Value: func(_ context.Context, ask vm.SecretAsk) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, ask)
			return value, w.refuse
		},
		Misplaced: func(_ context.Context, m vm.Misplaced) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reports = append(w.reports, m)
		},
	})
	t.Cleanup(func() {
		if err := w.i.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

// dial is a connection of the guest to a host.
func (w *world) dial(ctx context.Context, name string) (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	guest, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	c, err := l.Accept()
	if err != nil {
		return nil, err
	}
	w.i.Serve(c, usernet.Intercepted{
		Name: name, Port: 443,
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", w.server.Listener.Addr().String())
		},
		Policy: func() vm.NetworkPolicy { return w.policy },
		Judge: func(method, path string) (egress.Verdict, func()) {
			w.open.Add(1)
			done := func() { w.open.Add(-1) }
			if w.judge != nil {
				return w.judge(method, path), done
			}
			return egress.Verdict{Allow: true}, done
		},
		Note: func(how string, used ...vm.SecretUse) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, u := range used {
				w.notes = append(w.notes, how+" "+u.ID+" "+u.Placeholder)
			}
		},
		Refuse: func(method, path string, v egress.Verdict) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, method+" "+path+": "+v.Reason)
		},
	})
	return guest, nil
}

// client is a program of the guest.
func (w *world) client(h2 bool) *http.Client {
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetHTTP2(h2)
	return &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: w.roots}, Protocols: &p, DisableCompression: true,
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				host, _, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				return w.dial(ctx, host)
			},
		},
	}
}

// do sends a request to https://example.com.
func (w *world) do(h2 bool, method, path, body string, head map[string]string) (status int, text string, h http.Header) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "https://example.com"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range head {
		r.Header.Set(k, v)
	}
	c := w.client(h2)
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error(), resp.Header
	}
	for k, v := range resp.Trailer {
		resp.Header["Trailer "+k] = v
	}
	return resp.StatusCode, string(b), resp.Header
}

// last is what the host saw last.
func (w *world) last() *http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == 0 {
		return nil
	}
	return w.seen[len(w.seen)-1]
}

func (w *world) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.asked, w.reports, w.refused, w.notes = nil, nil, nil, nil, nil
}

// The value reaches the host in the header, in each usual form, and the server was asked for
// each request.
func TestInjects(t *testing.T) {
	w := newWorld(t)
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, c := range map[string]struct{ sent, want string }{
		"bearer":            {"Bearer " + holder, "Bearer " + value},
		"alone":             {holder, value},
		"token":             {"token " + holder, "token " + value},
		"basic password":    {basic("x-access-token:" + holder), basic("x-access-token:" + value)},
		"basic user":        {basic(holder + ":"), basic(value + ":")},
		"inherited":         {"Bearer " + old, "Bearer " + value},
		"none":              {"Bearer something else", "Bearer something else"},
		"basic of somebody": {basic("me:pass"), basic("me:pass")},
	} {
		for _, h2 := range []bool{false, true} {
			w.reset()
			status, text, _ := w.do(h2, "POST", "/v1/a%2Fb?q=1", "hello", map[string]string{"Authorization": c.sent, "X-Other": "y"})
			r := w.last()
			if status != 200 || r == nil {
				t.Fatalf("request %s, h2 %v, was answered with status %d and text %q, want 200", name, h2, status, text)
			}
			body, _ := io.ReadAll(r.Body)
			if got := r.Header.Get("Authorization"); got != c.want {
				t.Errorf("%s, h2 %v: the host got %q, want %q", name, h2, got, c.want)
			}
			if r.RequestURI != "/v1/a%2Fb?q=1" || string(body) != "hello" || r.Header.Get("X-Other") != "y" || r.Host != "example.com" {
				t.Errorf("%s, h2 %v: the request changed: %s %s %q", name, h2, r.Host, r.RequestURI, body)
			}
			if (r.ProtoMajor == 2) != h2 {
				t.Errorf("%s: the guest speaks HTTP/2: %v, the host was spoken to in %s", name, h2, r.Proto)
			}
			if note := vm.NetInjected + " 1 " + map[bool]string{true: old, false: holder}[name == "inherited"]; c.sent != c.want && (len(w.notes) != 1 || w.notes[0] != note) {
				t.Errorf("%s: the notes of the connection are %q, want %q", name, w.notes, note)
			}
			if asked := c.sent != c.want; asked != (len(w.asked) == 1) {
				t.Errorf("%s: the server was asked %d times for a value", name, len(w.asked))
			}
		}
	}
}

// A placeholder anywhere else never reaches the host, and is reported.
func TestMisplaced(t *testing.T) {
	w := newWorld(t)
	w.policy.Secrets = append(w.policy.Secrets, vm.SecretUse{
		ID: "2", Name: "narrow", Placeholder: "narrow-placeholder-0123456789", Host: "example.com", Port: 443, Header: "X-Api-Key", Methods: []string{"GET"}, Paths: []string{"/v1/*"},
	}, vm.SecretUse{ID: "3", Name: "other", Placeholder: "other-placeholder-0123456789", Host: "other.example", Port: 443, Header: "Authorization"})
	auth := map[string]string{"Authorization": "Bearer " + holder}
	for name, c := range map[string]struct {
		method, path, body string
		head               map[string]string
	}{
		"another header":   {"GET", "/", "", map[string]string{"X-Api-Key": holder}},
		"user agent":       {"GET", "/", "", map[string]string{"User-Agent": "x" + holder}},
		"cookie":           {"GET", "/", "", map[string]string{"Cookie": "a=" + holder}},
		"path":             {"GET", "/" + holder, "", nil},
		"query":            {"GET", "/?k=" + holder, "", auth},
		"escaped query":    {"GET", "/?k=%73k-live" + strings.TrimPrefix(holder, "sk-live"), "", nil},
		"body":             {"POST", "/", "a" + holder + "b", auth},
		"long body":        {"POST", "/", strings.Repeat("x", 3*filterChunk-20) + holder + strings.Repeat("y", 100), nil},
		"twice":            {"GET", "/", "", map[string]string{"Authorization": holder + " " + holder}},
		"two kinds":        {"GET", "/", "", map[string]string{"Authorization": holder + " " + old}},
		"another method":   {"POST", "/v1/x", "", map[string]string{"X-Api-Key": "narrow-placeholder-0123456789"}},
		"method override":  {"GET", "/v1/x", "", map[string]string{"X-Api-Key": "narrow-placeholder-0123456789", "X-Http-Method-Override": "DELETE"}},
		"method list":      {"GET", "/v1/x", "", map[string]string{"X-Api-Key": "narrow-placeholder-0123456789", "X_Method_Override": "GET, DELETE"}},
		"path replaced":    {"GET", "/v1/x", "", map[string]string{"X-Api-Key": "narrow-placeholder-0123456789", "X-Original-URL": "/admin"}},
		"path rewritten":   {"GET", "/v1/x", "", map[string]string{"X-Api-Key": "narrow-placeholder-0123456789", "X_Rewrite_Url": "/v1/y"}},
		"another path":     {"GET", "/v2/x", "", map[string]string{"X-Api-Key": "narrow-placeholder-0123456789"}},
		"path with dots":   {"GET", "/v1/%2e%2e/x", "", map[string]string{"X-Api-Key": "narrow-placeholder-0123456789"}},
		"another's secret": {"GET", "/", "", map[string]string{"Authorization": "other-placeholder-0123456789"}},
	} {
		for _, h2 := range []bool{false, true} {
			w.reset()
			w.i.limit.SetBurst(1000)
			w.i.limit.SetLimit(1e6)
			mark := fmt.Sprint(name, h2) // a long body's request may be seen late
			head := map[string]string{"X-Case": mark}
			maps.Copy(head, c.head)
			status, text, _ := w.do(h2, c.method, c.path, c.body, head)
			long := name == "long body"
			if status != 403 && !(long && status == 0) {
				t.Errorf("%s, h2 %v: the guest gets %d %q, want 403", name, h2, status, text)
			}
			if r := w.last(); r != nil && r.Header.Get("X-Case") != mark {
				continue
			} else if r != nil && !long {
				t.Errorf("%s, h2 %v: the request reached the host", name, h2)
			} else if r != nil {
				if b, _ := io.ReadAll(r.Body); bytes.Contains(b, []byte(holder[:12])) {
					t.Errorf("%s, h2 %v: a part of the placeholder reached the host", name, h2)
				}
			}
			if len(w.asked) > 0 {
				t.Errorf("%s, h2 %v: the server was asked for a value", name, h2)
			}
			within(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.reports) > 0 && len(w.refused) > 0 }, name+": no report")
			if joined := fmt.Sprint(w.refused, w.reports); strings.Contains(joined, holder) {
				t.Errorf("%s: the record has the placeholder: %s", name, joined)
			}
		}
	}
}

// within waits until something is so.
func within(t *testing.T, so func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not seen within 10 s: %s", what)
			return
		}
	}
}

// The guest never sees the value in an answer that repeats it.
func TestAnswersAreMasked(t *testing.T) {
	w := newWorld(t)
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + value))
	answers := map[string]func(http.ResponseWriter, *http.Request){
		"header": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("X-Echo", r.Header.Get("Authorization"))
		},
		"body": func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, "a "+r.Header.Get("Authorization")+" b")
		},
		"decoded": func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, value) },
		"pieces": func(rw http.ResponseWriter, _ *http.Request) {
			for i := range value {
				_, _ = rw.Write([]byte(value[i : i+1]))
				_ = http.NewResponseController(rw).Flush()
			}
		},
		"gzip": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(rw)
			_, _ = io.WriteString(z, value)
			_ = z.Close()
		},
		"brotli": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(rw, value)
		},
		"brotli, listed": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Content-Encoding"] = []string{"identity", "br"}
			_, _ = io.WriteString(rw, value)
		},
		"gzip twice": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip, gzip")
			z := gzip.NewWriter(rw)
			_, _ = io.WriteString(z, value)
			_ = z.Close()
		},
		"trailer of no gzip": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			rw.Header().Set("Content-Length", "0")
			rw.Header().Set("Trailer", "X-End")
			rw.WriteHeader(http.StatusOK)
			rw.Header().Set("X-End", value)
		},
		"range": func(rw http.ResponseWriter, r *http.Request) {
			http.ServeContent(rw, r, "x", time.Time{}, strings.NewReader(value))
		},
		"redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://evil.example/?"+value, http.StatusFound)
		},
		"trailer": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Trailer", "X-End")
			_, _ = io.WriteString(rw, "x")
			rw.Header().Set("X-End", value)
		},
		"early hints": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Link", value)
			rw.WriteHeader(http.StatusEarlyHints)
			rw.Header().Del("Link")
		},
	}
	for name, answer := range answers {
		for _, h2 := range []bool{false, true} {
			for _, sent := range []string{"Bearer " + holder, "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+holder))} {
				w.mu.Lock()
				w.answered = answer
				w.mu.Unlock()
				status, text, h := w.do(h2, "GET", "/", "", map[string]string{"Authorization": sent, "Range": "bytes=0-3", "Accept-Encoding": "gzip, br"})
				all := text + fmt.Sprint(h)
				if status == 0 || strings.Contains(all, value[8:]) || strings.Contains(all, basic) {
					t.Errorf("%s, h2 %v: the guest gets %d %q", name, h2, status, all)
				}
				if refused := name == "brotli" || name == "brotli, listed" || name == "gzip twice"; (status == http.StatusBadGateway) != refused {
					t.Errorf("%s, h2 %v: the guest gets %d %q", name, h2, status, text)
				}
				if name == "body" && status == 200 && !strings.HasSuffix(text, " b") {
					t.Errorf("the rest of the body is missing: %q", text)
				}
				if name == "range" && (status != 200 || len(text) != len(value)) {
					t.Errorf("a part of an answer that has a value: %d %q", status, text)
				}
			}
		}
	}
}

// Events arrive at once, not when the answer ends.
func TestEventsStream(t *testing.T) {
	w := newWorld(t)
	next := make(chan string)
	w.answered = func(rw http.ResponseWriter, _ *http.Request) {
		for s := range next {
			_, _ = io.WriteString(rw, s)
			_ = http.NewResponseController(rw).Flush()
		}
	}
	for _, h2 := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://example.com/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", holder)
		if h2 {
			next = make(chan string)
		}
		go func() { next <- "data: 1\n" }()
		resp, err := w.client(h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(resp.Body)
		for i := 1; i < 4; i++ {
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Errorf("h2 %v: event %d is %q, %v", h2, i, line, err)
			}
			next <- fmt.Sprintf("data: %d\n", i+1)
		}
		close(next)
		_ = resp.Body.Close()
	}
}

// Before a bad certificate no value is asked for, and nothing is sent.
func TestBadCertificate(t *testing.T) {
	w := newWorld(t)
	w.i.cfg.Roots = x509.NewCertPool()
	status, text, _ := w.do(false, "GET", "/", "", map[string]string{"Authorization": holder})
	if status != http.StatusBadGateway || !strings.Contains(text, "certificate of example.com does not verify: no CA that this host trusts") {
		t.Errorf("the guest gets %d %q", status, text)
	}
	if len(w.asked) > 0 || w.last() != nil {
		t.Errorf("the server was asked %d times, and the host got %v", len(w.asked), w.last())
	}
	if len(w.refused) != 1 {
		t.Errorf("the refusals are %q", w.refused)
	}
}

// Without the server a request with a secret gets 503, others pass.
func TestServerAway(t *testing.T) {
	w := newWorld(t)
	w.refuse = vm.Errorf(vm.Unavailable, "", "the server did not answer")
	if status, text, _ := w.do(true, "GET", "/", "", map[string]string{"Authorization": holder}); status != 503 || !strings.Contains(text, "token") || w.last() != nil {
		t.Errorf("with a placeholder the guest gets %d %q", status, text)
	}
	if status, text, _ := w.do(true, "GET", "/", "", nil); status != 200 {
		t.Errorf("without a placeholder the guest gets %d %q", status, text)
	}
	w.refuse = vm.Errorf(vm.NotFound, "", "the secret was removed")
	w.reset()
	if status, text, _ := w.do(true, "GET", "/", "", map[string]string{"Authorization": holder}); status != 403 || !strings.Contains(text, "removed") || w.last() != nil {
		t.Errorf("with a removed secret the guest gets %d %q", status, text)
	}
}

// Requests for another host, to a proxy, and by methods that the policy refuses.
func TestOddRequests(t *testing.T) {
	w := newWorld(t)
	w.judge = func(method, path string) egress.Verdict {
		return egress.Verdict{Allow: method == "GET" && path != "/no", Reason: "a rule says so"}
	}
	for raw, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                           421,
		"GET / HTTP/1.1\r\nHost: example.com:8443\r\n\r\n":                                       421,
		"GET https://evil.example/ HTTP/1.1\r\nHost: example.com\r\n\r\n":                        421,
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: example.com\r\n\r\n":                         421,
		"DELETE / HTTP/1.1\r\nHost: example.com\r\n\r\n":                                         403,
		"GET /no HTTP/1.1\r\nHost: example.com\r\n\r\n":                                          403,
		"GET / HTTP/1.1\r\nHost: example.com\r\nX-HTTP-Method-Override: DELETE\r\n\r\n":          403,
		"GET / HTTP/1.1\r\nHost: EXAMPLE.com.\r\n\r\n":                                           200,
		"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n":       200,
		"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n": 400,
	} {
		c, err := w.dial(t.Context(), "example.com")
		if err != nil {
			t.Fatal(err)
		}
		tc := tls.Client(c, &tls.Config{RootCAs: w.roots, ServerName: "example.com"})
		_, _ = io.WriteString(tc, raw)
		resp, err := http.ReadResponse(bufio.NewReader(tc), nil)
		if err != nil || resp.StatusCode != want {
			t.Errorf("%q is answered with %+v, %v, want %d", raw, resp, err, want)
		}
		_ = tc.Close()
	}
	if r := w.last(); r == nil || r.Header.Get("Upgrade") != "" {
		t.Error("an upgrade to something else than WebSocket reached the host")
	}
}

// A WebSocket gets the value in its head; its frames may not have a placeholder, and do not
// show the value.
func TestWebSocket(t *testing.T) {
	w := newWorld(t)
	w.answered = func(rw http.ResponseWriter, r *http.Request) {
		c, buf, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x2e%s", r.Header.Get("Authorization"))
		head := make([]byte, 6)
		for {
			if _, err := io.ReadFull(buf, head); err != nil {
				return
			}
			text := make([]byte, head[1]&0x7f)
			k, _ := io.ReadFull(buf, text)
			for i := range text {
				text[i] ^= head[2+i%4]
			}
			_, _ = c.Write(append([]byte{0x81, byte(len(text))}, text[:k]...))
		}
	}
	c, err := w.dial(t.Context(), "example.com")
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(c, &tls.Config{RootCAs: w.roots, ServerName: "example.com"})
	defer tc.Close()
	_, _ = fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\nAuthorization: %s\r\n\r\n", holder)
	in := bufio.NewReader(tc)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("the upgrade gives %+v, %v", resp, err)
	}
	first := make([]byte, 2+len(value))
	if _, err := io.ReadFull(in, first); err != nil || bytes.Contains(first, []byte("VALUE")) {
		t.Errorf("the first frame is %q, %v", first, err)
	}
	if r := w.last(); r.Header.Get("Authorization") != value || r.Header.Get("Sec-Websocket-Extensions") != "" {
		t.Errorf("the host got %v", r.Header)
	}
	frame := func(text string) []byte {
		out := []byte{0x81, 0x80 | byte(len(text)), 1, 2, 3, 4}
		for i := range len(text) {
			out = append(out, text[i]^byte(i%4+1))
		}
		return out
	}
	_, _ = tc.Write(frame("hello"))
	echo := make([]byte, 7)
	if _, err := io.ReadFull(in, echo); err != nil || string(echo) != "\x81\x05hello" {
		t.Errorf("an ordinary frame is echoed as %q, %v", echo, err)
	}
	bad := frame("x" + holder)
	_, _ = tc.Write(bad[:20])
	_, _ = tc.Write(bad[20:])
	rest, _ := io.ReadAll(in)
	if len(rest) > 20 {
		t.Errorf("after a placeholder in a frame %d bytes come back", len(rest))
	}
	within(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.reports) == 1 }, "no report of the WebSocket")
}
