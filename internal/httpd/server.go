// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/house"
	"github.com/warren-vm/warren/vm"
)

// Config holds the door's dependencies.
type Config struct {
	*house.House
	Log *slog.Logger
	// Settings is the answer to GET /v1/config.
	Settings any
	// HostNames are further host names of the API, in addition to IP addresses, localhost and
	// *.localhost.
	HostNames []string
	// Lifetime ends when the server shuts down; streams end with it.
	Lifetime context.Context
	// Previews is the preview gateway; nil = there is none.
	Previews Previews
	// SSH is the SSH gateway; nil = there is none. SSHAddress is where it listens; "" =
	// only the API leads to it.
	SSH        SSH
	SSHAddress string
	// MCP answers at /mcp, for callers whose credentials are known; nil = there is none.
	MCP http.Handler
	// WebOrigins are the origins of pages that may use the API, such as https://app.example.com.
	WebOrigins []string
	// Pace limits the requests of one caller (an account's keys, or an identity). Four times its rate
	// may come at once; nil = no limit.
	Pace *access.Pace
}

type tableRow struct {
	route
	segments []string
}

type server struct {
	Config
	table []tableRow
	brake *access.Brake
	// guests limits what programs inside VMs ask for.
	guests     *guestPace
	background sync.WaitGroup // requests that run without their connection
	large      *semaphore.Weighted
	patience   time.Duration // how long to wait for a part of large
}

// Handler is the API over HTTP.
type Handler struct{ *server }

// Wait returns when no background work runs any more. The end of Lifetime ends that work.
// No request may be served by then.
func (h Handler) Wait() { h.background.Wait() }

const (
	maxBody     = 1 << 20   // of JSON bodies
	maxFileBody = 384 << 20 // of files in JSON: base64 of 256 MiB and more

	// maxLarge is the memory for all files in JSON and all captured output together.
	// largePatience is how long a request waits for its part.
	maxLarge      = 2 << 30
	largePatience = 30 * time.Second
	bodyStep      = 16 << 20 // bytes of a body for which memory is reserved at a time
)

// New returns the API's handler.
func New(c Config) Handler {
	s := &server{Config: c, brake: access.NewBrake(), large: semaphore.NewWeighted(maxLarge), patience: largePatience, guests: newGuestPace()}
	for _, r := range s.routes() {
		s.table = append(s.table, tableRow{r, strings.Split(strings.TrimPrefix(r.pattern, "/"), "/")})
	}
	return Handler{s}
}

// request is one request with its answer.
type request struct {
	*http.Request
	w      http.ResponseWriter
	call   *vm.Call
	values map[string]string // of the names in the pattern
	sent   bool              // the status has been sent
	room   *semaphore.Weighted
	wait   time.Duration // for a part of large

	mu    sync.Mutex
	large int64 // bytes of large that it holds until it is answered; guarded by mu
}

// reserve waits for memory for more bytes of JSON. The answer releases it.
func (q *request) reserve(bytes int64) error {
	ctx, stop := context.WithTimeout(q.Context(), q.wait)
	defer stop()
	if err := q.room.Acquire(ctx, bytes); err != nil {
		return vm.Errorf(vm.Unavailable, q.URL.Path, "too many large files or outputs are being sent as JSON").
			WithHint("use /v1/vms/{id}/raw/{path}, which streams, or try again")
	}
	q.mu.Lock()
	q.large += bytes
	q.mu.Unlock()
	return nil
}

// letGo releases what reserve took.
func (q *request) letGo() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.large > 0 {
		q.room.Release(q.large)
		q.large = 0
	}
}

// ServeHTTP finds the route, checks the caller's right and answers.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{Request: r, w: w, call: &vm.Call{Request: vm.NewRequestID()}, room: s.large, wait: s.patience}
	defer q.letGo()
	h := w.Header()
	h.Set(api.HeaderRequest, string(q.call.Request))
	h.Set(api.HeaderTrace, string(q.call.Request))
	h.Set(api.HeaderVersion, api.Version)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if s.forPages(w, r) {
		return
	}
	if err := s.serve(q); err != nil {
		q.fail(s, err)
	}
}

// maxDestination bounds the header that names the target of a download.
const maxDestination = 8 << 10

// destination reads the header that names the target of a download.
func destination(h http.Header) (string, error) {
	to, err := url.PathUnescape(h.Get(api.HeaderDestination))
	if err != nil || len(to) > maxDestination || !utf8.ValidString(to) {
		return "", vm.Errorf(vm.Invalid, api.HeaderDestination, "not a percent-encoded HOST:PATH of at most %d bytes", maxDestination).
			WithHint("leave it out")
	}
	return to, nil
}

