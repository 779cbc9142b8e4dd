// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

// Report is the outcome of a verification.
type Report struct {
	Records  int64    // lines that fit the chain, with the pruned ones
	Pruned   int64    // lines of which only the hashes are left
	Anchored int64    // number of the last line that a signature by an expected key covers
	Outside  int      // checkpoints from outside that were compared
	Log      string   // the log's id
	Key      string   // public key that signed last, hex
	Root     string   // of the tree over all records
	Problem  string   // the first fault and its place; "" = none
	Code     string   // of the problem
	Fix      string   // what to do about the problem
	Notes    []string // what is odd, but breaks nothing
}

// Codes of problems.
const (
	CodeChanged = "AUDIT_CHANGED" // a record was changed, removed, put in or moved
	CodeCut     = "AUDIT_CUT"     // the end is missing
	CodeKey     = "AUDIT_KEY"     // a signature is missing or by a key that may not sign
	CodeForeign = "AUDIT_FOREIGN" // it is the log of another server
	CodePruned  = "AUDIT_PRUNED"  // records are missing without a signed record of a pruning
)

var fixes = map[string]string{
	CodeChanged: "copy the audit directory as evidence, then compare that record with a backup: `warren backup verify`",
	CodeCut:     "copy the audit directory as evidence, then restore it from a backup that has the missing records: `warren backup verify` counts them",
	CodeKey:     "compare the fingerprint with the one that you kept outside; if it is not yours, take the log as replaced",
	CodeForeign: "give the directory, key and anchors of one server; if they are, the log was replaced: restore it from a backup",
	CodePruned:  "copy the audit directory as evidence, then restore the removed segments from a backup",
}

const (
	// maxGap is the longest run of unsigned lines that a log writes.
	maxGap = maxUnsigned + 2*anchorEvery
	// clockSlack is how far the time of a record may lie before that of an earlier one:
	// outcomes wait for the disk.
	clockSlack = time.Minute
	// signLate is the age of an unsigned line, beside the newest one, at which a signature
	// is missing. A log signs a minute after a line at the latest, unless its signer fails.
	signLate = 5 * time.Minute
	maxNotes = 20
)

// errFound ends a walk: the report names the fault.
var errFound = errors.New("found")

// Verify checks the whole chain and its signatures in dir; the log may be open. public is
// the public key to check against, in hex or as a fingerprint, the present one or an
// earlier one; "" = that of kept, or else the one in dir, which proves nothing against an
// attacker who can replace it. Only signatures by that key, and by those to which it
// handed over, count. Lines after the last signature are noted, and are a fault when they
// should be signed by their age. A broken chain is reported, not returned as an error. It
// cannot detect lines that were cut off after the last signature, at most a minute's
// worth, nor lines that were cut off together with their signatures. With kept, which is
// what a Keeper had before the call, it misses only lines that were cut off after that, at
// most a second's worth. outside are checkpoints that were kept elsewhere: all of them are
// compared.
func Verify(dir, public string, kept Head, outside ...vm.Checkpoint) (Report, error) {
	if err := checkPublic(public); err != nil {
		return Report{}, err
	}
	v := verifier{hash: genesis, kept: kept}
	err := v.signatures(dir, public)
	if err == nil {
		err = v.compared(outside)
	}
	if err == nil {
		err = v.walk(dir)
	}
	if errors.Is(err, errFound) {
		err = nil
	}
	if v.Fix == "" {
		v.Fix = fixes[v.Code]
	}
	if v.unsaid > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("and %d notes more", v.unsaid))
	}
	if v.Records > 0 {
		root := v.tree.Root()
		v.Log, v.Root = v.first, hex.EncodeToString(root[:])
	}
	return v.Report, err
}

// verifier is a walk over the chain.
type verifier struct {
	Report
	hash   string // of the last line
	first  string // hash of the first line
	tree   merkle.Tree
	points []checked // what is compared with the chain, by number
	at     int       // the next of points
	last   int64     // the highest number in the signatures
	signed int64     // number of the last line that any signature covers
	keys   []string  // that could sign, in order
	kept   Head
	newest time.Time
	prunes map[int64]string // roots by number, from the records of prunings
	ends   map[int64]string // roots by number, at the ends of segments

	trusted int       // index in keys: signatures by this key and those after it count
	waits   time.Time // of the oldest line that is not signed yet; zero = all are
	fresh   string    // what the first line says of the log before this one; "" = nothing
	known   int64     // number of the line by which an administrator accepted that; 0 = none
	unsaid  int       // notes beyond maxNotes
}

// checked is a digest that the chain must have.
type checked struct {
	vm.Checkpoint
	by  string // who says so
	key int    // of a signature: index in keys
}

func (v *verifier) found(code, format string, args ...any) error {
	v.Code, v.Problem = code, fmt.Sprintf(format, args...)
	return errFound
}

