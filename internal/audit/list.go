// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"

	"github.com/warren-vm/warren/vm"
)

// Filter selects records.
type Filter struct {
	Account vm.AccountID // "" = all
	VM      vm.ID        // "" = all
	Limit   int          // 0 = 100
	Before  int64        // only records with a lower Seq; 0 = from the newest
}

// takes reports whether a line may match, without decoding it: begin and end both
// name the account and the VM.
func (f Filter) takes(raw []byte) bool {
	return (f.Account == "" || bytes.Contains(raw, []byte(f.Account))) && (f.VM == "" || bytes.Contains(raw, []byte(f.VM)))
}

func (f Filter) wants(ln *line) bool {
	return (f.Before == 0 || ln.Seq < f.Before) && (f.Account == "" || ln.Actor.Account == f.Account) && (f.VM == "" || ln.VM == f.VM)
}

// List returns records, newest first. It reads the files from their end, up to all
// of them. Kinds: Corrupt, Internal.
func (l *Log) List(f Filter) ([]Record, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	ends := map[string]*line{} // by the begin's id, for begins not read yet
	l.mu.Lock()
	for _, it := range l.queue {
		if it.Phase == End {
			ends[it.Of] = &it.line
		}
	}
	segment, size := l.segment, l.size
	l.mu.Unlock()

	var out []Record
	for n := segment; n >= 0 && len(out) < f.Limit; n-- {
		_, err := backward(l.segmentPath(n), size, func(raw []byte) error {
			if !f.takes(raw) {
				return nil
			}
			ln, _, err := parse(raw)
			if err != nil {
				return corrupt(l.segmentPath(n), "a record %w", err)
			}
			switch {
			case ln.Phase == End:
				ends[ln.Of] = &ln
			case ln.Phase == Begin && f.wants(&ln):
				r := ln.record()
				if end, ok := ends[ln.ID]; ok {
					r.end(end)
				}
				out = append(out, *r)
			}
			delete(ends, ln.ID)
			if len(out) == f.Limit {
				return errStop
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		size = -1 // older segments are complete
	}
	return out, nil
}
