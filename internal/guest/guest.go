// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package guest is the host's side of the agent in a guest: one method for each of
// the agent's verbs, named as in package agent. It does not trust the guest: every
// answer is limited, lengths are checked, and a guest that breaks the protocol or
// goes away causes an error of kind GuestFault. It neither starts nor finds
// guests; the monitor and the engine provide the function that opens streams.
package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Client speaks to one guest's agent. It is safe for concurrent use.
type Client struct {
	dial  func(context.Context) (net.Conn, error)
	tr    *http.Transport
	large chan struct{} // held while a large answer is in memory
	rules string        // of Under, encoded; "" = none
}

// New returns a client that opens streams with dial: through the multiplexer,
// or through the monitor's socket. New opens none itself.
func New(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{dial: dial, large: make(chan struct{}, 1), tr: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression:     true,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		ReadBufferSize:         64 << 10,
		MaxResponseHeaderBytes: maxHead,
	}}
}

// Close closes the idle streams. Streams in use stay open.
func (c *Client) Close() { c.tr.CloseIdleConnections() }

// Hello asks the agent to describe itself.
func (c *Client) Hello(ctx context.Context) (vm.AgentHello, error) {
	b, err := c.ask(ctx, "GET", "/hello", nil, nil)
	if err != nil {
		return vm.AgentHello{}, err
	}
	h, _, err := link.DecodeWake(b)
	return introduced(h, err)
}

// introduced checks that an answer is a valid hello, and limits its fields,
// because they are stored in records.
func introduced(h vm.AgentHello, err error) (vm.AgentHello, error) {
	if err == nil && h.Protocol <= 0 {
		err = errors.New("a hello without a protocol version")
	}
	for _, s := range []*string{&h.Version, &h.Digest, &h.BootID, &h.Kernel} {
		*s = clean(*s, maxName)
	}
	h.Features = cleanAll(h.Features, maxName)
	return h, odd(err)
}

// acknowledged limits a report of resets.
func acknowledged(r vm.ResetReport, err error) (vm.ResetReport, error) {
	if len(r) > maxListed {
		return nil, fault("it reports %d resets", len(r))
	}
	out := vm.ResetReport{}
	for name, outcome := range r {
		out[clean(name, maxName)] = clean(outcome, maxWords)
	}
	return out, odd(err)
}

// Reset gives the guest an identity of its own. The report names each reset;
// the caller decides what a missing or failed one means.
func (c *Client) Reset(ctx context.Context, r vm.Reset) (vm.ResetReport, error) {
	b, err := c.ask(ctx, "POST", "/reset", nil, link.EncodeReset(r))
	if err != nil {
		return nil, err
	}
	_, report, err := link.DecodeWake(b)
	return acknowledged(report, err)
}

// Wake is Reset and Hello, in this order, in one round trip.
func (c *Client) Wake(ctx context.Context, r vm.Reset) (vm.AgentHello, vm.ResetReport, error) {
	b, err := c.ask(ctx, "POST", "/wake", nil, link.EncodeReset(r))
	if err != nil {
		return vm.AgentHello{}, nil, err
	}
	return ReadWake(b)
}

// Give gives the guest's programs the VM's own CA and the placeholders of secrets, which
// replace those that it has.
func (c *Client) Give(ctx context.Context, r vm.Reset) error {
	_, err := c.ask(ctx, "POST", "/give", nil, link.EncodeReset(r))
	return err
}

// ReadWake decodes an agent's answer to a wake.
func ReadWake(b []byte) (vm.AgentHello, vm.ResetReport, error) {
	h, report, err := link.DecodeWake(b)
	if h, err = introduced(h, err); err == nil {
		report, err = acknowledged(report, nil)
	}
	return h, report, err
}

// Upgrade replaces the agent's program by binary, which has size bytes. The
// agent keeps its process, its children and its descriptors. After the answer
// the link closes and synchronises again.
func (c *Client) Upgrade(ctx context.Context, binary io.Reader, size int64) error {
	b, err := io.ReadAll(io.LimitReader(binary, size+1))
	if err != nil {
		return err
	}
	if int64(len(b)) != size {
		return vm.Errorf(vm.Invalid, "", "the agent's binary has %d bytes, not %d", len(b), size)
	}
	sum := sha256.Sum256(b)
	_, err = c.ask(ctx, "POST", "/upgrade", url.Values{"digest": {hex.EncodeToString(sum[:])}}, b)
	return err
}

// PowerOff asks the guest to shut down, or to reboot. It returns when the
// shutdown has begun, not when the guest is off.
func (c *Client) PowerOff(ctx context.Context, reboot bool) error {
	q := url.Values{}
	if reboot {
		q.Set("reboot", "1")
	}
	_, err := c.ask(ctx, "POST", "/poweroff", q, nil)
	return err
}