func (s *server) serve(q *request) error {
	row, values, err := s.find(q.Request)
	if hostErr := s.checkHost(q.Host); hostErr != nil && (row.right != forGit || !isProxied(q.Request)) {
		return hostErr
	}
	if err != nil {
		// A stranger must not learn which routes exist.
		if _, authErr := s.authenticate(q); authErr != nil {
			return authErr
		}
		return err
	}
	q.values = values
	if row.right == public || row.right == forGit {
		return row.handle(q)
	}
	if q.call.Actor, err = s.authenticate(q); err != nil {
		return err
	}
	if err = s.Pace.Take(q.call.Actor); err == nil {
		err = s.authorize(q, row.right)
	}
	if err == nil {
		q.call.To, err = destination(q.Header)
	}
	if err == nil {
		q.call.AskFor, err = askTimeout(q.Header)
	}
	if err == nil {
		err = row.handle(q)
	}
	if strings.HasPrefix(row.pattern, "/v1/vms/{vm}/pty") && vm.AsError(err).Code == "VM_ACCESS_DENIED" {
		err = vm.AsError(err).WithCode("ACCESS_DENIED", "vmId", q.ref()) // the contract's code for terminals
	}
	return err
}

// authorize checks a caller's right to a route. For a token it checks the permission for
// the VM before the rest of the request is read. The engine separates accounts.
func (s *server) authorize(q *request, need right) error {
	a := q.call.Actor
	switch {
	case need == admin && !a.Admin:
		return vm.Errorf(vm.Denied, q.URL.Path, "needs an admin's key").WithHint("use the key in DATA/admin.key")
	case a.Identity == "":
		return nil
	case need == key || need == admin:
		return vm.Errorf(vm.Denied, q.URL.Path, "an identity may not do this").
			WithCode("FORBIDDEN", "vmId", q.ref()).WithHint("use an API key of the account")
	case need == granted:
		_, err := s.Engine.Get(q.Context(), q.call, q.ref())
		return err
	case need == asUser:
		_, err := s.Access.MayEnter(q.Context(), a, q.ref(), q.user())
		return err
	}
	return nil
}

// checkHost refuses host names by which a web page could reach the API (DNS rebinding).
func (s *server) checkHost(host string) error {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(s.HostNames, host) {
		return nil
	}
	return vm.Errorf(vm.Denied, host, "this is not a host name of the API").WithHint("use its address, or add the name to hostNames in server.yaml")
}

// secret returns the caller's credentials. The token header has precedence, since its
// sender wants to act as the identity.
func (q *request) secret() (secret string, tokenOnly bool) {
	if t := q.Header.Get(api.HeaderIdentityToken); t != "" {
		return t, true
	}
	scheme, secret, _ := strings.Cut(q.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return q.protocol(protocolKey), false
	}
	return strings.TrimSpace(secret), false
}

// authenticate finds the caller. It delays failures, a few at a time.
func (s *server) authenticate(q *request) (vm.Actor, error) {
	if secret, tokenOnly := q.secret(); secret != "" {
		a, err := s.Access.Authenticate(q.Context(), secret)
		if err == nil && (a.Identity != "" || !tokenOnly) {
			return a, nil
		}
		if err == nil {
			err = vm.Unauthenticated
		}
		if !errors.Is(err, vm.Unauthenticated) {
			return vm.Actor{}, err
		}
	}
	s.brake.Wait(q.Context())
	return vm.Actor{}, vm.Errorf(vm.Unauthenticated, "", "no or unknown credentials").
		WithCode("UNAUTHORIZED_ERROR", "route", q.URL.Path, "reason", nil).
		WithHint("send `Authorization: Bearer KEY`; the admin's key is in DATA/admin.key")
}

// ref is the VM in the path, by id or name.
func (q *request) ref() string { return q.values["vm"] }

// user is the Linux user that the caller acts as; "" = root.
func (q *request) user() string {
	return cmp.Or(q.Header.Get(api.HeaderLinuxUser), q.protocol(protocolUser))
}

// path is the guest's file in the path of the URL.
func (q *request) path() string {
	if p := q.values["path"]; p != "" {
		return p
	}
	return "/"
}

// decode reads a JSON body of at most limit bytes into v; no body is no error.
// Unknown members are ignored, as the contract wants.
func (q *request) decode(v any, limit int64) error {
	data, err := q.readBody(limit)
	var tooLarge *http.MaxBytesError
	var refused *vm.Error
	switch {
	case errors.As(err, &refused):
		return err
	case errors.As(err, &tooLarge):
		return vm.Errorf(vm.Limit, q.URL.Path, "the body is larger than %d bytes", limit).WithCode("INVALID_REQUEST").WithHint("send files with PUT /v1/vms/{id}/raw/{path}")
	case err != nil:
		return vm.Errorf(vm.Invalid, q.URL.Path, "the body was cut off: %w", err)
	case len(strings.TrimSpace(string(data))) == 0:
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return vm.Errorf(vm.Invalid, q.URL.Path, "the body is not what this route takes: %s", jsonFault(err)).WithHint("see /openapi.json")
	}
	return nil
}

