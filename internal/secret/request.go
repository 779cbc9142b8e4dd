// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

// Request asks to keep a secret.
type Request struct {
	Name, Host, Header string
	Port               int // 0 = 443
	Methods, Paths     []string
	Env                string // "" = the name in upper case
	Value              string // for OAuth the refresh token
	OAuth              *vm.OAuth
	ClientSecret       string // of the OAuth client; "" = a public client
	RotateURL          string // of the rotator; "" = none, or the one that it has
}

var (
	namePattern   = vm.NewPattern(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	envPattern    = vm.NewPattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	methodPattern = vm.NewPattern(`^[A-Z]{1,20}$`)
)

// notHeaders are headers that HTTP itself reads, so that no server takes a token from them.
var notHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive", "Expect", "Content-Encoding", "Range"}

// notEnv are variables that programs read for another purpose.
var notEnv = []string{"PATH", "HOME", "USER", "SHELL", "IFS", "BASH_ENV", "ENV"}

const maxPatterns = 32

func invalid(subject, format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, vm.Clip(subject, 80), format, args...).WithCode("INVALID_REQUEST")
}

// checkValue checks what every request has. Its errors never contain the value.
func (in Request) checkValue() error {
	for _, v := range []string{in.Value, in.ClientSecret} {
		switch {
		case len(v) > maxValue:
			return invalid(in.Name, "the value is longer than %d bytes", maxValue)
		case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }):
			return invalid(in.Name, "the value has a character that a header cannot have, such as a line end").
				WithHint("give one line of ASCII")
		}
	}
	if !namePattern.MatchString(in.Name) {
		return invalid(in.Name, "is not a name of a secret: a letter, then at most 63 letters, digits, - and _")
	}
	if len(in.Value) < 8 {
		return invalid(in.Name, "the value has fewer than 8 characters, so that it cannot be kept apart from ordinary text").
			WithHint("give it in a file (--file) or on standard input")
	}
	if in.RotateURL != "" {
		if in.OAuth != nil {
			return invalid(in.Name, "a secret has a rotator or OAuth, not both")
		}
		if err := checkHTTPS("the rotator's URL", in.RotateURL); err != nil {
			return err
		}
	}
	if in.OAuth != nil && in.OAuth.RevokeURL != "" {
		return checkHTTPS("the URL of revocations", in.OAuth.RevokeURL)
	}
	return nil
}

// checkHTTPS checks the URL of a service that gets a value.
func checkHTTPS(what, raw string) error {
	u, err := outside.CheckURL(raw)
	if err != nil {
		return err
	}
	if u.Scheme != "https" || u.User != nil {
		return invalid(u.Redacted(), "%s must begin with https:// and hold no user", what)
	}
	return nil
}

// record checks where a new secret goes.
func (in Request) record() (rec vm.Secret, err error) {
	rec = vm.Secret{Name: in.Name, Port: in.Port, Header: http.CanonicalHeaderKey(in.Header), Env: in.Env, OAuth: in.OAuth, RotateURL: in.RotateURL}
	if in.Host == "" {
		return rec, invalid(in.Name, "a secret needs the one host that gets it").
			WithHint("warren secret set %s --host api.example.com --header Authorization", in.Name)
	}
	if rec.Host, err = vm.HostName(in.Host); err != nil || strings.Contains(in.Host, "*") || !strings.Contains(rec.Host, ".") {
		return rec, invalid(in.Host, "is not one host name").WithHint("name one server, such as api.example.com; make a secret for each")
	}
	if rec.Host == vm.InsideDomain || strings.HasSuffix(rec.Host, "."+vm.InsideDomain) {
		return rec, invalid(rec.Host, "is answered by Warren itself, which needs no secret of a VM")
	}
	if rec.Port == 0 {
		rec.Port = 443
	}
	if rec.Port < 1 || rec.Port > 65535 {
		return rec, invalid(in.Name, "%d is not a port", rec.Port)
	}
	if in.Header == "" {
		return rec, invalid(in.Name, "a secret needs the one header that it belongs into").WithHint("--header Authorization")
	}
	if !httpguts.ValidHeaderFieldName(in.Header) || slices.Contains(notHeaders, rec.Header) {
		return rec, invalid(in.Header, "is not a header for a secret").WithHint("such as Authorization or X-Api-Key")
	}
	if rec.Env == "" {
		rec.Env = strings.ToUpper(strings.ReplaceAll(in.Name, "-", "_"))
	}
	if !envPattern.MatchString(rec.Env) || slices.Contains(notEnv, rec.Env) || strings.HasPrefix(rec.Env, "LD_") {
		return rec, invalid(rec.Env, "is not an environment variable for a secret").WithHint("such as API_TOKEN")
	}
	if rec.Methods, rec.Paths, err = patterns(in.Methods, in.Paths); err != nil {
		return rec, err
	}
	if in.OAuth != nil {
		if err := checkHTTPS("the token's URL", in.OAuth.TokenURL); err != nil {
			return rec, err
		}
		if in.OAuth.ClientID == "" {
			return rec, invalid(in.Name, "the client id of OAuth is missing").WithHint("--oauth-client-id ID")
		}
	} else if in.ClientSecret != "" {
		return rec, invalid(in.Name, "a client secret without OAuth").WithHint("--oauth-token-url URL --oauth-client-id ID")
	}
	return rec, nil
}

