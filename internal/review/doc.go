// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package review finds what differs between two frozen disks of a guest. It reads
// the disks' own bytes and runs nothing of the guest. Times, bitmaps and indexes of
// the file systems are not trusted: a file counts as changed when its blocks differ,
// whatever its inode says. What cannot be compared is an error, never an empty list.
package review
