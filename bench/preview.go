// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// webPort is the port of a web server in the guest that answers GET /N with N
// bytes, and POST with the number of bytes it was sent.
const (
	webPort   = 3000
	webServer = `import http.server, socketserver
bodies = {}
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, body):
        if body not in bodies: # made once: what is measured is the way
            bodies[body] = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % body + bytes(body)
        self.wfile.write(bodies[body])
    def do_GET(self):
        self.reply(int(self.path[1:]))
    def do_POST(self):
        left, part = int(self.headers["Content-Length"]), memoryview(bytearray(1 << 20))
        while left:
            left -= self.rfile.readinto(part[:min(left, len(part))])
        self.reply(2)
    def log_message(self, *a): pass
class S(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads, request_queue_size = True, 64
S(("0.0.0.0", 3000), H).serve_forever()
`
	webBlob = 64 << 20
)

// web is one way to the web server in a guest.
type web struct {
	name string
	url  string
	key  string
	http *http.Client
}

// preview measures a port of a guest through the preview gateway, compared with the
// same server dialled as the engine dials it, without TLS and proxy; and how long a
// page of a suspended VM takes.
func (b *bench) preview(ctx context.Context) (err error) {
	id, err := b.server.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	if err := b.serveWeb(ctx, id); err != nil {
		return err
	}
	gateway, err := b.throughGateway(id, webPort)
	if err != nil {
		return err
	}
	defer gateway.http.CloseIdleConnections()
	direct, err := b.dialled(id)
	if err != nil {
		return err
	}
	defer direct.http.CloseIdleConnections()
	ways, broken := warmUp([]*web{gateway, direct}, func(w *web) (string, func() error) {
		return w.name, func() error { return errors.Join(w.get(ctx, webBlob, nil), w.post(ctx, webBlob)) }
	})
	if broken != nil {
		return broken
	}
	const small, down, up = "small request to a guest's port: ", "64 MiB from a guest's port: ", "64 MiB to a guest's port: "
	for range max(5, b.n/3) {
		for _, w := range ways {
			for range 20 {
				if err := b.timed(small+w.name, "ms", func() error { return w.get(ctx, 100, nil) }); err != nil {
					return err
				}
			}
			if err := b.timed(down+w.name, "MB/s", func() error { return w.get(ctx, webBlob, nil) }); err != nil {
				return err
			}
			if err := b.timed(up+w.name, "MB/s", func() error { return w.post(ctx, webBlob) }); err != nil {
				return err
			}
		}
	}
	b.compare("small request to a guest's port, time: ", " / ", gateway.name, direct.name, small, bound{Max: 2})
	b.compare("64 MiB from a guest's port, rate: ", " / ", gateway.name, direct.name, down, bound{Min: 0.6})
	b.compare("64 MiB to a guest's port, rate: ", " / ", gateway.name, direct.name, up, bound{Min: 0.6})
	return b.wake(ctx, id, gateway)
}

// serveWeb starts the web server in a guest.
func (b *bench) serveWeb(ctx context.Context, id string) error {
	file := filepath.Join(b.dir, "web.py")
	if err := os.WriteFile(file, []byte(webServer), 0o600); err != nil {
		return err
	}
	if err := b.server.putFile(ctx, id, "/root/web.py", file); err != nil {
		return err
	}
	const start = "setsid python3 /root/web.py </dev/null >/dev/null 2>&1 & until curl -sfo /dev/null localhost:3000/1; do sleep 0.1; done"
	return b.server.exec(ctx, id, "sh", "-c", start)
}

// throughGateway is the way through the preview gateway to a port, with its CA verified.
func (b *bench) throughGateway(id string, to int) (*web, error) {
	pem, err := os.ReadFile(b.server.dir.PreviewCA())
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	_, port, err := net.SplitHostPort(b.server.preview)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, b.server.preview)
		},
	}
	return &web{name: "preview", url: fmt.Sprintf("https://%d-%s.warren.localhost:%s/", to, id, port), key: b.server.key, http: &http.Client{Transport: t}}, nil
}

// dialled is a stream that the VM's monitor opens to the port.
func (b *bench) dialled(id string) (*web, error) {
	run, err := b.server.dir.Run()
	if err != nil {
		return nil, err
	}
	socket := layout.RunVM(run.VM(vm.ID(id))).Monitor()
	t := &http.Transport{
		DisableCompression: true, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, early, err := dialPort(ctx, socket, webPort)
			if err != nil {
				return nil, err
			}
			return begun{c, early}, nil
		},
	}
	return &web{name: "dialled", url: "http://guest/", http: &http.Client{Transport: t}}, nil
}

