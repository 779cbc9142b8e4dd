// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package pathrule decides what the path rules of a VM say of a path. It is pure: it opens
// no file and follows no link. Callers give it the real path of what they are about to use.
package pathrule
