// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage measures what is on the disk and decides what is removed when it
// is short. Sum and Choose are pure; Measure reads the blocks of the files below a
// data directory. The engine removes things, not this package.
package storage
