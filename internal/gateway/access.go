// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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
	// keyHeader carries an API key where Authorization is the guest's.
	keyHeader = "X-Warren-Key"
)

// entry says whether a request may go in, and how.
type entry struct {
	open     bool
	redirect string // the link without its signature
	cookie   *http.Cookie
}

// enter judges a request for a site. known is false for a name that shows
// nothing: a stranger gets the same answer as for a private VM.
func (g *Gateway) enter(r *http.Request, name string, site vm.Site, known bool) entry {
	key := takeKey(r)
	if !known {
		return entry{}
	}
	if token := linkOf(r.URL); token != "" {
		if expires, ok := g.checkToken(token, site); ok {
			return entry{redirect: cleanPath(r.URL), cookie: &http.Cookie{
				Name: cookieName, Value: token, Path: "/", Expires: expires, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
			}}
		}
	}
	switch {
	case site.Public:
		return entry{open: true}
	case key != "" && g.holds(r.Context(), key, site):
		return entry{open: true}
	}
	if c, err := r.Cookie(cookieName); err == nil {
		_, ok := g.checkToken(c.Value, site)
		return entry{open: ok && ownPage(r, g.URL(name), name)}
	}
	return entry{}
}

// holds reports whether a key is of the VM's account.
func (g *Gateway) holds(ctx context.Context, key string, site vm.Site) bool {
	actor, err := g.Engine.Authenticate(ctx, key)
	if err != nil {
		// Keys have 248 random bits; the wait is against a flood, not a guess.
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return false
	}
	return actor.Account == site.Account
}

// takeKey removes from a request what may be a key of ours, and returns it: a
// guest must never see one.
func takeKey(r *http.Request) string {
	key := r.Header.Get(keyHeader)
	r.Header.Del(keyHeader)
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	if strings.EqualFold(scheme, "Bearer") && looksLikeKey(secret) {
		r.Header.Del("Authorization")
		if key == "" {
			key = secret
		}
	}
	return key
}

// looksLikeKey knows the form of vm.NewSecret. Others' tokens are the guest's.
func looksLikeKey(s string) bool {
	return len(s) == 48 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// ownPage reports whether a request with a cookie comes of the preview's own
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
	return g.URL(host) + "/?" + linkParam + "=" + g.token(site, expires)
}

// token signs what a link opens.
func (g *Gateway) token(site vm.Site, expires time.Time) string {
	at := strconv.FormatInt(expires.Unix(), 36)
	return at + "." + g.sign(site, at)
}

func (g *Gateway) sign(site vm.Site, at string) string {
	m := hmac.New(sha256.New, g.LinkKey)
	fmt.Fprintf(m, "preview\n%s\n%s\n%d\n%d\n%s", site.Account, site.VM, site.Port, site.Epoch, at)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// checkToken returns when a token ends that opens a site now.
func (g *Gateway) checkToken(token string, site vm.Site) (time.Time, bool) {
	at, mac, ok := strings.Cut(token, ".")
	unix, err := strconv.ParseInt(at, 36, 64)
	if !ok || err != nil || !hmac.Equal([]byte(mac), []byte(g.sign(site, at))) {
		return time.Time{}, false
	}
	expires := time.Unix(unix, 0)
	return expires, time.Now().Before(expires)
}

func linkOf(u *url.URL) string {
	if !strings.Contains(u.RawQuery, linkParam+"=") {
		return ""
	}
	return u.Query().Get(linkParam)
}

// cleanPath is a path on the same host without the signature. It never begins
// with two slashes, which would name another host.
func cleanPath(u *url.URL) string {
	var kept []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if part != "" && !strings.HasPrefix(part, linkParam+"=") {
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
	var kept []string
	for _, line := range h["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			if part = strings.TrimSpace(part); part != "" && !strings.HasPrefix(strings.ToLower(part), strings.ToLower(cookiePrefix)) {
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
