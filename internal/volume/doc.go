// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume keeps the files of managed volumes: a disk that QEMU encrypts with
// LUKS under a random key, that key wrapped once for each way to unlock the volume,
// and a copy of the disk's header. The key of an unlocked volume goes to the caller
// and is never kept here; nothing here reads a volume's contents. It does not
// decide who may mount what. The engine is given a Store by the wiring.
package volume
