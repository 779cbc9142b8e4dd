// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit keeps the record of what was done on a host: one line when an
// action is about to be taken, one when its outcome is known. Each line names the
// hash of the line before it, and every so often the chain's end is signed, so that
// a changed, removed, inserted or reordered line is found, and a cut tail too, as
// far as the last signature reaches. A Keeper holds the chain's end elsewhere, for
// a tail that is cut together with its signatures. The package has no policy about
// what is recorded; its callers must not pass a secret. The engine uses it through
// an interface that it declares.
//
// A line is {"hash":H,"record":R}: R is the record, whose "prev" is the hash of the
// line before, and H the hex SHA-256 of R's bytes as they stand. Lines lie in
// segments 000000.jsonl, 000001.jsonl, ...; signatures (Ed25519) in anchors.jsonl.
// Opening a log reads its last segment only; all of it is checked by Verify.
package audit
