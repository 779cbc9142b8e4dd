//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// netWorld is an internet of its own for one server: two network namespaces, joined by a
// pair of virtual cards. The server and its monitors run in the first, where every address
// leads to the second. In the second every address answers: 192.0.2.2:53 is the name
// server, any address answers on port 80 (HTTP/1 and plain HTTP/2) and 443 (TLS with a
// certificate of the world's CA for the name of the greeting). All that arrives is
// recorded, each packet by its destination. It needs root.
type netWorld struct {
	t      testing.TB
	dir    string
	inner  string // network namespace of the server
	outer  string // of the rest of the world
	caCert *x509.Certificate
	caKey  *ecdsa.PrivateKey
	servers
	wg sync.WaitGroup

	mu       sync.Mutex
	records  map[string][]dnsmessage.ResourceBody // by lower-case name without the final dot
	handlers map[string]http.Handler              // by host
	certs    map[string]*tls.Certificate
	log      []arrival
	next     byte
}

// servers are the ends of what the world listens on.
type servers struct{ closers []func() }

// arrival is one thing that came out of the server into the world.
type arrival struct {
	// Kind is "dns" (a query), "http" (a request), "tls" (a greeting), "tcp" (the first
	// packet of a connection), "udp" or "icmp" (a packet).
	Kind string
	To   string // address and port; for dns the name server's
	What string // "NAME TYPE", "METHOD HOST PATH" or the name of a greeting
}

func (a arrival) String() string { return strings.TrimSpace(a.Kind + " " + a.To + " " + a.What) }

// worldNS is the name server of every world.
var (
	worldNS = netip.MustParseAddr("192.0.2.2")
	worldNr atomic.Int64
)

// newNetWorld makes a world in which no name exists yet.
func newNetWorld(t testing.TB) *netWorld {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	nr := fmt.Sprintf("%d-%d", os.Getpid(), worldNr.Add(1))
	w := &netWorld{
		t: t, dir: t.TempDir(), inner: "warren-in-" + nr, outer: "warren-out-" + nr,
		records: map[string][]dnsmessage.ResourceBody{}, handlers: map[string]http.Handler{}, certs: map[string]*tls.Certificate{}, next: 10,
	}
	a, b := fmt.Sprintf("wi%d", worldNr.Load()), fmt.Sprintf("wo%d", worldNr.Load())
	w.ip("netns", "add", w.inner)
	t.Cleanup(func() { w.ip("netns", "del", w.inner) })
	w.ip("netns", "add", w.outer)
	t.Cleanup(func() { w.ip("netns", "del", w.outer) })
	w.ip("-n", w.inner, "link", "add", a, "type", "veth", "peer", "name", b, "netns", w.outer)
	w.ip("-n", w.inner, "addr", "add", "192.0.2.1/30", "dev", a)
	w.ip("-n", w.outer, "addr", "add", "192.0.2.2/30", "dev", b)
	for ns, dev := range map[string]string{w.inner: a, w.outer: b} {
		w.ip("-n", ns, "link", "set", "lo", "up")
		w.ip("-n", ns, "link", "set", dev, "up")
	}
	w.ip("-n", w.inner, "route", "add", "default", "via", "192.0.2.2")
	w.ip("-n", w.outer, "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "main")
	w.makeCA()
	t.Cleanup(func() {
		for _, c := range w.closers {
			c()
		}
		w.wg.Wait()
	})
	w.listenAll(b)
	return w
}

func (w *netWorld) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// host starts a server inside the world. All commands of the result run inside it, too.
func (w *netWorld) host(serveArgs ...string) *host {
	w.t.Helper()
	h := unstarted(w.t)
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			w.t.Fatal(err)
		}
		return path
	}
	resolv := write("resolv.conf", "nameserver 192.0.2.2\noptions timeout:1 attempts:2\n", 0o644)
	hosts := write("hosts", "127.0.0.1 localhost\n", 0o644)
	h.binary = write("warren", fmt.Sprintf(`#!/bin/sh
export SSL_CERT_FILE=%s
exec nsenter --net=/run/netns/%s unshare -m sh -c 'mount --bind %s /etc/resolv.conf && mount --bind %s /etc/hosts && exec "$@"' sh %s "$@"
`, w.caFile(), w.inner, resolv, hosts, h.binary), 0o755)
	h.serve(serveArgs...)
	w.t.Cleanup(h.close)
	return h
}

// command is a program of this host that runs inside the world, beside the server.
func (w *netWorld) command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + w.inner, name}, args...)...)
}

// name gives names one new public address, 203.0.113.N, and returns it.
func (w *netWorld) name(names ...string) netip.Addr {
	w.mu.Lock()
	w.next++
	a := netip.AddrFrom4([4]byte{203, 0, 113, w.next})
	w.mu.Unlock()
	for _, n := range names {
		w.record(n, &dnsmessage.AResource{A: a.As4()})
	}
	return a
}

