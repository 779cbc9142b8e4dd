// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package freestyle is the door for unmodified programs with Freestyle's current SDK and command
// line (npm freestyle 0.2.x), whose paths begin with /v5. It translates them to the rooms of the
// server. Its VMs, snapshots and identities are those of Warren itself: the door keeps nothing
// else that a restart of the server could lose, except uploads that were not committed.
package freestyle
