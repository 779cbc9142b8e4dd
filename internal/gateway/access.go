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
	// linkParam carries the signature in a link; it is gone after the redirect.
	linkParam = "warren-link"
	// cookiePrefix begins the names of cookies that no guest may see or set.
	cookiePrefix = "__Host-warren-"
	cookieName   = cookiePrefix + "preview"
	// keyHeader carries an API key or token where Authorization is the guest's;
	// tokenHeader a token as the SDK sends it.
	keyHeader   = "X-Warren-Key"
	tokenHeader = "X-Freestyle-Identity-Access-Token"
)

// entry says whether a request may go in, and how.
type entry struct {
	open     bool
	actor    vm.Actor  // who it is; zero for who came by a link, or to a public port
	insider  bool      // an account's key or log-in is behind it: it may be told what is wrong inside
	until    time.Time // when what let it in ends; zero = not by itself
	redirect string    // the link without its signature
	cookie   *http.Cookie
}

// enter judges a request for a site. known is false for a name that shows
// nothing: a stranger gets the same answer as for a private VM.
func (g *Gateway) enter(r *http.Request, name string, site vm.Site, known bool) entry {
	actor, keyed := g.takeKey(r)
	if !known {
		return entry{}
	}
	if e, ok := g.arrive(r, site); ok {
		return e
	}
	by := g.entitled(r, name, site, actor, keyed)
	if site.Public { // whatever ends the caller's own right, this stays open
		return entry{open: true, insider: by.insider}
	}
	return by
}

// entitled judges a request by the key or the cookie that it brings.
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

// arrive turns what an address brings, a signed link or a ticket, into a cookie
// and the address without it.
func (g *Gateway) arrive(r *http.Request, site vm.Site) (entry, bool) {
	pass, until := paramOf(r.URL, linkParam), time.Time{}
	if pass != "" {
		who, end, ok := g.checkPass(pass, scopeOf(site))
		if !ok || who.Account != "" { // a cookie's value is no link
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

// known says who a secret of ours belongs to.
func (g *Gateway) known(ctx context.Context, secret string) (vm.Actor, bool) {
	actor, err := g.Engine.Authenticate(ctx, secret)
	return actor, err == nil
}

// takeKey removes from a request every secret of ours, since a guest must see
// none, and returns who the first that is given as a key belongs to.
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
		// Keys have 248 random bits; the wait is against a flood, not a guess.
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	return actor, ok
}

// strip removes headers, and single cookies, that hold a secret of ours.
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

// holdsSecret looks for a key or token of ours in a header's value, also in the
// coded pair of Basic.
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

// looksLikeKey knows the form of vm.NewSecret. Others' tokens are the guest's.
func looksLikeKey(s string) bool {
	return len(s) == secretSize && strings.Trim(s, secretRunes) == ""
}

// ownPage reports whether a request with a cookie comes from the preview's own
// pages, or of somebody who opened its address. All previews are one site to a
// browser, so SameSite alone would let one VM's pages act on another's.
func ownPage(r *http.Request, origin, name string) bool {
	if o := r.Header.Get("Origin"); o != "" && o != "null" {
		// The port that the browser saw is not always ours (port forwarding).
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

// Link returns an address that opens a port of a VM until a time.
func (g *Gateway) Link(site vm.Site, host string, expires time.Time) string {
	return g.URL(host) + "/?" + linkParam + "=" + g.pass(scopeOf(site), vm.Actor{}, expires)
}

// paramOf returns a parameter of ours.
func paramOf(u *url.URL, name string) string {
	if !strings.Contains(u.RawQuery, name+"=") {
		return ""
	}
	return u.Query().Get(name)
}

// cleanPath is a path on the same host without the signature. It never begins
// with two slashes, which would name another host.
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

// guestCookies keeps what a guest sets to its own host name: other previews,
// and the gateway's cookies, are not its to set.
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
