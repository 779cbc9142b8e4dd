// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// page is an answer of the gateway itself.
type page struct {
	Status  int     `json:"-"`
	Title   string  `json:"-"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Kind    vm.Kind `json:"kind"`
	Hint    string  `json:"hint,omitempty"`
	Ports   []int   `json:"ports,omitempty"` // with a listener
	Links   []link  `json:"-"`
	Retry   bool    `json:"-"`
	Login   string  `json:"-"` // where a browser logs in
	Form    *wish   `json:"-"` // of the log-in page: the requested preview
	In      bool    `json:"-"` // a user is logged in
}

type link struct {
	Port int
	URL  string
}

var html = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:4rem auto;padding:0 1rem;color:#222;background:#fff}
code{background:#eee;padding:.1em .3em}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code{background:#333}a{color:#8bf}}</style></head>
<body><h1>{{.Title}}</h1><p>{{.Message}}</p>{{if .Links}}<p>Something listens on:</p><ul>{{range .Links}}<li><a href="{{.URL}}">port {{.Port}}</a></li>{{end}}</ul>{{end}}
{{with .Login}}<p><a href="{{.}}">Log in with an API key or token</a></p>{{end}}
{{if .Form}}<form method="post" action="/v1/login"><input type="hidden" name="to" value="{{.Form.Host}}"><input type="hidden" name="path" value="{{.Form.Path}}">
{{if not .In}}<p><label>API key or token<br><input type="password" name="key" size="52" autocomplete="off" required autofocus></label></p>{{end}}
{{if .Form.Host}}<p><button>Open {{.Form.Host}}</button></p>{{else if not .In}}<p><button>Log in</button></p>{{end}}</form>{{end}}
{{if .Hint}}<p><code>{{.Hint}}</code></p>{{end}}<p><small>This page is from Warren's preview gateway, not from the VM.</small></p></body></html>
`))

// answer sends the page as HTML if the client accepts that, else as JSON.
func (p page) answer(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Warren-Gateway", p.Code)
	if p.Retry {
		h.Set("Retry-After", "1")
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		w.WriteHeader(p.Status)
		_ = html.Execute(w, p) // the client may have left
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// refuse answers a request that leads to no site, and closes its connection,
// because later requests on it are not trusted either.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	e := vm.AsError(err)
	page{Status: status, Title: "This address is not served here", Code: "BAD_REQUEST", Message: e.Error(), Kind: e.Kind}.answer(w, r)
}

// closed answers a request that may not enter, or whose site does not exist.
// The answer does not tell which.
func (g *Gateway) closed(w http.ResponseWriter, r *http.Request, name string) {
	hint := "warren preview NAME PORT --open"
	if port, ref, ok := g.named(name); ok {
		hint = "warren preview " + ref + " " + strconv.Itoa(int(port)) + " --open"
	}
	page{
		Status: http.StatusUnauthorized, Title: "This preview is not open to you", Code: "UNAUTHORIZED_ERROR", Kind: vm.Unauthenticated,
		Message: "It is private, or there is no such VM. Log in, or open it by a link from the command below; a program sends an API key or token in the header " + keyHeader + ". Its owner can open it to others with --link, or to everybody with --public.",
		Hint:    hint,
		Login:   g.loginURL(name, r.URL),
	}.answer(w, r)
}

// fault answers if the VM or its server does not. The engine's error may contain paths
// of the host and names of other things, so only insiders see it; the log has it, too.
func (g *Gateway) fault(w http.ResponseWriter, r *http.Request, site vm.Site, insider bool, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
	g.Log.Debug("preview", "vm", site.VM, "port", site.Port, "err", err)
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer stop()
	st, statsErr := g.Engine.Stats(ctx, callOf(site), string(site.VM))
	switch {
	case statsErr != nil:
		p := page{
			Status: http.StatusServiceUnavailable, Title: "The VM does not answer", Code: "SERVICE_UNAVAILABLE", Kind: vm.Unavailable,
			Message: "The VM does not answer.", Retry: true,
		}
		if insider {
			e := vm.AsError(err)
			p.Message, p.Hint = e.Error(), e.Hint
		} else {
			g.Log.Warn("a preview does not answer; its visitor gets no details", "vm", site.VM, "port", site.Port, "err", err)
		}
		p.answer(w, r)
		return
	case listens(st, site.Port):
		p := page{
			Status: http.StatusBadGateway, Title: "The server in the VM closed the connection", Code: "SERVICE_UNAVAILABLE", Kind: vm.GuestFault,
			Message: "Something listens on port " + itoa(int(site.Port)) + ", but it does not speak HTTP, or it closed the connection without an answer.",
			Retry:   true,
		}
		if insider {
			p.Hint = "warren state " + string(site.VM)
		}
		p.answer(w, r)
		return
	}
	p := page{
		Status: http.StatusBadGateway, Title: "Nothing listens on port " + itoa(int(site.Port)), Code: "SERVICE_UNAVAILABLE", Kind: vm.Unavailable,
		Message: "The VM runs, and no program in it listens on this port.", Retry: true,
	}
	if !insider { // other programs of the VM, and its id, are shown to its owner only
		p.answer(w, r)
		return
	}
	p.Ports = []int{}
	for _, l := range st.Ports {
		if reachable(l) && !slices.Contains(p.Ports, l.Port) {
			p.Ports = append(p.Ports, l.Port)
			p.Links = append(p.Links, link{l.Port, g.URL(g.Host(string(site.VM), uint16(l.Port)))})
		}
	}
	p.answer(w, r)
}

// reachable reports whether the engine can reach a server: it tries the guest's
// network address, 127.0.0.1 and ::1, but no other loopback address.
func reachable(l vm.ListeningPort) bool {
	a, err := netip.ParseAddr(l.Address)
	a = a.Unmap()
	return err == nil && strings.HasPrefix(l.Proto, "tcp") && (!a.IsLoopback() || a == netip.IPv6Loopback() || a == netip.AddrFrom4([4]byte{127, 0, 0, 1}))
}

func listens(st vm.Stats, port uint16) bool {
	return slices.ContainsFunc(st.Ports, func(l vm.ListeningPort) bool { return reachable(l) && l.Port == int(port) })
}
