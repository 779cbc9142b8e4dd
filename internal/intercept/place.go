// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// place is where a request has a placeholder that a value may replace.
type place struct {
	use         vm.SecretUse
	placeholder string
	value       int  // index of the header's value
	basic       bool // within the base64 of Basic authentication
}

// stray is a placeholder where it does not belong.
type stray struct {
	name, where string
}

// target is what a request is for.
type target struct {
	host    string
	port    int
	methods []string // its own, and those that a header puts in its place
	path    string
	moved   bool // a header may put another path in its place
}

// look finds the placeholders of a VM in a request's head. Each must be in the one header of
// its own secret, once, in a request that the secret is for.
func look(uses []vm.SecretUse, r *http.Request, t target) (places []place, bad *stray) {
	if len(uses) == 0 {
		return nil, nil
	}
	uri := []string{r.RequestURI, r.URL.Path, r.URL.RawQuery}
	if q, err := url.QueryUnescape(r.URL.RawQuery); err == nil {
		uri = append(uri, q)
	}
	for _, u := range uses {
		for _, holder := range u.Placeholders() {
			if slices.ContainsFunc(uri, func(s string) bool { return strings.Contains(s, holder) }) {
				return nil, &stray{u.Name, "the URL"}
			}
		}
	}
	seen := map[string]bool{}
	for name, values := range r.Header {
		for i, v := range values {
			found, bad := lookValue(uses, name, i, v, t)
			if bad != nil {
				return nil, bad
			}
			for _, p := range found {
				key := p.use.ID + p.use.Header
				if seen[key] {
					return nil, &stray{p.use.Name, "the header " + name + " twice"}
				}
				seen[key] = true
				places = append(places, p)
			}
		}
	}
	return places, nil
}

// lookValue finds placeholders in one value of a header.
func lookValue(uses []vm.SecretUse, name string, i int, v string, t target) (places []place, bad *stray) {
	plain, isBasic := basicOf(v)
	for _, u := range uses {
		for _, holder := range u.Placeholders() {
			n, inBasic := strings.Count(v, holder), false
			if isBasic && n == 0 {
				n = strings.Count(plain, holder)
				inBasic = n > 0
			}
			switch {
			case n == 0:
				continue
			case !fits(u, name, t) || n > 1:
				return nil, &stray{u.Name, "the header " + name}
			}
			places = append(places, place{u, holder, i, inBasic})
		}
	}
	return places, nil
}

// fits reports whether a secret is for a header of a request.
func fits(u vm.SecretUse, header string, t target) bool {
	return u.Host == t.host && u.Port == t.port && u.Header == header && (!t.moved || len(u.Paths) == 0) &&
		!slices.ContainsFunc(t.methods, func(m string) bool { return !u.Covers(m, t.path) })
}

// basicOf decodes the value of Basic authentication, as git and pip send it.
func basicOf(v string) (string, bool) {
	scheme, rest, ok := strings.Cut(v, " ")
	if !ok || !strings.EqualFold(scheme, "basic") {
		return "", false
	}
	rest = strings.TrimSpace(rest)
	data, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		data, err = base64.RawStdEncoding.DecodeString(rest)
	}
	return string(data), err == nil
}

// put replaces the placeholder in the header's value.
func (p place) put(h http.Header, value string) (whole string) {
	v := h[p.use.Header][p.value]
	if p.basic {
		plain, _ := basicOf(v)
		v = "Basic " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(plain, p.placeholder, value)))
	} else {
		v = strings.ReplaceAll(v, p.placeholder, value)
	}
	values := slices.Clone(h[p.use.Header])
	values[p.value] = v
	h[p.use.Header] = values
	return v
}

// allPlaceholders are the texts that no other part of a request may have.
func allPlaceholders(uses []vm.SecretUse) (list [][]byte) {
	for _, u := range uses {
		for _, holder := range u.Placeholders() {
			list = append(list, []byte(holder))
		}
	}
	return list
}

// nameOf returns the secret whose placeholder is in a text.
func nameOf(uses []vm.SecretUse, text string) string {
	for _, u := range uses {
		for _, holder := range u.Placeholders() {
			if strings.Contains(text, holder) {
				return u.Name
			}
		}
	}
	return ""
}

// namesOf lists the secrets of a VM, where only the presence of a placeholder is known.
func namesOf(uses []vm.SecretUse) string {
	var list []string
	for _, u := range uses {
		list = append(list, u.Name)
	}
	return strings.Join(list, ", ")
}
