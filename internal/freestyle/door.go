// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/internal/names"
	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/vm"
)

// Prefix is the path of the API on Warren's own address.
const Prefix = "/v5"

// Config holds the door's dependencies. Every field is required.
type Config struct {
	Engine  *engine.Engine
	Inside  *inside.Inside
	Access  *access.Access
	Policy  *policy.Policy
	Names   *names.Names
	Meter   *meter.Meter
	Answers *answers.Answers
	Journal *journal.Journal
	Log     *slog.Logger
	// Pace limits the requests of one caller; nil = no limit.
	Pace *access.Pace
	// Lifetime ends when the server shuts down; streams and background work end with it.
	Lifetime context.Context
}

// Door answers the SDK and the command line.
type Door struct {
	Config
	routes *http.ServeMux
	brake  *access.Brake

	work sync.WaitGroup // requests that run without their connection

	mu      sync.Mutex
	running map[vm.RequestID]*background // guarded by mu
	uploads map[string]*upload           // by id; guarded by mu
}

// New returns a door.
func New(c Config) *Door {
	d := &Door{Config: c, brake: access.NewBrake(), running: map[vm.RequestID]*background{}, uploads: map[string]*upload{}}
	d.routes = d.table()
	return d
}

// Wait returns when no background work runs any more. The end of Lifetime ends that work. No
// request may be served by then.
func (d *Door) Wait() { d.work.Wait() }

// others are paths of generations of the API that this server does not have.
var others = regexp.MustCompile(`^/v(?:[2-4]|[6-9]|[1-9][0-9])/(?:vms|snapshots|identities|firewall|tls|domains|vpcs|tunnels)(?:/|$)`)

// twice is a path whose base URL has a version, before that of the SDK.
var twice = regexp.MustCompile(`^/v5/v[0-9]`)

// Takes reports whether a request to Warren's own address is for the door.
func (d *Door) Takes(r *http.Request) bool {
	return r.URL.Path == Prefix || strings.HasPrefix(r.URL.Path, Prefix+"/") || others.MatchString(r.URL.Path)
}

// ServeHTTP answers a request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	d.routes.ServeHTTP(w, r)
}

// caller is one request.
type caller struct {
	d *Door
	w http.ResponseWriter
	*http.Request
	ctx  context.Context // of the work: it may outlive the connection
	call *vm.Call
	body []byte // of routes that take JSON
	user string // Linux user of the request's command, as the rooms name it
}

// answer is what a route says.
type answer struct {
	status int
	body   any // nil = none
}

func ok(v any) (answer, error) { return answer{http.StatusOK, v}, nil }

var done = answer{status: http.StatusNoContent}

// right says who may use a route.
type right int

const (
	owner  right = iota // API keys
	member              // identities, too, as far as the rooms let them
)

// handler is a route whose answer is JSON.
type handler func(c *caller) (answer, error)

// streamer is a route that reads or writes bytes, and answers itself if it returns nil.
type streamer func(c *caller) error

// table has a row for each route.
func (d *Door) table() *http.ServeMux {
	m := http.NewServeMux()
	at := func(pattern string, need right, f handler) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, need, f) })
	}
	stream := func(pattern string, need right, f streamer) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { d.stream(w, r, need, f) })
	}
	vmRoutes(at)
	snapshotRoutes(at)
	insideRoutes(at, stream)
	identityRoutes(at)
	networkRoutes(at)
	domainRoutes(at)
	for pattern, why := range refusedRoutes {
		at(pattern, owner, func(*caller) (answer, error) { return answer{}, why.refuse() })
	}
	at("GET /v5/background-requests/{request}", member, (*caller).background)
	at("/", owner, (*caller).unknown)
	return m
}

// unknown answers for a path that this server does not have.
func (c *caller) unknown() (answer, error) {
	what := vm.Clip(c.Method+" "+c.URL.Path, 200)
	switch path := c.URL.Path; {
	case others.MatchString(path):
		return answer{}, vm.Errorf(vm.Unsupported, what, "this SDK speaks another generation of Freestyle's API than this server").
			WithHint("use freestyle@0.2.x, which speaks /v5, or freestyle@0.1.x, which speaks /v1")
	case twice.MatchString(path):
		return answer{}, vm.Errorf(vm.NotFound, what, "no such route: the base URL must not have a version").
			WithHint("leave %s out of the base URL; the SDK adds its own", Prefix)
	}
	return answer{}, vm.Errorf(vm.NotFound, what, "no such route").WithHint("this SDK may be newer than this server: docs/freestyle.md says which one is tested")
}

// maxBody bounds bodies of JSON.
const maxBody = 4 << 20