// Grow makes the guest use the CPUs, memory and disk of its machine, and
// waits until the kernel has found them. Zero fields stay as they are.
func (c *Client) Grow(ctx context.Context, size vm.Size) error {
	q := url.Values{}
	for name, n := range map[string]int{"cpus": size.VCPU, "mem": size.MemoryMiB, "disk": size.DiskMiB} {
		if n > 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	_, err := c.ask(ctx, "POST", "/grow", q, nil)
	return err
}

// Stats returns the guest's use of its machine.
func (c *Client) Stats(ctx context.Context) (vm.Stats, error) {
	var s vm.Stats
	return s, c.askJSON(ctx, "GET", "/stats", nil, &s)
}

// State returns what runs in the guest. It does not probe ports that the host
// can reach, and leaves fields empty that only the host knows.
func (c *Client) State(ctx context.Context) (vm.GuestState, error) {
	var s vm.GuestState
	return s, c.askJSON(ctx, "GET", "/state", nil, &s)
}

// Evidence returns the guest's load; with all, also signs of problems. It
// probes ports as State does.
func (c *Client) Evidence(ctx context.Context, all bool) (vm.Evidence, error) {
	q := url.Values{}
	if all {
		q.Set("all", "1")
	}
	var ev vm.Evidence
	return ev, c.askJSON(ctx, "GET", "/evidence", q, &ev)
}

// ask sends a request and reads its whole answer.
func (c *Client) ask(ctx context.Context, method, path string, q url.Values, body []byte) (b []byte, err error) {
	err = c.answered(ctx, method, path, q, body, io.Discard, func(all []byte) error { b = all; return nil })
	return b, err
}

// askJSON decodes the answer, and counts list elements while it arrives.
func (c *Client) askJSON(ctx context.Context, method, path string, q url.Values, to any) error {
	return c.answered(ctx, method, path, q, nil, &census{}, func(all []byte) error { return odd(json.Unmarshal(all, to)) })
}

// answered sends a request and passes its whole answer to take; look sees the
// bytes as they arrive.
func (c *Client) answered(ctx context.Context, method, path string, q url.Values, body []byte, look io.Writer, take func([]byte) error) error {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	resp, err := c.do(ctx, method, path, q, r, int64(len(body)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.readAnswer(ctx, path, resp.Body, look, take)
}

// Under returns a client whose calls about files keep path rules, which pathrule.Encode wrote.
// Such a call fails with kind Unsupported when the agent is too old for rules.
func (c *Client) Under(rules string) *Client {
	out := *c
	out.rules = rules
	return &out
}

// ruled adds the rules to a request.
func (c *Client) ruled(path string, q url.Values) (string, url.Values) {
	if c.rules == "" || !ofFiles[path] {
		return path, q
	}
	out := url.Values{"rules": {c.rules}}
	maps.Copy(out, q)
	return "/ruled" + path, out
}

// ofFiles are the verbs that keep rules.
var ofFiles = map[string]bool{
	"/stat": true, "/readdir": true, "/file": true, "/mkdir": true, "/rename": true, "/remove": true, "/chmod": true, "/symlink": true,
	"/tar": true, "/tree": true, "/pick": true, "/place": true, "/restore": true, "/watch": true, "/handle": true, "/setattr": true, "/link": true,
}

// do sends a request and returns the head of a successful answer. size is the
// body's length, or -1 if it is unknown.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, body io.Reader, size int64) (*http.Response, error) {
	path, q = c.ruled(path, q)
	u := url.URL{Scheme: "http", Host: "agent", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, &vm.Error{Kind: vm.Internal, Err: err}
	}
	req.ContentLength = size
	req.Header["User-Agent"] = nil
	resp, err := c.tr.RoundTrip(req)
	if err != nil {
		return nil, broken(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		if resp.StatusCode < 400 {
			return nil, fault("it answered %s with status %d", path, resp.StatusCode)
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return nil, broken(ctx, err)
		}
		return nil, refusal(path, b)
	}
	return resp, nil
}

// broken converts a transport's failure to an error of the caller's context
// or reader, or to a fault of the guest.
func broken(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var own *sourceError
	if errors.As(err, &own) {
		return own.err
	}
	var e *vm.Error
	if errors.As(err, &e) {
		return e
	}
	return &vm.Error{Kind: vm.GuestFault, Msg: "the link to the guest's agent broke", Err: err}
}

// odd converts a decoder's error to a fault of the guest.
func odd(err error) error {
	if err == nil {
		return nil
	}
	return &vm.Error{Kind: vm.GuestFault, Msg: "the guest's agent sent an invalid answer", Err: err}
}

func fault(format string, args ...any) error {
	return vm.Errorf(vm.GuestFault, "", "the guest's agent: "+format, args...)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
