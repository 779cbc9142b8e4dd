// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// visitor is one request into a sandbox.
type visitor struct {
	d    *Door
	ctx  context.Context
	call *vm.Call
	rec  vm.VM
	user string // Linux user

	attrs map[string]string // extended attributes of the files that the request uploads
}

func (c *visitor) ref() string { return string(c.rec.ID) }

// missing is the answer for a port that cannot be reached.
type missing struct {
	Sandbox string `json:"sandboxId"`
	Message string `json:"message"`
	Code    int    `json:"code"`
	Port    int    `json:"port,omitempty"`
}

// alive finds a sandbox that a request may enter: one that runs, or that resumes by itself.
func (d *Door) alive(id vm.ID) (vm.VM, bool) {
	rec, ok := d.Engine.VMOf(id)
	if !ok || rec.Sandbox == nil || rec.Sandbox.Builds != "" || rec.Op == vm.OpDelete || rec.Op == vm.OpKill {
		return rec, false
	}
	switch rec.State {
	case vm.Running:
		return rec, rec.Sandbox.AutoResume || rec.Op != vm.OpSuspend && rec.Op != vm.OpStop
	case vm.Starting:
		return rec, true
	}
	return rec, rec.Sandbox.AutoResume && rec.State != vm.Lost
}

// serveSandbox answers a request to a port of a sandbox.
func (d *Door) serveSandbox(w http.ResponseWriter, r *http.Request, id vm.ID, port uint16) {
	cors(w)
	if r.Method == http.MethodOptions && port == envdPort {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	rec, ok := d.alive(id)
	if !ok {
		send(w, http.StatusBadGateway, missing{string(id), "The sandbox was not found", http.StatusBadGateway, 0})
		return
	}
	if port != envdPort {
		d.servePort(w, r, rec, port)
		return
	}
	_, pattern := d.envd.Handler(r)
	if pattern == "" {
		d.refuse(w, http.StatusNotFound, "no such route: "+vm.Clip(r.URL.Path, 200))
		return
	}
	if pattern == "GET /health" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	signed := strings.HasSuffix(pattern, " /files") && r.Header.Get(headerToken) == "" && r.URL.Query().Get("signature") != ""
	var err error
	if signed {
		err = d.checkSignature(r, rec)
	} else if subtle.ConstantTimeCompare([]byte(r.Header.Get(headerToken)), []byte(d.token(tokenEnvd, id))) != 1 {
		d.brake.Wait(r.Context())
		err = vm.Errorf(vm.Unauthenticated, "", "the access token is wrong or missing").WithHint("connect to the sandbox to get it")
	}
	if err == nil {
		err = d.Access.Valid(actorOf(rec))
	}
	if err == nil {
		err = d.Pace.Take(actorOf(rec))
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	ctx, cancel := d.connected(r)
	defer cancel()
	c := &visitor{d: d, ctx: ctx, call: &vm.Call{Actor: actorOf(rec), Request: vm.NewRequestID()}, rec: rec, user: defaultUser}
	if rec.Sandbox.Defaults != nil {
		c.user = cmp.Or(rec.Sandbox.Defaults.User, defaultUser)
	}
	if user, _, ok := r.BasicAuth(); ok && user != "" {
		c.user = user
	}
	if user := r.URL.Query().Get("username"); user != "" && strings.HasPrefix(r.URL.Path, "/files") {
		c.user = user
	}
	d.envd.ServeHTTP(w, r.WithContext(context.WithValue(ctx, visitorKey{}, c)))
}

type visitorKey struct{}

// cors lets pages of any origin read answers: what a request may do depends on its token.
func cors(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "*, Authorization")
	h.Set("Access-Control-Expose-Headers", "*")
	h.Set("Cache-Control", "no-store")
}

// actorOf is the caller that a sandbox's token acts as: its API key.
func actorOf(rec vm.VM) vm.Actor {
	return vm.Actor{Account: rec.Account, Key: rec.Sandbox.By}
}

func (d *Door) envdRoutes() *http.ServeMux {
	m := http.NewServeMux()
	at := func(pattern string, f func(http.ResponseWriter, *http.Request, *visitor)) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c, _ := r.Context().Value(visitorKey{}).(*visitor)
			f(w, r, c)
		})
	}
	m.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	at("GET /files", d.download)
	at("POST /files", d.upload)
	const p, f = "POST /process.Process/", "POST /filesystem.Filesystem/"
	at(p+"Start", d.start)
	at(p+"Connect", d.attach)
	at(p+"List", unary(d, d.processes))
	at(p+"SendInput", unary(d, d.sendInput))
	at(p+"CloseStdin", unary(d, d.closeStdin))
	at(p+"SendSignal", unary(d, d.sendSignal))
	at(p+"Update", unary(d, d.update))
	at(f+"Stat", unary(d, d.stat))
	at(f+"MakeDir", unary(d, d.makeDir))
	at(f+"Move", unary(d, d.move))
	at(f+"ListDir", unary(d, d.listDir))
	at(f+"Remove", unary(d, d.remove))
	at(f+"WatchDir", d.watchDir)
	at(f+"CreateWatcher", unary(d, d.createWatcher))
	at(f+"GetWatcherEvents", unary(d, d.watcherEvents))
	at(f+"RemoveWatcher", unary(d, d.removeWatcher))
	return m
}

