// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// gitRoutes are git's smart HTTP protocol. A repository's address is /ID or /ID.git; with
// credentials, also /NAME.
func (s *server) gitRoutes() []route {
	return []route{
		{"GET", "/{repo}/info/refs", forGit, s.serveGit("info/refs"), "The refs of a repository, for git.", nil, nil, true, "service"},
		{"POST", "/{repo}/git-upload-pack", forGit, s.serveGit("git-upload-pack"), "What git fetches.", nil, nil, true, ""},
		{"POST", "/{repo}/git-receive-pack", forGit, s.serveGit("git-receive-pack"), "What git pushes.", nil, nil, true, ""},
	}
}

// isProxied reports whether a request came as to a forward proxy, with a whole URL in its
// first line. No web page can make a browser do that, so its host is not checked.
func isProxied(r *http.Request) bool { return r.URL.IsAbs() }

// gitSecret is the password of Basic authentication, or a bearer token. Git sends the
// user x-access-token; the user's name is not checked.
func gitSecret(r *http.Request) string {
	if _, secret, ok := r.BasicAuth(); ok {
		return secret
	}
	secret, _ := (&request{Request: r}).secret()
	return secret
}

// serveGit authenticates git's client and lets the room answer. A caller without
// credentials may read a public repository; otherwise git is asked for credentials, for
// an unknown repository as for a private one.
func (s *server) serveGit(path string) func(*request) error {
	return func(q *request) error {
		ref := strings.TrimSuffix(q.repoRef(), ".git")
		if secret := gitSecret(q.Request); secret != "" {
			q.Header.Set("Authorization", "Bearer "+secret)
			q.Header.Del(api.HeaderIdentityToken)
			var err error
			if q.call.Actor, err = s.authenticate(q); err != nil {
				return s.failGit(q, err)
			}
		} else if !s.readsPublic(q, ref, path) {
			return s.failGit(q, vm.Errorf(vm.Unauthenticated, ref, "credentials are needed").
				WithHint("use the name x-access-token, and a token or API key as the password"))
		}
		q.Header.Del("Authorization") // the secret goes no further
		if err := s.Pace.Take(q.call.Actor); err != nil {
			return s.failGit(q, err)
		}
		ctx, end := s.streaming(q)
		defer end()
		q.sent = true // the room answers
		if err := s.Repo.ServeGit(q.w, q.WithContext(ctx), q.call, ref, path); err != nil {
			s.Log.Debug("git was refused", "repository", ref, "path", path, "request", q.call.Request, "err", err)
		}
		return nil
	}
}

// readsPublic reports whether a request without credentials only reads a public
// repository.
func (s *server) readsPublic(q *request, ref, path string) bool {
	if path == "git-receive-pack" || q.query().Get("service") == "git-receive-pack" {
		return false
	}
	r, err := s.Repo.Repository(q.Context(), ref)
	return err == nil && r.Public
}

// failGit answers with plain text, which git shows to its user.
func (s *server) failGit(q *request, err error) error {
	e := vm.AsError(s.Journal.Conceal(err))
	h := q.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if errors.Is(e, vm.Unauthenticated) {
		h.Set("WWW-Authenticate", `Basic realm="Warren"`)
	}
	q.sent = true
	q.w.WriteHeader(api.Status(e))
	_, _ = fmt.Fprintln(q.w, e.Error())
	if e.Hint != "" {
		_, _ = fmt.Fprintln(q.w, e.Hint)
	}
	return nil
}
