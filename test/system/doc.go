// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package system tests the built binary with real VMs, as a person would use
// it: real QEMU, real etcd, the real npm clients. It needs bin/warren and a
// base image (`make build`, scripts/test-image.sh) and the build tag system.
// Tests named TestCore run a second time as a user without any privilege.
//
// The files worlds_* are the fork-correctness suite: what is true of a workspace
// and of its copies after a fork, a suspend, a rollback; docs/correctness.md has
// a row for each property. The files crash_* break what real VMs stand on, in the
// middle of what they do: processes killed at random moments, a disk that is full
// or fills up, a data directory that moves. Afterwards every VM must answer,
// whole, and nothing half-made may be left. They need root; `make soak` runs
// their random kills for as long as WARREN_SOAK says, in minutes.
package system
