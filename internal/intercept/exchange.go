// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/internal/usernet"
	"github.com/warren-vm/warren/vm"
)

const (
	readAhead    = 64 << 10 // a body up to this size is read before anything is sent
	longestForm  = 6        // bytes of a form for each byte of its value: \u003c in JSON
	valueTimeout = 30 * time.Second
)

// exchange is one request of the guest.
type exchange struct {
	s       *session
	target  target
	policy  vm.NetworkPolicy
	places  []place
	needles [][]byte // placeholders, which the body must not have

	mu    sync.Mutex
	stray *stray // found while the body was sent; guarded by mu

	secret [][]byte // what the answer must not show; nil = no value was put in
	shown  [][]byte // what it shows instead
	hold   int      // no text of secret is longer
}

// handle answers one request of the guest.
func (i *Interceptor) handle(w http.ResponseWriter, r *http.Request) {
	s, ok := r.Context().Value(sessionKey{}).(*session)
	if !ok {
		say(w, http.StatusInternalServerError, "the request has no connection")
		return
	}
	if status, why := s.odd(r); why != "" {
		say(w, status, why)
		return
	}
	select {
	case i.asked <- struct{}{}:
		defer func() { <-i.asked }()
	default:
		say(w, http.StatusServiceUnavailable, "this VM has 256 requests open; wait for one to end")
		return
	}
	e := &exchange{s: s, policy: s.d.Policy(), target: target{host: s.d.Name, port: int(s.d.Port), methods: egress.Methods(r.Method, r.Header), path: r.URL.EscapedPath()}}
	e.target.moved = egress.PathHeader(r.Header) != ""
	if v := egress.PathMoved(e.policy, e.target.host, e.target.port, r.Header); v.Reason != "" {
		s.d.Refuse(r.Method, e.target.path, v)
		refuse(w, r, e, e.target.path, v)
		return
	}
	for _, m := range e.target.methods {
		v, done := s.d.Judge(m, e.target.path)
		defer done()
		if !v.Allow {
			s.d.Refuse(m, e.target.path, v)
			refuse(w, r, e, e.target.path, v)
			return
		}
	}
	if bad := e.inspect(r); bad != nil {
		e.misplaced(w, r, *bad)
		return
	}
	if err := e.inject(r); err != nil {
		e.failed(w, r, err)
		return
	}
	e.forward(w, r)
}

// odd refuses what no client of the host sends.
func (s *session) odd(r *http.Request) (status int, why string) {
	name, port := r.Host, strconv.Itoa(int(s.d.Port))
	if h, p, err := net.SplitHostPort(r.Host); err == nil {
		name = h
		if p != port {
			return http.StatusMisdirectedRequest, "the request names another port than the connection"
		}
	}
	switch {
	case egress.Normal(name) != s.d.Name:
		return http.StatusMisdirectedRequest, "the request names another host than the connection"
	case r.Method == http.MethodConnect || r.URL.IsAbs() || !strings.HasPrefix(r.URL.Path, "/"):
		return http.StatusMethodNotAllowed, "this is no proxy"
	}
	return 0, ""
}

// inspect finds the placeholders of the request, and reads a short body to its end.
func (e *exchange) inspect(r *http.Request) (bad *stray) {
	uses := e.policy.Secrets
	if e.places, bad = look(uses, r, e.target); bad != nil || len(uses) == 0 {
		return bad
	}
	e.needles = allPlaceholders(uses)
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength < 0 || r.ContentLength > readAhead {
		return nil // it is looked through while it is sent
	}
	body, err := io.ReadAll(r.Body)
	for _, n := range e.needles {
		if bytes.Contains(body, n) {
			return &stray{nameOf(uses, string(n)), "the body"}
		}
	}
	r.Body = &readBody{bytes.NewReader(body), err}
	return nil
}

// readBody is a body that was read, and how its reading ended.
type readBody struct {
	*bytes.Reader
	err error
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

func (b *readBody) Close() error { return nil }

// inject puts the values in, after the server's certificate was verified.
func (e *exchange) inject(r *http.Request) error {
	if len(e.places) == 0 {
		return nil
	}
	if err := e.s.verify(r.Context(), r.ProtoMajor == 2); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), valueTimeout)
	defer stop()
	for _, p := range e.places {
		value, err := e.s.i.cfg.Value(ctx, vm.SecretAsk{
			Name: p.use.Name, Placeholder: p.placeholder, Host: e.target.host, Port: e.target.port,
			Header: p.use.Header, Method: r.Method, Path: e.target.path, Policy: e.policy.Digest(),
		})
		if err != nil {
			return noValue{p.use.Name, err}
		}
		if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
			return noValue{p.use.Name, errors.New("its value cannot be in a header")}
		}
		e.hide(value, p.placeholder)
		whole := p.put(r.Header, value)
		if p.basic {
			plain, _ := basicOf(whole)
			e.hide(strings.TrimPrefix(whole, "Basic "), base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(plain, value, p.placeholder))))
		}
		e.s.d.Note(vm.NetInjected, vm.SecretUse{ID: p.use.ID, Name: p.use.Name, Placeholder: p.placeholder})
	}
	// The answer must be readable, and whole, to be kept free of the value.
	r.Header.Del("Range")
	r.Header.Del("If-Range")
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Del("Sec-Websocket-Extensions")
	return nil
}

