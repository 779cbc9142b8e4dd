// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	// linkParam carries the signature of a link. The redirect removes it.
	linkParam = "warren-link"
	// cookiePrefix begins the names of the gateway's cookies, which no guest may see or set.
	cookiePrefix = "__Host-warren-"
	cookieName   = cookiePrefix + "preview"
	// keyHeader carries an API key or token when Authorization belongs to the
	// guest; tokenHeader carries a token as the SDK sends it.
	keyHeader   = "X-Warren-Key"
	tokenHeader = "X-Freestyle-Identity-Access-Token"
)

// entry says whether a request may go in, and how.
type entry struct {
	open     bool
	actor    vm.Actor  // the caller; zero for a link or a public port
	insider  bool      // authenticated by a key or log-in of the account: may see errors from inside the VM
	until    time.Time // when the permission ends; zero = no fixed time
	watch    bool      // may only watch the screen
	redirect string    // the link without its signature
	cookie   *http.Cookie
}

// enter decides about a request for a site. known is false for a name that
// leads to no site: a stranger gets the same answer as for a private VM.
func (g *Gateway) enter(r *http.Request, name string, site vm.Site, known bool) entry {
	actor, keyed := g.takeKey(r)
	if !known {
		return entry{}
	}
	if e, ok := g.arrive(r, site); ok {
		return e
	}
	by := g.entitled(r, name, site, actor, keyed)
	if site.Public { // it stays open even if the caller's own right ends
		return entry{open: true, insider: by.insider}
	}
	if !by.open && ofScreen(r, site) {
		return g.enterToWatch(r, name, site)
	}
	return by
}

// entitled decides about a request by its key or cookie.
func (g *Gateway) entitled(r *http.Request, name string, site vm.Site, actor vm.Actor, keyed bool) entry {
	if keyed && g.Engine.MayPreview(actor, site) {
		return entry{open: true, actor: actor, insider: true}
	}
	if c, err := r.Cookie(cookieName); err == nil && ownPage(r, g.URL(name), name) {
		who, until, ok := g.checkPass(c.Value, scopeOf(site))
		ok = ok && (who.Account == "" || g.Engine.MayPreview(who, site))
		return entry{open: ok, actor: who, insider: ok && who.Account != "", until: until}
	}
	return entry{}
}

// arrive exchanges a signed link or a ticket in the address for a cookie, and
// redirects to the address without it.
func (g *Gateway) arrive(r *http.Request, site vm.Site) (entry, bool) {
	pass, until := paramOf(r.URL, linkParam), time.Time{}
	if pass != "" {
		who, end, ok := g.checkPass(pass, scopeOf(site))
		if !ok || who.Account != "" { // the value of a cookie is not a link
			return entry{}, false
		}
		until = end
	} else if t := paramOf(r.URL, ticketParam); t != "" && r.Method == http.MethodGet {
		who, ok := g.tickets.take(t, site)
		if !ok {
			return entry{}, false
		}
		pass = g.pass(scopeOf(site), who, time.Now().Add(loginLasts))
	}
	if pass == "" {
		return entry{}, false
	}
	return entry{redirect: cleanPath(r.URL), cookie: &http.Cookie{
		Name: cookieName, Value: pass, Path: "/", Expires: until, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}}, true
}

// known returns the owner of a Warren secret.
func (g *Gateway) known(ctx context.Context, secret string) (vm.Actor, bool) {
	actor, err := g.Engine.Authenticate(ctx, secret)
	return actor, err == nil
}

