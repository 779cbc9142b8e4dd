// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // noVNC
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/internal/screen"
	"github.com/warren-vm/warren/vm"
)

// The screen of a VM is shown on the preview of its VNC port, by noVNC, which the gateway
// serves itself: the guest gives only the bytes of the connection.

const (
	// screenPath begins the addresses of the page and of what it needs.
	screenPath = "/.warren/screen/"
	// watchCookie holds the pass of a viewer who may only watch.
	watchCookie = cookiePrefix + "watch"
	// maxInput bounds one message of a viewer, such as a text that was copied.
	maxInput = 1 << 20
)

// noVNC is the npm package @novnc/novnc 1.7.0 as it was published.
//
//go:embed novnc-1.7.0.tgz
var noVNC []byte

//go:embed screen.html
var screenPage []byte

// takeOver is the part of screenPage that those who may only watch do not get.
var takeOver = []byte(`<a id="control" href="?">Take over</a>`)

//go:embed screen.js
var screenScript []byte

// noVNCFiles are the scripts of noVNC by their path in the package.
var noVNCFiles = sync.OnceValues(func() (map[string][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(noVNC))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(h.Name, "package/")
		if path.Ext(name) != ".js" {
			continue
		}
		if files[name], err = io.ReadAll(t); err != nil {
			return nil, err
		}
	}
})

// ofScreen reports whether a request is for the page of a site's screen.
func ofScreen(r *http.Request, site vm.Site) bool {
	return site.Port == vm.ScreenPort && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, screenPath))
}

// watchScope is the scope of a pass to only watch a screen.
func watchScope(site vm.Site) string { return scopeOf(site) + "\nwatch" }

// WatchLink returns an address at which the screen of a VM can be watched until it expires.
func (g *Gateway) WatchLink(site vm.Site, host string, expires time.Time) string {
	return g.URL(host) + screenPath + "?" + linkParam + "=" + g.pass(watchScope(site), vm.Actor{}, expires)
}

// enterToWatch decides about a request of somebody who may only watch.
func (g *Gateway) enterToWatch(r *http.Request, name string, site vm.Site) entry {
	if pass := paramOf(r.URL, linkParam); pass != "" {
		if who, until, ok := g.checkPass(pass, watchScope(site)); ok && who.Account == "" {
			return entry{redirect: cleanPath(r.URL), cookie: &http.Cookie{
				Name: watchCookie, Value: pass, Path: "/", Expires: until, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
			}}
		}
	}
	if c, err := r.Cookie(watchCookie); err == nil && ownPage(r, g.URL(name), name) {
		_, until, ok := g.checkPass(c.Value, watchScope(site))
		return entry{open: ok, until: until, watch: true}
	}
	return entry{}
}

// showScreen answers a request for the page of a screen, or for what it needs.
func (g *Gateway) showScreen(w http.ResponseWriter, r *http.Request, site vm.Site, by entry) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Warren-Gateway", "SCREEN")
	name := strings.TrimPrefix(r.URL.Path, screenPath)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		g.refuse(w, r, http.StatusMethodNotAllowed, vm.Errorf(vm.Invalid, r.Method, "a screen is only read here"))
	case r.URL.Path == "/":
		h.Set("Location", screenPath)
		w.WriteHeader(http.StatusSeeOther)
	case name == "" && by.watch && !r.URL.Query().Has("watch"):
		h.Set("Location", screenPath+"?watch")
		w.WriteHeader(http.StatusSeeOther)
	case name == "":
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; frame-ancestors 'none'")
		page := screenPage
		if by.watch {
			page = bytes.Replace(page, takeOver, nil, 1)
		}
		send(w, "text/html; charset=utf-8", page)
	case name == "screen.js":
		send(w, "text/javascript; charset=utf-8", screenScript)
	case name == "socket":
		g.screenSocket(w, r, site, by)
	default:
		files, err := noVNCFiles()
		if body, ok := files[name]; err == nil && ok {
			send(w, "text/javascript; charset=utf-8", body)
			return
		}
		g.refuse(w, r, http.StatusNotFound, vm.Errorf(vm.NotFound, r.URL.Path, "no such page"))
	}
}

func send(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body) // the client may have left
}

// screenSocket joins a viewer with the VNC server of the guest. What a viewer who only
// watches sends is filtered here, whatever his page does.
func (g *Gateway) screenSocket(w http.ResponseWriter, r *http.Request, site vm.Site, by entry) {
	ctx := r.Context()
	c := callOf(site)
	now, leave, err := g.Engine.EnterPreview(ctx, c, site)
	if err != nil {
		g.fault(w, r, site, by.insider, err)
		return
	}
	defer leave()
	dialling, stop := context.WithDeadline(ctx, time.Now().Add(g.ListenGrace))
	defer stop()
	guest, err := g.proxy.dial(context.WithValue(dialling, dialUntilKey{}, now.Started.Add(g.ListenGrace)), c, site)
	if err != nil {
		g.fault(w, r, site, by.insider, err)
		return
	}
	defer guest.Close()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, Subprotocols: []string{"binary"}})
	if err != nil {
		return // Accept has answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(maxInput)
	leave() // from here on only transferred bytes count as activity
	viewer := websocket.NetConn(ctx, ws, websocket.MessageBinary)
	done := make(chan struct{})
	go func() { // ends when guest is closed
		defer close(done)
		_, _ = io.Copy(viewer, guest)
		_ = viewer.Close()
	}()
	if by.watch || r.URL.Query().Has("watch") {
		err = screen.Watch(guest, viewer)
	} else {
		_, err = io.Copy(guest, viewer)
	}
	if err != nil && ctx.Err() == nil {
		g.Log.Debug("screen", "vm", site.VM, "err", err)
	}
	_ = guest.Close()
	<-done
}
