// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package crash breaks what real VMs stand on, in the middle of what they do:
// processes killed at random moments, a disk that is full or fills up, a data
// directory that moves. Afterwards every VM must answer, whole, and nothing
// half-made may be left. It needs root, bin/warren, a base image (`make build`,
// scripts/test-image.sh) and the build tag system. `make soak` runs its random
// kills for as long as WARREN_SOAK says, in minutes.
package crash