// hide keeps a value, in the usual forms, out of the answer. The value is of printable ASCII,
// and so are its forms.
func (e *exchange) hide(value, placeholder string) {
	forms := map[string]string{value: placeholder, url.QueryEscape(value): url.QueryEscape(placeholder)}
	if data, err := json.Marshal(value); err == nil {
		forms[string(data[1:len(data)-1])] = placeholder
	}
	forms[strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "=")] = base64.RawStdEncoding.EncodeToString([]byte(placeholder))
	e.hold = max(e.hold, longestForm*len(value))
	for form, shown := range forms {
		e.secret = append(e.secret, []byte(form))
		e.shown = append(e.shown, sized(shown, len(form)))
	}
}

// noValue is a secret whose value could not be had.
type noValue struct {
	name string
	err  error
}

func (n noValue) Error() string { return "the secret " + n.name + " was not put in: " + n.err.Error() }

// forward sends the request and its answer.
func (e *exchange) forward(w http.ResponseWriter, r *http.Request) {
	host := e.target.host
	if e.target.port != 443 {
		host = net.JoinHostPort(host, strconv.Itoa(e.target.port))
	}
	if e.needles != nil && r.Body != nil && r.Body != http.NoBody {
		if _, done := r.Body.(*readBody); !done {
			r.Body = &sentBody{e: e, r: r, in: newFilter(r.Body, e.needles, nil), src: r.Body}
		}
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		r.Header.Del("Upgrade")
	} else if e.needles != nil {
		r.Header.Del("Sec-Websocket-Extensions") // so that frames can be read
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "https", host, p.In.Host
			p.Out.URL.RawQuery, p.Out.URL.ForceQuery = p.In.URL.RawQuery, p.In.URL.ForceQuery
			if _, ok := p.In.Header["User-Agent"]; !ok {
				p.Out.Header["User-Agent"] = nil
			}
			p.Out.Header.Del("Expect") // this end has answered it
		},
		Transport:      e,
		ModifyResponse: e.answer,
		FlushInterval:  -1,
		BufferPool:     buffers{},
		ErrorLog:       slog.NewLogLogger(e.s.i.cfg.Log.Handler(), slog.LevelDebug),
		ErrorHandler:   e.failed,
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // an early answer does not close the request's body
	p.ServeHTTP(w, r)
}

// RoundTrip sends a request. With a value in it, early hints of the server are dropped, as
// they could show the value.
func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.secret != nil {
		r = r.WithContext(bare{r.Context()})
	}
	return e.s.transport(r.ProtoMajor == 2).RoundTrip(r)
}

// bare is a context without values.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

// sentBody is a body that is looked through while it is sent.
type sentBody struct {
	e   *exchange
	r   *http.Request
	in  *filter
	src io.ReadCloser
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if errors.Is(err, errFound) {
		b.e.found(&stray{namesOf(b.e.policy.Secrets), "the body"})
	}
	return n, err
}

func (b *sentBody) Close() error { return b.src.Close() }

func (e *exchange) found(s *stray) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stray == nil {
		e.stray = s
	}
}

// answer makes the server's answer fit for the guest.
func (e *exchange) answer(resp *http.Response) error {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return e.upgrade(resp)
	}
	if e.secret == nil {
		return nil
	}
	e.clean(resp.Header)
	body := resp.Body
	switch encodings(resp.Header) {
	case "":
	case "gzip", "x-gzip":
		if resp.Request.Method == http.MethodHead || resp.ContentLength == 0 {
			break
		}
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			return unsearchable{}
		}
		body = struct {
			io.Reader
			io.Closer
		}{z, resp.Body}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	default:
		return unsearchable{}
	}
	resp.Body = &receivedBody{e: e, resp: resp, in: newMask(body, e.secret, e.shown, e.hold), src: body}
	return nil
}

// encodings returns how a body is encoded: the list of all such headers, "" = not at all.
func encodings(h http.Header) string {
	var list []string
	for _, v := range h.Values("Content-Encoding") {
		for one := range strings.SplitSeq(strings.ToLower(v), ",") {
			if one = strings.TrimSpace(one); one != "" && one != "identity" {
				list = append(list, one)
			}
		}
	}
	return strings.Join(list, ", ")
}

// unsearchable is an answer that cannot be searched for the value.
type unsearchable struct{}

func (unsearchable) Error() string {
	return "the server compressed its answer in a way that cannot be searched for the secret"
}

// receivedBody is a body without the value.
type receivedBody struct {
	e    *exchange
	resp *http.Response
	in   io.Reader
	src  io.Closer
}

