// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package ext4 reads an ext4 file system that a hostile guest may have written. It
// mounts nothing, writes nothing, and trusts no count, size, time or index of the
// file system: it follows extents within a budget, reads directories from their
// first block to the last, and replays the journal in memory. What it does not
// understand it refuses by name, so that a caller never takes it for empty.
//
// The layout is described in the kernel's Documentation/filesystems/ext4.
package ext4
