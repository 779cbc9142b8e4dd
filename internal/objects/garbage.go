// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// release gives up a version's claim to its body. A body that no version has any more goes:
// small ones at once, files by way of the garbage.
func (t *tx) release(b vm.Bucket, s stored) error {
	if s.Body == "" {
		return nil
	}
	var more uint64
	if v := t.get(inRefs, []byte(s.Body)); len(v) == seqSize {
		more = binary.BigEndian.Uint64(v)
	}
	switch {
	case more > 1:
		return t.put(inRefs, []byte(s.Body), seqBytes(more-1))
	case more == 1:
		return t.drop(inRefs, []byte(s.Body))
	}
	list := []segment{{Body: s.Body, Inline: s.Inline}}
	if s.Parts > 0 {
		if _, err := t.getJSON(inSegments, []byte(s.Body), &list); err != nil {
			return err
		}
		if err := t.drop(inSegments, []byte(s.Body)); err != nil {
			return err
		}
	}
	for _, one := range list {
		if err := t.discard(b.Account, one); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes the bytes of a small segment, and has the file of another one deleted.
func (t *tx) discard(account vm.AccountID, s segment) error {
	if s.Inline {
		return t.drop(inBodies, []byte(s.Body))
	}
	return t.put(inGarbage, garbageKey(account, s.Body), nil)
}

// keep takes a body out of the garbage in which a body is while it is sent to another S3.
func (t *tx) keep(account vm.AccountID, body string) error {
	if t.get(inGarbage, garbageKey(account, body)) == nil {
		return nil
	}
	return t.drop(inGarbage, garbageKey(account, body))
}

// share counts one more version that has a body.
func (t *tx) share(body string) error {
	var more uint64
	if v := t.get(inRefs, []byte(body)); len(v) == seqSize {
		more = binary.BigEndian.Uint64(v)
	}
	return t.put(inRefs, []byte(body), seqBytes(more+1))
}

func garbageKey(account vm.AccountID, body string) []byte {
	return append(append([]byte(account), 0), body...)
}

// pins are the bodies that are being read: their files stay until the readers have closed.
type pins struct {
	mu sync.Mutex
	of map[string]int // guarded by mu
}

func (p *pins) add(body string) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.of[body]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[body]--; p.of[body] <= 0 {
			delete(p.of, body)
		}
	})
}

func (p *pins) has(body string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[body] > 0
}

// garbagePage is how many files are deleted before the index is written.
const garbagePage = 200

// collect has the files of removed versions deleted soon.
func (o *Objects) collect() {
	select {
	case o.dirty <- struct{}{}:
	default:
	}
}

// sweepGarbage deletes the files that no version has, except those that are being read.
func (o *Objects) sweepGarbage(ctx context.Context) error {
	if !o.sweeping.TryLock() { // somebody copies them, and asks again afterwards
		return nil
	}
	defer o.sweeping.Unlock()
	after := []byte(nil)
	for ctx.Err() == nil {
		var page [][]byte
		err := o.index.view(func(t *tx) error {
			cur := t.Bucket(inGarbage).Cursor()
			k, _ := cur.Seek(after)
			if after == nil {
				k, _ = cur.First()
			}
			for ; k != nil && len(page) < garbagePage; k, _ = cur.Next() {
				page = append(page, bytes.Clone(k))
			}
			return nil
		})
		if err != nil || len(page) == 0 {
			return err
		}
		after = append(bytes.Clone(page[len(page)-1]), 0)
		var gone [][]byte
		for _, k := range page {
			account, body, _ := bytes.Cut(k, []byte{0})
			if o.pins.has(string(body)) {
				continue
			}
			if err := o.bodies.remove(ctx, vm.AccountID(account), string(body)); err != nil {
				o.cfg.Log.Warn("the file of a removed object remains", "body", string(body), "err", err)
				continue
			}
			gone = append(gone, k)
		}
		err = o.index.update(func(t *tx) error {
			for _, k := range gone {
				if err := t.drop(inGarbage, k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
