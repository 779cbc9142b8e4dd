// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/rand"
	"regexp"
)

// ID names a virtual machine: 20 characters of [a-z0-9]. It never changes,
// not even by stop, start, resize or rollback, and is never used twice.
type ID string

// AccountID names an account, the owner of records. It is a UUID.
type AccountID string

// KeyID names an API key without revealing it: "ky-" and 16 characters.
type KeyID string

// ImageID names a built image: "im-" and 16 characters.
type ImageID string

// GenerationID names a generation: "sl-" and 16 characters.
type GenerationID string

// SnapshotID names a generation for API callers: "sc-" and 20 characters. An
// image's warm generation has one, too.
type SnapshotID string

// IdentityID names an identity. It is a UUID.
type IdentityID string

// TokenID names a token of an identity without revealing it. It is a UUID.
type TokenID string

// SSHKeyID names a public key of an identity. It is a UUID.
type SSHKeyID string

// RequestID names one API request: "ri-" and 20 characters.
type RequestID string

const idAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// randomID returns n random characters of [a-z0-9], uniformly distributed.
func randomID(n int) string {
	out := make([]byte, 0, n)
	buf := make([]byte, 2*n)
	for len(out) < n {
		_, _ = rand.Read(buf) // documented never to fail since Go 1.24
		for _, b := range buf {
			// 252 = 7*36: larger bytes would favour the first letters.
			if b < 252 && len(out) < n {
				out = append(out, idAlphabet[b%36])
			}
		}
	}
	return string(out)
}

// NewID returns a fresh random VM id.
func NewID() ID { return ID(randomID(20)) }

// NewKeyID returns a fresh random key id.
func NewKeyID() KeyID { return KeyID("ky-" + randomID(16)) }

// NewImageID returns a fresh random image id.
func NewImageID() ImageID { return ImageID("im-" + randomID(16)) }

// NewGenerationID returns a fresh random generation id.
func NewGenerationID() GenerationID { return GenerationID("sl-" + randomID(16)) }

// NewSnapshotID returns a fresh random snapshot id.
func NewSnapshotID() SnapshotID { return SnapshotID("sc-" + randomID(20)) }

// NewRequestID returns a fresh random request id.
func NewRequestID() RequestID { return RequestID("ri-" + randomID(20)) }

// NewReceiptID returns a fresh random audit record id: "rc-" and 20 characters.
func NewReceiptID() string { return "rc-" + randomID(20) }

// NewAskID returns a fresh random id of an ask.
func NewAskID() string { return "ask-" + randomID(12) }

// NewInstanceID returns a fresh id for one run of a VM: "vi-" and 16 characters.
func NewInstanceID() string { return "vi-" + randomID(16) }

// NewSecret returns 48 random characters of [a-z0-9] (248 bits).
func NewSecret() string { return randomID(48) }

// NewUUID returns a random (version 4) UUID.
func NewUUID() string {
	const hexDigits = "0123456789abcdef"
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	out := make([]byte, 0, 36)
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			out = append(out, '-')
		}
		out = append(out, hexDigits[c>>4], hexDigits[c&15])
	}
	return string(out)
}

var (
	idPattern   = regexp.MustCompile(`^[a-z0-9]{20}$`)
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`)
)

// ParseID checks that s has the form of a VM id. The error has kind Invalid.
func ParseID(s string) (ID, error) {
	if !idPattern.MatchString(s) {
		return "", &Error{
			Kind: Invalid, Code: "INVALID_VM_ID", Subject: s,
			Msg:    "not a VM id: an id has 20 characters of a-z and 0-9",
			Hint:   "`warren ls` lists ids and names",
			Fields: map[string]any{"vmId": s, "details": "an id has 20 characters of a-z and 0-9"},
		}
	}
	return ID(s), nil
}

// IsID reports whether s has the form of a VM id.
func IsID(s string) bool { return idPattern.MatchString(s) }

// MaxName is the length of the longest name of a VM.
const MaxName = 41

// CheckName checks that s may name a VM: [a-z][a-z0-9-]{0,40}. The error has
// kind Invalid.
func CheckName(s string) error {
	if !namePattern.MatchString(s) {
		return &Error{
			Kind: Invalid, Subject: s,
			Msg:  "not a name: a name starts with a-z and has at most 41 characters of a-z, 0-9 and -",
			Hint: "choose a name such as box or build-7",
		}
	}
	return nil
}
