// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package client calls a Warren server from Go. Each method is one request. Errors are
// *vm.Error with the server's kind, so that errors.Is(err, vm.Busy) works as inside
// the server. The package keeps only open connections: it has no retries, no cache and
// no settings except those of FromEnv. It checks every length and digest itself.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Limits of data that is read into memory.
const (
	maxAnswer = 64 << 20
	maxError  = 1 << 20
)

// Client sends requests to one server with one API key. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	baseErr error
	key     string
	host    bool       // the key is that of the host's server
	refused keyRefused // the error when the server refuses the key
	askFor  time.Duration
	http    *http.Client
}

// New returns a client of the server at baseURL ("http://127.0.0.1:8787")
// that sends key. It makes no request; a malformed URL is reported by the
// first one.
func New(baseURL, key string) *Client {
	c := &Client{key: key}
	u, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil {
		u = &url.URL{}
	}
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		c.baseErr = vm.Errorf(vm.Invalid, baseURL, "not the address of a server").WithHint("use a form such as http://127.0.0.1:8787")
	}
	c.base = u
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			DisableCompression:  true, // most answers are small or not text
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
			WriteBufferSize:     128 << 10,
			ReadBufferSize:      128 << 10,
		},
		// The API never redirects; following one would take the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// URL returns the server's address.
func (c *Client) URL() string { return c.base.Redacted() }

// Close closes idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request before it is sent.
type call struct {
	method string
	path   string // escaped, from pathOf
	query  url.Values
	header http.Header
	body   io.Reader
	size   int64 // of body; -1 = unknown
}

// pathOf joins segments, each escaped, so that a guest's path stays one.
func pathOf(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// vmPath returns the path of something that belongs to a VM.
func vmPath(ref string, rest ...string) string {
	return pathOf("v1", "vms", ref) + strings.TrimSuffix(pathOf(rest...), "/")
}

// address returns the full address of an escaped path.
func (c *Client) address(path string, query url.Values) string {
	s := c.base.String() + path
	if len(query) > 0 {
		s += "?" + query.Encode()
	}
	return s
}

// authorize adds the program's name and its API key.
func (c *Client) authorize(h http.Header) {
	h.Set("User-Agent", "warren/"+api.Version)
	if c.key != "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
	if c.askFor > 0 {
		h.Set(api.HeaderAskTimeout, strconv.Itoa(int((c.askFor+time.Second-1)/time.Second)))
	}
}

// checkPath refuses an empty VM reference and other empty path segments,
// which would name another route.
func checkPath(path string) error {
	if strings.Contains(path, "//") || strings.HasSuffix(path, "/") {
		return vm.Errorf(vm.Invalid, path, "a name or id is empty").WithHint("`warren ls` lists ids and names")
	}
	return nil
}

// send makes the request and returns an answer of status 2xx, whose body the
// caller closes.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	if c.baseErr != nil {
		return nil, c.baseErr
	}
	if err := checkPath(q.path); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, q.method, c.address(q.path, q.query), q.body)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, q.path, "the request is not valid: %w", err)
	}
	if q.body != nil {
		req.ContentLength = q.size
		if q.size == 0 {
			req.Body = http.NoBody
		}
	}
	for k, v := range q.header {
		req.Header[k] = v
	}
	if place, ok := ctx.Value(destination{}).(string); ok {
		req.Header.Set(api.HeaderDestination, url.PathEscape(place))
	}
	c.authorize(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, c.failure(resp)
	}
	return resp, nil
}

// failure rebuilds the error of an answer that is not a success.
func (c *Client) failure(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	var b api.ErrorBody
	if err != nil || json.Unmarshal(data, &b) != nil || b.Code == "" {
		return c.foreign(resp)
	}
	e := api.DecodeError(b)
	if e.Code == api.CodeOf(&vm.Error{Kind: vm.Unauthenticated}) && c.refused.why != "" {
		return &vm.Error{Kind: e.Kind, Code: e.Code, Fields: e.Fields, Subject: c.base.Redacted(), Msg: c.refused.why, Hint: c.refused.hint}
	}
	return e
}

// foreign is the error for an answer that is not from a Warren server.
func (c *Client) foreign(resp *http.Response) error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = "no media type"
	}
	return vm.Errorf(vm.Unavailable, c.base.Redacted(), "the answer is not a Warren server's (status %d, %s)", resp.StatusCode, kind).
		WithHint("check the address: WARREN_API_URL or --api-url, and whether a proxy is in between")
}

// broken explains why there was no answer, or only a part of one.
func (c *Client) broken(ctx context.Context, err error) error {
	var known *vm.Error
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return &vm.Error{Kind: vm.KindOf(ctx.Err()), Msg: "the request was cancelled", Err: ctx.Err()}
	case errors.As(err, &known):
		return known
	case errors.As(err, &op) && op.Op == "dial":
		return vm.Errorf(vm.Unavailable, c.base.Redacted(), "no server answers: %w", op.Err).WithHint("start the server: `warren serve`")
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return vm.Errorf(vm.Unavailable, c.base.Redacted(), "the connection to the server broke: %w", err).
		WithHint("check that `warren serve` still runs, then try again")
}

// do sends a JSON body (nil = none) and decodes the JSON answer.
func do[T any](ctx context.Context, c *Client, q call, in any) (T, error) {
	var out T
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return out, vm.Errorf(vm.Invalid, q.path, "the request cannot be sent: %w", err)
		}
		q.body, q.size = bytes.NewReader(data), int64(len(data))
		if q.header == nil {
			q.header = http.Header{}
		}
		q.header.Set("Content-Type", "application/json")
	}
	resp, err := c.send(ctx, q)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	return out, c.decode(ctx, resp, &out)
}

// decode reads a JSON answer to its end, so that the connection can be used again.
func (c *Client) decode(ctx context.Context, resp *http.Response, out any) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.broken(ctx, err)
	case len(data) > maxAnswer:
		return vm.Errorf(vm.Limit, resp.Request.URL.Path, "the answer is larger than %d MiB", maxAnswer>>20).WithHint("request less at a time")
	case json.Unmarshal(data, out) != nil:
		return c.foreign(resp)
	}
	return nil
}

// none is an answer whose content is ignored.
type none struct{}