// record sets all records of a name; none = it does not exist.
func (w *netWorld) record(name string, bodies ...dnsmessage.ResourceBody) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(bodies) == 0 {
		delete(w.records, name)
		return
	}
	w.records[name] = bodies
}

// handle serves the requests of a host, on ports 80 and 443. Others get an echo: a JSON
// object with method, host, path, header, body and the server's name of TLS.
func (w *netWorld) handle(host string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[host] = h
}

// arrived returns what came since the last call of forget.
func (w *netWorld) arrived() []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

func (w *netWorld) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = nil
}

// saw reports whether something arrived whose text holds all the parts.
func (w *netWorld) saw(parts ...string) bool {
	return slices.ContainsFunc(w.arrived(), func(a arrival) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(a.String(), p) })
	})
}

func (w *netWorld) came(kind, to, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := (arrival{kind, to, what}); len(w.log) < 100000 && !slices.Contains(w.log, a) {
		w.log = append(w.log, a)
	}
}

// within runs f on a thread in one of the world's network namespaces.
func (w *netWorld) within(namespace string, f func() error) {
	w.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			err = errors.Join(unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET), ns.Close())
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		w.t.Fatalf("in the network namespace %s: %v", namespace, err)
	}
}

// listen opens a TCP port of the world; each connection is served by f and then closed.
// address is ":PORT" or "IP:PORT".
func (w *netWorld) listen(address string, f func(c *net.TCPConn)) {
	w.t.Helper()
	l := w.listener(address)
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() {
				defer c.Close()
				stop := time.AfterFunc(2*time.Minute, func() { _ = c.Close() })
				defer stop.Stop()
				f(c.(*net.TCPConn))
			})
		}
	})
}

func (w *netWorld) listener(address string) (l net.Listener) {
	w.t.Helper()
	w.within(w.outer, func() (err error) {
		l, err = net.Listen("tcp4", address)
		return err
	})
	w.closers = append(w.closers, func() { _ = l.Close() })
	return l
}

// onHost opens TCP ports beside the server, on the host's own addresses. What connects is
// recorded as "host".
func (w *netWorld) onHost(addresses ...string) {
	w.t.Helper()
	for _, address := range addresses {
		var l net.Listener
		w.within(w.inner, func() (err error) {
			l, err = net.Listen("tcp4", address)
			return err
		})
		w.closers = append(w.closers, func() { _ = l.Close() })
		w.wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				w.came("host", address, "")
				_ = c.Close()
			}
		})
	}
}

// packets opens a UDP port of one address; each datagram is answered with what f returns.
func (w *netWorld) packets(address string, f func(b []byte) []byte) {
	w.t.Helper()
	var c net.PacketConn
	w.within(w.outer, func() (err error) {
		c, err = net.ListenPacket("udp4", address)
		return err
	})
	w.closers = append(w.closers, func() { _ = c.Close() })
	w.wg.Go(func() {
		b := make([]byte, 65536)
		for {
			k, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if answer := f(slices.Clone(b[:k])); answer != nil {
				_, _ = c.WriteTo(answer, from)
			}
		}
	})
}

func (w *netWorld) listenAll(dev string) {
	w.sniff(dev)
	w.packets("192.0.2.2:53", w.answer)
	plain := &http.Server{Handler: http.HandlerFunc(w.web), ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	plain.Protocols.SetHTTP1(true)
	plain.Protocols.SetUnencryptedHTTP2(true)
	secure := &http.Server{Handler: http.HandlerFunc(w.web), ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: w.certificate}}
	for _, s := range []struct {
		port  string
		serve func(net.Listener) error
	}{
		{":80", plain.Serve},
		{":8080", plain.Serve},
		{":443", func(l net.Listener) error { return secure.ServeTLS(l, "", "") }},
		{":8443", func(l net.Listener) error { return secure.ServeTLS(l, "", "") }},
	} {
		l := w.listener(s.port)
		w.wg.Go(func() { _ = s.serve(l) })
	}
	w.closers = append(w.closers, func() { _ = plain.Close() }, func() { _ = secure.Close() })
}

