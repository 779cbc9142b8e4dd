// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/warren-vm/warren/vm"
)

// Body names the bytes of a version, or of a part of one. Open reads them.
type Body struct {
	Account vm.AccountID
	ID      string
	Size    int64
	o       *Objects
}

// Open opens the bytes; the caller closes them.
func (b Body) Open(ctx context.Context) (io.ReadCloser, error) {
	return b.o.bodies.open(ctx, b.Account, b.ID, 0, b.Size)
}

// Snapshot writes a copy of the index as it is at one moment, and then calls body for all
// bytes that the copy names and does not contain, once for each. Objects are written and
// removed meanwhile; the files of removed ones stay until Snapshot returns. The records of
// buckets are in the ledger, and are copied first: a bucket of the index without a record
// has no effect.
func (o *Objects) Snapshot(ctx context.Context, index io.Writer, body func(Body) error) error {
	if o.index == nil {
		return closed()
	}
	o.sweeping.RLock()
	defer o.collect()
	defer o.sweeping.RUnlock()
	var list []Body
	err := o.index.view(func(t *tx) (err error) {
		if _, err := t.WriteTo(index); err != nil {
			return diskError("", err)
		}
		list, err = o.bodiesOf(t)
		return err
	})
	for _, b := range list {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = body(b)
		}
	}
	return err
}

// bodiesOf lists the bodies outside the index that versions and parts have.
func (o *Objects) bodiesOf(t *tx) (list []Body, err error) {
	owners := map[string]vm.AccountID{}
	for _, b := range o.buckets.All() {
		owners[b.ID] = b.Account
	}
	account := func(k []byte) (vm.AccountID, bool) {
		a, ok := owners[string(k[:min(len(k), bucketIDSize)])]
		return a, ok
	}
	seen := map[string]bool{} // of bodies that several versions have
	add := func(account vm.AccountID, s segment) {
		if !s.Inline && s.Body != "" {
			list = append(list, Body{account, s.Body, s.Size, o})
		}
	}
	err = t.Bucket(inVersions).ForEach(func(k, v []byte) error {
		owner, known := account(k)
		var s stored
		if err := json.Unmarshal(v, &s); err != nil || !known || s.Body == "" || seen[s.Body] {
			return err
		}
		if t.get(inRefs, []byte(s.Body)) != nil {
			seen[s.Body] = true
		}
		if s.Parts == 0 {
			add(owner, segment{Body: s.Body, Inline: s.Inline, Size: s.Size})
			return nil
		}
		var parts []segment
		_, err := t.getJSON(inSegments, []byte(s.Body), &parts)
		for _, one := range parts {
			add(owner, one)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = t.Bucket(inUploads).ForEach(func(k, _ []byte) error {
		owner, known := account(k)
		if !known {
			return nil
		}
		return t.parts(string(k[bytes.LastIndexByte(k, 0)+1:]), func(p part) error {
			add(owner, p.segment)
			return nil
		})
	})
	return list, err
}
