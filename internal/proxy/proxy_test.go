// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

const box, other = vm.ID("aaaaaaaaaaaaaaaaaaaa"), vm.ID("bbbbbbbbbbbbbbbbbbbb")

// inside is one VM's proxy, the server's door behind it, and what the door was asked.
type inside struct {
	t       *testing.T
	proxy   *Proxy
	roots   *x509.CertPool
	socket  string
	monitor int // the process that the door knows as box's monitor

	mu    sync.Mutex
	asked []*http.Request
	hold  chan struct{} // requests wait for it; nil = they do not
}

func newInside(t *testing.T) *inside {
	t.Helper()
	dir := layout.Dir(t.TempDir())
	ca, err := OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	leaf := filepath.Join(string(dir), "leaf.pem")
	if err := ca.WriteLeaf(leaf); err != nil {
		t.Fatal(err)
	}
	in := &inside{t: t, roots: x509.NewCertPool(), socket: filepath.Join(t.TempDir(), "s"), monitor: os.Getpid()}
	if !in.roots.AppendCertsFromPEM(CA(leaf)) {
		t.Fatal("the file that monitors read has no CA in it")
	}
	log := slog.New(slog.DiscardHandler)
	in.proxy = New(Config{Certificate: leaf, Names: map[string]http.Handler{vm.GitHost: Upstream(in.socket, box, log)}})
	t.Cleanup(func() {
		if err := in.proxy.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return in
}

// open starts the server's door. It returns its end.
func (in *inside) open() (end func()) {
	in.t.Helper()
	ctx, cancel := context.WithCancel(in.t.Context())
	l, err := Listen(ctx, in.socket)
	if err != nil {
		in.t.Fatal(err)
	}
	d := &Door{
		Log:    slog.New(slog.DiscardHandler),
		Speaks: func(id vm.ID, pid int) bool { return id == box && pid == in.monitor },
		Handle: func(w http.ResponseWriter, r *http.Request, id vm.ID) {
			in.mu.Lock()
			in.asked = append(in.asked, r)
			hold := in.hold
			in.mu.Unlock()
			if hold != nil {
				<-hold
			}
			_, _ = fmt.Fprintf(w, "%s %s", id, r.URL.RequestURI())
		},
	}
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx, l) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			in.t.Errorf("the door: %v", err)
		}
	})
}

// dial is the guest's connection to a port.
func (in *inside) dial(port uint16) net.Conn {
	in.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		in.t.Fatal(err)
	}
	defer l.Close()
	guest, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		in.t.Fatal(err)
	}
	host, err := l.Accept()
	if err != nil {
		in.t.Fatal(err)
	}
	in.proxy.Serve(host, port)
	return guest
}