// takeKey removes every Warren secret from a request, because a guest must
// see none. It returns the owner of the first valid key.
func (g *Gateway) takeKey(r *http.Request) (actor vm.Actor, ok bool) {
	key := cmp.Or(r.Header.Get(keyHeader), r.Header.Get(tokenHeader))
	r.Header.Del(keyHeader)
	r.Header.Del(tokenHeader)
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	if strings.EqualFold(scheme, "Bearer") && looksLikeKey(secret) {
		r.Header.Del("Authorization")
		key = cmp.Or(key, secret)
	}
	g.strip(r)
	if key == "" {
		return vm.Actor{}, false
	}
	if actor, ok = g.known(r.Context(), key); !ok {
		// Keys have 248 random bits; the delay limits a flood of requests, not guesses.
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	return actor, ok
}

// strip removes headers and cookies that hold a Warren secret.
func (g *Gateway) strip(r *http.Request) {
	ours := func(value string) bool { return g.holdsSecret(r.Context(), value) }
	for name, values := range r.Header {
		switch {
		case !slices.ContainsFunc(values, ours):
		case name == "Cookie":
			keepCookies(r.Header, func(c string) bool { return !ours(c) })
		default:
			delete(r.Header, name)
		}
	}
}

// holdsSecret reports whether a header's value has a Warren key or token, also
// in the encoded pair of Basic.
func (g *Gateway) holdsSecret(ctx context.Context, value string) bool {
	if scheme, coded, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Basic") {
		if pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(coded)); err == nil {
			value = string(pair)
		}
	}
	if len(value) < secretSize {
		return false
	}
	for word := range strings.FieldsFuncSeq(value, func(c rune) bool { return !strings.ContainsRune(secretRunes, c) }) {
		if looksLikeKey(word) {
			if _, ok := g.known(ctx, word); ok {
				return true
			}
		}
	}
	return false
}

const (
	secretSize  = 48
	secretRunes = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// looksLikeKey reports whether s has the form of vm.NewSecret. Other tokens belong to the guest.
func looksLikeKey(s string) bool {
	return len(s) == secretSize && strings.Trim(s, secretRunes) == ""
}

// ownPage reports whether a request with a cookie comes from the preview's own
// pages, or from a user who opened its address. For a browser all previews are the
// same site, so with SameSite alone the pages of one VM could act on another's.
func ownPage(r *http.Request, origin, name string) bool {
	if o := r.Header.Get("Origin"); o != "" && o != "null" {
		// With port forwarding the browser sees another port.
		u, err := url.Parse(o)
		return err == nil && u.Scheme == "https" && (o == origin || strings.EqualFold(u.Host, r.Host) || u.Host == name)
	} else if o == "null" {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		(r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// Link returns an address that opens a port of a VM until it expires.
func (g *Gateway) Link(site vm.Site, host string, expires time.Time) string {
	return g.URL(host) + "/?" + linkParam + "=" + g.pass(scopeOf(site), vm.Actor{}, expires)
}

// paramOf returns a parameter of the gateway.
func paramOf(u *url.URL, name string) string {
	if !strings.Contains(u.RawQuery, name+"=") {
		return ""
	}
	return u.Query().Get(name)
}

// cleanPath returns the path without the signature. It never begins with two
// slashes, which would name another host.
func cleanPath(u *url.URL) string {
	var kept []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if part != "" && !strings.HasPrefix(part, linkParam+"=") && !strings.HasPrefix(part, ticketParam+"=") {
			kept = append(kept, part)
		}
	}
	path := "/" + strings.TrimLeft(u.EscapedPath(), "/\\")
	if len(kept) > 0 {
		path += "?" + strings.Join(kept, "&")
	}
	return path
}

// withoutOurs removes the gateway's cookies from a Cookie header.
func withoutOurs(h http.Header) {
	keepCookies(h, func(c string) bool { return !strings.HasPrefix(strings.ToLower(c), strings.ToLower(cookiePrefix)) })
}

func keepCookies(h http.Header, keep func(string) bool) {
	var kept []string
	for _, line := range h["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			if part = strings.TrimSpace(part); part != "" && keep(part) {
				kept = append(kept, part)
			}
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}

// guestCookies keeps only cookies that a guest sets for its own host name: it
// must not set those of other previews or of the gateway.
func guestCookies(h http.Header) {
	set := h["Set-Cookie"]
	h.Del("Set-Cookie")
	for _, line := range set {
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), strings.ToLower(cookiePrefix)) {
			continue
		}
		parts := strings.Split(line, ";")
		kept := parts[:1]
		for _, p := range parts[1:] {
			if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(p)), "domain") {
				kept = append(kept, p)
			}
		}
		h.Add("Set-Cookie", strings.Join(kept, ";"))
	}
}