// serve answers a request with JSON, later if the caller asks for that and it takes long.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, need right, f handler) {
	ctx, cancel := d.connected(r)
	defer cancel()
	c := &caller{d: d, w: w, Request: r, ctx: ctx}
	after, err := c.admit(need)
	if err == nil {
		c.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			err = &vm.Error{Kind: vm.Limit, Msg: "the body is larger than 4 MiB", Code: largeBody}
		} else if err != nil {
			err = invalid("body", "the body is cut off")
		}
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if after > 0 && r.PathValue("request") == "" {
		d.later(c, after, f)
		return
	}
	send(w, d.carryOut(c, f))
}

// stream answers a request with or of bytes.
func (d *Door) stream(w http.ResponseWriter, r *http.Request, need right, f streamer) {
	ctx, cancel := d.connected(r)
	defer cancel()
	c := &caller{d: d, w: w, Request: r, ctx: ctx}
	if _, err := c.admit(need); err != nil {
		d.fail(w, r, err)
		return
	}
	if err := f(c); err != nil {
		d.fail(w, r, err)
	}
}

// admit authenticates the caller and reads after how many seconds it wants to be answered later.
func (c *caller) admit(need right) (time.Duration, error) {
	var err error
	if c.call, err = c.d.authenticate(c.Request); err != nil {
		return 0, err
	}
	if err := c.d.Pace.Take(c.call.Actor); err != nil {
		return 0, err
	}
	if need == owner {
		if err := c.call.Actor.OwnerOnly(""); err != nil {
			return 0, err
		}
	}
	text := c.Header.Get(api.HeaderBackgroundIn)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || n > 600 {
		return 0, invalid(api.HeaderBackgroundIn, "%q is not a number of seconds within 1 to 600", vm.Clip(text, 40))
	}
	return time.Duration(n) * time.Second, nil
}

// authenticate finds who calls, by an API key or by the token of an identity.
func (d *Door) authenticate(r *http.Request) (*vm.Call, error) {
	token := r.Header.Get(api.HeaderIdentityToken)
	given := token
	if given == "" {
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if strings.EqualFold(scheme, "Bearer") {
			given = strings.TrimSpace(secret)
		}
	}
	if given == "" {
		d.brake.Wait(r.Context())
		return nil, vm.Errorf(vm.Unauthenticated, "", "no API key was sent").WithHint("set FREESTYLE_API_KEY to a key of this server: `warren key create` makes one")
	}
	a, err := d.Access.Authenticate(r.Context(), given)
	switch {
	case err == nil && (token == "" || a.Identity != ""):
		return &vm.Call{Actor: a, Request: vm.NewRequestID()}, nil
	case err != nil && !errors.Is(err, vm.Unauthenticated):
		return nil, err
	}
	d.brake.Wait(r.Context())
	why := vm.Errorf(vm.Unauthenticated, "", "this is no API key of this Warren server").WithHint("make one with `warren key create`")
	switch {
	case token != "":
		why = vm.Errorf(vm.Unauthenticated, "", "this is no token of an identity of this server, or it was revoked").WithHint("make one with identities.get(ID).tokens.create()")
	case r.Header.Get("X-Freestyle-Team-Id") != "":
		why = vm.Errorf(vm.Unauthenticated, "", "a login at Freestyle does not count here").WithHint("set FREESTYLE_API_KEY to a key of this server: `warren key create` makes one")
		why.Code = foreignLogin
	}
	return nil, why
}

// connected is a context that ends with the request or the server.
func (d *Door) connected(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(d.Lifetime, cancel)
	return ctx, func() { stop(); cancel() }
}

// decode reads the body. Members that are not known are ignored, unless the route is strict.
func (c *caller) decode(v any) error { return c.read(v, false) }

// decodeStrict refuses unknown members: their meaning would be lost.
func (c *caller) decodeStrict(v any) error { return c.read(v, true) }

func (c *caller) read(v any, strict bool) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(c.body))
	if strict {
		dec.DisallowUnknownFields()
	}
	err := dec.Decode(v)
	if err == nil && dec.More() {
		err = errors.New("there is more after its end")
	}
	if err != nil {
		return invalid("body", "the body is not what this route takes: %s", jsonFault(err))
	}
	return nil
}

// jsonFault describes an invalid body without Go's type names.
func jsonFault(err error) string {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return "member " + strconv.Quote(typ.Field) + " cannot be a " + typ.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// ref is the VM in the path, by id or slug.
func (c *caller) ref() string { return c.PathValue("vm") }

// page cuts the part of a list that limit and offset select.
func page[T any](c *caller, list []T) ([]T, error) {
	q := c.URL.Query()
	limit, offset := len(list), 0
	for name, to := range map[string]*int{"limit": &limit, "offset": &offset} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, invalid(name, "%q is not a number", vm.Clip(text, 40))
		}
		*to = int(n)
	}
	offset = min(offset, len(list))
	return list[offset : offset+min(limit, len(list)-offset)], nil
}