// get asks for a URL as a program of the guest.
func (in *inside) get(url string, change func(*http.Request)) (int, string, error) {
	in.t.Helper()
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: in.roots},
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			if strings.HasSuffix(address, ":443") {
				return in.dial(443), nil
			}
			return in.dial(80), nil
		},
	}}
	r, err := http.NewRequestWithContext(in.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		in.t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// Requests of the guest reach the server as the VM, over TLS and in plain.
func TestForwards(t *testing.T) {
	in := newInside(t)
	defer in.open()()
	for _, scheme := range []string{"https", "http"} {
		status, body, err := in.get(scheme+"://git.warren.internal/r/info/refs?service=git-upload-pack", nil)
		if want := string(box) + " /r/info/refs?service=git-upload-pack"; err != nil || status != 200 || body != want {
			t.Errorf("%s: %d %q, %v, want %q", scheme, status, body, err, want)
		}
	}
}

// TestEarlyAnswer: an answer whose beginning the guest has before the end of its request was read arrives whole.
func TestEarlyAnswer(t *testing.T) {
	vmtest.EarlyAnswer(t, "/", func(behind http.Handler) http.Handler {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := Listen(t.Context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: behind}
		go func() { _ = server.Serve(l) }() // ends with Close
		t.Cleanup(func() { _ = server.Close() })
		return Upstream(socket, box, slog.New(slog.DiscardHandler))
	})
}

// A guest cannot speak for another VM, and no secret that it sends reaches the server.
func TestGuestSpeaksForItself(t *testing.T) {
	in := newInside(t)
	defer in.open()()
	_, body, err := in.get("https://git.warren.internal/r", func(r *http.Request) {
		r.Header["warren-inside-vm"] = []string{string(other)}
		r.Header.Add(headerVM, string(other))
		r.Header.Set("Connection", headerVM)
		r.SetBasicAuth("x", "secret")
		r.Header.Set("Cookie", "a=b")
		r.Header.Set("X-Freestyle-Identity-Access-Token", "secret")
		r.Header.Set("Warren-Receipt", "x")
	})
	if err != nil || !strings.HasPrefix(body, string(box)+" ") {
		t.Fatalf("the server took the guest for %q, %v, want %s", body, err, box)
	}
	for name := range in.asked[0].Header {
		switch name {
		case "Authorization", "Cookie", headerVM, "X-Freestyle-Identity-Access-Token", "Warren-Receipt", "X-Forwarded-For":
			t.Errorf("the header %s of the guest reached the server", name)
		}
	}
}

// The door believes only the VM's own monitor.
func TestDoorChecksTheProcess(t *testing.T) {
	in := newInside(t)
	in.monitor = os.Getppid()
	defer in.open()()
	if status, body, err := in.get("https://git.warren.internal/r", nil); err != nil || status != http.StatusForbidden {
		t.Errorf("a process that is not the monitor gets %d %q, %v, want 403", status, body, err)
	}
	if len(in.asked) > 0 {
		t.Error("its request was handled")
	}
	if st, err := os.Stat(in.socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v, want 0600", st.Mode(), err)
	}
}

// What a hostile guest may try with names.
func TestHostileNames(t *testing.T) {
	in := newInside(t)
	defer in.open()()
	if _, _, err := in.get("https://other.warren.internal/", nil); err == nil {
		t.Error("a name that nobody has was answered over TLS")
	}
	for host, want := range map[string]int{"other.warren.internal": 421, "10.0.2.4": 421, "GIT.warren.internal:443": 200} {
		status, _, err := in.get("https://git.warren.internal/r", func(r *http.Request) { r.Host = host })
		if err != nil || status != want {
			t.Errorf("Host %s is answered with %d, %v, want %d", host, status, err, want)
		}
	}
	c := in.dial(80)
	defer c.Close()
	_, _ = io.WriteString(c, "CONNECT git.warren.internal:443 HTTP/1.1\r\nHost: git.warren.internal\r\n\r\n")
	b := make([]byte, 12)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "HTTP/1.1 405" {
		t.Errorf("CONNECT is answered with %q, %v, want 405", b, err)
	}
}

// While no server runs, and again when one does.
func TestServerIsRestarted(t *testing.T) {
	in := newInside(t)
	if status, body, err := in.get("https://git.warren.internal/r", nil); err != nil || status != 503 || !strings.Contains(body, "try again") {
		t.Errorf("without a server: %d %q, %v, want 503", status, body, err)
	}
	for range 2 {
		end := in.open()
		if status, _, err := in.get("https://git.warren.internal/r", nil); err != nil || status != 200 {
			t.Errorf("with a server: %d, %v, want 200", status, err)
		}
		end()
	}
}

// One VM has a bounded number of requests in progress.
func TestRequestsAreBounded(t *testing.T) {
	in := newInside(t)
	in.hold = make(chan struct{})
	defer in.open()()
	var wg sync.WaitGroup
	for range maxRequests {
		wg.Go(func() { _, _, _ = in.get("http://git.warren.internal/r", nil) })
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		in.mu.Lock()
		n := len(in.asked)
		in.mu.Unlock()
		if n == maxRequests {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests are in progress, want %d", n, maxRequests)
		}
	}
	if status, body, err := in.get("http://git.warren.internal/r", nil); err != nil || status != 503 || !strings.Contains(body, "32 requests") {
		t.Errorf("one more: %d %q, %v, want 503", status, body, err)
	}
	close(in.hold)
	wg.Wait()
}

// The CA signs names inside VMs only, stays the same, and has the name under which
// OpenSSL looks for it.
func TestAuthority(t *testing.T) {
	dir := layout.Dir(t.TempDir())
	a, err := OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenAuthority(dir)
	if err != nil || !again.own.Cert.Equal(a.own.Cert) {
		t.Errorf("the second start has another CA, %v", err)
	}
	if st, err := os.Stat(dir.InsideCAKey()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, %v, want 0600", st.Mode(), err)
	}
	out, err := exec.Command("openssl", "x509", "-in", dir.InsideCA(), "-noout", "-subject_hash").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != vm.InsideCAHash {
		t.Errorf("OpenSSL looks for it as %q, %v, want %s", out, err, vm.InsideCAHash)
	}
	now := time.Now()
	bank, err := a.own.Issue("bank.example", now.Add(-time.Hour), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.own.Cert)
	if _, err := bank.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "bank.example"}); err == nil {
		t.Error("a stolen key could sign a certificate for bank.example")
	}
	if err := os.WriteFile(dir.InsideCA(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a damaged CA gives %v, want kind corrupt", err)
	}
}
