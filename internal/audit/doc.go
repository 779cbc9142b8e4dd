// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit keeps the record of what was done on a host: one line when an
// action is about to be taken, one when its outcome is known. Each line's hash
// covers the line before it, and every so often the chain's end is signed, so
// that a changed, removed, inserted or reordered line is found, and a cut tail
// too, as far as the last signature reaches. It holds no policy about what is
// recorded. The engine uses it through an interface that it declares.
//
// A line is the hex SHA-256 of (the previous line's hash, the record), a space,
// and the record as JSON. Signatures lie in anchors.jsonl, Ed25519.
package audit
