// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// netProgram runs in the guest during a section. It reads one order a line and answers
// each with one line. It does not verify certificates: whose they are is in its answers.
const netProgram = `
import hashlib, http.client, json, socket, ssl, struct, sys, time
ctx = ssl.create_default_context(); ctx.check_hostname = False; ctx.verify_mode = ssl.CERT_NONE
now = time.perf_counter
def hello(name):
    out = ssl.MemoryBIO(); t = ctx.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try: t.do_handshake()
    except ssl.SSLWantReadError: pass
    return out.read()
def tcp(o):
    s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); s.settimeout(30)
    s.connect((o["ip"], o["port"])); return s
def setup(o):
    if o["lookup"]: o["ip"] = socket.getaddrinfo(o["name"], None, socket.AF_INET)[0][4][0]
    first = hello(o["name"]) if o["kind"] == "greeting" else b"x\n"; took = []
    for _ in range(o["n"]):
        begun = now(); s = tcp(o)
        if o["kind"] == "tls":
            s = ctx.wrap_socket(s, server_hostname=o["name"])
        else:
            s.sendall(first)
            if len(s.recv(1)) != 1: raise OSError("closed without an answer")
        took.append(1000 * (now() - begun)); s.close()
    return {"ms": took}
def bulk(o):
    o["ip"] = socket.getaddrinfo(o["name"], None, socket.AF_INET)[0][4][0]
    s = tcp(o); s.sendall(hello(o["name"])); s.recv(1)
    buf = memoryview(bytearray(1 << 20)); left = o["bytes"]; begun = now()
    s.sendall(o["way"].encode() + struct.pack(">Q", left))
    if o["way"] == "d":
        while left:
            k = s.recv_into(buf)
            if k == 0: raise OSError("closed early")
            left -= k
    else:
        while left:
            k = s.send(buf[:min(left, len(buf))]); left -= k
        if len(s.recv(1)) != 1: raise OSError("closed early")
    took = now() - begun; s.close()
    return {"mbs": o["bytes"] / 1e6 / took}
def https(o):
    c = http.client.HTTPSConnection(o["name"], o["port"], context=ctx, timeout=60); c.connect()
    c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buf = memoryview(bytearray(1 << 20)); took = []
    out = {"cert": hashlib.sha256(c.sock.getpeercert(True)).hexdigest(), "cipher": " ".join(map(str, c.sock.cipher()[:2])), "ms": took}
    def pieces(left):
        while left:
            k = min(left, len(buf)); yield buf[:k]; left -= k
    for _ in range(o["n"]):
        begun = now()
        c.putrequest("POST" if o["up"] else "GET", "/%d" % o["down"])
        for k, v in o["header"].items(): c.putheader(k, v)
        if o["up"]: c.putheader("Content-Length", str(o["up"]))
        c.endheaders()
        for p in pieces(o["up"]): c.sock.sendall(p)
        r = c.getresponse(); got = 0
        while True:
            k = r.readinto(buf)
            if k == 0: break
            got += k
        if r.status != 200 or got != o["down"]: raise OSError("%d with %d bytes: %r" % (r.status, got, bytes(buf[:min(got, 300)])))
        took.append(1000 * (now() - begun))
    c.close()
    return out
def change(o):
    report = tcp({"ip": o["ip"], "port": o["report"]}); live = tcp(o); live.sendall(b"x\n"); live.recv(1); live.setblocking(False)
    cut = refused = False; tries = 0; why = ""; ended = now() + 20; report.sendall(b"!")
    while not (cut and refused) and now() < ended:
        if not refused:
            tries += 1
            try:
                s = tcp(o); s.sendall(b"x\n"); refused = s.recv(1) != b"x"; s.close()
            except OSError as e: refused, why = True, str(e)
            if refused: report.sendall(b"R")
        if not cut:
            try: cut = live.recv(1) == b""
            except BlockingIOError: pass
            except OSError: cut = True
            if cut: report.sendall(b"C")
    try:
        s = tcp(o); s.sendall(b"x\n"); after = s.recv(1) != b"x"; s.close()
    except OSError: after = True
    report.close(); live.close()
    return {"cut": cut, "refused": refused, "after": after, "tries": tries, "why": why}
for line in sys.stdin:
    o = json.loads(line)
    try: out = {"setup": setup, "bulk": bulk, "https": https, "change": change}[o["do"]](o)
    except Exception as e: out = {"error": "%s: %s" % (type(e).__name__, e)}
    print(json.dumps(out), flush=True)
`

// order is what the program in the guest does next.
type order struct {
	Do     string            `json:"do"` // setup, bulk, https or change
	Name   string            `json:"name"`
	IP     string            `json:"ip"`
	Port   int               `json:"port"`
	Report int               `json:"report"`
	Kind   string            `json:"kind,omitempty"` // of setup: tcp, greeting or tls
	Lookup bool              `json:"lookup"`         // of setup: the name is looked up before
	N      int               `json:"n"`
	Way    string            `json:"way,omitempty"` // of bulk: d = to the guest, u = from it
	Bytes  int64             `json:"bytes"`
	Up     int64             `json:"up"`
	Down   int64             `json:"down"`
	Header map[string]string `json:"header"`
}

// done is what it says of an order.
type done struct {
	Error   string    `json:"error"`
	Ms      []float64 `json:"ms"`
	MBs     float64   `json:"mbs"`
	Cert    string    `json:"cert"` // SHA-256 of the certificate that the guest saw
	Cipher  string    `json:"cipher"`
	Cut     bool      `json:"cut"`
	Refused bool      `json:"refused"`
	After   bool      `json:"after"` // refused at the end, too
	Tries   int       `json:"tries"`
	Why     string    `json:"why"` // the refused one failed
}

// netGuest is the running program.
type netGuest struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func startNetGuest(ctx context.Context, s *server, id string) (*netGuest, error) {
	g := &netGuest{cmd: s.cli(ctx, "exec", "-i", id, "--", "python3", "-u", "-c", netProgram)}
	g.cmd.Stderr = &g.stderr
	in, err := g.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	g.in, g.out = in, bufio.NewReader(out)
	return g, g.cmd.Start()
}

// do gives an order and waits for its end.
func (g *netGuest) do(o order) (d done, err error) {
	if o.Header == nil {
		o.Header = map[string]string{}
	}
	o.Name, o.IP = outsideName, outsideAddr
	line, err := json.Marshal(o)
	if err != nil {
		return d, err
	}
	if _, err := g.in.Write(append(line, '\n')); err != nil {
		return d, fmt.Errorf("%s in the guest: %w: %s", o.Do, err, g.stderr.Bytes())
	}
	said, err := g.out.ReadBytes('\n')
	if err != nil {
		return d, fmt.Errorf("%s in the guest: %w: %s", o.Do, err, g.stderr.Bytes())
	}
	if err := json.Unmarshal(said, &d); err != nil {
		return d, fmt.Errorf("%s in the guest: %w in %q", o.Do, err, said)
	}
	if d.Error != "" {
		return d, fmt.Errorf("%s in the guest: %s", o.Do, d.Error)
	}
	return d, nil
}

func (g *netGuest) end() error {
	err := g.in.Close()
	if waited := g.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("the program in the guest: %w: %s", waited, g.stderr.Bytes()))
	}
	return err
}
