// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/client"
)

const (
	// sessionIdle ends the session of a client that has sent nothing for this long.
	sessionIdle = time.Hour
	// sessionsMost bounds the sessions of all clients together.
	sessionsMost = 1024
	// bodyMost bounds one message of a client.
	bodyMost = 4 << 20
	// headerPost marks the requests of a door, for their calls. Clients cannot set it.
	headerPost = "Warren-Mcp-Post"
	// firstStateless is the first revision of the protocol that has no sessions.
	firstStateless = "2026-07-28"
	// inner is how the door addresses the server in its own process.
	inner = "http://127.0.0.1"
)

// Door is MCP over HTTP. Its calls reach the server with the credentials of their caller, by
// a connection within the process.
type Door struct {
	*Server
	sessions  http.Handler // revisions of the protocol with sessions
	stateless http.Handler // the others
	transport *http.Transport

	posts sync.Map // of post ids: the context of the request
	next  atomic.Int64
	gone  context.Context // has ended
}

// NewDoor returns a door to the server that dial reaches. ctx has only values.
func NewDoor(ctx context.Context, dial func(context.Context) (net.Conn, error), log *slog.Logger) *Door {
	gone, leave := context.WithCancel(ctx)
	leave()
	d := &Door{gone: gone, transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
	}}
	d.Server = newServer(d.caller)
	get := func(*http.Request) *mcp.Server { return d.mcp }
	protect := auth.RequireBearerToken(d.credentials, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	// The API has checked the name of the host already.
	d.sessions = protect(mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		SessionTimeout: sessionIdle, MaxRequestBodyBytes: bodyMost, DisableLocalhostProtection: true, Logger: log,
	}))
	d.stateless = protect(mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: bodyMost, DisableLocalhostProtection: true, Logger: log,
	}))
	return d
}

// credentials binds a request to its bearer. The API has authenticated it, and does so again
// at each call. A session belongs to the credentials that opened it.
func (d *Door) credentials(_ context.Context, secret string, _ *http.Request) (*auth.TokenInfo, error) {
	sum := sha256.Sum256([]byte(secret))
	return &auth.TokenInfo{UserID: hex.EncodeToString(sum[:]), Extra: map[string]any{"client": client.NewOver(d.transport, inner, secret)}}, nil
}

// caller returns the client of a call, and the context of the request that carries it.
func (d *Door) caller(extra *mcp.RequestExtra) (*client.Client, context.Context) {
	if extra == nil || extra.TokenInfo == nil {
		return client.NewOver(d.transport, inner, ""), d.gone // the API refuses it
	}
	c, _ := extra.TokenInfo.Extra["client"].(*client.Client)
	if ctx, ok := d.posts.Load(extra.Header.Get(headerPost)); ok {
		return c, ctx.(context.Context)
	}
	return c, d.gone // its request has ended meanwhile
}

// ServeHTTP answers one request, which the API has authenticated.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := strconv.FormatInt(d.next.Add(1), 10)
	r = r.Clone(r.Context())
	r.Header.Set(headerPost, id)
	d.posts.Store(id, r.Context())
	defer d.posts.Delete(id)
	h := d.sessions
	if r.Header.Get("Mcp-Protocol-Version") >= firstStateless {
		h = d.stateless
	} else if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && d.full() {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many MCP sessions are open; try again later", http.StatusServiceUnavailable)
		return
	}
	h.ServeHTTP(w, r)
}

// full reports whether there are as many sessions as there may be.
func (d *Door) full() bool {
	n := 0
	for range d.mcp.Sessions() {
		n++
	}
	return n >= sessionsMost
}

// Close ends all sessions, and waits until nothing of them runs.
func (d *Door) Close() {
	for s := range d.mcp.Sessions() {
		_ = s.Close() // its client has to connect again, also if it could not be told
	}
	d.cleaning.Wait()
	d.transport.CloseIdleConnections()
}
