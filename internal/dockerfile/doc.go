// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package dockerfile builds images from Dockerfiles. BuildKit runs in a VM that is started for
// the build, never on the host. The VM's disk is kept, so that the next build of the same
// directory finds the layers of the last one.
package dockerfile
