// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package system tests the built binary with real VMs, as a person would use
// it: real QEMU, real etcd, the real npm clients. It needs bin/warren and a
// base image (`make build`, scripts/test-image.sh) and the build tag system.
// Tests named TestCore run a second time as a user without any privilege.
package system
