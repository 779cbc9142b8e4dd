// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Filter selects records.
type Filter struct {
	Account vm.AccountID // "" = all
	VM      vm.ID        // "" = all
	Op      vm.Op        // "" = all
	Actor   string       // account, key, identity, token, SSH key, VM or system name of the caller; "" = all
	ID      string       // receipt; "" = all
	Since   time.Time    // zero = from the first
	Until   time.Time    // zero = to the last
	Limit   int          // 0 = 100
	Before  int64        // only records with a lower Seq; 0 = from the newest
}

// takes reports whether a line may match, without decoding it: begin and end both
// name the caller, the verb, the VM and the receipt.
func (f Filter) takes(raw []byte) bool {
	for _, s := range []string{string(f.Account), string(f.VM), f.ID, f.Actor} {
		if s != "" && !bytes.Contains(raw, []byte(s)) {
			return false
		}
	}
	return f.Op == "" || bytes.Contains(raw, []byte(`"op":"`+f.Op+`"`)) || f.Op == vm.OpAuditNote && bytes.Contains(raw, []byte(`"phase":"note"`))
}

func (f Filter) wants(ln *line) bool {
	return (f.Before == 0 || ln.Seq < f.Before) && (f.Account == "" || ln.Actor.Account == f.Account) && (f.VM == "" || ln.VM == f.VM) &&
		(f.Op == "" || ln.Op == f.Op) && (f.ID == "" || ln.ID == f.ID) && (f.Actor == "" || ln.Actor.Named(f.Actor)) &&
		!ln.Time.Before(f.Since) && (f.Until.IsZero() || ln.Time.Before(f.Until))
}

// errOlder ends a list: what follows is older than its filter asks for.
var errOlder = errors.New("older")

// List returns records, newest first, with the notes of the log itself. It reads the files from their end, up to all
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
	segment, size, first := l.segment, l.size, l.first
	l.mu.Unlock()

	var out []Record
	for n := segment; n >= first && len(out) < f.Limit; n-- {
		_, err := backward(l.segmentPath(n), size, func(raw []byte) error {
			if !f.takes(raw) {
				return nil
			}
			ln, _, err := parse(raw)
			if err != nil {
				return corrupt(l.segmentPath(n), "a record %w", err)
			}
			if n < segment && ln.Time.Before(f.Since.Add(-clockSlack)) && ln.Phase != End {
				return errOlder
			}
			if ln.Phase == Note && ln.Subject != newSegment {
				ln.Phase, ln.Op, ln.Outcome = Begin, vm.OpAuditNote, "ok" // listed like an action
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
		if errors.Is(err, errOlder) || errors.Is(err, fs.ErrNotExist) { // pruned meanwhile
			break
		}
		if err != nil {
			return nil, err
		}
		size = -1 // older segments are complete
	}
	return out, nil
}