// begun is a connection whose first bytes may have been read already.
type begun struct {
	net.Conn
	early io.Reader
}

func (c begun) Read(p []byte) (int, error) { return c.early.Read(p) }

// get reads n bytes and notes when the first arrived.
func (w *web) get(ctx context.Context, n int, first func()) error {
	return w.do(ctx, http.MethodGet, n, nil, func(body io.Reader) error {
		one := make([]byte, 1)
		if _, err := io.ReadFull(body, one); err != nil {
			return err
		}
		if first != nil {
			first()
		}
		got, err := io.Copy(io.Discard, body)
		if err == nil && int(got)+1 != n {
			err = fmt.Errorf("%d bytes, not %d", got+1, n)
		}
		return err
	})
}

func (w *web) post(ctx context.Context, n int) error {
	return w.do(ctx, http.MethodPost, 0, bytes.NewReader(make([]byte, n)), func(body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
}

func (w *web) do(ctx context.Context, method string, n int, body io.Reader, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprint(w.url, n), body)
	if err != nil {
		return err
	}
	if w.key != "" {
		req.Header.Set("X-Warren-Key", w.key)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("%s: %s: %s", w.name, resp.Status, said)
	}
	return read(resp.Body)
}

// timed adds how long f took, or the rate at which it moved a blob.
func (b *bench) timed(name, unit string, f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took, s := time.Since(began), b.rep.series(name, unit, bound{})
	if unit == "MB/s" {
		s.add(webBlob / 1e6 / took.Seconds())
	} else {
		s.took(took)
	}
	return nil
}

// wake measures a request for a page of a suspended VM, on a connection of its own,
// until the first byte of the answer.
func (b *bench) wake(ctx context.Context, id string, w *web) error {
	s := b.rep.series("a suspended VM's preview: request to first byte", "ms", bound{Max: 500})
	for round := range 1 + max(5, b.n/2) {
		if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/suspend", nil, nil); err != nil {
			return err
		}
		w.http.CloseIdleConnections()
		if err := pause(ctx, time.Second); err != nil { // work that a suspend does after its answer
			return err
		}
		began, took := time.Now(), time.Duration(0)
		if err := w.get(ctx, 100, func() { took = time.Since(began) }); err != nil {
			return err
		}
		if round > 0 {
			s.took(took)
		}
	}
	return nil
}

// copies measures scp of a file through Warren's SSH gateway, compared with scp to
// an SSH server in the same guest, each with its own log-in.
func (b *bench) copies(ctx context.Context) (err error) {
	id, err := b.withTools(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	p, err := b.peer(ctx, id, "ssh-scp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	src, dst := filepath.Join(p.dir, "big"), filepath.Join(p.dir, "back")
	if err := fill(src, slowSize<<20); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(b.server.ssh)
	if err != nil {
		return err
	}
	type scp struct {
		name    string
		options []string
		guest   string
	}
	ways := []scp{
		{"gateway", []string{"-F", "/dev/null", "-P", port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes"}, id + "," + b.server.key + "@127.0.0.1:/root/big"},
		{"sshd in the guest", append([]string{"-o", "ControlPath=none"}, p.options()...), "root@guest:/root/big"}, // the first ControlPath counts
	}
	for round := range 3 + 1 { // the first one is warm-up
		for _, w := range ways {
			for _, leg := range [][3]string{{"scp into the guest: ", src, w.guest}, {"scp out of the guest: ", w.guest, dst}} {
				_ = os.Remove(dst) // absent at first
				began := time.Now()
				if err := finish(exec.CommandContext(ctx, "scp", append(append([]string{}, w.options...), "-q", leg[1], leg[2])...)); err != nil {
					return err
				}
				if s := b.rep.series(leg[0]+w.name, "MB/s", bound{}); round > 0 {
					s.add(slowSize * 1.048576 / time.Since(began).Seconds())
				}
			}
		}
	}
	for _, leg := range []string{"scp into the guest", "scp out of the guest"} {
		b.compare(leg+", rate: ", " / ", ways[0].name, ways[1].name, leg+": ", bound{Min: 0.7})
	}
	return errors.Join(os.RemoveAll(src), os.RemoveAll(dst))
}
