// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundle reads and writes Warren's archives: backups of a server, and bundles
// of one VM. An archive is a tar compressed by zstd, so that `tar --zstd -t` lists it.
// Its last entry is a manifest with the size and SHA-256 of every other entry. After the
// tar comes a zstd frame that decompressors skip: the seal. It has the digest of
// everything before it, and an Ed25519 signature. An archive that was cut off, or in
// which one bit was flipped, is refused.
//
// The manifest and the seal come last so that an archive can be written to a stream in
// one pass. A reader needs a file: it reads the seal and the manifest first, then the
// whole archive. What an archive contains is decided by its users; this package does
// not know Warren's files.
package bundle
