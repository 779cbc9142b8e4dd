// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"math"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/warren-vm/warren/vm"
)

// maxPage is the most entries that one list has, as in S3.
const maxPage = 1000

// ListRequest selects objects of a bucket.
type ListRequest struct {
	Bucket    string
	Prefix    string
	Delimiter string // keys that have it after the prefix are listed as one common prefix; "" = none
	After     string // only keys after this one
	Limit     int    // 0 = 1000, which is the most
	// AfterVersion, for Versions: begin after this version of the key After; "" = after all
	// of its versions.
	AfterVersion string
	// Tags are names and values that the newest version must all have; for List.
	Tags map[string]string
}

// Page is a part of a list.
type Page struct {
	Objects  []vm.Object
	Prefixes []string
	More     bool
	// Next is After for the next page, NextVersion its AfterVersion.
	Next        string
	NextVersion string
}

// prepare checks a list and returns its bucket. An identity or VM lists only below the
// prefix of one of its grants.
func (o *Objects) prepare(c *vm.Call, req *ListRequest) (vm.Bucket, error) {
	b, r, err := o.find(c, req.Bucket)
	if err != nil {
		return b, err
	}
	if req.Limit <= 0 || req.Limit > maxPage {
		req.Limit = maxPage
	}
	if len(req.Prefix) > maxKey || len(req.After) > 2*maxKey || len(req.Delimiter) > 100 {
		return b, vm.Errorf(vm.Invalid, "", "the prefix, the delimiter or the start of the list is too long").WithCode("OBJECT_INVALID_REQUEST")
	}
	return b, r.may(c, req.Bucket, req.Prefix, read)
}

// List returns the newest versions of keys in the order of their bytes, without deleted
// ones.
func (o *Objects) List(_ context.Context, c *vm.Call, req ListRequest) (p Page, err error) {
	b, err := o.prepare(c, &req)
	if err == nil {
		err = o.index.view(func(t *tx) error {
			if len(req.Tags) > 0 {
				p, err = t.tagged(b, req)
				return err
			}
			p, err = t.list(b, req)
			return err
		})
	}
	return p, vm.WithOp(vm.OpList, req.Bucket, err)
}

// walker goes through the keys of a bucket.
type walker struct {
	*bolt.Cursor
	bucket vm.Bucket
	prefix []byte
	req    ListRequest
}

func (t *tx) walk(b vm.Bucket, req ListRequest) *walker {
	return &walker{t.Bucket(inVersions).Cursor(), b, []byte(b.ID + req.Prefix), req}
}

// from seeks to the first entry at or after a place that has the prefix; nil = none.
func (w *walker) from(place []byte) (k, v []byte) {
	if bytes.Compare(place, w.prefix) < 0 {
		place = w.prefix
	}
	return w.in(w.Seek(place))
}

func (w *walker) in(k, v []byte) ([]byte, []byte) {
	if k == nil || !bytes.HasPrefix(k, w.prefix) {
		return nil, nil
	}
	return k, v
}

// afterKey is a place after all versions of a key and before the next key.
func afterKey(b vm.Bucket, key string) []byte { return append([]byte(b.ID+key), 1) }

// afterPrefix is a place after all keys with a prefix; nil = the end.
func afterPrefix(b vm.Bucket, prefix string) []byte {
	out := []byte(b.ID + prefix)
	for i := len(out) - 1; i >= len(b.ID); i-- {
		if out[i] < math.MaxUint8 {
			out[i]++
			return out[:i+1]
		}
	}
	return nil
}

// common is the common prefix of a key; "" = it has none.
func (req *ListRequest) common(key string) string {
	if req.Delimiter == "" {
		return ""
	}
	i := strings.Index(key[len(req.Prefix):], req.Delimiter)
	if i < 0 {
		return ""
	}
	return key[:len(req.Prefix)+i+len(req.Delimiter)]
}

// start is where a list begins.
func (req *ListRequest) start(b vm.Bucket) []byte {
	if req.After == "" {
		return []byte(b.ID)
	}
	if common := ""; strings.HasPrefix(req.After, req.Prefix) {
		if common = req.common(req.After); common != "" && common == req.After { // the last page ended with it
			return afterPrefix(b, common)
		}
	}
	return afterKey(b, req.After)
}

func (t *tx) list(b vm.Bucket, req ListRequest) (p Page, err error) {
	w := t.walk(b, req)
	place := req.start(b)
	if place == nil {
		return p, nil
	}
	for k, v := w.from(place); k != nil; {
		key, _ := splitKey(b.ID, k)
		s, err := load(b, k, v)
		if err != nil {
			return p, err
		}
		if s.Deleted {
			k, v = w.from(afterKey(b, key))
			continue
		}
		if len(p.Objects)+len(p.Prefixes) == req.Limit {
			p.More = true
			return p, nil
		}
		if common := req.common(key); common != "" {
			p.Prefixes, p.Next = append(p.Prefixes, common), common
			next := afterPrefix(b, common)
			if next == nil {
				return p, nil
			}
			k, v = w.from(next)
			continue
		}
		s.Latest = true
		p.Objects, p.Next = append(p.Objects, s.Object), key
		k, v = w.from(afterKey(b, key))
	}
	return p, nil
}

// Versions returns versions and delete markers by key, the newest of each key first.
func (o *Objects) Versions(_ context.Context, c *vm.Call, req ListRequest) (p Page, err error) {
	b, err := o.prepare(c, &req)
	if err == nil {
		err = o.index.view(func(t *tx) error {
			p, err = t.versions(b, req)
			return err
		})
	}
	return p, vm.WithOp(vm.OpList, req.Bucket, err)
}

func (t *tx) versions(b vm.Bucket, req ListRequest) (p Page, err error) {
	place := req.start(b)
	last := "" // the key of the entry before
	if req.AfterVersion != "" {
		seq, ok := versionSeq(req.AfterVersion)
		if !ok {
			return p, vm.Errorf(vm.Invalid, "", "the list is to begin after what is no version").WithCode("OBJECT_INVALID_VERSION")
		}
		place, last = append(versionKey(b.ID, req.After, seq), 0), req.After
	}
	if place == nil {
		return p, nil
	}
	w := t.walk(b, req)
	for k, v := w.from(place); k != nil; {
		key, _ := splitKey(b.ID, k)
		if len(p.Objects)+len(p.Prefixes) == req.Limit {
			p.More = true
			return p, nil
		}
		if common := req.common(key); common != "" {
			p.Prefixes, p.Next, p.NextVersion = append(p.Prefixes, common), common, ""
			next := afterPrefix(b, common)
			if next == nil {
				return p, nil
			}
			k, v = w.from(next)
			continue
		}
		s, err := load(b, k, v)
		if err != nil {
			return p, err
		}
		s.Latest, last = key != last, key
		p.Objects, p.Next, p.NextVersion = append(p.Objects, s.Object), key, s.Version
		k, v = w.in(w.Next())
	}
	return p, nil
}

// each calls f for every version of a bucket that has the prefix, by key, the newest
// first.
func (t *tx) each(b vm.Bucket, prefix string, f func(s stored, newest bool) error) error {
	w := t.walk(b, ListRequest{Prefix: prefix})
	last, first := "", true
	for k, v := w.from(w.prefix); k != nil; k, v = w.in(w.Next()) {
		s, err := load(b, k, v)
		if err != nil {
			return err
		}
		newest := first || s.Key != last
		last, first = s.Key, false
		if err := f(s, newest); err != nil {
			return err
		}
	}
	return nil
}