// readBody reads a body of at most limit bytes. Beyond maxBody it reserves memory for
// the bytes that have arrived, not for the announced length, which costs a caller nothing.
func (q *request) readBody(limit int64) ([]byte, error) {
	var b bytes.Buffer
	body := http.MaxBytesReader(q.w, q.Body, limit)
	for step := int64(maxBody); ; step = min(int64(b.Len()), bodyStep) {
		_, err := io.CopyN(&b, body, step)
		if errors.Is(err, io.EOF) {
			return b.Bytes(), nil
		}
		if err == nil && limit > maxBody {
			// The buffer, the decoded text and its bytes exist at the same time.
			err = q.reserve(3 * min(int64(b.Len()), bodyStep))
		}
		if err != nil {
			return nil, err
		}
	}
}

// jsonFault describes an invalid body without Go's type names.
func jsonFault(err error) string {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return "member " + strconv.Quote(typ.Field) + " cannot be a " + typ.Value
	}
	return err.Error()
}

// int reads a number from the query; absent = def.
func (q *request) int(name string, def int64) (int64, error) {
	v := q.query().Get(name)
	if v == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, vm.Errorf(vm.Invalid, name+"="+v, "not a number")
	}
	return n, nil
}

// bool reads a boolean from the query; absent = false.
func (q *request) bool(name string) (bool, error) {
	switch v := q.query().Get(name); v {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	default:
		return false, vm.Errorf(vm.Invalid, name+"="+v, "not true or false")
	}
}

func (q *request) query() url.Values { return q.URL.Query() }

// send answers with JSON.
func (q *request) send(status int, v any) error {
	if err := json.NewEncoder(&reply{q: q, status: status}).Encode(v); err != nil {
		return vm.Errorf(vm.Internal, q.URL.Path, "answer: %w", err)
	}
	return nil
}

// reply sends the header with the first bytes of an answer. By then the encoder has
// succeeded: a value that cannot be encoded is not sent.
type reply struct {
	q      *request
	status int
}

func (r *reply) Write(p []byte) (int, error) {
	if !r.q.sent {
		r.q.header("application/json")
		r.q.w.WriteHeader(r.status)
	}
	_, _ = r.q.w.Write(p) // an error means that the caller is gone
	return len(p), nil
}

// ok answers 200 with JSON.
func (q *request) ok(v any) error { return q.send(http.StatusOK, v) }

// header sets the headers of every answer.
func (q *request) header(contentType string) {
	q.sent = true
	h := q.w.Header()
	h.Set("Content-Type", contentType)
	if q.call.Receipt != "" {
		h.Set(api.HeaderReceipt, q.call.Receipt)
	}
}

// fail sends an error or, if the status has been sent, cuts the connection so that nobody
// takes a part for the whole.
func (q *request) fail(s *server, err error) {
	status := api.Status(err)
	if vm.KindOf(err) == vm.Internal {
		s.Log.Error("request failed", "method", q.Method, "path", q.URL.Path, "request", q.call.Request, "err", err)
	}
	if q.sent {
		panic(http.ErrAbortHandler)
	}
	body := s.errorBody(q.Context(), err, q.call, q.ref())
	if api.RowOf(body.Kind).Retry {
		q.w.Header().Set("Retry-After", "1")
	}
	if vm.KindOf(err) == vm.Unauthenticated {
		q.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if err := q.send(status, body); err != nil {
		s.Log.Error("error answer", "err", err)
	}
}

// errorBody is the body of an error answer. Paths of the host are removed; the log has
// them for the operator. ref is the VM as the caller named it; "" = none.
func (s *server) errorBody(ctx context.Context, err error, c *vm.Call, ref string) api.ErrorBody {
	shown := s.Journal.Conceal(err)
	if shown.Error() != err.Error() {
		s.Log.Warn("an error names files of this host; its answer does not", "request", c.Request, "err", err)
	}
	return api.EncodeError(s.asNamed(ctx, c, ref, shown), c.Request)
}

// streaming is a context that ends with the request, the server, or the caller's right.
func (s *server) streaming(q *request) (context.Context, context.CancelFunc) {
	ctx, cancel := s.connected(q)
	ctx, release := s.Access.Session(ctx, q.call, q.ref(), q.user())
	return ctx, func() { release(); cancel() }
}

// connected is a context that ends with the request or the server. WebSockets use it:
// when the caller's right ends, the engine ends the attachment and the client is told
// before the connection is cut.
func (s *server) connected(q *request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(q.Context())
	if s.Lifetime == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(s.Lifetime, cancel)
	return ctx, func() { stop(); cancel() }
}

type (
	okBody     struct{}
	healthBody struct {
		Status  string `json:"status"` // ok, ready
		Version string `json:"version"`
	}
	idBody struct {
		ID vm.ID `json:"id"`
	}
)

func (s *server) health(q *request) error {
	return q.ok(healthBody{Status: "ok", Version: api.Version})
}

func (s *server) ready(q *request) error {
	if s.Lifetime != nil && s.Lifetime.Err() != nil {
		return vm.Errorf(vm.Unavailable, "", "the server is stopping")
	}
	return q.ok(healthBody{Status: "ready", Version: api.Version})
}
