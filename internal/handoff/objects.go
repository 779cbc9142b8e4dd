// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"cmp"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// DefaultObjectBytes is how many bytes of published objects a bundle has at most, unless
// its maker says otherwise.
const DefaultObjectBytes = 10 << 30

// maxObjects is how many versions of objects a bundle has at most.
const maxObjects = 1000

// objectEntry is one version of an object. Its bytes are in the entry objects/N, where N
// is its place in the list, counted from 1.
type objectEntry struct {
	Object vm.Object `json:"object"`
}

// objectPath is the entry with the bytes of the n-th version, counted from 0.
func objectPath(n int) string { return objectsDir + strconv.Itoa(n+1) }

// objectKey is the key that a version gets where the bundle is opened.
func objectKey(o vm.Object) string { return o.Bucket + "/" + o.Key }

// objects finds the versions that were published from the VM, the newest first, as many
// as the limits allow. What it finds stays readable until the packing is closed.
func (k *packing) objects(ctx context.Context) error {
	list, err := k.h.cfg.Published(ctx, k.c, k.p.VM.ID)
	if err != nil {
		return err
	}
	left := k.o.MaxBytes
	for _, at := range list {
		content, err := k.h.cfg.Objects.Get(ctx, k.c, objects.Which{Bucket: at.Bucket, Key: at.Key, Version: at.Version})
		switch kind := vm.KindOf(err); {
		case kind == vm.NotFound || kind == vm.Denied: // it was removed, or refused by a scan
			continue
		case err != nil:
			return err
		case len(k.contents) == maxObjects || content.Size > left || content.SHA256 == "" || objects.CheckKey(objectKey(content.Object)) != nil:
			k.facts.ObjectsLeft++
			continue
		}
		body, err := content.Range(ctx, 0, -1)
		if err != nil {
			return err
		}
		left -= content.Size
		k.contents = append(k.contents, published{content.Object, body})
	}
	// The oldest first: another server makes the versions of a key in this order.
	slices.SortStableFunc(k.contents, func(a, b published) int { return a.At.Compare(b.At) })
	k.facts.Objects = []PackedObject{}
	for i, p := range k.contents {
		k.is.Objects = append(k.is.Objects, objectEntry{p.Object})
		k.facts.Objects = append(k.facts.Objects, PackedObject{Entry: objectPath(i), Bucket: p.Bucket, Key: p.Key, Version: p.Version, Size: p.Size})
	}
	return nil
}

// published is a version with its bytes.
type published struct {
	vm.Object
	body io.ReadCloser
}

// writeObjects writes the bytes of the versions. Bytes that are not those of the version's
// digest give kind Corrupt.
func (k *packing) writeObjects(ctx context.Context) error {
	for i, p := range k.contents {
		e := bundle.Entry{Path: objectPath(i), Kind: "object", Mode: 0o600, Size: p.Size, SHA256: p.SHA256}
		if err := k.w.Add(e, reader{ctx, p.body}); err != nil {
			return err
		}
	}
	return nil
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkObjects validates the list of objects, which may be hostile.
func (u *unpacking) checkObjects() error {
	if len(u.is.Objects) > maxObjects {
		return vm.Errorf(vm.Limit, vmPath, "it has %d objects, at most %d", len(u.is.Objects), maxObjects)
	}
	for i, e := range u.is.Objects {
		if err := objects.CheckBucket(e.Object.Bucket); err != nil {
			return err
		}
		if err := objects.CheckKey(objectKey(e.Object)); err != nil {
			return err
		}
		st, err := os.Stat(u.path(objectPath(i)))
		if err != nil || st.Size() != e.Object.Size || !sha256Hex.MatchString(e.Object.SHA256) {
			return vm.Errorf(vm.Invalid, vmPath, "the bundle does not contain an object that it names, or not as it is described")
		}
	}
	if _, err := os.Stat(u.path(receiptsPath)); err != nil {
		return vm.Errorf(vm.Invalid, receiptsPath, "the bundle does not contain it")
	}
	return nil
}

// objects makes a new bucket with the versions and the receipts of the bundle. No bucket
// that is there gets anything.
func (u *unpacking) objects(ctx context.Context) error {
	if err := u.checkObjects(); err != nil {
		return err
	}
	b, err := u.bucket(ctx)
	if err != nil {
		return err
	}
	u.out.Bucket = b.Name
	if err := u.put(ctx, objects.PutRequest{Key: receiptsPath, ContentType: "application/json"}, receiptsPath); err != nil {
		return err
	}
	for i, e := range u.is.Objects {
		o := e.Object
		err := u.put(ctx, objects.PutRequest{
			Key: objectKey(o), ContentType: o.ContentType, Headers: o.Headers, Meta: o.Meta, Tags: o.Tags, SHA256: o.SHA256, Origin: origin(o.Origin),
		}, objectPath(i))
		if err != nil {
			return err
		}
		u.out.Objects++
	}
	return nil
}

// origin is what another server says of where an object came from, bounded. The receipt is
// not kept: it is in the other server's audit chain.
func origin(o *vm.ObjectOrigin) *vm.ObjectOrigin {
	if o == nil {
		return nil
	}
	return &vm.ObjectOrigin{
		VM: vm.ID(vm.Clip(string(o.VM), 64)), Name: vm.Clip(o.Name, 64), Generation: vm.GenerationID(vm.Clip(string(o.Generation), 64)),
		Path: vm.Clip(o.Path, 4096), Command: vm.Clip(o.Command, 1000), Tree: o.Tree, Mode: o.Mode & 0o777,
	}
}

// bucket makes the bucket. Its name is the VM's, or another one if that is taken.
func (u *unpacking) bucket(ctx context.Context) (b vm.Bucket, err error) {
	base := "bundle-" + cmp.Or(u.o.Name, u.is.VM.Name, string(u.is.VM.ID))
	if objects.CheckBucket(base+"-999") != nil {
		base = "bundle"
	}
	name := base
	for n := 2; n <= maxBuckets; n++ {
		b, err = u.h.cfg.Objects.CreateBucket(ctx, u.c, name)
		if vm.AsError(err).Code != "BUCKET_EXISTS" {
			return b, err
		}
		name = base + "-" + strconv.Itoa(n)
	}
	return b, err
}

// maxBuckets is how many names for the bucket of a bundle are tried.
const maxBuckets = 999

// put stores the file of an entry in the bucket, and removes the file.
func (u *unpacking) put(ctx context.Context, req objects.PutRequest, entry string) error {
	f, err := os.Open(u.path(entry))
	if err != nil {
		return layout.Error(entry, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return layout.Error(entry, err)
	}
	req.Bucket, req.Size = u.out.Bucket, st.Size()
	made, err := u.h.cfg.Objects.Put(ctx, u.c, req, reader{ctx, f})
	if err != nil {
		return err
	}
	if made.Scan == vm.Refused {
		u.note("a scan has refused s3://" + made.Bucket + "/" + vm.GuestPath(made.Key).String() + ": " + made.ScanReason)
	}
	return layout.Error(entry, os.Remove(f.Name()))
}
