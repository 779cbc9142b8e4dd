// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

// hashesName is the file that takes the place of a pruned segment: the hashes of its
// lines, 32 bytes each. With them every signature below still can be checked, and proofs
// for the records that are kept can be made.
func hashesName(n int) string { return fmt.Sprintf("%06d.hashes", n) }

// hashes calls f with the hash of every line of the log in dir, also of pruned ones, with
// the number of its segment. It does not check them.
func hashes(dir string, f func(segment int, sum [sha256.Size]byte) error) error {
	kept, err := segments(dir)
	if err != nil {
		return err
	}
	first := 0
	if len(kept) > 0 {
		first = kept[0]
	}
	for n := range first {
		if err := prunedHashes(dir, n, func(sum [sha256.Size]byte) error { return f(n, sum) }); err != nil {
			return err
		}
	}
	for _, n := range kept {
		_, _, err := forward(filepath.Join(dir, segmentName(n)), func(raw []byte) error {
			var sum [sha256.Size]byte
			own, _, err := split(raw)
			if err == nil {
				_, err = hex.Decode(sum[:], own)
			}
			if err != nil {
				return corrupt(segmentName(n), "a record %w", err)
			}
			return f(n, sum)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prunedHashes calls f with the hash of every line of a pruned segment.
func prunedHashes(dir string, n int, f func(sum [sha256.Size]byte) error) error {
	name := filepath.Join(dir, hashesName(n))
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return corrupt(name, "the segment is missing, and no pruning has left its hashes")
	case err != nil:
		return fileError(name, err)
	case len(data) == 0 || len(data)%sha256.Size != 0:
		return corrupt(name, "the hashes of a pruned segment are cut")
	}
	for ; len(data) > 0; data = data[sha256.Size:] {
		if err := f([sha256.Size]byte(data)); err != nil {
			return err
		}
	}
	return nil
}

// Pruned says what a pruning removed.
type Pruned struct {
	Segments int    `json:"segments"`
	Records  int64  `json:"records"` // lines
	Bytes    int64  `json:"bytes"`
	Through  int64  `json:"through"` // number of the last line that was removed
	Receipt  string `json:"receipt,omitempty"`
}

// Prune removes whole segments whose records are all older than before; the last segment
// and those with actions that have not ended stay. It first writes the hashes of the
// removed records and a signed record of the pruning. by names who asks; its Op and
// Detail are set here. Nothing to remove is no error. Kinds as of Begin, and Corrupt.
func (l *Log) Prune(ctx context.Context, before time.Time, by Entry) (Pruned, error) {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	l.mu.Lock()
	first, last, oldest := l.first, l.segment, int64(0)
	for _, r := range l.pending {
		if oldest == 0 || r.Seq < oldest {
			oldest = r.Seq
		}
	}
	l.mu.Unlock()
	var out Pruned
	end := first
	var through string
	for ; end < last; end++ {
		s, err := l.survey(end)
		if err != nil {
			return Pruned{}, err
		}
		if !s.newest.Before(before) || oldest != 0 && s.seq >= oldest {
			break
		}
		out.Segments, out.Records, out.Bytes, out.Through, through = out.Segments+1, out.Records+s.lines, out.Bytes+s.size, s.seq, s.hash
	}
	if end == first {
		return out, nil
	}
	root, err := l.rootAt(out.Through)
	if err != nil {
		return Pruned{}, err
	}
	by.Op = vm.OpAuditPrune
	by.Detail = map[string]any{"segments": out.Segments, "records": out.Records, "through": out.Through, "hash": through, "root": root, "before": before.UTC()}
	if out.Receipt, err = l.Begin(ctx, by); err != nil {
		return Pruned{}, err
	}
	err = l.Sync() // the record of the pruning is signed before anything is removed
	for n := first; n < end && err == nil; n++ {
		err = l.removeSegment(n)
	}
	return out, errors.Join(err, l.End(out.Receipt, err, nil))
}

// surveyed is what Prune must know of a segment.
type surveyed struct {
	lines, size, seq int64
	hash             string
	newest           time.Time
}

func (l *Log) survey(n int) (s surveyed, err error) {
	s.size, _, err = forward(l.segmentPath(n), func(raw []byte) error {
		ln, hash, err := parse(raw)
		if err != nil {
			return corrupt(l.segmentPath(n), "a record %w", err)
		}
		if s.lines++; ln.Time.After(s.newest) {
			s.newest = ln.Time
		}
		s.seq, s.hash = ln.Seq, hash
		return nil
	})
	return s, err
}

// rootAt returns the root of the tree over the first seq lines.
func (l *Log) rootAt(seq int64) (string, error) {
	stop := errors.New("stop")
	var tree merkle.Tree
	err := hashes(l.dir, func(_ int, sum [sha256.Size]byte) error {
		if tree.Add(merkle.Leaf(sum[:])); tree.Size == seq {
			return stop
		}
		return nil
	})
	if err != nil && !errors.Is(err, stop) {
		return "", err
	}
	root := tree.Root()
	return hex.EncodeToString(root[:]), nil
}

// removeSegment puts the hashes of a segment in its place.
func (l *Log) removeSegment(n int) error {
	var sums []byte
	_, _, err := forward(l.segmentPath(n), func(raw []byte) error {
		own, _, err := split(raw)
		if err == nil {
			sums, err = hex.AppendDecode(sums, own)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := layout.WriteFile(filepath.Join(l.dir, hashesName(n)), sums, 0o600); err != nil {
		return fileError(hashesName(n), err)
	}
	l.mu.Lock()
	l.first = n + 1
	l.mu.Unlock()
	if err := os.Remove(l.segmentPath(n)); err != nil {
		return fileError(l.segmentPath(n), err)
	}
	return syncDir(l.dir)
}

// RotateKey lets another key sign from now on; the old one signs it first. With to = nil
// it makes a new key beside the old one, whose file it replaces; else the log continues
// with that key once it is opened with a signer that has it. Kinds: Invalid (the present
// signer is a program, and to is nil), Unavailable, NoSpace, Internal.
func (l *Log) RotateKey(to ed25519.PublicKey) (ed25519.PublicKey, error) {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	if to != nil {
		return to, l.handOver(to, nil)
	}
	l.mu.Lock()
	old, ok := l.signer.(KeyFile)
	l.mu.Unlock()
	if !ok {
		return nil, vm.Errorf(vm.Invalid, "audit", "a program signs the audit log, so the server cannot make its next key").
			WithHint("`warren audit rotate-key --to PUBLIC-KEY` hands over to a key that you made")
	}
	next, err := makeKey(old.name + nextKey)
	if err != nil {
		return nil, err
	}
	if err := l.handOver(next.Public(), KeyFile{old.name, next.key}); err != nil {
		return nil, err
	}
	return next.Public(), promote(old.name)
}

// handOver signs the next key, and continues with by if that is not nil: by signs at once,
// so that the log verifies with the next key, which is then published.
func (l *Log) handOver(next ed25519.PublicKey, by Signer) error {
	if l.head().Seq == 0 {
		if err := l.note("the log begins"); err != nil {
			return err
		}
	}
	if err := l.signHead(next); err != nil {
		return err
	}
	l.mu.Lock()
	if by == nil {
		l.handed = next
		l.mu.Unlock()
		return nil
	}
	l.signer, l.heir = by, true
	l.mu.Unlock()
	if err := l.signHead(nil); err != nil { // the handover is done; the notary tries again
		l.log.Error("the audit log's next key could not sign yet", "err", err)
	}
	return nil
}

// Line is one line of the log with its proof.
type Line struct {
	Seq    int64
	Record []byte // as it stands
	Hash   string
	Proof  []merkle.Hash
}

// Prove returns the lines of the actions that pick takes, oldest first, with proofs
// against a new checkpoint. It reads all of the log; pruned records are not found. Kinds:
// Limit (more than most lines), Corrupt, and those of Sync.
func (l *Log) Prove(most int, pick func(r Record) bool) ([]Line, vm.Checkpoint, error) {
	if err := l.Sync(); err != nil {
		return nil, vm.Checkpoint{}, err
	}
	at, err := lastCheckpoint(l.dir)
	if err != nil {
		return nil, at, err
	}
	var out []Line
	taken := map[string]bool{} // begins
	err = l.each(at.Seq, func(ln *line, hash string, raw []byte) error {
		switch {
		case ln.Phase == Begin && pick(*ln.record()):
			taken[ln.ID] = true
		case ln.Phase == End && taken[ln.Of]:
		default:
			return nil
		}
		if len(out) == most {
			return vm.Errorf(vm.Limit, "audit", "the receipt would have more than %d records", most).WithHint("export the records: `warren audit export`")
		}
		out = append(out, Line{Seq: ln.Seq, Record: bytes.Clone(raw), Hash: hash})
		return nil
	})
	if err != nil {
		return nil, at, err
	}
	p := merkle.NewProver(at.Seq)
	for _, ln := range out {
		p.WantInclusion(ln.Seq - 1)
	}
	if err := hashes(l.dir, func(_ int, sum [sha256.Size]byte) error {
		if p.Add(merkle.Leaf(sum[:])); p.Complete() {
			return io.EOF
		}
		return nil
	}); err != nil && !errors.Is(err, io.EOF) {
		return nil, at, err
	}
	if root := p.Root(); hex.EncodeToString(root[:]) != at.Root {
		return nil, at, vm.Errorf(vm.Corrupt, l.dir, "the records are not those that were signed").WithHint("`warren audit verify` says where")
	}
	for i := range out {
		out[i].Proof = p.Inclusion(out[i].Seq - 1)
	}
	return out, at, nil
}

// each calls f with every line that is not pruned, up to the number through. f may use raw
// only until it returns.
func (l *Log) each(through int64, f func(ln *line, hash string, raw []byte) error) error {
	l.mu.Lock()
	first, last := l.first, l.segment
	l.mu.Unlock()
	for n := first; n <= last; n++ {
		_, _, err := forward(l.segmentPath(n), func(raw []byte) error {
			ln, hash, err := parse(raw)
			if err != nil {
				return corrupt(l.segmentPath(n), "a record %w", err)
			}
			if ln.Seq > through {
				return io.EOF
			}
			return f(&ln, hash, raw[lineMin-1:len(raw)-1])
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
