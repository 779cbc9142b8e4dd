// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// People log in at a preview domain itself, which shows no guest: a guest's pages, and service
// workers that they leave in a browser, never see a key. A ticket then leads to the preview.

const (
	loginPath   = "/v1/login"
	loginCookie = cookiePrefix + "login"
	loginScope  = "login"
	maxForm     = 16 << 10
)

// wish is the preview that a user wants to see.
type wish struct{ Host, Path string }

// loginURL returns the address at which a browser logs in for a preview.
func (g *Gateway) loginURL(name string, u *url.URL) string {
	_, domain, ok := g.below(name)
	if !ok {
		domain = g.Domains[0]
	}
	return g.URL(domain) + "/?" + url.Values{"to": {name}, "path": {cleanPath(u)}}.Encode()
}

// login answers requests to a preview domain itself.
func (g *Gateway) login(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		_, _, in := g.loggedIn(r)
		q := r.URL.Query()
		g.form(w, r, http.StatusOK, wish{q.Get("to"), q.Get("path")}, in, "")
	case r.URL.Path == loginPath && r.Method == http.MethodPost:
		g.postLogin(w, r)
	default:
		g.refuse(w, r, http.StatusNotFound, vm.Errorf(vm.NotFound, r.URL.Path, "no such page"))
	}
}

// loggedIn returns the actor that a browser logged in as.
func (g *Gateway) loggedIn(r *http.Request) (vm.Actor, time.Time, bool) {
	c, err := r.Cookie(loginCookie)
	if err != nil {
		return vm.Actor{}, time.Time{}, false
	}
	return g.checkPass(c.Value, loginScope)
}

// postLogin accepts a key or an earlier log-in, and redirects to the preview.
// Only the form of this origin may send the request: for a browser the
// guests' pages are the same site, so SameSite does not stop them.
func (g *Gateway) postLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		g.refuse(w, r, http.StatusBadRequest, vm.Errorf(vm.Invalid, "form", "%w", err))
		return
	}
	if o, err := url.Parse(r.Header.Get("Origin")); err != nil || o.Scheme != "https" || !strings.EqualFold(o.Host, r.Host) {
		g.refuse(w, r, http.StatusForbidden, vm.Errorf(vm.Denied, r.Header.Get("Origin"), "only the log-in page itself may log in"))
		return
	}
	to := wish{r.PostForm.Get("to"), r.PostForm.Get("path")}
	who, _, in := g.loggedIn(r)
	if key := strings.TrimSpace(r.PostForm.Get("key")); key != "" {
		r.Header.Set(keyHeader, key)
		if who, in = g.takeKey(r); in {
			http.SetCookie(w, &http.Cookie{
				Name: loginCookie, Value: g.pass(loginScope, who, time.Now().Add(loginLasts)), Path: "/",
				Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
			})
		}
	}
	if !in {
		g.form(w, r, http.StatusUnauthorized, to, false, "This is no API key or token of this server.")
		return
	}
	if to.Host == "" {
		g.form(w, r, http.StatusOK, to, true, "")
		return
	}
	site, ok := g.find(to.Host)
	if !ok || site.Domain != "" || !g.Engine.MayPreview(who, site) {
		g.form(w, r, http.StatusUnauthorized, to, false, "There is no such VM, or the key or token does not open it.")
		return
	}
	t, _ := g.tickets.give(who, site)
	path, err := url.Parse(to.Path)
	if err != nil {
		path = &url.URL{}
	}
	there, sep := cleanPath(path), "?"
	if strings.Contains(there, "?") {
		sep = "&"
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", g.URL(to.Host)+there+sep+ticketParam+"="+t) // to.Host was found, so it is a name of this gateway
	w.WriteHeader(http.StatusSeeOther)
}

// form shows the log-in page.
func (g *Gateway) form(w http.ResponseWriter, r *http.Request, status int, to wish, in bool, why string) {
	p := page{Status: status, Title: "Log in to see previews", Code: "UNAUTHORIZED_ERROR", Kind: vm.Unauthenticated, Message: why, Form: &to, In: in}
	if status == http.StatusOK {
		p.Code, p.Kind = "OK", ""
	}
	if in {
		p.Title, p.Message = "You are logged in", "Previews of your account open from here."
	}
	p.answer(w, r)
}
