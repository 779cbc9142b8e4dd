// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The host that guests reach. It is on this computer, in a network namespace of its own,
// so that its address is none of this host's: every policy treats it like a host of the
// internet.
const (
	outsideAddr = "198.51.100.2"
	outsideName = "api.bench.example"
	// Its ports. On echoPort each connection gets its first byte back, and is then open
	// until the guest closes it. On rawPort a TLS greeting is read and answered with one
	// byte; then bytes go one way without encryption. On tlsPort are TLS and HTTP: GET /N
	// answers N bytes, and POST reads everything. On reportPort a guest says what it sees.
	echoPort, rawPort, tlsPort, reportPort = 7000, 7443, 443, 7001
)

// outside is that host.
type outside struct {
	ns        string // network namespace
	card      string // of this host, that leads there
	dir       string
	cert      tls.Certificate
	listeners []net.Listener
	web       *http.Server
	run       sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	conns map[net.Conn]struct{}
	heard chan sighting // what guests say on reportPort; nil = nobody listens
	auth  string        // the header Authorization of the last request
}

// sighting is one byte that a guest sent on reportPort, and when it arrived.
type sighting struct {
	what byte
	at   time.Time
}

// newOutside makes the host. close removes it.
func newOutside(ctx context.Context, dir string) (_ *outside, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("network namespaces need root")
	}
	pid := strconv.Itoa(os.Getpid())
	o := &outside{ns: "warren-bench-" + pid, card: "wb" + pid, dir: dir, conns: make(map[net.Conn]struct{})}
	if err := o.makeCert(); err != nil {
		return nil, err
	}
	if err := finish(exec.CommandContext(ctx, "ip", "netns", "add", o.ns)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close(ctx))
		}
	}()
	const there = "eth0"
	for _, args := range [][]string{
		{"link", "add", o.card, "type", "veth", "peer", "name", there, "netns", o.ns},
		{"addr", "add", "198.51.100.1/30", "dev", o.card},
		{"link", "set", o.card, "up"},
		{"-n", o.ns, "addr", "add", outsideAddr + "/30", "dev", there},
		{"-n", o.ns, "link", "set", there, "up"},
	} {
		if err := finish(exec.CommandContext(ctx, "ip", args...)); err != nil {
			return nil, err
		}
	}
	for port, serve := range map[int]func(net.Conn){echoPort: echo, rawPort: raw, reportPort: o.listen} {
		l, err := o.listener(port)
		if err != nil {
			return nil, err
		}
		o.run.Go(func() { o.accept(l, serve) })
	}
	l, err := o.listener(tlsPort)
	if err != nil {
		return nil, err
	}
	o.web = &http.Server{
		Handler: http.HandlerFunc(o.answer), TLSConfig: &tls.Config{Certificates: []tls.Certificate{o.cert}, NextProtos: []string{"http/1.1"}},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	o.run.Go(func() { _ = o.web.ServeTLS(l, "", "") }) // ends with close
	return o, nil
}

func (o *outside) close(ctx context.Context) error {
	for _, l := range o.listeners {
		_ = l.Close()
	}
	if o.web != nil {
		_ = o.web.Close()
	}
	o.mu.Lock()
	for c := range o.conns {
		_ = c.Close()
	}
	o.mu.Unlock()
	o.run.Wait()
	ctx = context.WithoutCancel(ctx)
	return errors.Join(
		finish(exec.CommandContext(ctx, "ip", "link", "del", o.card)), // the namespace's removal would do it later
		finish(exec.CommandContext(ctx, "ip", "netns", "del", o.ns)))
}