func (v *verifier) note(format string, args ...any) {
	if len(v.Notes) == maxNotes {
		v.unsaid++
		return
	}
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

func (v *verifier) walk(dir string) error {
	numbers, err := segments(dir)
	if err != nil {
		return err
	}
	v.prunes, v.ends = map[int64]string{}, map[int64]string{}
	if err := v.pruned(dir, numbers); err != nil {
		return err
	}
	for i, n := range numbers {
		if n != numbers[0]+i {
			return v.found(CodeChanged, "%s: the segment is missing, record %d was to be in it", segmentName(numbers[0]+i), v.Records+1)
		}
		_, torn, err := forward(filepath.Join(dir, segmentName(n)), func(raw []byte) error { return v.line(n, raw) })
		if errors.Is(err, errLong) {
			return v.found(CodeChanged, "%s: record %d %s", segmentName(n), v.Records+1, errLong)
		}
		if err != nil {
			return err
		}
		if torn > 0 && i < len(numbers)-1 {
			return v.found(CodeChanged, "%s: it ends in the middle of record %d", segmentName(n), v.Records+1)
		}
		v.segmentEnd()
	}
	if v.at < len(v.points) {
		p := v.points[len(v.points)-1]
		return v.found(CodeCut, "the tail is cut: record %d was %s, but the last one is %d", p.Seq, p.by, v.Records)
	}
	if err := v.unsigned(); err != nil {
		return err
	}
	if err := v.authorised(); err != nil {
		return err
	}
	return v.begun()
}

// begun looks at a log that took the place of another one: that one's records are gone, and
// an administrator must say that this is known.
func (v *verifier) begun() error {
	switch {
	case v.fresh == "":
		return nil
	case v.known > 0 && v.known <= v.Anchored:
		v.Notes = append([]string{fmt.Sprintf("record 1: %s; record %d accepts that", v.fresh, v.known)}, v.Notes...)
		return nil
	}
	v.Fix = "find out who removed it, or restore it from a backup; if its loss is known, `warren audit verify --accept-new-log` records that"
	return v.found(CodeCut, "record 1: %s", v.fresh)
}

// unsigned looks at the lines that no signature by an expected key covers.
func (v *verifier) unsigned() error {
	switch {
	case v.Records > 0 && v.Anchored == 0:
		return v.found(CodeKey, "none of the %d records is signed by %s: signatures were removed, or the log is a forgery", v.Records, fingerprint(v.keys[v.trusted]))
	case v.Records-v.Anchored > maxGap:
		return v.found(CodeKey, "records %d to %d are not signed: signatures were removed", v.Anchored+1, v.Records)
	case v.Records == v.Anchored:
		return nil
	}
	if late := v.newest.Sub(v.waits); late > signLate {
		return v.found(CodeKey, "records %d to %d are not signed, although the last of them is %s younger than the first: signatures were removed, or the signer failed for that long", v.Anchored+1, v.Records, late.Round(time.Second))
	}
	v.note("records %d to %d are not signed", v.Anchored+1, v.Records)
	return nil
}

// pruned walks the hashes that pruned segments left.
func (v *verifier) pruned(dir string, kept []int) error {
	first := 0
	if len(kept) > 0 {
		first = kept[0]
	}
	for n := range first {
		err := prunedHashes(dir, n, func(sum [sha256.Size]byte) error {
			v.Pruned++
			return v.next(hashesName(n), v.Records+1, sum)
		})
		if vm.KindOf(err) == vm.Corrupt {
			return v.found(CodePruned, "%s, so records from %d on are missing", vm.AsError(err).Msg, v.Records+1)
		}
		if err != nil {
			return err
		}
		v.segmentEnd()
	}
	return nil
}

// segmentEnd remembers the root at the end of a segment: a pruning ends at one.
func (v *verifier) segmentEnd() {
	root := v.tree.Root()
	v.ends[v.Records] = hex.EncodeToString(root[:])
}

// authorised checks that what is pruned has a record of the pruning, which says the root
// of all that was removed.
func (v *verifier) authorised() error {
	if v.Pruned == 0 {
		return nil
	}
	for through, root := range v.prunes {
		if through >= v.Pruned && through <= v.Anchored && v.ends[through] == root {
			return nil
		}
	}
	return v.found(CodePruned, "records 1 to %d are gone, and no signed record of a pruning covers them", v.Pruned)
}

// line checks one line of a segment.
func (v *verifier) line(segment int, raw []byte) error {
	own, record, err := split(raw)
	if err != nil {
		return v.found(CodeChanged, "%s: record %d %s", segmentName(segment), v.Records+1, err)
	}
	sum := sha256.Sum256(record)
	var claimed [sha256.Size]byte
	if _, err := hex.Decode(claimed[:], own); err != nil || claimed != sum {
		return v.found(CodeChanged, "%s: record %d was changed", segmentName(segment), v.Records+1)
	}
	h, ok := headOf(record)
	if !ok {
		ln, _, err := parse(raw)
		if err != nil {
			return v.found(CodeChanged, "%s: record %d %s", segmentName(segment), v.Records+1, err)
		}
		h = head{ln.Seq, []byte(ln.Prev), ln.Time}
	}
	if err := follows(h.seq, string(h.prev), v.Records, v.hash); err != nil {
		return v.found(CodeChanged, "%s: record %d %s", segmentName(segment), v.Records+1, err)
	}
	at := h.time // for the age of an unsigned line
	if back := v.newest.Sub(h.time); back > clockSlack {
		v.note("record %d: the clock was set back by %s", h.seq, back.Round(time.Second))
		at, v.newest = v.newest, h.time
	} else if h.time.After(v.newest) {
		v.newest = h.time
	}
	if v.waits.IsZero() || at.Before(v.waits) {
		v.waits = at
	}
	if err := v.next(segmentName(segment), h.seq, sum); err != nil {
		return err
	}
	for _, s := range ofItself {
		if bytes.Contains(record, []byte(s)) {
			v.ofItself(raw)
			break
		}
	}
	return nil
}

// ofItself are the marks of lines that are about the log: they may occur elsewhere, too.
var ofItself = []string{`"phase":"note"`, `"op":"` + string(vm.OpAuditPrune) + `"`, `"op":"` + string(vm.OpAuditAccept) + `"`}

// ofItself remembers what a line says of the log: a note, the record of a pruning with the
// roots that it may name, or that a new log is accepted.
func (v *verifier) ofItself(raw []byte) {
	ln, _, err := parse(raw)
	var d struct {
		Through int64  `json:"through"`
		Root    string `json:"root"`
		Before  string `json:"before"`
	}
	switch {
	case err != nil:
	case ln.Phase == Note && ln.Seq == 1 && strings.HasPrefix(ln.Subject, newLog):
		v.fresh = ln.Subject
	case ln.Phase == Note && ln.Subject != newSegment:
		v.note("record %d: %s", ln.Seq, ln.Subject)
	case ln.Phase != Begin:
	case ln.Op == vm.OpAuditPrune && json.Unmarshal(ln.Detail, &d) == nil:
		v.prunes[d.Through] = d.Root
	case ln.Op == vm.OpAuditAccept && json.Unmarshal(ln.Detail, &d) == nil && v.fresh != "" && d.Before == v.fresh && v.known == 0:
		v.known = ln.Seq
	}
}

// next takes the hash of the next line and compares it with what was signed.
func (v *verifier) next(name string, seq int64, sum [sha256.Size]byte) error {
	v.Records = seq
	v.tree.Add(merkle.Leaf(sum[:]))
	if seq == 1 {
		v.first = hex.EncodeToString(sum[:])
	}
	v.hash = hex.EncodeToString(sum[:])
	for ; v.at < len(v.points) && v.points[v.at].Seq == seq; v.at++ {
		p := v.points[v.at]
		switch {
		case p.Log != "" && p.Log != v.first:
			return v.found(CodeForeign, "record %d %s belongs to the log of another server", seq, p.by)
		case p.Hash != v.hash:
			return v.found(CodeChanged, "%s: record %d is not the one that was %s", name, seq, p.by)
		case p.Root != "":
			if root := v.tree.Root(); hex.EncodeToString(root[:]) != p.Root {
				return v.found(CodeChanged, "%s: the records up to %d are not those that were %s", name, seq, p.by)
			}
		}
		switch p.by {
		case "signed":
			if seq-v.signed > maxGap {
				return v.found(CodeKey, "records %d to %d are not signed: signatures were removed", v.signed+1, seq-1)
			}
			if late := p.Time.Sub(v.waits); late > signLate && !v.waits.IsZero() {
				v.note("records %d to %d were signed %s late: the signer failed, or the server was down", v.signed+1, seq, late.Round(time.Second))
			}
			if v.signed, v.waits = seq, (time.Time{}); p.key >= v.trusted {
				v.Anchored = seq
			}
		case "anchored outside":
			v.Report.Outside++
		}
	}
	return nil
}

// head is what a line must have to be in its place.
type head struct {
	seq  int64
	prev []byte
	time time.Time
}

// headOf reads it without decoding the record, whose first fields are always in the same
// order.
func headOf(record []byte) (h head, ok bool) {
	rest, ok := bytes.CutPrefix(record, []byte(`{"seq":`))
	number, rest, found := bytes.Cut(rest, []byte(`,"prev":"`))
	if !ok || !found {
		return h, false
	}
	var err error
	if h.seq, err = strconv.ParseInt(string(number), 10, 64); err != nil {
		return h, false
	}
	if h.prev, rest, ok = bytes.Cut(rest, []byte(`","id":"`)); !ok {
		return h, false
	}
	if _, rest, ok = bytes.Cut(rest, []byte(`","time":"`)); !ok {
		return h, false
	}
	text, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return h, false
	}
	h.time, err = time.Parse(time.RFC3339Nano, string(text))
	return h, err == nil
}
