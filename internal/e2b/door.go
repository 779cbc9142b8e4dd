// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/vm"
)

// Prefix is the path of the control API on Warren's own address.
const Prefix = "/e2b"

// Headers by which the SDKs name a sandbox and its port.
const (
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
	headerToken   = "X-Access-Token"
	headerTraffic = "E2b-Traffic-Access-Token"
)

// envdPort is a port of a sandbox that is not its user's own: the door itself answers there.
const envdPort = 49983

// Config holds the door's dependencies. Every field but Domain and Pace is required.
type Config struct {
	Engine  *engine.Engine
	Inside  *inside.Inside
	Access  *access.Access
	Policy  *policy.Policy
	Journal *journal.Journal
	Log     *slog.Logger
	Dir     layout.Dir
	// Secret is the key that tokens of sandboxes are made of.
	Secret []byte
	// DefaultNetwork is the network of VMs for which a request names none.
	DefaultNetwork vm.NetworkMode
	// Domain is the preview domain, with its port, under which ports of sandboxes are
	// reached; "" = none.
	Domain string
	// Pace limits the requests of one caller.
	Pace *access.Pace
	// Lifetime ends when the server shuts down; streams end with it.
	Lifetime context.Context
}

// Door answers the SDKs.
type Door struct {
	Config
	control *http.ServeMux
	envd    *http.ServeMux
	brake   *access.Brake

	mu       sync.Mutex
	programs map[programKey]*program     // attached commands and terminals; guarded by mu
	watchers map[string]*watcher         // by id; guarded by mu
	homes    map[homeKey]vm.LinuxUser    // guarded by mu
	samples  map[vm.ID][]metric          // guarded by mu
	uploads  map[uploadKey]time.Time     // finished lately; guarded by mu
	kernels  map[vm.ID]*interpreterState // guarded by mu
	met      map[vm.ID]bool              // sandboxes that clients were told of; guarded by mu
	builds   map[buildKey]*build         // of templates; guarded by mu

	building chan struct{} // has one item for each build that runs
	files    *uploadStore

	withUser sync.Map // vm.ImageID to madeUser: images that have the Linux user that SDKs expect
}

// New returns a door.
func New(c Config) *Door {
	d := &Door{
		Config: c, brake: access.NewBrake(), programs: map[programKey]*program{}, watchers: map[string]*watcher{},
		homes: map[homeKey]vm.LinuxUser{}, samples: map[vm.ID][]metric{}, uploads: map[uploadKey]time.Time{}, met: map[vm.ID]bool{}, kernels: map[vm.ID]*interpreterState{},
		builds: map[buildKey]*build{}, building: make(chan struct{}, maxBuilds), files: newUploadStore(c.Dir),
	}
	if c.Engine != nil {
		d.dropBuilds()
	}
	d.control, d.envd = d.controlRoutes(), d.envdRoutes()
	return d
}

// Takes reports whether a request to Warren's own address is for the door: it is below
// Prefix, names a sandbox in a header, or is a signed link to a file.
func (d *Door) Takes(r *http.Request) bool {
	return r.URL.Path == Prefix || strings.HasPrefix(r.URL.Path, Prefix+"/") || r.Header.Get(headerSandbox) != "" ||
		r.URL.Path == "/files" && r.URL.Query().Get("signature") != ""
}

// ServeHTTP answers a request to Warren's own address.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), Prefix); ok {
		r = underPath(r, rest)
	}
	id, signed := r.Header.Get(headerSandbox), r.URL.Query().Get("signature")
	switch {
	case id == "" && r.URL.Path == "/files" && signed != "":
		d.signedFile(w, r)
	case id == "":
		d.serveControl(w, r)
	default:
		port, err := strconv.ParseUint(r.Header.Get(headerPort), 10, 16)
		if err != nil || port == 0 {
			port = envdPort
		}
		d.serveSandbox(w, r, vm.ID(id), uint16(port))
	}
}

// Label answers a request to a name of the preview gateway, <label>.<domain>: api, or
// <port>-<id> of a sandbox. It returns false if the name is neither.
func (d *Door) Label(label string) (http.Handler, bool) {
	if label == "api" {
		return http.HandlerFunc(d.serveControl), true
	}
	digits, id, ok := strings.Cut(label, "-")
	port, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || port == 0 || !vm.IsID(id) {
		return nil, false
	}
	// A stranger must not learn which VMs exist: only of a sandbox that the door has answered
	// for is it said that it has gone.
	if rec, _ := d.Engine.VMOf(vm.ID(id)); rec.Sandbox == nil && port != envdPort && !d.hasMet(vm.ID(id)) {
		return nil, false
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serveSandbox(w, r, vm.ID(id), uint16(port)) }), true
}

// maxMet bounds the sandboxes that the door remembers to have met.
const maxMet = 10000

func (d *Door) meet(id vm.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.met) >= maxMet {
		clear(d.met)
	}
	d.met[id] = true
}

func (d *Door) hasMet(id vm.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.met[id]
}

// underPath returns the request with another escaped path.
func underPath(r *http.Request, escaped string) *http.Request {
	out := r.Clone(r.Context())
	if escaped == "" {
		escaped = "/"
	}
	u := *r.URL
	out.URL = &u
	if plain, err := pathOf(escaped); err == nil {
		out.URL.Path, out.URL.RawPath = plain, escaped
	}
	return out
}

// token returns a secret of a sandbox. It needs no record, so that it never changes.
func (d *Door) token(kind string, id vm.ID) string {
	mac := hmac.New(sha256.New, d.Secret)
	_, _ = mac.Write([]byte("e2b " + kind + "\x00" + string(id))) // documented never to fail
	return kind + "_" + hex.EncodeToString(mac.Sum(nil))
}

// Kinds of tokens.
const (
	tokenEnvd    = "ea"
	tokenTraffic = "ta"
)

// key turns the E2B form of a Warren key, e2b_ and the key in hexadecimal digits, back into
// the key. Any other text is returned as it is.
func key(given string) string {
	digits, ok := strings.CutPrefix(given, "e2b_")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) == 0 {
		return given
	}
	return string(raw)
}

// connected is a context that ends with the request or the server.
func (d *Door) connected(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(d.Lifetime, cancel)
	return ctx, func() { stop(); cancel() }
}
