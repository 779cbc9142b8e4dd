// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Checkpoint is a signed statement about an audit log: it had so many records, and these
// are their digests. docs/receipts.md describes its form for other programs.
type Checkpoint struct {
	Version   int       `json:"v,omitempty"`    // 2; 0 = written by an older warren, without a tree
	Log       string    `json:"log,omitempty"`  // the log's id: the hash of its first record
	Seq       int64     `json:"seq"`            // number of the last record
	Root      string    `json:"root,omitempty"` // hex, of the Merkle tree over the hashes of all records
	Hash      string    `json:"hash"`           // hex, of the last record
	Time      time.Time `json:"time"`
	Key       string    `json:"key,omitempty"`  // hex public key of the signature
	Next      string    `json:"next,omitempty"` // hex public key that signs from here on; "" = the same
	Signature string    `json:"signature"`      // hex, Ed25519 over Message
}

// Message returns the bytes that are signed.
func (c Checkpoint) Message() []byte {
	at := c.Time.UTC().Format(time.RFC3339Nano)
	if c.Version == 0 {
		return fmt.Appendf(nil, "warren audit %d %s %s", c.Seq, c.Hash, at)
	}
	return fmt.Appendf(nil, "warren audit checkpoint %d\n%s\n%d\n%s\n%s\n%s\n%s\n", c.Version, c.Log, c.Seq, c.Root, c.Hash, at, c.Next)
}

// Signed reports whether the signature is by the key.
func (c Checkpoint) Signed(by ed25519.PublicKey) bool {
	sig, err := hex.DecodeString(c.Signature)
	return err == nil && len(by) == ed25519.PublicKeySize && ed25519.Verify(by, c.Message(), sig)
}

// ParseSigningKey reads a public key: 64 hex digits. Kind Invalid.
func ParseSigningKey(s string) (ed25519.PublicKey, error) {
	key, err := hex.DecodeString(strings.TrimSpace(s))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, Errorf(Invalid, Clip(s, 80), "not a public key").WithHint("give the %d hex digits of audit/anchor.pub in the server's data directory", 2*ed25519.PublicKeySize)
	}
	return key, nil
}

// Fingerprint returns the short form of a public key: SHA256: and the base64 of its
// SHA-256.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// SameKey reports whether want is the public key in hex, or its fingerprint.
func SameKey(key, want string) bool {
	raw, err := ParseSigningKey(key)
	return err == nil && (strings.EqualFold(strings.TrimSpace(want), hex.EncodeToString(raw)) || want == Fingerprint(raw))
}
