// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"maps"

	"github.com/warren-vm/warren/vm"
)

// tagKey is the entry of one tag in the index of tags.
func tagKey(b vm.Bucket, name, value, key string, seq uint64) []byte {
	out := append([]byte(b.ID+name), 0)
	out = append(append(out, value...), 0)
	return append(out, versionKey("", key, seq)...)
}

// tag makes the newest version of a key findable by its tags.
func (t *tx) tag(b vm.Bucket, key string, s stored) error {
	for name, value := range s.Tags {
		if err := t.put(inTags, tagKey(b, name, value, key, s.seq), nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) untag(b vm.Bucket, key string, s stored) error {
	for name, value := range s.Tags {
		if err := t.drop(inTags, tagKey(b, name, value, key, s.seq)); err != nil {
			return err
		}
	}
	return nil
}

// tagged lists the newest versions that have all tags of the request.
func (t *tx) tagged(b vm.Bucket, req ListRequest) (p Page, err error) {
	name, value := "", ""
	for k, v := range req.Tags { // any of them: the others are compared
		name, value = k, v
	}
	head := append(append([]byte(b.ID+name), 0), value...)
	head = append(head, 0)
	from := append(bytes.Clone(head), req.Prefix...)
	if req.After != "" {
		from = append(append(bytes.Clone(head), req.After...), 1)
	}
	cur := t.Bucket(inTags).Cursor()
	wanted := append(bytes.Clone(head), req.Prefix...)
	for k, _ := cur.Seek(from); k != nil && bytes.HasPrefix(k, head); k, _ = cur.Next() {
		if !bytes.HasPrefix(k, wanted) {
			if bytes.Compare(k, wanted) < 0 {
				continue
			}
			break
		}
		key, seq := splitKey("", k[len(head):])
		at := versionKey(b.ID, key, seq)
		record := t.get(inVersions, at)
		if record == nil {
			continue
		}
		s, err := load(b, at, record)
		if err != nil {
			return p, err
		}
		if !hasAll(s.Tags, req.Tags) {
			continue
		}
		if len(p.Objects) == req.Limit {
			p.More = true
			return p, nil
		}
		s.Latest = true
		p.Objects, p.Next = append(p.Objects, s.Object), key
	}
	return p, nil
}

func hasAll(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// SetTags replaces the tags of a version; none = removes them.
func (o *Objects) SetTags(ctx context.Context, c *vm.Call, w Which, tags map[string]string) (out vm.Object, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectTag, shownKey(w.Bucket, w.Key), err) }()
	if err := checkTags(tags, maxTags); err != nil {
		return out, err
	}
	return o.change(ctx, c, vm.OpObjectTag, w, write, map[string]any{"tags": maps.Clone(tags)}, func(t *tx, b vm.Bucket, s *stored) error {
		if s.Latest {
			if err := t.untag(b, w.Key, *s); err != nil {
				return err
			}
		}
		s.Tags = tags
		if s.Latest {
			return t.tag(b, w.Key, *s)
		}
		return nil
	})
}

// change changes the record of a version, not its bytes, with an audit record.
func (o *Objects) change(ctx context.Context, c *vm.Call, op vm.Op, w Which, n need, detail map[string]any, f func(*tx, vm.Bucket, *stored) error) (out vm.Object, err error) {
	b, _, err := o.reach(c, w.Bucket, w.Key, n)
	if err != nil {
		return out, err
	}
	if w.Version != "" {
		if detail == nil {
			detail = map[string]any{}
		}
		detail["version"] = vm.Clip(w.Version, 40)
	}
	end, err := o.begin(ctx, c, op, shownKey(b.Name, w.Key), detail)
	if err != nil {
		return out, err
	}
	defer func() { end(err, nil) }()
	err = o.index.update(func(t *tx) error {
		s, err := t.version(b, w.Key, w.Version)
		if err != nil {
			return err
		}
		if s.Deleted {
			return vm.Errorf(vm.NotFound, shownKey(b.Name, w.Key), "this version is a delete marker").WithCode("OBJECT_DELETED")
		}
		if err := f(t, b, &s); err != nil {
			return err
		}
		out = s.Object
		return t.save(b, w.Key, s)
	})
	return out, err
}
