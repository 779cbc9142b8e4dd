// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import "github.com/warren-vm/warren/vm"

// shipRoutes are the named steps between VMs and object storage.
func (s *server) shipRoutes() []route {
	return []route{
		{"POST", "/v1/vms/{vm}/publish", granted, s.publish, "Store a file, or a directory as tar.zst, as a new version of an object, from a frozen state of the disk. An identity needs a permission for root, and a grant to write the key.", vm.PublishRequest{}, vm.Published{}, false, ""},
		{"POST", "/v1/vms/{vm}/fetch", granted, s.fetch, "Bring a version of an object into the VM, whole or not at all; the tree of an archive is unpacked. An identity needs a permission for root, and a grant to read the key.", vm.FetchRequest{}, vm.Fetched{}, false, ""},
	}
}

func (s *server) publish(q *request) error {
	var in vm.PublishRequest
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	out, err := s.Ship.Publish(ctx, q.call, q.ref(), in)
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) fetch(q *request) error {
	var in vm.FetchRequest
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	out, err := s.Ship.Fetch(ctx, q.call, q.ref(), in)
	if err != nil {
		return err
	}
	return q.ok(out)
}
