// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Report is the outcome of a verification.
type Report struct {
	Records  int64  // lines that fit the chain
	Anchored int64  // number of the last line that a signature covers
	Problem  string // the first fault and its place; "" = none
}

// maxGap is the longest run of unsigned lines that a log writes.
const maxGap = maxUnsigned + 2*anchorEvery

// errFound ends a walk: the report names the fault.
var errFound = errors.New("found")

// Verify checks the whole chain and its signatures in dir; the log may be open. public is the hex
// public key to check against; "" = the one in dir, which proves nothing against an attacker who
// can replace it. A broken chain is reported, not returned as an error. It cannot detect lines that
// were cut off after the last signature, at most a minute's worth, nor lines that were cut off
// together with their signatures. With kept, which is what a Keeper had before the call, it misses
// only lines that were cut off after that, at most a second's worth.
func Verify(dir, public string, kept Head) (Report, error) {
	pub, err := publicKey(dir, public)
	if err != nil {
		return Report{}, err
	}
	v := verifier{hash: genesis, signed: map[int64]string{}, kept: kept}
	// Signatures first: while the log is open, lines may be added.
	name := filepath.Join(dir, anchorsFile)
	_, _, err = forward(name, func(raw []byte) error {
		a, err := parseAnchor(raw, pub)
		if err != nil {
			return v.found("%s", err)
		}
		v.signed[a.Seq] = a.Hash
		v.last = max(v.last, a.Seq)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = v.walk(dir)
	}
	if errors.Is(err, errFound) {
		err = nil
	}
	return v.Report, err
}

// verifier is a walk over the chain.
type verifier struct {
	Report
	hash   string           // of the last line
	signed map[int64]string // hashes by number
	last   int64            // the highest number that was signed
	kept   Head
}

func (v *verifier) found(format string, args ...any) error {
	v.Problem = fmt.Sprintf(format, args...)
	return errFound
}

func (v *verifier) walk(dir string) error {
	numbers, err := segments(dir)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		if n != i {
			return v.found("%s: the segment is missing, record %d was to be in it", segmentName(i), v.Records+1)
		}
		_, torn, err := forward(filepath.Join(dir, segmentName(n)), func(raw []byte) error { return v.line(n, raw) })
		if err != nil {
			return err
		}
		if torn > 0 && i < len(numbers)-1 {
			return v.found("%s: it ends in the middle of record %d", segmentName(n), v.Records+1)
		}
	}
	switch {
	case v.last > v.Records:
		return v.found("the tail is cut: record %d was signed, but the last one is %d", v.last, v.Records)
	case v.kept.Seq > v.Records:
		return v.found("the tail is cut: the record store knows record %d, but the last one is %d", v.kept.Seq, v.Records)
	case v.Records-v.Anchored > maxGap:
		return v.found("records %d to %d are not signed: signatures were removed", v.Anchored+1, v.Records)
	}
	return nil
}

func (v *verifier) line(segment int, raw []byte) error {
	ln, hash, err := next(raw, v.Records, v.hash)
	if err != nil {
		return v.found("%s: record %d %s", segmentName(segment), v.Records+1, err)
	}
	v.Records, v.hash = ln.Seq, hash
	if ln.Seq == v.kept.Seq && hash != v.kept.Hash {
		return v.found("%s: record %d is not the one that the record store knows", segmentName(segment), ln.Seq)
	}
	want, ok := v.signed[ln.Seq]
	switch {
	case !ok:
		return nil
	case want != hash:
		return v.found("%s: record %d is not the one that was signed", segmentName(segment), ln.Seq)
	case ln.Seq-v.Anchored > maxGap:
		return v.found("records %d to %d are not signed: signatures were removed", v.Anchored+1, ln.Seq-1)
	}
	v.Anchored = ln.Seq
	return nil
}

// Signatures reports whether a file of a log has the signatures of the others. A copy of
// an open log is made of it first: then no signature is of a line that the copy lacks.
func Signatures(name string) bool { return name == anchorsFile }

func publicKey(dir, public string) (ed25519.PublicKey, error) {
	if public == "" {
		name := filepath.Join(dir, publicFile)
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, vm.Errorf(vm.NotFound, name, "there is no public key to verify against").
				WithHint("give the directory of an audit log, or the public key that you kept")
		}
		if err != nil {
			return nil, fileError(name, err)
		}
		public = string(data)
	}
	key, err := hex.DecodeString(strings.TrimSpace(public))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, vm.Errorf(vm.Invalid, publicFile, "not a public key: %d hex digits are wanted", 2*ed25519.PublicKeySize)
	}
	return key, nil
}