// signature is the signature of a link to a file.
func signature(path, op, user, token, expires string) string {
	text := path + ":" + op + ":" + user + ":" + token
	if expires != "" {
		text += ":" + expires
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// signs reports whether the signature of a request is that of a sandbox.
func (d *Door) signs(r *http.Request, id vm.ID) bool {
	q, op := r.URL.Query(), "read"
	if r.Method == http.MethodPost {
		op = "write"
	}
	want := signature(q.Get("path"), op, q.Get("username"), d.token(tokenEnvd, id), q.Get("signature_expiration"))
	return subtle.ConstantTimeCompare([]byte(strings.TrimRight(q.Get("signature"), "=")), []byte(want)) == 1
}

func (d *Door) checkSignature(r *http.Request, rec vm.VM) error {
	if !d.signs(r, rec.ID) {
		d.brake.Wait(r.Context())
		return vm.Errorf(vm.Unauthenticated, "", "invalid signature")
	}
	expires := r.URL.Query().Get("signature_expiration")
	if n, err := strconv.ParseInt(expires, 10, 64); expires != "" && (err != nil || time.Now().Unix() > n) {
		return vm.Errorf(vm.Unauthenticated, "", "signature is already expired")
	}
	return nil
}

// signedFile answers a signed link that names no sandbox: its signature tells which.
func (d *Door) signedFile(w http.ResponseWriter, r *http.Request) {
	for _, rec := range d.Engine.VMsWhere(func(v *vm.VM) bool { return v.Sandbox != nil }) {
		if d.signs(r, rec.ID) {
			d.serveSandbox(w, r, rec.ID, envdPort)
			return
		}
	}
	d.brake.Wait(r.Context())
	d.refuse(w, http.StatusUnauthorized, "invalid signature")
}

const (
	defaultUser = "user"
	maxPasswd   = 1 << 20
	maxHomes    = 4096
)

type homeKey struct {
	vm   vm.ID
	user string
}

// linux finds a Linux user of the sandbox.
func (c *visitor) linux(name string) (vm.LinuxUser, error) {
	d, at := c.d, homeKey{c.rec.ID, name}
	d.mu.Lock()
	u, ok := d.homes[at]
	d.mu.Unlock()
	if ok {
		return u, nil
	}
	asked := name
	if name == "root" && c.rec.User == "" { // the default, unless the image has another one
		asked = ""
	}
	u, err := d.Inside.LinuxUser(c.ctx, c.call, c.ref(), asked)
	if err != nil {
		return u, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.homes) >= maxHomes {
		clear(d.homes)
	}
	d.homes[at] = u
	return u, nil
}

// colons reads a file whose lines have fields between colons.
func (c *visitor) colons(name string, fields int) (list [][]string, err error) {
	_, body, err := c.d.Inside.OpenFile(c.ctx, c.call, c.ref(), "", name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	lines := bufio.NewScanner(io.LimitReader(body, maxPasswd))
	for lines.Scan() {
		if f := strings.Split(lines.Text(), ":"); len(f) >= fields {
			list = append(list, f)
		}
	}
	return list, nil
}

// path makes a path of the client absolute: it may be relative to the user's home.
func (c *visitor) path(p string) (string, error) {
	if strings.ContainsRune(p, 0) || len(p) > 4096 {
		return "", invalid(vm.Clip(fmt.Sprintf("%q", p), 64), "not a path")
	}
	if path.IsAbs(p) {
		return p, nil
	}
	u, err := c.linux(c.user)
	if err != nil {
		return "", err
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		p = p[1:]
	}
	return path.Join(u.Home, p), nil
}