func patterns(methods, paths []string) (m, p []string, err error) {
	if len(methods) > maxPatterns || len(paths) > maxPatterns {
		return nil, nil, invalid("", "more than %d methods or paths", maxPatterns)
	}
	for _, one := range methods {
		one = strings.ToUpper(one)
		if !methodPattern.MatchString(one) || one == http.MethodConnect {
			return nil, nil, invalid(one, "is not an HTTP method").WithHint("such as GET or POST")
		}
		m = append(m, one)
	}
	for _, one := range paths {
		if !strings.HasPrefix(one, "/") || len(one) > 512 || strings.ContainsAny(one, "?#% ;\\") || strings.Contains(strings.TrimSuffix(one, "**"), "**") {
			return nil, nil, invalid(one, "is not a pattern of paths").WithHint("such as /v1/messages, /repos/*/issues or /v1/**, without percent-encoding")
		}
		p = append(p, one)
	}
	return m, p, nil
}

// differs reports whether a part of a request that is given is not the present one.
func differs(given, present string) bool { return given != "" && given != present }

// keeps refuses a request that would move an existing secret to another place: programs and
// people rely on where it goes.
func (in Request) keeps(old vm.Secret) error {
	other := func(what, is string) error {
		return vm.Errorf(vm.Exists, old.Name, "the secret exists for another %s: %s", what, is).WithCode("SECRET_EXISTS", "secret", old.Name).
			WithHint("to replace its value, leave the other flags out; to move it: `warren secret rm %s`, then set it again", old.Name)
	}
	host, _ := vm.HostName(in.Host)
	methods, paths, err := patterns(in.Methods, in.Paths)
	switch {
	case err != nil:
		return err
	case in.Host != "" && host != old.Host:
		return other("host", old.Host)
	case in.Port != 0 && in.Port != old.Port:
		return other("port", "it is not that one")
	case in.Header != "" && http.CanonicalHeaderKey(in.Header) != old.Header:
		return other("header", old.Header)
	case len(methods) > 0 && !slices.Equal(methods, old.Methods):
		return other("method", strings.Join(old.Methods, ", "))
	case len(paths) > 0 && !slices.Equal(paths, old.Paths):
		return other("path", strings.Join(old.Paths, ", "))
	case in.Env != "" && in.Env != old.Env:
		return other("environment variable", old.Env)
	case in.OAuth != nil && (old.OAuth == nil || differs(in.OAuth.TokenURL, old.OAuth.TokenURL) || differs(in.OAuth.ClientID, old.OAuth.ClientID)):
		return other("kind", "its OAuth client differs")
	case in.RotateURL != "" && old.OAuth != nil:
		return other("kind", "it has OAuth, and needs no rotator")
	}
	return nil
}
