// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage counts what is on the disk and decides what goes when it is
// short. Sum and Choose are pure; Measure reads the blocks of the files below
// a data directory. Nothing here removes anything: the engine does.
package storage
