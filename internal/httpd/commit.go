// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"fmt"
	"io"
	"net/http"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) commitRoutes() []route {
	return []route{
		{"POST", "/v1/vms/{vm}/commit", granted, s.commit, "Commit a directory of the VM to a repository, from a frozen state and without the guest's git; with dryRun only say what would be committed. An identity needs a permission for root, and one to write to the branch.", vm.CommitRequest{}, vm.CommitPlan{}, false, ""},
		{"POST", "/v1/vms/{vm}/content", key, s.content, "Paths of a state of the VM's disk as tar, with an end mark.", api.ContentOf{}, nil, true, ""},
	}
}

func (s *server) commit(q *request) error {
	var in vm.CommitRequest
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	p, err := s.Changes.Commit(q.Context(), q.call, q.ref(), in)
	if err != nil {
		return err
	}
	return q.ok(p)
}

// maxPaths bounds the body of a question for content.
const maxPaths = 8 << 20

func (s *server) content(q *request) error {
	var in api.ContentOf
	if err := q.decode(&in, maxPaths); err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	w := &firstWrite{w: q.w, before: func() {
		q.w.Header().Set("Trailer", api.HeaderEnd)
		q.header("application/x-tar")
		q.w.WriteHeader(http.StatusOK)
	}}
	if err := s.Changes.Content(ctx, q.call, q.ref(), in.State, in.Paths, w); err != nil {
		return err
	}
	q.w.Header().Set(api.HeaderEnd, "ok")
	return nil
}

// later writes the answer, and sends its header with the first bytes, so that an error
// before them has its own answer. file is the name under which a browser saves it; "" =
// none.
func (q *request) later(kind, file string) io.Writer {
	return &firstWrite{w: q.w, before: func() {
		if file != "" {
			q.w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", file))
		}
		q.header(kind)
	}}
}

// firstWrite calls before once, when the answer begins: until then an error can still
// be sent.
type firstWrite struct {
	w      io.Writer
	before func()
	begun  bool
}

func (f *firstWrite) Write(p []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.before()
	}
	return f.w.Write(p)
}
