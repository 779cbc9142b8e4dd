// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package receipt makes and checks receipts, the signed documents of VMs' lives. It needs
// no server and reads nothing but the document. docs/receipts.md describes the form.
package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

// Message returns the bytes that the signature of a receipt is over: "warren receipt 1",
// a line end, and the canonical JSON (RFC 8785) of the receipt without its signature.
func Message(r vm.Receipt) ([]byte, error) {
	r.Signature = ""
	data, err := Canonical(r)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "warren receipt %d\n", r.Version), data...), nil
}

// entry is what a summary reads of a line.
type entry struct {
	ID      string         `json:"id"`
	Time    time.Time      `json:"time"`
	Phase   string         `json:"phase"`
	Of      string         `json:"of"`
	Outcome string         `json:"outcome"`
	Op      vm.Op          `json:"op"`
	VM      vm.ID          `json:"vm"`
	Subject string         `json:"subject"`
	Network string         `json:"network"`
	Detail  map[string]any `json:"detail"`
}

func (e *entry) text(names ...string) string {
	for _, n := range names {
		if s, ok := e.Detail[n].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// leaves are the verbs by which something leaves a VM.
var leaves = []vm.Op{vm.OpRead, vm.OpPublish, vm.OpCommit, vm.OpPush, vm.OpBundle}

// Summarize computes the summary of the lines of a VM. Locked and Partial are not in it,
// because the lines do not say them.
func Summarize(id vm.ID, lines []vm.ReceiptLine) (vm.ReceiptSummary, error) {
	s := summary{vm.ReceiptSummary{Out: []vm.ReceiptOut{}, Secrets: []string{}, Networks: []string{}, Policies: map[string]any{}}}
	begun := map[string]*entry{}
	for _, l := range lines {
		var e entry
		if err := json.Unmarshal([]byte(l.Record), &e); err != nil {
			return s.ReceiptSummary, vm.Errorf(vm.Corrupt, "receipt", "record %d cannot be read: %w", l.Seq, err)
		}
		if e.VM != id {
			return s.ReceiptSummary, vm.Errorf(vm.Corrupt, "receipt", "record %d is about another VM", l.Seq)
		}
		if s.Records == 0 {
			s.From = e.Time
		}
		s.To = e.Time
		s.Records++
		s.add(&e, begun)
	}
	slices.Sort(s.Secrets)
	s.Secrets = slices.Compact(s.Secrets)
	slices.Sort(s.Networks)
	s.Networks = slices.Compact(s.Networks)
	return s.ReceiptSummary, nil
}

type summary struct{ vm.ReceiptSummary }

// add counts one line. begun has the beginnings of actions, by their id.
func (s *summary) add(e *entry, begun map[string]*entry) {
	if e.Network != "" {
		s.Networks = append(s.Networks, e.Network)
	}
	if digest := e.text("policyDigest"); digest != "" && e.Detail["policy"] != nil {
		s.Policies[digest] = e.Detail["policy"]
	}
	if names, ok := e.Detail["secrets"].([]any); ok {
		for _, n := range names {
			if name, ok := n.(string); ok {
				s.Secrets = append(s.Secrets, name)
			}
		}
	}
	if name := e.text("secret"); name != "" {
		s.Secrets = append(s.Secrets, name)
	}
	if e.Phase == "begin" && e.Outcome == "" {
		begun[e.ID] = e
		return
	}
	switch {
	case e.Outcome == string(vm.Denied):
		s.Refused++
	case e.Op == vm.OpConnection && e.Outcome == "ok":
		s.Connected++
	}
	first := begun[e.Of]
	if first == nil || e.Outcome != "ok" || !slices.Contains(leaves, first.Op) {
		return
	}
	out := vm.ReceiptOut{
		Op: first.Op, What: first.Subject, Receipt: first.ID, To: first.text("to", "repo", "branch"),
		SHA256: e.text("sha256", "treeSha256", "tarSha256", "commit"),
	}
	if first.Op != vm.OpRead || out.SHA256 != "" { // a listing is no copy
		s.Out = append(s.Out, out)
	}
}

// Checked is what a verification found.
type Checked struct {
	VM          vm.ID             `json:"vm"`
	Records     int               `json:"records"`
	Fingerprint string            `json:"fingerprint"`
	Checkpoint  int64             `json:"checkpoint"` // number of the record that is signed
	At          time.Time         `json:"at"`
	Trusted     bool              `json:"trusted"` // the key is the one that was given
	Summary     vm.ReceiptSummary `json:"summary"`
}

const fix = "ask for a new one: `warren receipt VM -o FILE`; if that one fails, too, run `warren audit verify`"

func bad(format string, args ...any) error {
	return vm.Errorf(vm.Corrupt, "receipt", format, args...).WithCode("RECEIPT_BROKEN").WithHint(fix)
}

// Parse reads a receipt strictly: what is not part of its form is an error.
func Parse(data []byte) (r vm.Receipt, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, bad("it is no receipt: %w", err)
	}
	if r.Kind != vm.ReceiptKind || r.Version != vm.ReceiptVersion {
		return r, bad("it is no receipt of version %d", vm.ReceiptVersion)
	}
	given, err := canonicalBytes(data)
	if err != nil {
		return r, bad("it is no receipt: %w", err)
	}
	if own, err := Canonical(r); err != nil || string(own) != string(given) {
		return r, bad("it has parts that a receipt does not have")
	}
	return r, nil
}

// Verify checks a receipt: its signature, the signed checkpoint, the proof of every
// record, and that the summary says what the records say. key is the public key that the
// reader trusts, in hex or as a fingerprint; "" = that of the receipt. Kinds Corrupt
// (code RECEIPT_BROKEN), Denied (code RECEIPT_KEY: another key signed it).
func Verify(data []byte, key string) (Checked, error) {
	r, err := Parse(data)
	if err != nil {
		return Checked{}, err
	}
	pub, err := vm.ParseSigningKey(r.Key)
	if err != nil {
		return Checked{}, bad("it names no key")
	}
	out := Checked{VM: r.VM, Records: len(r.Lines), Fingerprint: vm.Fingerprint(pub), Checkpoint: r.Checkpoint.Seq, At: r.Checkpoint.Time, Trusted: key != "", Summary: r.Summary}
	if key != "" && !vm.SameKey(r.Key, key) {
		return out, vm.Errorf(vm.Denied, "receipt", "it is signed by %s, not by the key that was given: it is of another server, or the server's key was rotated", out.Fingerprint).
			WithCode("RECEIPT_KEY").WithHint("give the fingerprint that `warren audit verify` shows on the server that made it")
	}
	message, err := Message(r)
	if err != nil {
		return out, bad("%w", err)
	}
	sig, err := hex.DecodeString(r.Signature)
	if err != nil || !ed25519.Verify(pub, message, sig) {
		return out, bad("its signature is wrong: it was changed")
	}
	if r.Checkpoint.Key != r.Key || r.Checkpoint.Version != 2 || !r.Checkpoint.Signed(pub) {
		return out, bad("its checkpoint is not signed by the same key")
	}
	return out, checkLines(r)
}

// checkLines checks the proofs and the summary.
func checkLines(r vm.Receipt) error {
	raw, err := hex.DecodeString(r.Checkpoint.Root)
	if err != nil || len(raw) != sha256.Size {
		return bad("its checkpoint has no root")
	}
	last := int64(0)
	for _, l := range r.Lines {
		var proof []merkle.Hash
		for _, p := range l.Proof {
			h, err := hex.DecodeString(p)
			if err != nil || len(h) != sha256.Size {
				return bad("the proof of record %d is no list of hashes", l.Seq)
			}
			proof = append(proof, merkle.Hash(h))
		}
		var named struct {
			Seq int64 `json:"seq"`
		}
		sum := sha256.Sum256([]byte(l.Record))
		switch {
		case json.Unmarshal([]byte(l.Record), &named) != nil || named.Seq != l.Seq || l.Seq <= last:
			return bad("record %d is not in its place", l.Seq)
		case !merkle.Included(merkle.Leaf(sum[:]), l.Seq-1, r.Checkpoint.Seq, proof, merkle.Hash(raw)):
			return bad("record %d is not in the log that was signed", l.Seq)
		}
		last = l.Seq
	}
	want, err := Summarize(r.VM, r.Lines)
	if err != nil {
		return err
	}
	want.Name, want.Locked, want.Partial = r.Summary.Name, r.Summary.Locked, r.Summary.Partial // the server's word, which it signed
	a, errA := Canonical(want)
	b, errB := Canonical(r.Summary)
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
		return bad("its summary is not what the records say")
	}
	return nil
}
