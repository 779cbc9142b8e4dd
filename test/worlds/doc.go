// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package worlds holds the fork-correctness suite: what is true of a workspace
// and of its copies after a fork, a suspend, a rollback. Its tests run real VMs
// (build tag system) through the binary; docs/correctness.md has a row for each
// property. It decides nothing about how a capture is made.
package worlds