func (b *receivedBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if errors.Is(err, io.EOF) {
		b.e.clean(b.resp.Trailer)
	}
	return n, err
}

func (b *receivedBody) Close() error { return b.src.Close() }

// clean keeps the value out of headers.
func (e *exchange) clean(h http.Header) {
	for name, values := range h {
		for i, v := range values {
			for k, secret := range e.secret {
				v = strings.ReplaceAll(v, string(secret), string(e.shown[k]))
			}
			values[i] = v
		}
		h[name] = values
	}
}

// upgrade looks into a connection that becomes a WebSocket.
func (e *exchange) upgrade(resp *http.Response) error {
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return errors.New("the server's connection cannot be upgraded")
	}
	e.clean(resp.Header)
	if e.needles == nil {
		return nil
	}
	in := io.Reader(conn)
	if e.secret != nil {
		in = newServerFrames(conn, e.secret, e.shown, e.hold)
	}
	resp.Body = &wire{ReadWriteCloser: conn, in: in, frames: frames{needles: e.needles}, found: func() {
		e.tell(resp.Request.Method, stray{namesOf(e.policy.Secrets), "a WebSocket"})
	}}
	return nil
}

// failed answers a request that was not carried out.
func (e *exchange) failed(w http.ResponseWriter, r *http.Request, err error) {
	e.mu.Lock()
	bad := e.stray
	e.mu.Unlock()
	var (
		cert  untrusted
		value noValue
		shut  unsearchable
	)
	switch {
	case bad != nil:
		e.misplaced(w, r, *bad)
	case errors.As(err, &cert):
		v := egress.Verdict{Reason: "the certificate of " + e.target.host + " does not verify: " + cert.reason}
		e.s.d.Refuse(r.Method, e.target.path, v)
		say(w, http.StatusBadGateway, v.Reason+"; nothing was sent")
	case errors.As(err, &shut):
		say(w, http.StatusBadGateway, shut.Error())
	case errors.As(err, &value):
		e.withoutValue(w, r, value)
	default:
		e.s.i.cfg.Log.Debug("an intercepted request failed", "host", e.target.host, "err", err)
		say(w, http.StatusBadGateway, e.target.host+" was not reached, or did not answer")
	}
}

// withoutValue answers a request for which the value could not be had.
func (e *exchange) withoutValue(w http.ResponseWriter, r *http.Request, n noValue) {
	switch vm.KindOf(n.err) {
	case vm.Denied, vm.NotFound:
		v := egress.Verdict{Reason: "the secret " + n.name + " may not be used for this request: " + vm.AsError(n.err).Msg}
		e.s.d.Refuse(r.Method, e.target.path, v)
		say(w, http.StatusForbidden, v.Reason)
	default:
		e.s.i.cfg.Log.Info("a secret was not put in", "secret", n.name, "host", e.target.host, "err", n.err)
		w.Header().Set("Retry-After", "5")
		say(w, http.StatusServiceUnavailable, fmt.Sprintf("the secret %s could not be put in, because Warren's server did not give it; try again", n.name))
	}
}

// misplaced refuses a request with a placeholder where it does not belong.
func (e *exchange) misplaced(w http.ResponseWriter, r *http.Request, bad stray) {
	v := e.tell(r.Method, bad)
	refuse(w, r, e, e.shownPath(), v)
}

// tell records and reports a placeholder where it does not belong.
func (e *exchange) tell(method string, bad stray) egress.Verdict {
	v := egress.Verdict{Reason: strayReason(bad)}
	path := e.shownPath()
	e.s.d.Refuse(method, path, v)
	e.s.i.misplaced(vm.Misplaced{Name: bad.name, Where: bad.where, Host: e.target.host, Port: e.target.port, Method: method, Path: path})
	return v
}

// shownPath is the path without placeholders.
func (e *exchange) shownPath() string { return hidden(e.policy.Secrets, e.target.path) }

func strayReason(bad stray) string {
	return fmt.Sprintf("the placeholder of the secret %s is in %s, where it does not belong", bad.name, bad.where)
}

// hidden returns a text without placeholders, for a record.
func hidden(uses []vm.SecretUse, text string) string {
	for _, n := range allPlaceholders(uses) {
		text = strings.ReplaceAll(text, string(n), "...")
	}
	return text
}

// refuse answers a request that the policy does not allow.
func refuse(w http.ResponseWriter, r *http.Request, e *exchange, path string, v egress.Verdict) {
	usernet.Refuse(w, r, e.target.host, path, e.policy, v)
}

// say answers with a sentence.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "warren: "+text+"\n") // the guest may be gone
}

// buffers are those of copies.
type buffers struct{}

var pool = sync.Pool{New: func() any { b := make([]byte, filterChunk); return &b }}

func (buffers) Get() []byte  { return *pool.Get().(*[]byte) }
func (buffers) Put(b []byte) { pool.Put(&b) }
