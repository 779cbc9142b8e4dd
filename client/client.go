// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// DefaultURL is where a server listens unless it was told otherwise.
const DefaultURL = "http://127.0.0.1:8787"

// Client calls one server with one key. It is safe for concurrent use. A VM is
// named by its id or, while that is unique, by its name.
type Client struct {
	base string // without a slash at the end
	key  string
	user string // Linux user of file verbs; "" = root
	http *http.Client

	noKey string // why there is no key, for the hint of a refusal
}

// New returns a client of the server at baseURL. It makes no request. Kind
// Invalid for a URL that is not http or https with a host.
func New(baseURL, key string) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, vm.Errorf(vm.Invalid, baseURL, "not the URL of a server").
			WithHint("give one such as %s, by WARREN_API_URL", DefaultURL)
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true, // file streams are counted and hashed as they are
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      64 << 10,
	}
	return &Client{
		base: strings.TrimRight(baseURL, "/"), key: key,
		http: &http.Client{
			Transport: transport,
			// A redirect would send the key to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// As returns a client whose file verbs act as that Linux user of the guest.
func (c *Client) As(user string) *Client {
	d := *c
	d.user = user
	return &d
}

// URL returns the server's address.
func (c *Client) URL() string { return c.base }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// vmPath is the route of a VM with what follows it, each part one segment.
func vmPath(ref string, rest ...string) (string, error) {
	if !vm.IsID(ref) && vm.CheckName(ref) != nil {
		return "", vm.Errorf(vm.Invalid, ref, "neither a VM's id nor a name").
			WithCode("INVALID_VM_ID", "vmId", ref, "details", "neither an id nor a name").
			WithHint("`warren ls` lists ids and names")
	}
	return route("v1", append([]string{"vms", ref}, rest...)...), nil
}

// route joins segments; a slash within one stays within it.
func route(first string, rest ...string) string {
	var b strings.Builder
	b.WriteString("/" + first)
	for _, p := range rest {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// call is one request to be made.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	in     any       // JSON body
	body   io.Reader // other body
	size   int64     // of body; -1 = unknown
	header http.Header
}

// send makes the request and returns a successful answer, whose body the
// caller closes, or the server's error.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	body, size := k.body, k.size
	if k.in != nil {
		data, err := json.Marshal(k.in)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, k.path, "request: %w", err)
		}
		body, size = bytes.NewReader(data), int64(len(data))
	}
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, target, "request: %w", err)
	}
	if body != nil {
		req.ContentLength = size
	}
	for name, values := range k.header {
		req.Header[name] = values
	}
	c.dress(req.Header)
	if k.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, c.answerError(resp)
	}
	return resp, nil
}

// dress adds what every request carries.
func (c *Client) dress(h http.Header) {
	if c.key != "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
	if c.user != "" {
		h.Set(api.HeaderLinuxUser, c.user)
	}
	h.Set("User-Agent", "warren/"+api.Version)
}

// json makes the request and decodes the answer into out, unless it is nil.
func (c *Client) json(ctx context.Context, k call, out any) error {
	resp, err := c.send(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return c.transportError(ctx, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return vm.Errorf(vm.Internal, c.base, "the answer to %s %s is not understood: %w", k.method, k.path, err).
			WithHint("is this a Warren server of version %s? it says %q", api.Version, resp.Header.Get(api.HeaderVersion))
	}
	return nil
}

func ask[T any](ctx context.Context, c *Client, method, path string, query url.Values, in any) (T, error) {
	var out T
	err := c.json(ctx, call{method: method, path: path, query: query, in: in}, &out)
	return out, err
}

// about is ask for a VM's route.
func about[T any](ctx context.Context, c *Client, method, ref string, in any, query url.Values, rest ...string) (T, error) {
	path, err := vmPath(ref, rest...)
	if err != nil {
		var none T
		return none, err
	}
	return ask[T](ctx, c, method, path, query, in)
}

// transportError says why there is no answer.
func (c *Client) transportError(ctx context.Context, err error) error {
	var known *vm.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(ctx.Err(), context.Canceled):
		return vm.Errorf(vm.Cancelled, "", "interrupted")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return vm.Errorf(vm.Timeout, c.base, "no answer in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		e := vm.Errorf(vm.Unavailable, c.base, "no server listens there")
		if Loopback(c.base) {
			return e.WithHint("start it with `warren serve`, or name another by WARREN_API_URL")
		}
		return e.WithHint("start it there, or name another by WARREN_API_URL")
	}
	var op *net.OpError
	var dns *net.DNSError
	if errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial" {
		return vm.Errorf(vm.Unavailable, c.base, "the server cannot be reached: %s", inner(err)).WithHint("check WARREN_API_URL")
	}
	return vm.Errorf(vm.Unavailable, c.base, "the connection broke: %s", inner(err)).
		WithHint("the server may have ended; `warren ls` tells whether it is there again")
}

// inner is the reason without the request around it.
func inner(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it was closed before the answer was complete")
	}
	return err
}

// maxErrorBody bounds what is read of an error answer.
const maxErrorBody = 1 << 20

// answerError rebuilds the error of an answer.
func (c *Client) answerError(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		data = nil // the status alone has to do
	}
	return c.decodeError(resp.StatusCode, data)
}

func (c *Client) decodeError(status int, data []byte) error {
	var body api.ErrorBody
	if err := json.Unmarshal(data, &body); err != nil || body.Kind == "" && body.Code == "" {
		return vm.Errorf(kindOfStatus(status), c.base, "it answered %d %s, and not as a Warren server does", status, http.StatusText(status)).
			WithHint("check WARREN_API_URL")
	}
	if body.Kind == "" {
		body.Kind = kindOfStatus(status)
	}
	e := api.DecodeError(body)
	if e.Kind == vm.Unauthenticated && c.noKey != "" {
		return e.WithHint("%s", c.noKey)
	}
	return e
}

func kindOfStatus(status int) vm.Kind {
	for _, r := range api.Kinds {
		if r.Status == status && r.Kind != vm.Internal {
			return r.Kind
		}
	}
	if status/100 == 4 {
		return vm.Invalid
	}
	return vm.Unavailable
}
