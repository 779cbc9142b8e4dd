// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// signatures reads the signatures of the log and checks each with the key that was in
// force. They are read before the lines, of which an open log gets more.
func (v *verifier) signatures(dir, public string) error {
	var list []vm.Checkpoint
	_, _, err := forward(filepath.Join(dir, anchorsFile), func(raw []byte) error {
		c, err := parseCheckpoint(raw)
		if err != nil {
			return v.found(CodeChanged, "%s", err)
		}
		list = append(list, c)
		return nil
	})
	if errors.Is(err, errLong) {
		return v.found(CodeChanged, "a signature %s", errLong)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	beside, err := keyBeside(dir)
	if err != nil && public == "" {
		return err
	}
	now := beside
	if i := slices.IndexFunc(list, func(c vm.Checkpoint) bool { return c.Version > 0 }); i >= 0 {
		now = list[i].Key // older signatures do not name their key
	} else if key, err := vm.ParseSigningKey(public); err == nil {
		now = hex.EncodeToString(key)
	}
	v.keys, v.Key = []string{now}, now
	for _, c := range list {
		if err := v.signature(c, now); err != nil {
			return err
		}
		if v.Key = now; c.Next != "" {
			now = c.Next
			v.keys = append(v.keys, now)
		}
	}
	if now != v.Key {
		v.note("the log was handed over to the key %s, which has not signed yet", fingerprint(now))
	}
	return v.trust(public, beside)
}

// trust finds the key that the reader expects among those that signed. What the others
// before it signed proves nothing: anybody can make a key that hands over to it. From it
// on, each key was signed by the one before.
func (v *verifier) trust(public, beside string) error {
	given := slices.IndexFunc(v.keys, func(k string) bool { return vm.SameKey(k, public) })
	kept := slices.Index(v.keys, v.kept.Key)
	near := slices.Index(v.keys, beside)
	switch {
	case public == "" && near < 0:
		return v.found(CodeKey, "the public key beside the log, %s, is not the one that signs it, %s: one of the two was swapped", fingerprint(beside), fingerprint(v.Key))
	case public != "" && given < 0:
		return v.found(CodeForeign, "the log is signed by %s, not by the key that was given: it belongs to another server, or its key was swapped", fingerprint(v.Key))
	case v.kept.Key != "" && kept < 0:
		return v.found(CodeKey, "the log is signed by %s, but the record store knows %s: its key was swapped", fingerprint(v.Key), fingerprint(v.kept.Key))
	}
	if v.trusted = max(given, kept); v.trusted < 0 {
		v.trusted = near
	}
	return nil
}

// signature checks the next signature of the log. now is the key in force.
func (v *verifier) signature(c vm.Checkpoint, now string) error {
	key, err := vm.ParseSigningKey(now)
	switch {
	case err != nil:
		return v.found(CodeKey, "the key that signed record %d is no public key", c.Seq)
	case c.Version > 0 && c.Key != now:
		return v.found(CodeKey, "record %d is signed by the key %s, when only %s could sign", c.Seq, fingerprint(c.Key), fingerprint(now))
	case !c.Signed(key):
		return v.found(CodeChanged, "the signature of record %d is wrong", c.Seq)
	case c.Seq < v.last:
		return v.found(CodeChanged, "the signature of record %d comes after that of record %d: signatures were moved", c.Seq, v.last)
	}
	v.points = append(v.points, checked{c, "signed", len(v.keys) - 1})
	v.last = c.Seq
	return nil
}

// compared adds the checkpoints from outside. Their keys must have signed this log.
func (v *verifier) compared(outside []vm.Checkpoint) error {
	for _, c := range outside {
		if err := wellFormed(c); err != nil {
			return v.found(CodeChanged, "an anchor was changed: %s", err)
		}
		if c.Version == 0 {
			c.Key = v.keys[0]
		}
		key, err := vm.ParseSigningKey(c.Key)
		if err != nil || !c.Signed(key) {
			return v.found(CodeChanged, "the anchor of record %d has a wrong signature: the anchor itself was changed", c.Seq)
		}
		if !slices.Contains(v.keys, c.Key) {
			return v.found(CodeForeign, "the anchor of record %d is signed by %s, which never signed this log: it belongs to another server, or the key was swapped", c.Seq, fingerprint(c.Key))
		}
		v.points = append(v.points, checked{c, "anchored outside", 0})
	}
	if v.kept.Seq > 0 {
		v.points = append(v.points, checked{vm.Checkpoint{Seq: v.kept.Seq, Hash: v.kept.Hash, Log: v.kept.Log}, "known to the record store", 0})
	}
	slices.SortStableFunc(v.points, func(a, b checked) int { return int(min(max(a.Seq-b.Seq, -1), 1)) })
	return nil
}

// Signatures reports whether a file of a log has the signatures of the others. A copy of
// an open log is made of it first: then no signature is of a line that the copy lacks.
func Signatures(name string) bool { return name == anchorsFile }

// keyBeside reads the public key in the directory of a log.
func keyBeside(dir string) (string, error) {
	name := filepath.Join(dir, publicFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", vm.Errorf(vm.NotFound, name, "there is no public key to verify against").
			WithHint("give the directory of an audit log, or the public key that you kept")
	}
	if err != nil {
		return "", fileError(name, err)
	}
	key, err := vm.ParseSigningKey(string(data))
	return hex.EncodeToString(key), err
}

// checkPublic checks the form of a key that a caller gave.
func checkPublic(public string) error {
	if public == "" || strings.HasPrefix(public, "SHA256:") {
		return nil
	}
	_, err := vm.ParseSigningKey(public)
	return err
}

// fingerprint is the short form of a key in hex.
func fingerprint(key string) string {
	if raw, err := vm.ParseSigningKey(key); err == nil {
		return vm.Fingerprint(raw)
	}
	return "no key"
}