// web records a request and answers it.
func (w *netWorld) web(rw http.ResponseWriter, r *http.Request) {
	to := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	w.came("http", to, r.Method+" "+host+" "+r.RequestURI)
	w.mu.Lock()
	h := w.handlers[host]
	w.mu.Unlock()
	if h != nil {
		h.ServeHTTP(rw, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	name := ""
	if r.TLS != nil {
		name = r.TLS.ServerName
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(map[string]any{"method": r.Method, "host": r.Host, "path": r.RequestURI, "header": r.Header, "body": string(body), "tls": name, "proto": r.Proto})
}

// answer is the name server.
func (w *netWorld) answer(b []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(b) != nil || len(m.Questions) != 1 {
		w.came("dns", worldNS.String(), "malformed")
		return nil
	}
	q := m.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	w.came("dns", worldNS.String(), name+" "+strings.TrimPrefix(q.Type.String(), "Type"))
	w.mu.Lock()
	bodies, ok := w.records[name]
	w.mu.Unlock()
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionDesired: true, RecursionAvailable: true}, Questions: m.Questions}
	if !ok {
		out.RCode = dnsmessage.RCodeNameError
	}
	owner := q.Name
	for range 4 { // a name with a CNAME is answered with what that leads to
		var alias *dnsmessage.CNAMEResource
		for _, body := range bodies {
			c, isAlias := body.(*dnsmessage.CNAMEResource)
			if isAlias {
				alias = c
			}
			if isAlias || typeOf(body) == q.Type {
				out.Answers = append(out.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET, TTL: 1}, Body: body})
			}
		}
		if alias == nil || q.Type == dnsmessage.TypeCNAME {
			break
		}
		owner = alias.CNAME
		w.mu.Lock()
		bodies = w.records[strings.ToLower(strings.TrimSuffix(owner.String(), "."))]
		w.mu.Unlock()
	}
	packed, err := out.Pack()
	if err != nil {
		w.t.Errorf("the world's name server: %v", err)
	}
	return packed
}

func typeOf(body dnsmessage.ResourceBody) dnsmessage.Type {
	switch body.(type) {
	case *dnsmessage.AResource:
		return dnsmessage.TypeA
	case *dnsmessage.AAAAResource:
		return dnsmessage.TypeAAAA
	case *dnsmessage.CNAMEResource:
		return dnsmessage.TypeCNAME
	case *dnsmessage.TXTResource:
		return dnsmessage.TypeTXT
	case *dnsmessage.MXResource:
		return dnsmessage.TypeMX
	case *dnsmessage.SRVResource:
		return dnsmessage.TypeSRV
	case *dnsmessage.NSResource:
		return dnsmessage.TypeNS
	}
	return 0
}

// sniff records the destination of every packet that arrives.
func (w *netWorld) sniff(dev string) {
	w.t.Helper()
	fd := -1
	w.within(w.outer, func() (err error) {
		const all = unix.ETH_P_ALL
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all>>8|all&0xff<<8))
		if err != nil {
			return err
		}
		i, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		tv := unix.Timeval{Usec: 200000}
		return errors.Join(
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all>>8 | all&0xff<<8), Ifindex: i.Index}),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
	})
	var ended atomic.Bool
	w.closers = append(w.closers, func() { ended.Store(true) })
	w.wg.Go(func() {
		defer unix.Close(fd)
		b := make([]byte, 65536)
		for !ended.Load() {
			k, from, err := unix.Recvfrom(fd, b, 0)
			if sa, ok := from.(*unix.SockaddrLinklayer); err == nil && ok && sa.Pkttype != unix.PACKET_OUTGOING {
				w.packet(b[:k])
			}
		}
	})
}

func (w *netWorld) packet(p []byte) {
	if len(p) < 20 || p[0]>>4 != 4 {
		return // the cards' own IPv6
	}
	head := int(p[0]&15) * 4
	dst := netip.AddrFrom4([4]byte(p[16:20]))
	if len(p) < head+14 {
		if p[9] != 1 {
			return
		}
	}
	port := func() string { return netip.AddrPortFrom(dst, uint16(p[head+2])<<8|uint16(p[head+3])).String() }
	switch p[9] {
	case 1:
		w.came("icmp", dst.String(), "")
	case 6:
		if p[head+13]&0x12 == 0x02 { // SYN without ACK
			w.came("tcp", port(), "")
		}
	case 17:
		w.came("udp", port(), "")
	default:
		w.came(fmt.Sprintf("ip-%d", p[9]), dst.String(), "")
	}
}

// caFile is the world's CA as a PEM file of this host; its content is in w.caPEM.
func (w *netWorld) caFile() string { return filepath.Join(w.dir, "ca.pem") }

func (w *netWorld) makeCA() {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world's CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.caCert, err = x509.ParseCertificate(der); err != nil {
		w.t.Fatal(err)
	}
	w.caKey = key
	if err := os.WriteFile(w.caFile(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// certificate makes a certificate for the name of a greeting, which it records.
func (w *netWorld) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	w.came("tls", hello.Conn.LocalAddr().String(), hello.ServerName)
	name := hello.ServerName
	if name == "" {
		name = "nameless.example"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.certs[name]; c != nil {
		return c, nil
	}
	c, err := w.issue(name, w.caCert, w.caKey)
	if err == nil {
		w.certs[name] = c
	}
	return c, err
}

// badCertificate makes a host serve a certificate that the world's CA did not sign.
func (w *netWorld) badCertificate(name string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := w.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: "nobody's CA"}}, key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.certs[name] = c
}

func (w *netWorld) issue(name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(20 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
