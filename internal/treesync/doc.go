// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package treesync keeps two directories alike: one of this computer, one of a
// VM. List, Pick and Place read and change one directory; the guest's agent uses
// them for its side, the command for this computer's. Run compares both sides
// with the state of the last run, and copies what changed on one side only. What
// changed on both is a conflict, and neither side is touched.
package treesync