// listener opens a port in the namespace, from a thread that enters it and ends.
func (o *outside) listener(port int) (net.Listener, error) {
	var l net.Listener
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		ns, err := os.Open("/run/netns/" + o.ns)
		if err == nil {
			err = errors.Join(unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET), ns.Close())
		}
		if err == nil {
			l, err = net.Listen("tcp4", net.JoinHostPort(outsideAddr, strconv.Itoa(port)))
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return nil, fmt.Errorf("listen on port %d in the network namespace %s: %w", port, o.ns, err)
	}
	o.listeners = append(o.listeners, l)
	return l, nil
}

func (o *outside) accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		o.conns[c] = struct{}{}
		o.mu.Unlock()
		o.run.Go(func() {
			serve(c)
			_ = c.Close()
			o.mu.Lock()
			delete(o.conns, c)
			o.mu.Unlock()
		})
	}
}

func echo(c net.Conn) {
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil {
		return
	}
	if _, err := c.Write(b); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c)
}

// raw reads a TLS greeting of one record and answers one byte. Then come the way, 'd' for
// bytes to the guest or 'u' for bytes from it, and their number in 8 bytes.
func raw(c net.Conn) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(head[3:]))); err != nil {
		return
	}
	if _, err := c.Write([]byte{0}); err != nil {
		return
	}
	order := make([]byte, 9)
	if _, err := io.ReadFull(c, order); err != nil {
		return
	}
	size := int64(binary.BigEndian.Uint64(order[1:]))
	if order[0] == 'd' {
		_, _ = io.CopyN(c, zeros{}, size)
		return
	}
	if n, _ := io.CopyN(io.Discard, c, size); n == size {
		_, _ = c.Write([]byte{0})
	}
}

// zeros is a source of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// answer is the web server. Its answers are long, so it writes large pieces.
func (o *outside) answer(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.auth = r.Header.Get("Authorization")
	o.mu.Unlock()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	n, err := strconv.ParseInt(r.URL.Path[1:], 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	piece := make([]byte, 256<<10)
	for n > 0 {
		k, err := w.Write(piece[:min(n, int64(len(piece)))])
		if err != nil {
			return
		}
		n -= int64(k)
	}
}

// authorization is the header of that name in the last request.
func (o *outside) authorization() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.auth
}

// listen passes on what a guest says.
func (o *outside) listen(c net.Conn) {
	b := make([]byte, 1)
	for {
		if _, err := c.Read(b); err != nil {
			return
		}
		at := time.Now()
		o.mu.Lock()
		heard := o.heard
		o.mu.Unlock()
		if heard != nil {
			heard <- sighting{b[0], at}
		}
	}
}

// hear returns what guests say from now on, until the next call.
func (o *outside) hear() <-chan sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = make(chan sighting, 16)
	return o.heard
}

// makeCert makes the host's certificate. It is its own CA.
func (o *outside) makeCert() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: outsideName}, DNSNames: []string{outsideName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return err
	}
	o.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return os.WriteFile(o.file("ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func (o *outside) file(name string) string { return filepath.Join(o.dir, "outside-"+name) }

// server starts a serve for which the host's name and certificate are like those of the
// internet: it has an /etc/hosts and a list of CAs of its own.
func (o *outside) server(ctx context.Context, b *bench) (*server, error) {
	script := `#!/bin/sh
exec unshare --mount sh -c 'mount --bind "$0" /etc/hosts
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || mount --bind "$1" /etc/ssl/certs/ca-certificates.crt
export SSL_CERT_FILE="$1"; shift; exec "$@"' ` + fmt.Sprintf("%s %s %s \"$@\"\n", o.file("hosts"), o.file("ca.pem"), b.binary)
	err := errors.Join(
		os.WriteFile(o.file("hosts"), []byte("127.0.0.1 localhost\n"+outsideAddr+" "+outsideName+"\n"), 0o644),
		os.WriteFile(o.file("warren"), []byte(script), 0o755))
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(b.dir, "net-")
	if err != nil {
		return nil, err
	}
	s, err := startServer(ctx, o.file("warren"), data, b.images, 0)
	if err == nil {
		s.binary = b.binary
	}
	return s, err
}
