// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"math"
	"net/http"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/handoff"
	"github.com/warren-vm/warren/vm"
)

func (s *server) bundleRoutes() []route {
	return []route{
		{"POST", "/v1/vms/{vm}/bundle", key, s.bundle, "Pack a VM for another server: its repositories, the objects that it published, its record and receipts; with machine=true its disk and memory, with image=true the image below. Of the objects it takes at most maxBytes, the newest first. With an end mark.", nil, nil, true, "machine image maxBytes"},
		{"PUT", "/v1/bundles", key, s.openBundle, "Open an uploaded bundle: verify all of it, then make its repositories, a bucket with its objects and receipts, and its VM. trust names a signer's fingerprint.", nil, api.OpenedBundle{}, true, "name trust"},
		{"GET", "/v1/bundles/signer", key, s.signer, "The fingerprint of the key that signs this server's bundles and backups.", nil, api.Signer{}, false, ""},
	}
}

// bundle streams a bundle. The status is sent when the capture is done.
func (s *server) bundle(q *request) error {
	machine, err := q.bool("machine")
	if err != nil {
		return err
	}
	image, err := q.bool("image")
	if err != nil {
		return err
	}
	most, err := q.int("maxBytes", handoff.DefaultObjectBytes)
	if err != nil {
		return err
	}
	if most == 0 {
		most = math.MaxInt64
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	_, err = s.Handoff.Create(ctx, q.call, q.ref(), handoff.CreateOptions{Machine: machine, Image: image, MaxBytes: most}, onlyWriter{q.w}, q.beginArchive)
	if err != nil {
		return err
	}
	q.w.Header().Set(api.HeaderEnd, "ok")
	return nil
}

// beginArchive sends the status of an archive that follows.
func (q *request) beginArchive() error {
	q.w.Header().Set("Trailer", api.HeaderEnd)
	q.header("application/zstd")
	q.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(q.w).Flush()
}

func (s *server) openBundle(q *request) error {
	ctx, cancel := s.connected(q)
	defer cancel()
	o, err := s.Handoff.Open(ctx, q.call, q.Body, handoff.OpenOptions{Name: q.query().Get("name"), Trust: q.query()["trust"]})
	if vm.KindOf(err) == vm.Corrupt { // what the client sent, no data of the server's
		return vm.AsError(err).WithCode("BUNDLE_DAMAGED")
	}
	if err != nil {
		return err
	}
	out := api.OpenedBundle{Server: o.Server, Signer: o.Signer, Bucket: o.Bucket, Objects: o.Objects, Receipts: o.Receipts, Notes: o.Notes, Repositories: []api.OpenedRepository{}}
	if out.Notes == nil {
		out.Notes = []string{}
	}
	if o.VM != nil {
		out.VMID, out.Name, out.State = o.VM.ID, o.VM.Name, o.VM.State
		out.Memory = o.VM.State == vm.Suspended
	}
	for _, r := range o.Repositories {
		out.Repositories = append(out.Repositories, api.OpenedRepository{ID: r.ID, Name: r.Name})
	}
	return q.ok(out)
}

func (s *server) signer(q *request) error {
	fp, err := s.Handoff.Signer()
	if err != nil {
		return err
	}
	return q.ok(api.Signer{Fingerprint: fp})
}
