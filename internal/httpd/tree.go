// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io"
	"net/http"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// maxTreePick is the largest body of a request for many files.
const maxTreePick = 4 << 20

// listTree streams the entries of a tree with digests.
func (s *server) listTree(q *request) error {
	p, err := q.where()
	if err != nil {
		return err
	}
	from, err := q.int("from", 0)
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	o := vm.TreeOptions{HashFrom: from, Exclude: q.query()["exclude"], Pair: q.query().Get("pair")}
	r, err := s.Inside.ListTree(ctx, q.call, q.ref(), q.user(), p, o)
	if err != nil {
		return err
	}
	return s.passOn(q, p, "application/x-ndjson", r)
}

// pickFiles streams the contents of many files.
func (s *server) pickFiles(q *request) error {
	p, err := q.where()
	if err != nil {
		return err
	}
	var in vm.TreePick
	if err := q.decode(&in, maxTreePick); err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	r, err := s.Inside.PickFiles(ctx, q.call, q.ref(), q.user(), p, in)
	if err != nil {
		return err
	}
	return s.passOn(q, p, "application/octet-stream", r)
}

// passOn streams what a guest sends, with a mark at its end.
func (s *server) passOn(q *request, path, kind string, r io.ReadCloser) error {
	defer r.Close()
	q.w.Header().Set("Trailer", api.HeaderEnd)
	q.header(kind)
	q.w.WriteHeader(http.StatusOK)
	if _, err := io.CopyBuffer(onlyWriter{q.w}, onlyReader{r}, make([]byte, copyBytes)); err != nil {
		return vm.Errorf(vm.GuestFault, path, "the answer is incomplete: %w", err)
	}
	q.w.Header().Set(api.HeaderEnd, "ok")
	return nil
}

// placeFiles makes many changes of a tree.
func (s *server) placeFiles(q *request) error {
	p, err := q.where()
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	v := q.query()
	out, err := s.Inside.PlaceFiles(ctx, q.call, q.ref(), q.user(), p, v.Get("pair"), v.Get("mark"), q.Body)
	if err != nil {
		return err
	}
	return q.ok(out)
}
